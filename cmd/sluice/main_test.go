package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"sluice/internal/gatewaytest"
)

// binaryDirectory is where TestMain puts the binary under test.
var binaryDirectory = filepath.Join(os.TempDir(), fmt.Sprintf("sluice-test-%d", os.Getpid()))

func binary() string { return filepath.Join(binaryDirectory, "sluice") }

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	if err := os.Mkdir(binaryDirectory, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(binaryDirectory)
	args := []string{"build", "-buildvcs=false", "-ldflags=-X main.version=v0-test -X main.commit=abc123", "-o", binary()}
	if race {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, ".")...)
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building:", err)
		return 1
	}
	// What a gateway hands its sockets to becomes a child of this process when
	// the gateway ends, so that it can be waited for.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// cleanEnvironment is that of the test without Sluice's own variables.
func cleanEnvironment(more ...string) []string {
	var environment []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "SLUICE_") {
			environment = append(environment, variable)
		}
	}
	// The race detector waits a second at the end otherwise.
	return append(append(environment, "GORACE=atexit_sleep_ms=0"), more...)
}

// outcome is what a command left behind.
type outcome struct {
	code           int
	stdout, stderr string
}

// sluice runs a command in a directory until it ends.
func sluice(t *testing.T, dir string, args ...string) outcome {
	t.Helper()
	return command{dir: dir}.run(t, args...)
}

// command is a run with more than arguments.
type command struct {
	dir         string
	environment []string
	credential  *syscall.Credential
	stdin       string // through a pipe
}

func (c command) run(t *testing.T, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), gatewaytest.Patience)
	defer cancel()
	run := exec.CommandContext(ctx, binary(), args...)
	run.Dir, run.Env = c.dir, cleanEnvironment(c.environment...)
	run.SysProcAttr = &syscall.SysProcAttr{Credential: c.credential}
	var stdout, stderr bytes.Buffer
	run.Stdout, run.Stderr = &stdout, &stderr
	if c.stdin != "" {
		run.Stdin = strings.NewReader(c.stdin)
	}
	err := run.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("sluice %v: %v", args, err)
	}
	got := outcome{run.ProcessState.ExitCode(), stdout.String(), stderr.String()}
	if strings.Contains(got.stdout+got.stderr, "goroutine ") {
		t.Errorf("sluice %v shows a stack:\n%s", args, got.stdout+got.stderr)
	}
	return got
}

// process is a command that runs on.
type process struct {
	t              *testing.T
	cmd            *exec.Cmd
	stdout, stderr string // files
	ended          chan struct{}
}

// start runs a command until it is told to end, at the latest at the end of the
// test.
func start(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := prepare(t, dir, args...)
	p.begin()
	return p
}

func prepare(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	logs := t.TempDir()
	p := &process{t: t, stdout: filepath.Join(logs, "stdout"), stderr: filepath.Join(logs, "stderr"), ended: make(chan struct{})}
	p.cmd = exec.Command(binary(), args...)
	p.cmd.Dir, p.cmd.Env = dir, cleanEnvironment()
	p.cmd.Stdout, p.cmd.Stderr = create(t, p.stdout), create(t, p.stderr)
	return p
}

func create(t *testing.T, name string) *os.File {
	t.Helper()
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func (p *process) begin() {
	p.t.Helper()
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // its state tells
	}()
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // fails where it has ended
		<-p.ended
		if p.t.Failed() {
			p.t.Logf("standard output:\n%s\nstandard error:\n%s", p.out(), p.log())
		}
		if strings.Contains(p.log(), "DATA RACE") {
			p.t.Error("the race detector found something")
		}
	})
}

func (p *process) out() string { return read(p.t, p.stdout) }
func (p *process) log() string { return read(p.t, p.stderr) }

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// running tells whether the process has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exit waits until the process has ended, and returns its exit status; -1
// after a signal.
func (p *process) exit() int {
	p.t.Helper()
	gatewaytest.WaitFor(p.t, "the process has ended", func() bool { return !p.running() })
	return p.cmd.ProcessState.ExitCode()
}

// logged waits until the log has so many lines with a text.
func (p *process) logged(text string, count int) {
	p.t.Helper()
	gatewaytest.WaitFor(p.t, fmt.Sprintf("%q is logged %d times", text, count), func() bool {
		return strings.Count(p.log(), text) >= count
	})
}

var servesLine = regexp.MustCompile(`msg="configuration serves" revision=(\d+) listeners="?([^"]*?)"? admin=(\S+)`)

// addresses waits until the gateway serves, and returns the addresses of its
// listeners by name, the admin API's as "admin".
func (p *process) addresses() map[string]string {
	p.t.Helper()
	var match []string
	gatewaytest.WaitFor(p.t, "the gateway serves", func() bool {
		match = servesLine.FindStringSubmatch(p.log())
		return match != nil || !p.running()
	})
	if match == nil {
		p.t.Fatal("the gateway has ended")
	}
	addresses := map[string]string{"admin": match[3]}
	for listener := range strings.FieldsSeq(match[2]) {
		name, address, _ := strings.Cut(listener, "=")
		addresses[name] = address
	}
	return addresses
}

// write writes a file and returns its path.
func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	fresh := path + ".new"
	if err := os.WriteFile(fresh, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fresh, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// httpClient returns an HTTP client that follows no redirect and keeps its
// connections until the test ends.
func httpClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{
		Transport:     transport,
		Timeout:       gatewaytest.Patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
