package server

import (
	"net"
	"os"
)

// Socket is a listening socket outside of a Listener, as of the admin API.
type Socket struct{ inner *socket }

// Bind opens the socket of an address, host:port or unix:PATH, as a Listener
// does: the file that a dead process left at the path is replaced. Errors are
// one clause.
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

// Duplicate returns a copy of the descriptor; the caller closes it.
func (s *Socket) Duplicate() (*os.File, error) { return s.inner.duplicate() }

// Remove takes the file of a Unix socket away, unless another process has put
// its own there meanwhile.
func (s *Socket) Remove() { s.inner.remove() }
