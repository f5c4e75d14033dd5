package server

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// sockets are the two ends of a connection, of which the second takes little at
// a time, so that what it has not read stays with the first.
func sockets(t *testing.T) (net.Conn, *net.TCPConn) {
	t.Helper()
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	raw, err := listener.SyscallConn()
	if err == nil {
		err = raw.Control(func(descriptor uintptr) {
			if err := unix.SetsockoptInt(int(descriptor), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096); err != nil {
				t.Fatal(err)
			}
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	one, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	other, err := listener.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { one.Close(); other.Close() })
	return one, other
}

// A client that takes less than a socket's buffer at a time, and takes it
// steadily, has not stopped.
func TestAClientThatTakesLittle(t *testing.T) {
	t.Parallel()
	const stall = time.Second
	one, other := sockets(t)
	took := make(chan struct{}, 1)
	c := &conn{Conn: one, takes: func() {
		select {
		case took <- struct{}{}:
		default:
		}
	}}
	c.stall.Store(int64(stall))
	go func() {
		pause := time.NewTicker(40 * time.Millisecond)
		defer pause.Stop()
		for end := time.Now().Add(5 * stall / 2); time.Now().Before(end); <-pause.C {
			if _, err := other.Read(make([]byte, 4096)); err != nil {
				return
			}
		}
		_, _ = io.Copy(io.Discard, other)
	}()
	data := make([]byte, 32<<20)
	if n, err := c.Write(data); err != nil || n != len(data) {
		t.Fatalf("%d bytes, %v", n, err)
	}
	select {
	case <-took:
	default:
		t.Error("nobody was told that it took something")
	}
}

func TestAClientThatTakesNothing(t *testing.T) {
	t.Parallel()
	const stall = 400 * time.Millisecond
	one, _ := sockets(t)
	c := &conn{Conn: one}
	c.stall.Store(int64(stall))
	begin := time.Now()
	_, err := c.Write(make([]byte, 32<<20))
	if took := time.Since(begin); !errors.Is(err, os.ErrDeadlineExceeded) || took < stall {
		t.Errorf("%v after %v", err, took)
	}
}
