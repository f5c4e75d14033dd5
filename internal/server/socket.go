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
)

// unixPrefix begins the address of a Unix socket.
const unixPrefix = "unix:"

// socket is a listening socket, with the file that a Unix one leaves behind.
type socket struct {
	net.Listener
	path string      // of a Unix socket in the file system, else empty
	file fs.FileInfo // of path when it was bound
}

// bind opens the socket of an address. The file of a Unix socket on which
// nobody answers is left over from a process that ended without ceremony: it is
// removed. Errors are one clause, with the system's reason wrapped.
func bind(address string, listen func(network, address string) (net.Listener, error)) (*socket, error) {
	network, place := "tcp", address
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		network, place = "unix", path
	}
	inner, err := listen(network, place)
	if network == "unix" && errors.Is(err, syscall.EADDRINUSE) {
		if err = removeStale(place); err == nil {
			inner, err = listen(network, place)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", address, reason(err))
	}
	s := &socket{Listener: inner}
	if network == "unix" && !strings.HasPrefix(place, "@") {
		s.path = place
		if s.file, err = os.Lstat(place); err != nil {
			s.path = "" // an inherited socket whose file is gone already
		}
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

// duplicate returns a copy of the descriptor.
func (s *socket) duplicate() (*os.File, error) {
	filer, ok := s.Listener.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, fmt.Errorf("a %T has no descriptor: %w", s.Listener, errors.ErrUnsupported)
	}
	return filer.File()
}
