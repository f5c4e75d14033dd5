package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"sluice/internal/gatewaytest"
	"sluice/internal/logtest"
)

// service is a program that serves until the test ends.
type service struct {
	address string // host:port
	folder  string // its own
}

// program returns the path of a program that scripts/test-setup installs.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	path = "/usr/sbin/" + name // where Debian has some, outside the path of many users
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%s is not installed; scripts/test-setup does that: %v", name, err)
	}
	return path
}

// startService runs a program that knows no port 0. prepare writes into a folder
// what the program needs to serve at an address, and returns its arguments.
func startService(t *testing.T, name string, prepare func(folder, address string) []string) service {
	t.Helper()
	path := program(t, name)
	for range 20 {
		if s, ok := tryService(t, path, prepare); ok {
			return s
		}
	}
	t.Fatalf("no free port was found for %s", name)
	return service{}
}

// tryService is startService on one port, which another process may take first.
func tryService(t *testing.T, path string, prepare func(folder, address string) []string) (s service, ok bool) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = service{address: free.Addr().String(), folder: t.TempDir()}
	free.Close()
	command := exec.Command(path, prepare(s.folder, s.address)...)
	var told logtest.Buffer
	command.Stdout, command.Stderr = &told, &told
	command.Dir = s.folder
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = command.Wait(); close(ended) }()
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM) // the workers end with it
		<-ended
	})
	serves := false
	gatewaytest.WaitFor(t, filepath.Base(path)+" serves or ends", func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		conn, err := net.Dial("tcp", s.address)
		if err == nil {
			conn.Close()
			serves = true
		}
		return serves
	})
	if !serves {
		t.Logf("%s did not start on %s: %s", path, s.address, told.String())
	}
	return s, serves
}

// startHAProxy runs Debian's HAProxy until the test ends, and returns its URL.
// frontend is put into its frontend; what that does not answer goes to url.
func startHAProxy(t *testing.T, frontend, url string) string {
	t.Helper()
	s := startService(t, "haproxy", func(folder, address string) []string {
		config := `
global
  maxconn 1000
defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend in
  bind ` + address + `
  http-after-response set-header X-Port %[src_port]
` + frontend + `
  default_backend out
backend out
  server one ` + url[len("http://"):] + `
`
		file := filepath.Join(folder, "haproxy.cfg")
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"-db", "-f", file}
	})
	return "http://" + s.address
}
