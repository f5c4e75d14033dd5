package transport

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// connection is a connection to an endpoint.
type connection struct {
	net.Conn
	told func() // once, when it is closed

	closing  sync.Once
	closed   chan struct{} // closed by Close
	ending   sync.Once
	ended    chan struct{} // closed once reading has ended
	broken   atomic.Bool   // reading ended, but not by Close
	tunnel   atomic.Bool   // it carries another protocol now
	originOf bool          // the next request line has an absolute target to be cut
}

func newConnection(raw net.Conn, told func()) *connection {
	return &connection{Conn: raw, told: told, closed: make(chan struct{}), ended: make(chan struct{})}
}

// Read notes where the stream ends.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		c.ending.Do(c.end)
	}
	return n, err
}

func (c *connection) end() {
	select {
	case <-c.closed:
	default:
		c.broken.Store(true)
	}
	close(c.ended)
}

// Write reports a failure only when reading has ended as well: an endpoint may
// answer early and close while the request is still being sent, and its answer
// is worth more than the failure to send the rest.
func (c *connection) Write(p []byte) (int, error) {
	n, err := c.write(p)
	if err != nil && !c.tunnel.Load() {
		select {
		case <-c.ended:
		case <-c.closed:
		}
	}
	return n, err
}

// absolutePrefix is what net/http puts before a target that begins with two
// slashes; endpoints would read the rest as an authority.
var absolutePrefix = []byte("http:")

func (c *connection) write(p []byte) (int, error) {
	if !c.originOf {
		return c.Conn.Write(p)
	}
	c.originOf = false
	method, rest, ok := bytes.Cut(p, []byte(" "))
	if !ok || !bytes.HasPrefix(rest, absolutePrefix) {
		panic("BUG: a request does not begin with its request line")
	}
	line := append(append(bytes.Clone(method), ' '), rest[len(absolutePrefix):]...)
	n, err := c.Conn.Write(line)
	if n == len(line) {
		n = len(p)
	}
	return n, err
}

// CloseWrite ends the writing side.
func (c *connection) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Close closes the connection; further calls do nothing.
func (c *connection) Close() error {
	var err error
	c.closing.Do(func() {
		close(c.closed)
		err = c.Conn.Close()
		c.told()
	})
	return err
}
