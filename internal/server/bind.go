package server

import (
	"context"
	"net"
	"os"
	"time"
)

// Socket is a listening socket outside of a Listener, as of the admin API.
type Socket struct{ inner *socket }

// Bind opens the socket of an address, host:port or unix:PATH, as a Listener
// does: the file that a dead process left at the path is replaced. Errors are
// *BindError.
func Bind(address string, listen func(network, address string) (net.Listener, error)) (*Socket, error) {
	inner, err := bind(address, listen)
	if err != nil {
		return nil, err
	}
	return &Socket{inner}, nil
}

// Listener is what accepts connections; closing it leaves the file of a Unix
// socket.
func (s *Socket) Listener() net.Listener { return s.inner.Listener }

// Part is to be called before the socket is closed by whoever accepts. Where
// another one of the same Ports serves a part of its address, connections that
// begin are kept for that one, and those that have begun get a moment to be made,
// at most until ctx ends.
func (s *Socket) Part(ctx context.Context) {
	if kept, ok := s.inner.Listener.(*port); ok && kept.shared() {
		if raw, err := kept.SyscallConn(); err == nil && dropSYN(raw) == nil {
			moment := time.NewTimer(standard().handshake)
			defer moment.Stop()
			select {
			case <-moment.C:
			case <-ctx.Done():
			}
		}
	}
}

// Duplicate returns a copy of the descriptor; the caller closes it.
func (s *Socket) Duplicate() (*os.File, error) { return s.inner.duplicate() }

// Remove takes the file of a Unix socket away, unless another process has put
// its own there meanwhile.
func (s *Socket) Remove() { s.inner.remove() }
