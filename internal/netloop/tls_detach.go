//go:build unix

package netloop

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// session is a tls.Conn by a name that does not show from outside.
type session = tls.Conn

// DetachedTLS is the net.Conn of a TLS that was detached: the same session, for
// any goroutine. What a TLS says of the end holds for it, too: io.EOF comes
// after close_notify only. Executor.Adopt takes it back, unless its Read has
// been used.
type DetachedTLS struct {
	*session
	tls *TLS // as Detach left it

	mu      sync.Mutex // guards what follows, and what is of who reads in tls
	abandon bool       // Close is to break the connection
}

var (
	_ net.Conn = (*DetachedTLS)(nil)

	errReadDetached = errors.New("TLS that was read from by goroutines cannot be adopted")
)

// Detach takes the socket away from the executor; the caller owns it. What was
// read from it and what waits to be written goes along. It returns a
// *DetachedTLS.
func (t *TLS) Detach() (net.Conn, error) {
	r := &t.records
	if !r.end() {
		return nil, net.ErrClosed
	}
	r.inner.SetWriteDeadline(past) // for an answer that waits for room
	r.settle()
	raw, err := r.inner.Detach()
	if err != nil {
		return nil, errors.Join(err, r.inner.Close())
	}
	r.raw = raw
	return &DetachedTLS{session: t.conn, tls: t}, nil
}

// settle waits until no task writes.
func (r *records) settle() {
	for {
		idle := r.busy()
		if idle == nil || idle.Wait(time.Time{}) != nil { // or all is over
			return
		}
	}
}

// busy is what happens when no task writes any more; nil: none does.
func (r *records) busy() Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.flushing {
		return nil
	}
	return r.whenIdle()
}

// adopt makes it a Conn of the executor whose task calls.
func (d *DetachedTLS) adopt(x Executor) (Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := d.tls
	r := &old.records
	if r.unframed {
		return nil, errors.Join(errReadDetached, r.raw.Close())
	}
	inner, err := x.Adopt(r.raw)
	if err != nil {
		return nil, err
	}
	// Another TLS, so that who still has the old one does nothing to this.
	t := &TLS{conn: old.conn, shaken: old.shaken, stash: old.stash, stashed: old.stashed, full: old.full, readErr: old.readErr}
	t.stage.Store(old.stage.Load())
	t.port = old.port
	t.records.init(inner)
	t.records.move(r)
	t.port.records = &t.records
	return t, nil
}

// move takes over what has come and what is to be written.
func (r *records) move(from *records) {
	r.data, r.header, r.headed, r.left = from.data, from.header, from.headed, from.left
	r.out, r.sent, r.writeErr, r.alerted, r.shut = from.out, from.sent, from.writeErr, from.alerted, from.shut
}

// readDetached reads what has come before, then from the socket, as much as
// crypto/tls likes.
func (r *records) readDetached(p []byte) (int, error) {
	if len(r.data) > 0 {
		n := copy(p, r.data)
		if r.data = r.data[n:]; len(r.data) == 0 {
			r.release()
		}
		return n, nil
	}
	n, err := r.raw.Read(p)
	if errors.Is(err, io.EOF) {
		err = errTruncated
	}
	return n, err
}

// writeDetached writes, after what stood to be written before.
func (r *records) writeDetached(p []byte) (int, error) {
	if b := r.out; b != nil { // of one goroutine: crypto/tls holds its lock
		r.out = nil
		if _, err := r.raw.Write(b.data[b.from:]); err != nil {
			return 0, err
		}
		r.stock.giveOut(b)
	}
	return r.raw.Write(p)
}

// Read reads what is there.
func (d *DetachedTLS) Read(p []byte) (int, error) {
	if n, err := d.before(p); n > 0 || err != nil {
		return n, err
	}
	n, err := d.session.Read(p)
	if errors.Is(err, errTruncated) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// before reads what was read before Detach.
func (d *DetachedTLS) before(p []byte) (n int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tls.records.unframed = true
	if n = d.tls.unstash(p); n == 0 {
		err = d.tls.readErr
	}
	return n, err
}

// CloseWrite sends close_notify and ends the writing side.
func (d *DetachedTLS) CloseWrite() error {
	err := d.session.CloseWrite()
	if half, ok := d.NetConn().(interface{ CloseWrite() error }); ok {
		err = errors.Join(err, half.CloseWrite())
	}
	return err
}

// SetLinger is that of a net.TCPConn, where the socket is one. With 0 the coming
// Close sends no close_notify either: what was sent does not look whole.
func (d *DetachedTLS) SetLinger(seconds int) error {
	d.mu.Lock()
	d.abandon = seconds == 0
	d.mu.Unlock()
	if tcp, ok := d.NetConn().(*net.TCPConn); ok {
		return tcp.SetLinger(seconds)
	}
	return nil
}

// Close sends close_notify, for which it waits some seconds at most, and closes.
func (d *DetachedTLS) Close() error {
	d.mu.Lock()
	abandon := d.abandon
	d.mu.Unlock()
	if abandon {
		return d.NetConn().Close()
	}
	return d.session.Close()
}

// NetConn is the socket below. It has no part in what is buffered above it.
func (d *DetachedTLS) NetConn() net.Conn { return d.tls.records.raw }
