package gatewaytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"sluice/internal/logtest"
)

// Build compiles a command of this module, without the race detector, into a
// directory and returns the binary's path. pkg is as `go build` takes it, from
// the calling test's own folder.
func Build(dir, pkg string) (string, error) {
	binary := filepath.Join(dir, filepath.Base(pkg))
	command := exec.CommandContext(context.Background(), "go", "build", "-buildvcs=false", "-o", binary, pkg)
	if out, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", pkg, err, out)
	}
	return binary, nil
}

// Process is a gateway in a process of its own, until its test ends.
type Process struct {
	admin
	t       testing.TB
	command *exec.Cmd
	file    string
	log     logtest.Buffer
	done    chan struct{} // closed when it has ended
	err     error         // what Wait returned; after done
}

// StartProcess runs a gateway's binary on a configuration, and waits until it
// is ready. Its listeners should have port 0. The configuration has no admin
// block and no engine of its own: the admin API is put on a Unix socket, the
// engine is that of the tests. On Standard the test is skipped: no binary has
// that.
func StartProcess(t testing.TB, binary, config string) *Process {
	t.Helper()
	if Engine() == Standard {
		t.Skip("no gateway in a process of its own runs on net/http's HTTP/1.1")
	}
	dir := ShortDir(t)
	socket := filepath.Join(dir, "admin")
	p := &Process{admin: newAdmin(t, func() net.Addr { return &net.UnixAddr{Name: socket, Net: "unix"} }), t: t, file: filepath.Join(dir, "sluice.yaml"), done: make(chan struct{})}
	p.Write(config)
	p.command = exec.CommandContext(context.Background(), binary, "run", "-c", p.file)
	p.command.Dir = dir
	p.command.Stdout, p.command.Stderr = &p.log, &p.log
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		p.err = p.command.Wait()
	}()
	t.Cleanup(func() {
		p.stop()
		if t.Failed() {
			t.Logf("the end of the gateway's log:\n%s", p.Log(8<<10))
		}
	})
	WaitFor(t, "the gateway's process is ready", func() bool {
		select {
		case <-p.done:
			t.Fatalf("the gateway ended at once: %v\n%s", p.err, p.Log(8<<10))
		default:
		}
		response, err := p.client.Get("http://127.0.0.1/_gateway/ready")
		if err != nil {
			return false // it does not listen yet
		}
		_ = response.Body.Close() // only the status counts
		return response.StatusCode == http.StatusOK
	})
	return p
}

// stop drains the gateway, which must end in good order.
func (p *Process) stop() {
	p.client.CloseIdleConnections()
	_ = p.command.Process.Signal(syscall.SIGTERM) // it may have ended, which is told below
	select {
	case <-p.done:
	case <-time.After(Patience):
		_ = p.command.Process.Kill()
		<-p.done
		p.t.Error("the gateway's process did not end after SIGTERM")
		return
	}
	if p.err != nil {
		p.t.Errorf("the gateway's process ended with %v", p.err)
	}
}

// Pid is the number of the process.
func (p *Process) Pid() int { return p.command.Process.Pid }

// Log is the end of what the process has printed: the access log and its own.
func (p *Process) Log(most int) string {
	text := p.log.String()
	return text[max(0, len(text)-most):]
}

// Write replaces the configuration file, and does not wait for the reload.
func (p *Process) Write(config string) {
	p.t.Helper()
	block := fmt.Sprintf("admin: {address: %q}\nengine: %s\n", "unix:"+filepath.Join(filepath.Dir(p.file), "admin"), Engine())
	replace(p.t, p.file, block+config)
}

// Load replaces the configuration and waits until it serves.
func (p *Process) Load(config string) {
	p.t.Helper()
	before := p.Metric("gateway_config_revision")
	p.Write(config)
	WaitFor(p.t, "the new configuration serves", func() bool { return p.Metric("gateway_config_revision") > before })
}

// Addr is the bound address of a listener.
func (p *Process) Addr(listener string) string {
	p.t.Helper()
	var listeners []struct{ Name, Address string }
	p.Admin("/_gateway/listeners", &listeners)
	for _, l := range listeners {
		if l.Name == listener {
			return l.Address
		}
	}
	p.t.Fatalf("no listener is called %s: %v", listener, listeners)
	return ""
}

// Memory reads a figure of the process's status, as VmRSS or VmHWM, in bytes.
// It needs Linux.
func (p *Process) Memory(figure string) int64 {
	p.t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(p.Pid()) + "/status")
	if err != nil {
		p.t.Fatal(err)
	}
	_, rest, found := bytes.Cut(status, []byte("\n"+figure+":"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	var kilobytes int64
	if _, err := fmt.Sscanf(string(line), "%d kB", &kilobytes); !found || err != nil {
		p.t.Fatalf("the process has no figure %s: %v", figure, err)
	}
	return kilobytes << 10
}

// ShortDir is a folder for the test whose path fits into the address of a Unix
// socket, which is bounded to some hundred bytes. That of t.TempDir may be
// longer: it has the test's name in it.
func ShortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sluice") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// replace puts a file in another's place, as careful editors save.
func replace(t testing.TB, file, content string) {
	t.Helper()
	fresh := file + ".new"
	if err := errors.Join(os.WriteFile(fresh, []byte(content), 0o600), os.Rename(fresh, file)); err != nil {
		t.Fatal(err)
	}
}
