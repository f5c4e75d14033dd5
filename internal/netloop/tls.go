//go:build unix

package netloop

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// TLS is a Conn that speaks TLS (RFC 8446, RFC 5246) over another one, by
// crypto/tls. It keeps what a Conn promises, with these words to it:
//
//   - Handshake comes first; reading and writing before it fails.
//   - Read returns io.EOF after the peer's close_notify only. A connection that
//     ends without is cut: io.ErrUnexpectedEOF.
//   - Bytes may have been read from the inner Conn, or even deciphered, that no
//     Read has returned. An executor wakes a connection at rest for what is new
//     on its socket: it may come to rest only where Pending is false.
//   - ReadInto and WriteFrom fail with errors.ErrUnsupported.
//   - What Write counts is enciphered, and will be sent before anything else.
//     After a passed deadline some of it may wait here, as Unsent tells, until
//     another Write, be it of nothing.
//   - Detach returns a *DetachedTLS, which Adopt takes back.
//   - The inner Conn's Data is its own, too.
//
// At rest it has no buffer but what crypto/tls keeps. Code of crypto/tls never
// waits for the peer to take bytes, since it holds locks that a task of the same
// loop may ask for: a reader that must answer a new key while a writer waits.
type TLS struct {
	records records
	port    *port
	conn    *tls.Conn
	stage   atomic.Uint32 // of the handshake: fresh, ready or failed
	shaken  error         // what it came to

	// What follows is of who reads.
	stash   [1]byte // read to learn whether anything is there
	stashed bool
	full    bool  // the last read filled what it was given: more may be deciphered
	readErr error // what every Read returns from now on
}

var (
	_ Conn = (*TLS)(nil)

	errNoHandshake = errors.New("TLS without a handshake")
	errNoSplice    = fmt.Errorf("splice through TLS: %w", errors.ErrUnsupported)
)

const (
	fresh uint32 = iota
	ready
	failed
)

// ServeTLS is a server's side of TLS over inner, which belongs to it from now
// on. early is what was read from inner already; it is copied. Callbacks of
// config run in the task that calls Handshake: what may block in them goes
// through BlockIn. Nothing is read or written before Handshake.
func ServeTLS(inner Conn, early []byte, config *tls.Config) *TLS {
	t := newTLS(inner)
	t.records.put(early)
	t.conn = tls.Server(t.port, config)
	return t
}

// DialTLS is ServeTLS for a client's side. config names the server, or says that
// it is not verified; renegotiation is never allowed.
func DialTLS(inner Conn, config *tls.Config) *TLS {
	if config.Renegotiation != tls.RenegotiateNever {
		config = config.Clone() // a reader would hold the lock of handshakes while it waits
		config.Renegotiation = tls.RenegotiateNever
	}
	t := newTLS(inner)
	t.conn = tls.Client(t.port, config)
	return t
}

func newTLS(inner Conn) *TLS {
	t := &TLS{}
	t.records.init(inner)
	t.port = &port{&t.records}
	return t
}

// BlockIn runs f, which may block, from a callback of a tls.Config that was
// given conn (tls.ClientHelloInfo.Conn): by Executor.Block where conn is of a
// TLS here, so that a loop goes on meanwhile, and plainly elsewhere.
func BlockIn(conn net.Conn, f func()) {
	if p, ok := conn.(*port); ok && p.raw == nil {
		p.inner.Executor().Block(f)
		return
	}
	f()
}

// Handshake shakes hands, until a deadline; the zero time is none. It leaves
// both deadlines of the connection unset. Its error is a *HandshakeError. A
// second call does nothing, and returns the same.
//
// After an error the connection is to be closed: the peer was sent an alert, if
// it could be sent at once, and the end. Where HandshakeError.Plain says that the
// peer speaks no TLS, nothing was sent: Inner can tell it so.
func (t *TLS) Handshake(deadline time.Time) error {
	if t.stage.Load() != fresh {
		return t.shaken
	}
	t.SetReadDeadline(deadline)
	t.SetWriteDeadline(deadline)
	t.records.begin(await)
	t.records.shaking = true
	err := t.conn.HandshakeContext(context.Background()) // one that ends would cost a goroutine
	t.records.shaking = false
	if err == nil {
		err = t.records.flush()
	}
	t.SetReadDeadline(time.Time{})
	t.SetWriteDeadline(time.Time{})
	if err != nil {
		failure := t.handshakeError(err)
		if failure.Plain == nil {
			t.part()
		}
		t.shaken = failure
		t.stage.Store(failed)
		return failure
	}
	t.stage.Store(ready)
	return nil
}

func (t *TLS) ready() bool { return t.stage.Load() == ready }

// ConnectionState says what the handshake came to; the zero value before its
// end.
func (t *TLS) ConnectionState() tls.ConnectionState {
	if !t.ready() {
		return tls.ConnectionState{} // crypto/tls would wait for it
	}
	return t.conn.ConnectionState()
}

// Inner is the Conn below, for what is said in clear after a handshake that
// failed, and for its socket.
func (t *TLS) Inner() Conn { return t.records.inner }

// ReadInto is not possible: bytes must be deciphered.
func (t *TLS) ReadInto(*Pipe, int64) (int, error) { return 0, errNoSplice }

// WriteFrom is not possible: bytes must be enciphered.
func (t *TLS) WriteFrom(*Pipe) (int, error) { return 0, errNoSplice }

// SetReadDeadline bounds the waiting for bytes.
func (t *TLS) SetReadDeadline(until time.Time) {
	t.records.mu.Lock()
	t.records.readUntil = until
	t.records.mu.Unlock()
	t.records.inner.SetReadDeadline(until)
}

// SetWriteDeadline bounds the waiting for room.
func (t *TLS) SetWriteDeadline(until time.Time) {
	t.records.mu.Lock()
	t.records.writeUntil = until
	t.records.mu.Unlock()
	t.records.inner.SetWriteDeadline(until)
}

// WatchHangup watches the socket: a peer's close_notify comes with its end
// mostly, and shows in reading only.
func (t *TLS) WatchHangup(f func(), half bool) { t.records.inner.WatchHangup(f, half) }

// Interrupt lets waits return cause.
func (t *TLS) Interrupt(cause error) {
	t.records.fail(cause)
	t.records.inner.Interrupt(cause)
}

// Control calls f with the socket's descriptor.
func (t *TLS) Control(f func(descriptor uintptr)) error { return t.records.inner.Control(f) }

// LocalAddr is this end.
func (t *TLS) LocalAddr() net.Addr { return t.records.inner.LocalAddr() }

// RemoteAddr is the other end.
func (t *TLS) RemoteAddr() net.Addr { return t.records.inner.RemoteAddr() }

// Executor is whose connection it is.
func (t *TLS) Executor() Executor { return t.records.inner.Executor() }

// SetData keeps something of the caller's.
func (t *TLS) SetData(data any) { t.records.inner.SetData(data) }

// Data is what SetData was given.
func (t *TLS) Data() any { return t.records.inner.Data() }

// tlsStock is where buffers are lent from, for as long as bytes pass: a driver's.
// They hold what is on the wire, nothing in clear.
type tlsStock struct{ in, out sync.Pool }

// tlsStock is the driver's.
func (s *Goroutines) tlsStock() *tlsStock { return &s.tls }

// stocked is an executor that lends buffers.
type stocked interface{ tlsStock() *tlsStock }

// stockOf is the stock of an executor.
func stockOf(x Executor) *tlsStock {
	if x, ok := x.(stocked); ok {
		return x.tlsStock()
	}
	return &tlsStock{}
}

const (
	// receiveBytes is how much is read at a time where it is not known how much
	// there is.
	receiveBytes = 4 << 10
	// directBytes is the least part of a record that is read where crypto/tls
	// wants it.
	directBytes = 1 << 10
	// sealBytes is how much is enciphered before it is written: two records of
	// the largest kind.
	sealBytes = 32 << 10
	// mostStanding is how many bytes may stand to be written where a peer takes
	// nothing, but asks for new keys all the time: two Writes' worth, of which
	// one at most was written.
	mostStanding = 2 * sealBytes
)

// received is a buffer for what comes.
type received [receiveBytes]byte

// sealed are bytes to be written, from from on.
type sealed struct {
	data []byte
	from int
}

// rest is how many bytes those are.
func (b *sealed) rest() int { return len(b.data) - b.from }

func (s *tlsStock) lendIn() *received {
	if b, ok := s.in.Get().(*received); ok {
		return b
	}
	return new(received)
}

func (s *tlsStock) lendOut() *sealed {
	if b, ok := s.out.Get().(*sealed); ok {
		return b
	}
	return &sealed{data: make([]byte, 0, sealBytes+sealBytes/16)}
}

func (s *tlsStock) giveOut(b *sealed) {
	b.data, b.from = b.data[:0], 0
	s.out.Put(b)
}
