package app

import (
	"io"
	"net"
	"os"
	"testing"
)

// listenerFile is a socket as a process before would hand it over.
func listenerFile(t *testing.T) (*os.File, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		t.Fatalf("a %T", listener)
	}
	file, err := tcp.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file, listener.Addr().String()
}

func TestInheritedSockets(t *testing.T) {
	one, first := listenerFile(t)
	two, second := listenerFile(t)
	unused, gone := listenerFile(t)
	wait, ready, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer wait.Close()
	s := &Sockets{ready: ready, inherited: map[string][]*os.File{"tcp|127.0.0.1:0": {one, two}, "tcp|127.0.0.1:1": {unused}}}
	for i, want := range []string{first, second, ""} {
		listener, err := s.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { listener.Close() })
		if got := listener.Addr().String(); want != "" && got != want || want == "" && (got == first || got == second || got == gone) {
			t.Errorf("socket %d is %s, want %s", i, got, want)
		}
	}
	if _, err := s.Listen("tcp", "127.0.0.1:nowhere"); err == nil {
		t.Error("a socket without a port")
	}
	s.Done()
	if told, err := io.ReadAll(wait); err != nil || len(told) != 1 {
		t.Errorf("the process before reads %v, %v", told, err)
	}
	if conn, err := net.Dial("tcp", gone); err == nil {
		conn.Close()
		t.Error("a socket that no listener asked for is open")
	}
	for _, address := range []string{first, second} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
	s.Done() // does nothing
}

func TestInherit(t *testing.T) {
	for _, name := range []string{socketsVariable, readyVariable, pseudonymVariable} {
		t.Setenv(name, "")
	}
	s, err := Inherit()
	if err != nil || s.Pseudonym != "" || s.ready != nil || len(s.inherited) != 0 {
		t.Errorf("from nothing: %+v, %v", s, err)
	}
	s.Done()

	t.Setenv(pseudonymVariable, "sluice-1")
	t.Setenv(socketsVariable, "tcp|127.0.0.1:0")
	t.Setenv(readyVariable, "x")
	if _, err := Inherit(); err == nil {
		t.Error("a descriptor that is no number")
	}
	for _, name := range []string{socketsVariable, readyVariable, pseudonymVariable} {
		if value, ok := os.LookupEnv(name); ok {
			t.Errorf("%s=%s stays in the environment", name, value)
		}
	}
}

// TestInheritableSocketStaysNonBlocking: else an accept of this process could
// not be ended by closing its socket.
func TestInheritableSocketStaysNonBlocking(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tcp, ok := listener.(*net.TCPListener)
	if !ok {
		t.Fatalf("a %T", listener)
	}
	duplicate, err := tcp.File()
	if err != nil {
		t.Fatal(err)
	}
	file, err := inheritable(duplicate)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_ = file.Fd() // what os/exec does with it
	ended := make(chan error, 1)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				ended <- err
				return
			}
			conn.Close()
		}
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil { // it was accepted, and the next accept begins
		t.Error("something was sent")
	}
	conn.Close()
	listener.Close()
	if err := <-ended; err == nil {
		t.Error("the accept went on")
	}
	if _, err := inheritable(duplicate); err == nil {
		t.Error("a closed file is inheritable")
	}
}
