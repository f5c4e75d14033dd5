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
	seen   bool // by glance

	// Functions for raw, made once.
	something func(descriptor uintptr) bool // can be read
	glance    func(descriptor uintptr)      // sets seen, if so

	telling sync.Mutex // held while the sweeper looks and tells; before mu
	writing sync.Mutex // held by who writes, until the failure is noted; before mu

	mu          sync.Mutex
	failure     error // what every call returns from now on
	sendFailure error // what writing returns, and reading at its end
	shut        bool  // our writing side has ended
	closed      bool  // or detached
	readUntil   time.Time
	writeUntil  time.Time
	watch       func() // nil: nobody watches
	watchHalf   bool
	watchFresh  bool // no sweep has begun since
	swept       bool // the sweeper comes by
}

func newGoConn(owner *Goroutines, stream socket, raw syscall.RawConn) *goConn {
	c := &goConn{owner: owner, socket: stream, raw: raw}
	c.something = func(descriptor uintptr) bool { return !nothing(int(descriptor)) }
	c.glance = func(descriptor uintptr) { c.seen = !nothing(int(descriptor)) }
	return c
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
	if errors.Is(err, io.EOF) {
		c.awaitWriter()
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
	c.writing.Lock()
	defer c.writing.Unlock()
	n, err := c.socket.Write(p)
	return n, c.writeError(err)
}

// awaitWriter sees to it that what looks like the end of the stream is that: of
// a broken connection the system tells whoever asks first, and then might have
// told who writes. That one does not wait any more.
func (c *goConn) awaitWriter() {
	if c.writing.TryLock() {
		c.writing.Unlock()
		return
	}
	broken := false
	if c.raw.Control(func(descriptor uintptr) { broken = hungUp(int(descriptor), false) }) == nil && broken {
		c.writing.Lock()
		defer c.writing.Unlock()
	}
}

// writeError is what an error of writing is to the caller.
func (c *goConn) writeError(err error) error {
	if err == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.failure != nil:
		return c.failure
	case errors.Is(err, errDeadline):
		return errDeadline
	}
	c.sendFailure = err
	return err
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

// Await leaves the waiting to Read: asking the poller would cost more than a
// buffer is worth.
func (c *goConn) Await() error { return c.failed() }

// Readable waits until a Read would not wait. The look before the wait cannot
// be spared: the poller tells of what comes after it. Nor can the one after it:
// what it tells may be of bytes that were read in the meantime.
func (c *goConn) Readable() error {
	if err := c.failed(); err != nil {
		return err
	}
	return c.readError(c.raw.Read(c.something))
}

// Stale tells whether the peer has closed or sent anything.
func (c *goConn) Stale() bool {
	return c.failed() != nil || c.raw.Control(c.glance) != nil || c.seen
}

// SetReadDeadline bounds the waiting for bytes.
func (c *goConn) SetReadDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil && !t.Equal(c.readUntil) {
		c.readUntil = t
		_ = c.socket.SetReadDeadline(t)
	}
}

// SetWriteDeadline bounds the waiting for room.
func (c *goConn) SetWriteDeadline(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil && !t.Equal(c.writeUntil) {
		c.writeUntil = t
		_ = c.socket.SetWriteDeadline(t)
	}
}

// Interrupt lets waits return cause.
func (c *goConn) Interrupt(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch = nil
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

// endWatch ends the watching; nothing of it runs afterwards.
func (c *goConn) endWatch() { c.WatchHangup(nil, false) }

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
