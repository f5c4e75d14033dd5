package netloop

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// loopConn is a Conn of a loop. The kernel tells of each change once (EPOLLET):
// readable and writable say what it told and no call has refuted since.
type loopConn struct {
	loop       *loop
	acceptor   *acceptor // nil, unless it was accepted
	descriptor int       // -1: closed or detached
	mark       int32

	readable, writable bool
	ended              bool // the peer has closed its writing side
	broken             bool // both sides are closed
	shut               bool // our writing side is
	urgent             bool // the peer has sent urgent bytes
	watchHalf          bool
	resting            bool // no task serves it

	remote, local         net.Addr
	reader, writer        *task // who waits
	readUntil, writeUntil int64 // deadlines, as the loop counts; 0: none
	restUntil             int64 // until when it may rest; 0: for ever
	timer                 timer
	failure               error // what every call returns from now on
	sendFailure           error // what writing returns, and reading at its end
	watch                 func()
	data                  any
}

// happened takes what the kernel tells.
func (c *loopConn) happened(events uint32) {
	const closed = unix.EPOLLHUP | unix.EPOLLERR
	c.readable = c.readable || events&(unix.EPOLLIN|unix.EPOLLRDHUP|closed) != 0
	c.writable = c.writable || events&(unix.EPOLLOUT|closed) != 0
	c.ended = c.ended || events&(unix.EPOLLRDHUP|closed) != 0
	c.urgent = c.urgent || events&unix.EPOLLPRI != 0
	c.broken = c.broken || events&closed != 0
	if c.readable && c.reader != nil {
		c.reader.wake()
	}
	if c.writable && c.writer != nil {
		c.writer.wake()
	}
	if c.readable && c.resting {
		c.awake()
	}
	c.alarm()
}

// gone tells whether what is watched for has happened.
func (c *loopConn) gone() bool { return c.broken || c.ended && c.watchHalf }

func (c *loopConn) alarm() {
	if c.watch != nil && c.gone() {
		c.loop.alarms = append(c.loop.alarms, c)
	}
}

// WatchHangup calls f once when the peer has closed.
func (c *loopConn) WatchHangup(f func(), half bool) {
	if c.failure != nil {
		return
	}
	c.watch, c.watchHalf = f, half
	c.alarm()
}

// wait waits for readiness, or for what ends the waiting.
func (c *loopConn) wait(ready *bool, waiter **task, until *int64) error {
	for {
		switch {
		case c.failure != nil:
			return c.failure
		case *until != 0 && *until <= c.loop.now:
			return errDeadline
		case *ready:
			return nil
		}
		if *until != 0 {
			c.askTimer(*until)
		}
		if *waiter != nil {
			panic("BUG: two tasks wait for the same direction of a connection")
		}
		*waiter = c.loop.running()
		(*waiter).park()
		*waiter = nil
	}
}

// Await waits until something can probably be read.
func (c *loopConn) Await() error { return c.wait(&c.readable, &c.reader, &c.readUntil) }

// Readable waits until a Read would not wait.
func (c *loopConn) Readable() error {
	for {
		if err := c.wait(&c.readable, &c.reader, &c.readUntil); err != nil || c.look() {
			return err
		}
	}
}

// Read reads what is there.
func (c *loopConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, c.failure
	}
	for {
		if err := c.wait(&c.readable, &c.reader, &c.readUntil); err != nil {
			return 0, err
		}
		n, errno := read(c.descriptor, p)
		if n > 0 && n < len(p) && !c.ended && !c.urgent && c.tcp() {
			// Fewer bytes than asked for: nothing is left, and more will be told
			// of, unless the end was told already, or urgent bytes split what came.
			c.readable = false
		}
		if done, err := c.received(n, errno); done {
			return max(n, 0), err
		}
	}
}

// received says what a call that reads comes to. Where that is not done, it is
// to be made again.
func (c *loopConn) received(n int, errno unix.Errno) (done bool, err error) {
	switch {
	case errno == unix.EAGAIN:
		c.readable = false
	case errno == unix.EINTR:
	case errno != 0:
		c.failure = os.NewSyscallError("read", errno)
	case n == 0 && c.sendFailure != nil:
		return true, c.sendFailure
	case n == 0:
		return true, io.EOF
	default:
		c.loop.share(n)
		return true, nil
	}
	return false, nil
}

// tcp tells whether it is no Unix socket, whose reads end where descriptors
// were sent along.
func (c *loopConn) tcp() bool {
	_, ok := c.remote.(*net.TCPAddr)
	return ok
}

// Write writes all of p.
func (c *loopConn) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		if err := c.room(); err != nil {
			return written, err
		}
		n, errno := write(c.descriptor, p[written:])
		n = max(n, 0)
		written += n
		c.sent(n, errno)
	}
	return written, nil
}

// room waits until bytes can be sent.
func (c *loopConn) room() error {
	err := c.wait(&c.writable, &c.writer, &c.writeUntil)
	switch {
	case err != nil:
		return err
	case c.shut:
		return unix.EPIPE
	}
	return c.sendFailure
}

// sent takes what a call that sends n bytes comes to.
func (c *loopConn) sent(n int, errno unix.Errno) {
	switch errno {
	case 0:
		c.loop.share(n)
	case unix.EAGAIN:
		c.writable = false
	case unix.EINTR:
	default:
		c.sendFailure = os.NewSyscallError("write", errno)
	}
}

// Stale tells whether the peer has closed or sent anything, as of the loop's
// last look at its sockets.
func (c *loopConn) Stale() bool {
	return c.failure != nil || c.ended || c.readable && c.look()
}

// SetReadDeadline bounds the waiting for bytes.
func (c *loopConn) SetReadDeadline(t time.Time) { c.setDeadline(&c.readUntil, c.reader, t) }

// SetWriteDeadline bounds the waiting for room.
func (c *loopConn) SetWriteDeadline(t time.Time) { c.setDeadline(&c.writeUntil, c.writer, t) }

func (c *loopConn) setDeadline(until *int64, waiter *task, t time.Time) {
	*until = c.loop.at(t)
	if *until != 0 && waiter != nil && c.descriptor >= 0 {
		c.askTimer(*until)
	}
}

// Interrupt lets waits return cause.
func (c *loopConn) Interrupt(cause error) {
	c.watch = nil
	switch {
	case c.failure != nil:
	case c.resting:
		_ = c.Close()
	default:
		c.failure = cause
		c.wakeAll()
	}
}

func (c *loopConn) wakeAll() {
	if c.reader != nil {
		c.reader.wake()
	}
	if c.writer != nil {
		c.writer.wake()
	}
}

// leave takes the socket out of the loop.
func (c *loopConn) leave() (descriptor int) {
	c.loop.forget(c)
	descriptor = c.descriptor
	if c.local == nil && c.acceptor != nil && c.acceptor.options.Ended != nil {
		c.local = localOf(descriptor) // for who is told
	}
	c.descriptor, c.resting, c.watch, c.failure = -1, false, nil, net.ErrClosed
	c.loop.timers.remove(&c.timer)
	c.wakeAll()
	if c.acceptor != nil {
		c.acceptor.left(c)
	}
	return descriptor
}

// Close ends the connection.
func (c *loopConn) Close() error {
	if c.descriptor < 0 {
		return nil
	}
	return os.NewSyscallError("close", unix.Close(c.leave()))
}

// Reset ends the connection with RST.
func (c *loopConn) Reset() {
	if c.descriptor >= 0 {
		_ = unix.SetsockoptLinger(c.descriptor, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // a Unix socket has no RST
		_ = c.Close()
	}
}

// CloseWrite ends the writing side.
func (c *loopConn) CloseWrite() error {
	if c.failure != nil {
		return c.failure
	}
	c.shut = true
	return os.NewSyscallError("shutdown", unix.Shutdown(c.descriptor, unix.SHUT_WR))
}

// Detach makes the socket a net.Conn of the runtime's poller.
func (c *loopConn) Detach() (net.Conn, error) {
	if c.descriptor < 0 {
		return nil, net.ErrClosed
	}
	if err := c.loop.control(unix.EPOLL_CTL_DEL, c.descriptor, 0, 0); err != nil {
		return nil, fmt.Errorf("detach: %w", errors.Join(err, c.Close()))
	}
	file := os.NewFile(uintptr(c.leave()), "detached")
	conn, err := net.FileConn(file) // duplicates the descriptor
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("detach: %w", err)
	}
	return conn, nil
}

// Control calls f with the descriptor.
func (c *loopConn) Control(f func(descriptor uintptr)) error {
	if c.descriptor < 0 {
		return net.ErrClosed
	}
	f(uintptr(c.descriptor))
	return nil
}

// LocalAddr is this end.
func (c *loopConn) LocalAddr() net.Addr {
	if c.local == nil && c.descriptor >= 0 {
		c.local = localOf(c.descriptor)
	}
	return c.local
}

// RemoteAddr is the other end.
func (c *loopConn) RemoteAddr() net.Addr { return c.remote }

// SetData keeps something of the caller's.
func (c *loopConn) SetData(data any) { c.data = data }

// Data is what SetData was given.
func (c *loopConn) Data() any { return c.data }

// Executor is the loop.
func (c *loopConn) Executor() Executor { return c.loop }
