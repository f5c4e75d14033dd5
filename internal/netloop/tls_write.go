//go:build unix

package netloop

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Write writes all of p, and what earlier calls have left.
func (t *TLS) Write(p []byte) (written int, err error) {
	r := &t.records
	if err := r.cannotSend(); err != nil {
		return 0, err
	}
	if !t.ready() {
		return 0, errNoHandshake
	}
	if err := r.flush(); err != nil {
		return 0, err
	}
	for len(p) > 0 {
		if err := r.cannotSend(); err != nil {
			return written, err
		}
		if err := r.acquire(); err != nil {
			return written, r.sendError(err)
		}
		n, err := t.conn.Write(p[:min(len(p), sealBytes)])
		p, written = p[n:], written+n
		if pumpErr := r.pump(); err == nil {
			err = pumpErr
		}
		if err != nil {
			return written, r.sendError(err)
		}
	}
	return written, nil
}

// Unsent is how many bytes of TLS wait here: after a Write that came to its
// deadline, and while one waits. Together with what waits in the socket's queue
// it falls whenever the peer takes bytes.
func (t *TLS) Unsent() int {
	r := &t.records
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.unwritten
	if r.out != nil {
		n += r.out.rest()
	}
	return n
}

// Sent is how many bytes of TLS were written to this socket, with those of the
// handshake: what the system counts as sent.
func (t *TLS) Sent() int64 {
	t.records.mu.Lock()
	defer t.records.mu.Unlock()
	return t.records.sent
}

// CloseWrite sends close_notify and ends the writing side. It does not wait:
// where there is no room, a task of its own does.
func (t *TLS) CloseWrite() error {
	r := &t.records
	r.mu.Lock()
	if r.failure != nil || r.shut {
		defer r.mu.Unlock()
		return r.failure
	}
	if !t.ready() {
		defer r.mu.Unlock()
		return errNoHandshake
	}
	r.shut = true
	r.mu.Unlock()
	_ = t.conn.CloseWrite() // it fails after an error of writing, which stays
	r.mu.Lock()
	r.finish = true
	r.mu.Unlock()
	r.answer()
	return nil
}

// Close ends the connection. If there is room for it, close_notify is sent.
func (t *TLS) Close() error {
	if !t.records.end() {
		return nil
	}
	if t.ready() {
		if !t.records.told() {
			_ = t.conn.CloseWrite() // it fails after an error of writing
		}
		t.records.flushNow()
	}
	return t.records.inner.Close()
}

// part tells the peer why a handshake failed. It reads what has come: closing
// with bytes unread would break the connection, and the peer might never see it.
func (t *TLS) part() {
	t.records.flushNow()
	_ = t.records.inner.CloseWrite() // it fails where nothing is to be saved
	buffer := t.records.stock.lendIn()
	defer t.records.stock.in.Put(buffer)
	for range partReads {
		if _, err := t.records.glance(buffer[:]); err != nil {
			return
		}
	}
}

// partReads is how many times that is done at most.
const partReads = 16

// Reset ends the connection with RST.
func (t *TLS) Reset() {
	if t.records.end() {
		t.records.inner.Reset()
	}
}

// flush returns when all that was written by crypto/tls is written to the
// socket, by whatever task.
func (r *records) flush() error {
	for {
		claimed, idle, err := r.claim(false)
		switch {
		case err != nil:
			return err
		case claimed:
			return r.pump()
		case idle == nil:
			return nil
		}
		if err := idle.Wait(time.Time{}); err != nil {
			return err
		}
	}
}

// acquire is flush; the caller is the one who writes what comes, and must call
// pump.
func (r *records) acquire() error {
	for {
		claimed, idle, err := r.claim(true)
		switch {
		case err != nil:
			return err
		case !claimed:
			err = idle.Wait(time.Time{})
		case !r.standing():
			return nil
		default:
			err = r.pump()
		}
		if err != nil {
			return err
		}
	}
}

// claim says who writes: the caller, who has set flushing then, or another task,
// whose end idle tells. Without anything to be written nobody does, unless ahead.
func (r *records) claim(ahead bool) (claimed bool, idle Event, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.flushing:
		return false, r.whenIdle(), nil
	case r.writeErr != nil:
		return false, nil, r.writeErr
	case r.out == nil && !ahead:
		return false, nil, nil
	}
	r.flushing = true
	return true, nil, nil
}

// standing tells whether anything is to be written.
func (r *records) standing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.out != nil
}

// whenIdle happens when no task writes any more, for who holds mu.
func (r *records) whenIdle() Event {
	idle := r.inner.Executor().NewEvent()
	r.idle = append(r.idle, idle)
	return idle
}

// pump writes all there is, for the one who has set flushing.
func (r *records) pump() error {
	for {
		b := r.take()
		if b == nil {
			return nil
		}
		n, err := r.inner.Write(b.data[b.from:])
		if r.took(b, n, err); err != nil {
			return err
		}
	}
}

// take is what is to be written; nil: nothing, and the flushing is over.
func (r *records) take() *sealed {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.out
	if r.out = nil; b == nil {
		r.rest()
		return nil
	}
	r.unwritten = b.rest()
	return b
}

// took notes what has become of that. After an error the flushing is over.
func (r *records) took(b *sealed, n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent += int64(n)
	r.unwritten = 0
	if err == nil {
		r.stock.giveOut(b)
		return
	}
	b.from += n
	if later := r.out; later != nil {
		b.data = append(b.data, later.data[later.from:]...)
		r.stock.giveOut(later)
	}
	r.out = b
	if !errors.Is(err, errDeadline) {
		r.writeErr, r.out = err, nil
		r.stock.giveOut(b)
	}
	r.rest()
}

// rest ends the flushing, for who holds mu.
func (r *records) rest() {
	r.flushing = false
	for _, idle := range r.idle {
		idle.Set()
	}
	r.idle = nil
	if r.finish {
		r.finish = false
		_ = r.inner.CloseWrite() // it fails where the connection has ended
	}
}

// answer sends what stands to be written, at once or, where there is no room, by
// a task of its own: the task that calls does not wait. It tells whether too
// much stands.
func (r *records) answer() (flooded bool) {
	if r.flushNow() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out != nil && !r.flushing {
		r.flushing = true
		r.inner.Executor().Go(func() { _ = r.pump() }) // an error stays
	}
	return r.out != nil && r.out.rest() > mostStanding
}

// flushNow writes what there is room for, without waiting. It tells whether
// nothing is left, which it never is while another task writes.
func (r *records) flushNow() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.out == nil && !r.finish {
		return true
	}
	if r.flushing {
		return false
	}
	for r.out != nil {
		n, err := r.push(r.out.data[r.out.from:])
		r.sent += int64(n)
		if r.out.from += n; err == nil && r.out.from < len(r.out.data) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			return false
		}
		r.writeErr = err
		r.stock.giveOut(r.out)
		r.out = nil
	}
	r.rest()
	return true
}

// push writes what there is room for.
func (r *records) push(p []byte) (n int, err error) {
	controlErr := r.inner.Control(func(descriptor uintptr) {
		for {
			if n, err = unix.Write(int(descriptor), p); !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	if controlErr != nil {
		return 0, controlErr
	}
	if err != nil && !errors.Is(err, unix.EAGAIN) {
		err = os.NewSyscallError("write", err)
	}
	return max(n, 0), err
}

// sendError is what an error of writing is to the caller.
func (r *records) sendError(err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		return r.failure
	}
	return err
}

// alert notes that the peer was told of an error of reading.
func (r *records) alert() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.alerted = true
}

// told tells whether it was.
func (r *records) told() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.alerted
}

// dead tells whether every call fails.
func (r *records) dead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failure != nil
}

// endOr is the end of what the peer has sent, or the error of writing that comes
// in its place.
func (r *records) endOr() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writeErr != nil {
		return r.writeErr
	}
	return io.EOF
}
