//go:build unix

package netloop

import (
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// past is a deadline that has passed: it ends the waits of the runtime's
// poller.
var past = time.Unix(1, 0)

// goConn is a Conn on the runtime's poller.
type goConn struct {
	owner  *Goroutines
	socket socket
	raw    syscall.RawConn
	ended  func(Conn) // nil, unless it was accepted
	data   any
	glance *glance // of Stale; nil until it is called

	mu          sync.Mutex
	failure     error // what every call returns from now on
	sendFailure error // what writing returns, and reading at its end
	shut        bool  // our writing side has ended
	closed      bool  // or detached
	readUntil   time.Time
	watch       *watcher // nil: nobody watches
}

func (c *goConn) failed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failure
}

// Read reads what is there.
func (c *goConn) Read(p []byte) (int, error) {
	if err := c.failed(); err != nil || len(p) == 0 {
		return 0, err
	}
	n, err := c.socket.Read(p)
	return n, c.readError(err)
}

// readError is what an error of reading is to the caller.
func (c *goConn) readError(err error) error {
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failure != nil:
	case errors.Is(err, io.EOF) && c.sendFailure != nil:
		return c.sendFailure
	case errors.Is(err, io.EOF):
		return io.EOF
	case errors.Is(err, errDeadline):
		return errDeadline
	default:
		c.failure = err
	}
	return c.failure
}

// Write writes all of p.
func (c *goConn) Write(p []byte) (int, error) {
	if err := c.cannotSend(); err != nil || len(p) == 0 {
		return 0, err
	}
	n, err := c.socket.Write(p)
	if err == nil {
		return n, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failure != nil:
		return n, c.failure
	case errors.Is(err, errDeadline):
		return n, errDeadline
	}
	c.sendFailure = err
	return n, err
}

func (c *goConn) cannotSend() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failure != nil:
		return c.failure
	case c.shut:
		return unix.EPIPE
	}
	return c.sendFailure
}

// Readable waits until a Read would not wait.
func (c *goConn) Readable() error {
	if err := c.failed(); err != nil {
		return err
	}
	return c.readError(c.raw.Read(func(descriptor uintptr) bool {
		_, err := peek(int(descriptor))
		return !errors.Is(err, unix.EAGAIN)
	}))
}

// Stale tells whether the peer has closed or sent anything.
func (c *goConn) Stale() bool {
	if c.failed() != nil {
		return true
	}
	if c.glance == nil {
		c.glance = &glance{}
		c.glance.at = c.glance.poll
	}
	return c.raw.Control(c.glance.at) != nil || c.glance.seen
}

// glance asks, without waiting, whether a socket has anything to read, be it its
// end. It allocates nothing.
type glance struct {
	sockets [1]unix.PollFd
	seen    bool
	at      func(descriptor uintptr) // poll
}

func (l *glance) poll(descriptor uintptr) {
	l.sockets[0] = unix.PollFd{Fd: int32(descriptor), Events: unix.POLLIN}
	for {
		n, err := unix.Poll(l.sockets[:], 0)
		if !errors.Is(err, unix.EINTR) {
			l.seen = n != 0 || err != nil
			return
		}
	}
}

// peek looks at what can be read, without waiting and without taking it.
func peek(descriptor int) (n int, err error) {
	var one [1]byte
	for {
		n, _, err = unix.Recvfrom(descriptor, one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// SetReadDeadline bounds the waiting for bytes.
func (c *goConn) SetReadDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readUntil = t
	if c.failure == nil && c.watch == nil { // else the deadline has another use
		_ = c.socket.SetReadDeadline(t)
	}
}

// SetWriteDeadline bounds the waiting for room.
func (c *goConn) SetWriteDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		_ = c.socket.SetWriteDeadline(t)
	}
}

// Interrupt lets waits return cause.
func (c *goConn) Interrupt(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watch != nil {
		c.watch.off = true
	}
	if c.failure == nil {
		c.failure = cause
		_ = c.socket.SetDeadline(past)
	}
}

// CloseWrite ends the writing side.
func (c *goConn) CloseWrite() error {
	if err := c.failed(); err != nil {
		return err
	}
	c.mu.Lock()
	c.shut = true
	c.mu.Unlock()
	return c.socket.CloseWrite()
}

// end says that the connection is closed; false: it was before.
func (c *goConn) end() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.closed, c.failure = true, net.ErrClosed
	return true
}

// left takes the connection out of the books.
func (c *goConn) left() {
	c.owner.forget(c)
	if c.ended != nil {
		contain(c.owner.log, func() { c.ended(c) })
	}
}

// Close ends the connection.
func (c *goConn) Close() error {
	if !c.end() {
		return nil
	}
	c.endWatch()
	err := c.socket.Close()
	c.left()
	return err
}

// Reset ends the connection with RST.
func (c *goConn) Reset() {
	if tcp, ok := c.socket.(*net.TCPConn); ok { // a Unix socket has no RST
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// Detach gives the socket away.
func (c *goConn) Detach() (net.Conn, error) {
	if !c.end() {
		return nil, net.ErrClosed
	}
	c.endWatch()
	_ = c.socket.SetDeadline(time.Time{})
	c.left()
	return c.socket, nil
}

// LocalAddr is this end.
func (c *goConn) LocalAddr() net.Addr { return c.socket.LocalAddr() }

// RemoteAddr is the other end.
func (c *goConn) RemoteAddr() net.Addr { return c.socket.RemoteAddr() }

// Control calls f with the descriptor.
func (c *goConn) Control(f func(descriptor uintptr)) error {
	if c.isClosed() {
		return net.ErrClosed
	}
	return c.raw.Control(f)
}

func (c *goConn) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// SetData keeps something of the caller's.
func (c *goConn) SetData(data any) { c.data = data }

// Data is what SetData was given.
func (c *goConn) Data() any { return c.data }

// Executor is whose connection it is.
func (c *goConn) Executor() Executor { return c.owner }
