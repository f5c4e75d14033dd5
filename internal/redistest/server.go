// Package redistest runs Redis servers inside a test: one alone, one that sentinels
// watch, and clusters. It is for tests only, and needs redis-server.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"

	"sluice/internal/waittest"
)

// Server is a redis-server, until its test ends.
type Server struct {
	Dir string // where it works
	// Address is host:port, or unix:PATH where it has no port.
	Address string

	t       testing.TB
	bus     string // the port for others of a cluster
	options []string
	command *exec.Cmd
	ended   chan struct{}
}

// Start runs a server on a Unix socket. Options are redis-server's.
func Start(t testing.TB, options ...string) *Server {
	t.Helper()
	s := newServer(t)
	s.Address = "unix:" + filepath.Join(s.Dir, "s")
	s.options = append([]string{"--port", "0", "--unixsocket", filepath.Join(s.Dir, "s")}, options...)
	s.Restart()
	return s
}

// StartTCP runs a server on a free port of this machine.
func StartTCP(t testing.TB, options ...string) *Server {
	t.Helper()
	s := newServer(t)
	s.atFreePort(func() error {
		s.options = append([]string{"--bind", "127.0.0.1", "--port", port(s.Address)}, options...)
		return s.again()
	})
	return s
}

// freePorts is how many are tried: between finding one and its use somebody else may take
// it.
const freePorts = 5

// atFreePort begins a server at a free address, and at another one where it ends at once.
func (s *Server) atFreePort(begin func() error) {
	s.t.Helper()
	var err error
	for range freePorts {
		s.Address = FreeAddress(s.t)
		if err = begin(); err == nil {
			return
		}
	}
	s.t.Fatal(err)
}

func newServer(t testing.TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "redis") //nolint:usetesting // the path of a Unix socket is bounded, and that of t.TempDir has the test's name in it
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Dir: dir, t: t}
	t.Cleanup(func() {
		if s.command != nil {
			s.Kill()
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Restart runs a server that has ended again, where it was. It answers then.
func (s *Server) Restart() {
	s.t.Helper()
	if err := s.again(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) again() error {
	return s.run(append([]string{"--save", "", "--dir", s.Dir, "--logfile", "log"}, s.options...)...)
}

// run begins a server. It answers then; or it has ended, as an error says.
func (s *Server) run(arguments ...string) (err error) {
	s.t.Helper()
	command, ended := exec.CommandContext(context.Background(), "redis-server", arguments...), make(chan struct{})
	if err := command.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		_ = command.Wait() // it tells of the kill
		close(ended)
	}()
	s.command, s.ended = command, ended
	own := fmt.Sprintf("process_id:%d\r", command.Process.Pid)
	Until(s.t, "redis-server answers", func() bool {
		select {
		case <-ended:
			log, _ := os.ReadFile(filepath.Join(s.Dir, "log")) // it may have written none
			err = fmt.Errorf("redis-server has ended: %s", log)
			return true
		default:
		}
		told, fault := s.Do("INFO", "server") // that it is this one, and nobody who has its port
		return fault == nil && strings.Contains(fmt.Sprint(told), own) || fault != nil && strings.HasPrefix(fault.Error(), "NOAUTH")
	})
	return err
}

// Kill ends the server at once. A second time it does nothing.
func (s *Server) Kill() {
	_ = s.command.Process.Kill() // it may have ended
	<-s.ended
}

// Signal sends a signal to the server's process.
func (s *Server) Signal(signal syscall.Signal) {
	s.t.Helper()
	if err := s.command.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

// Do runs one command there.
func (s *Server) Do(words ...any) (any, error) {
	options := &redis.Options{Addr: s.Address, MaxRetries: -1, Protocol: 2}
	if path, ok := strings.CutPrefix(s.Address, "unix:"); ok {
		options.Network, options.Addr = "unix", path
	}
	client := redis.NewClient(options)
	answer, err := client.Do(s.t.Context(), words...).Result()
	return answer, errors.Join(err, client.Close())
}

// Must runs one command there, which succeeds.
func (s *Server) Must(words ...any) any {
	s.t.Helper()
	answer, err := s.Do(words...)
	if err != nil {
		s.t.Fatalf("%v: %v", words, err)
	}
	return answer
}

// Until is waittest.Until.
func Until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	waittest.Until(t, what, condition)
}

// FreeAddress is an address of this machine that nobody listens on.
func FreeAddress(t testing.TB) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // nobody has connected
	return listener.Addr().String()
}

func port(address string) string {
	_, port, _ := net.SplitHostPort(address) // it is a listener's
	return port
}
