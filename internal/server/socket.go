package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unixPrefix begins the address of a Unix socket.
const unixPrefix = "unix:"

// socket is a listening socket, with the file that a Unix one leaves behind.
type socket struct {
	net.Listener
	path string      // of a Unix socket in the file system, else empty
	file fs.FileInfo // of path when it was bound
	old  bool        // the file was there before: another process made it
}

// BindError is an address that cannot be listened on.
type BindError struct {
	Address string // as configured
	UDP     bool   // it is the port of HTTP/3
	Err     error  // the system's reason
}

// Error is one clause.
func (e *BindError) Error() string {
	if e.UDP {
		return fmt.Sprintf("cannot listen on %s by UDP, for h3: %v", e.Address, e.Err)
	}
	return fmt.Sprintf("cannot listen on %s: %v", e.Address, e.Err)
}

// Unwrap is the system's reason.
func (e *BindError) Unwrap() error { return e.Err }

// bind opens the socket of an address. The file of a Unix socket on which
// nobody answers is left over from a process that ended without ceremony: it is
// removed. Errors are *BindError.
func bind(address string, listen func(network, address string) (net.Listener, error)) (*socket, error) {
	network, place := "tcp", address
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		network, place = "unix", path
	}
	before, _ := os.Lstat(place) // nil where there is nothing
	inner, err := listen(network, place)
	if network == "unix" && errors.Is(err, syscall.EADDRINUSE) {
		if err = removeStale(place); err == nil {
			before = nil
			inner, err = listen(network, place)
		}
	}
	if err != nil {
		return nil, &BindError{Address: address, Err: reason(err)}
	}
	s := &socket{Listener: inner}
	if network == "unix" && !strings.HasPrefix(place, "@") {
		s.path = place
		if s.file, err = os.Lstat(place); err != nil {
			s.path = "" // an inherited socket whose file is gone already
		}
		s.old = err == nil && before != nil && os.SameFile(before, s.file)
		if own, ok := inner.(*net.UnixListener); ok {
			own.SetUnlinkOnClose(false) // remove does it, and looks twice
		}
	}
	return s, nil
}

// removeStale removes the file of a Unix socket if nobody answers on it.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s is there and is not a socket: %w", path, syscall.EADDRINUSE)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	probe, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		_ = probe.Close()
		return syscall.EADDRINUSE
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// reason is what the system says, without the network's and the call's name
// around it.
func reason(err error) error {
	var number syscall.Errno
	if errors.As(err, &number) && number == syscall.EACCES {
		return fmt.Errorf("%w (ports below 1024 and some directories need a privilege)", number)
	}
	var op *net.OpError
	if errors.As(err, &op) {
		var call *os.SyscallError
		if errors.As(op.Err, &call) {
			return call.Err
		}
		return op.Err
	}
	return err
}

// remove takes the file of a Unix socket away, unless another process has put
// its own there meanwhile.
func (s *socket) remove() {
	if s.path == "" {
		return
	}
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(now, s.file) {
		_ = os.Remove(s.path) // what is left is seen as stale by the next bind
	}
}

// shared tells whether another open socket of this process takes some of the
// connections that this one could.
func (s *socket) shared() bool {
	kept, ok := s.Listener.(*port)
	return ok && kept.shared()
}

// wake ends an Accept that waits; the socket stays open if it can be woken.
func (s *socket) wake() {
	timed, ok := s.Listener.(interface{ SetDeadline(t time.Time) error })
	if !ok || timed.SetDeadline(past()) != nil {
		_ = s.Close() // its end wakes it as well
	}
}

// finish closes the socket once nobody waits in it: who has connected already
// has no other one to turn to. While another socket shares the port, it also
// waits for connections that are about to be made, for as long as handshake, and
// keeps off those that begin. To be called by the one who accepts, after wake.
func (s *socket) finish(handshake time.Duration, take func(net.Conn)) error {
	if kept, ok := s.Listener.(*port); ok && kept.shared() {
		if raw, err := kept.SyscallConn(); err == nil && dropSYN(raw) == nil && kept.SetDeadline(time.Now().Add(handshake)) == nil {
			for {
				inner, err := kept.Accept()
				if err != nil {
					break
				}
				take(inner)
			}
		}
	}
	for _, inner := range s.waiting() {
		take(inner)
	}
	return s.Close()
}

// mostWaiting is the longest queue of connections that is looked at; systems
// have shorter ones.
const mostWaiting = 1 << 16

// waiting accepts what waits in the socket's queue, without blocking.
func (s *socket) waiting() (conns []net.Conn) {
	inner, ok := s.Listener.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := inner.SyscallConn()
	if err != nil {
		return nil
	}
	var files []*os.File
	_ = raw.Control(func(fd uintptr) { // fails on a closed socket only
		for len(files) < mostWaiting {
			file, err := acceptNow(int(fd))
			if err != nil {
				return
			}
			files = append(files, file)
		}
	})
	for _, file := range files {
		if conn, err := net.FileConn(file); err == nil {
			conns = append(conns, conn)
		}
		_ = file.Close() // a duplicate
	}
	return conns
}

// acceptNow accepts a connection that waits; fd does not block.
func acceptNow(fd int) (*os.File, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	for {
		accepted, _, err := unix.Accept(fd)
		switch {
		case err == nil:
			unix.CloseOnExec(accepted)
			return os.NewFile(uintptr(accepted), "connection"), nil
		case !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ECONNABORTED):
			return nil, err
		}
	}
}

// duplicate returns a copy of the descriptor.
func (s *socket) duplicate() (*os.File, error) {
	filer, ok := s.Listener.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, fmt.Errorf("a %T has no descriptor: %w", s.Listener, errors.ErrUnsupported)
	}
	return filer.File()
}
