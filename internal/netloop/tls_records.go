//go:build unix

package netloop

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// headerBytes is how long the header of a record is (RFC 8446 5.1).
const headerBytes = 5

// waiting says how far a read may go for bytes.
type waiting uint8

const (
	await waiting = iota // waits for them
	once                 // looks at the socket, and does not wait
	never                // takes what was read from the socket before
)

// errTruncated is the end of a connection without close_notify. It is not
// io.ErrUnexpectedEOF itself, which crypto/tls takes for an end between two
// records.
var errTruncated = errors.New("the connection ended without close_notify")

// records is what crypto/tls runs over. It gives crypto/tls no
// byte beyond the record that it is reading, so that it is known here what has
// come and was not used; and what crypto/tls writes it keeps, until a task that
// holds none of its locks writes it. After Detach it is the net.Conn of the
// socket and does neither.
type records struct {
	inner Conn
	raw   net.Conn // after Detach
	stock *tlsStock

	// What follows is of who reads.
	how      waiting
	shaking  bool      // hands: what was written goes out before anything is read
	buffer   *received // nil: not lent
	data     []byte    // has come and was not given to crypto/tls
	header   [headerBytes]byte
	headed   int   // how much of a record's header was given
	left     int   // how much of its rest was not
	failed   error // why the last Read failed
	unframed bool  // after Detach: crypto/tls has read what it liked

	mu         sync.Mutex // guards what follows
	out        *sealed    // to be written; nil: nothing
	flushing   bool       // a task writes, and takes what comes meanwhile, too
	idle       []Event    // of those who wait until none does
	sent       int64      // bytes, on this socket
	unwritten  int        // bytes that the task that writes has in hand
	failure    error      // what every call returns from now on
	writeErr   error      // what writing returns
	closed     bool
	alerted    bool // reading has failed, and the peer was told why
	shut       bool // our writing side has ended
	finish     bool // and the socket's is to end after what is to be written
	readUntil  time.Time
	writeUntil time.Time
}

// port is the net.Conn that crypto/tls holds on to, whichever records are behind
// it.
type port struct{ *records }

func (r *records) init(inner Conn) {
	r.inner, r.stock = inner, stockOf(inner.Executor())
}

// put adds bytes that came before anything else.
func (r *records) put(early []byte) {
	switch {
	case len(early) == 0:
	case len(early) <= receiveBytes:
		r.buffer = r.stock.lendIn()
		r.data = r.buffer[:copy(r.buffer[:], early)]
	default:
		r.data = bytes.Clone(early)
	}
}

// begin is called before crypto/tls may read.
func (r *records) begin(how waiting) { r.how, r.failed = how, nil }

// partial tells whether a part of a record has come.
func (r *records) partial() bool { return r.headed > 0 || len(r.data) > 0 }

// Read is for crypto/tls.
func (r *records) Read(p []byte) (n int, err error) {
	if r.raw != nil {
		return r.readDetached(p)
	}
	if r.shaking {
		err = r.flush()
	}
	switch {
	case err != nil:
	case len(r.data) > 0:
		return r.give(p), nil
	case r.left >= directBytes:
		p = p[:min(len(p), r.left)]
		if n, err = r.receive(p); err == nil {
			r.pass(n)
			return n, nil
		}
	default:
		if err = r.fill(); err == nil {
			return r.give(p), nil
		}
	}
	r.failed = err
	return 0, err
}

// fill reads what there is, into a buffer that is lent once something is there.
func (r *records) fill() error {
	if r.how == await {
		if err := r.inner.Await(); err != nil {
			return err
		}
	}
	buffer := r.stock.lendIn()
	n, err := r.receive(buffer[:])
	if err != nil {
		r.stock.in.Put(buffer)
		return err
	}
	r.buffer, r.data = buffer, buffer[:n]
	return nil
}

// give copies what has come of the current record. In a handshake the header
// comes alone: where it is none, all that came is kept.
func (r *records) give(p []byte) (n int) {
	if r.left == 0 {
		n = copy(p, r.data[:min(headerBytes-r.headed, len(r.data))])
		copy(r.header[r.headed:], p[:n])
		r.headed += n
		if r.headed == headerBytes {
			r.left = int(r.header[3])<<8 | int(r.header[4])
			r.pass(0)
		}
	}
	if r.left > 0 && !(r.shaking && n > 0) {
		more := copy(p[n:], r.data[n:min(n+r.left, len(r.data))])
		r.pass(more)
		n += more
	}
	if r.data = r.data[n:]; len(r.data) == 0 {
		r.release()
	}
	return n
}

// pass counts bytes of a record's rest that are given.
func (r *records) pass(n int) {
	if r.left -= n; r.left == 0 {
		r.headed = 0
	}
}

// release gives the buffer back.
func (r *records) release() {
	if r.buffer != nil {
		r.stock.in.Put(r.buffer)
	}
	r.buffer, r.data = nil, nil
}

// receive reads from the socket.
func (r *records) receive(p []byte) (n int, err error) {
	switch r.how {
	case never:
		return 0, errDeadline // which crypto/tls takes for no failure
	case once:
		n, err = r.glance(p)
	default:
		n, err = r.inner.Read(p)
	}
	if errors.Is(err, io.EOF) {
		err = errTruncated
	}
	return n, err
}

// glance reads what the socket has, whatever deadlines say.
func (r *records) glance(p []byte) (n int, err error) {
	controlErr := r.inner.Control(func(descriptor uintptr) {
		for {
			if n, err = unix.Read(int(descriptor), p); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	switch {
	case controlErr != nil:
		return 0, controlErr
	case errors.Is(err, unix.EAGAIN):
		return 0, errDeadline
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write is for crypto/tls, which holds a lock: it does not wait.
func (r *records) Write(p []byte) (int, error) {
	if r.raw != nil {
		return r.writeDetached(p)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writeErr != nil {
		return 0, r.writeErr
	}
	if r.out == nil {
		r.out = r.stock.lendOut()
	}
	r.out.data = append(r.out.data, p...)
	return len(p), nil
}

// fail is Interrupt.
func (r *records) fail(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == nil {
		r.failure = cause
	}
}

// end says that the connection is closed; false: it was before.
func (r *records) end() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.closed, r.failure = true, net.ErrClosed
	return true
}

// cannotRead is why nothing can be read. What waits here can be read at any
// time, but not past the deadline.
func (r *records) cannotRead(here bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == nil && here && passed(r.readUntil) {
		return errDeadline
	}
	return r.failure
}

// cannotSend is why nothing can be written.
func (r *records) cannotSend() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.failure != nil:
		return r.failure
	case r.shut:
		return unix.EPIPE
	case r.writeErr != nil:
		return r.writeErr
	case passed(r.writeUntil):
		return errDeadline
	}
	return nil
}

func passed(until time.Time) bool { return !until.IsZero() && !time.Now().Before(until) }

// LocalAddr is this end.
func (r *records) LocalAddr() net.Addr {
	if r.raw != nil {
		return r.raw.LocalAddr()
	}
	return r.inner.LocalAddr()
}

// RemoteAddr is the other end.
func (r *records) RemoteAddr() net.Addr {
	if r.raw != nil {
		return r.raw.RemoteAddr()
	}
	return r.inner.RemoteAddr()
}

// Close is for crypto/tls: what is not detached is the TLS's to close.
func (r *records) Close() error {
	if r.raw != nil {
		return r.raw.Close()
	}
	return nil
}

// SetDeadline is for crypto/tls, as Close.
func (r *records) SetDeadline(until time.Time) error {
	if r.raw != nil {
		return r.raw.SetDeadline(until)
	}
	return nil
}

// SetReadDeadline is for crypto/tls, as Close.
func (r *records) SetReadDeadline(until time.Time) error {
	if r.raw != nil {
		return r.raw.SetReadDeadline(until)
	}
	return nil
}

// SetWriteDeadline is for crypto/tls, as Close.
func (r *records) SetWriteDeadline(until time.Time) error {
	if r.raw != nil {
		return r.raw.SetWriteDeadline(until)
	}
	return nil
}
