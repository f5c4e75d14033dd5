package netloop

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// pipe is a pipe of the system's.
type pipe struct {
	owner          *pipes
	reader, writer int // descriptors
	held           int // bytes

	// What follows is for connections on the runtime's poller.
	receive, send func(descriptor uintptr) bool // made once
	want, came    int                           // bytes, of receive
	errno         unix.Errno                    // of either
}

// newPipe makes a pipe for size bytes. There is none where descriptors are
// exhausted, or the user has as large a part of pipes as the system grants.
func newPipe(size int) (*pipe, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoPipe, os.NewSyscallError("pipe2", err))
	}
	p := &pipe{reader: ends[0], writer: ends[1]}
	if _, err := unix.FcntlInt(uintptr(p.writer), unix.F_SETPIPE_SZ, size); err != nil {
		p.close()
		return nil, fmt.Errorf("%w: %w", errNoPipe, os.NewSyscallError("fcntl", err))
	}
	p.receive, p.send = p.receiveOn, p.sendOn
	return p, nil
}

// highest is the higher one of its descriptors.
func (p *pipe) highest() int { return max(p.reader, p.writer) }

func (p *pipe) close() { _, _ = unix.Close(p.reader), unix.Close(p.writer) }

// receive splices from a socket. Urgent bytes look like the end of what the peer
// has sent, if that has come, too.
func receive(from, to, n int) (int, unix.Errno) {
	came, errno := splice(from, to, n)
	if came == 0 && errno == 0 {
		if rest, _ := peek(from); rest > 0 {
			return 0, unix.EINVAL
		}
	}
	return came, errno
}

// cannotSplice tells whether the system does not splice what it was asked to,
// so that nothing was moved.
func cannotSplice(errno unix.Errno) bool { return errno == unix.EINVAL || errno == unix.ENOSYS }

// ReadInto is Read into a pipe.
func (c *loopConn) ReadInto(p *Pipe, n int64) (int, error) {
	want := p.fill(n)
	if want == 0 {
		return 0, c.failure
	}
	for {
		if err := c.wait(&c.readable, &c.reader, &c.readUntil); err != nil {
			return 0, err
		}
		if c.urgent { // splice(2) does not get past it
			return 0, errNoPipe
		}
		came, errno := receive(c.descriptor, p.writer, want)
		if cannotSplice(errno) {
			return 0, errNoPipe
		}
		p.held = max(came, 0)
		if done, err := c.received(came, errno); done {
			return p.held, err
		}
	}
}

// WriteFrom is Write of what a pipe holds.
func (c *loopConn) WriteFrom(p *Pipe) (int, error) {
	written := 0
	for p.held > 0 {
		if err := c.room(); err != nil {
			return written, err
		}
		n, errno := splice(p.reader, c.descriptor, p.held)
		n = max(n, 0)
		p.held -= n
		written += n
		c.sent(n, errno)
	}
	return written, nil
}

// ReadInto is Read into a pipe.
func (c *goConn) ReadInto(p *Pipe, n int64) (int, error) {
	p.want = p.fill(n)
	if err := c.failed(); err != nil || p.want == 0 {
		return 0, err
	}
	err := c.raw.Read(p.receive)
	switch {
	case err != nil:
	case cannotSplice(p.errno):
		return 0, errNoPipe
	case p.errno != 0:
		err = os.NewSyscallError("splice", p.errno)
	case p.came == 0:
		err = io.EOF
	default:
		p.held = p.came
		return p.held, nil
	}
	return 0, c.readError(err)
}

// receiveOn takes what has come. Where bytes are there and none of them can be
// taken, urgent ones are in the way.
func (p *pipe) receiveOn(descriptor uintptr) bool {
	for range 2 {
		if p.came, p.errno = receive(int(descriptor), p.writer, p.want); p.errno != unix.EAGAIN {
			return true
		}
		if nothing(int(descriptor)) {
			return false
		}
	}
	p.errno = unix.EINVAL
	return true
}

// WriteFrom is Write of what a pipe holds.
func (c *goConn) WriteFrom(p *Pipe) (int, error) {
	before := p.held
	if err := c.cannotSend(); err != nil || before == 0 {
		return 0, err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	p.errno = 0
	err := c.raw.Write(p.send)
	if err == nil && p.errno != 0 {
		err = os.NewSyscallError("splice", p.errno)
	}
	return before - p.held, c.writeError(err)
}

// sendOn sends as much as there is room for.
func (p *pipe) sendOn(descriptor uintptr) bool {
	for p.held > 0 {
		n, errno := splice(p.reader, int(descriptor), p.held)
		switch errno {
		case 0:
			p.held -= n
		case unix.EAGAIN:
			return false
		default:
			p.errno = errno
			return true
		}
	}
	return true
}
