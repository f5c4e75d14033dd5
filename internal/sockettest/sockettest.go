//go:build unix

// Package sockettest finds ports and makes sockets that behave badly, for tests. It is
// for tests only, and imports nothing of Sluice, so that every package's tests can have
// it.
package sockettest

import (
	"errors"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// FreePort is a port that nobody listened on a moment ago, on any address of a host. The
// test is skipped where the machine has no such host.
func FreePort(t testing.TB, host string) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Skipf("no %s here: %v", host, err)
	}
	defer listener.Close() //nolint:errcheck // nobody has connected
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// FullQueue is the address of a socket whose queue is full, so that the system answers
// nobody else until the test ends.
func FullQueue(t testing.TB) string {
	t.Helper()
	descriptor, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.CloseOnExec(descriptor)
	t.Cleanup(func() { _ = unix.Close(descriptor) })
	if err = unix.Bind(descriptor, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err == nil {
		err = unix.Listen(descriptor, 0)
	}
	name, nameErr := unix.Getsockname(descriptor)
	if err = errors.Join(err, nameErr); err != nil {
		t.Fatal(err)
	}
	at := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*unix.SockaddrInet4).Port}
	dialer := net.Dialer{Timeout: 300 * time.Millisecond}
	for {
		conn, err := dialer.DialContext(t.Context(), "tcp", at.String())
		if err != nil {
			return at.String()
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}
