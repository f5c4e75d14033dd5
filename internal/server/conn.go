package server

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// lingerBytes is the most that a closing connection reads on.
const lingerBytes = 64 << 20

// connKey is the key of the *conn in the context of its requests.
type connKey struct{}

// halfCloser is a connection whose writing side can end alone.
type halfCloser interface{ CloseWrite() error }

// conn is a connection to a client. net/http's server owns it, after a hijack
// the tunnel does: the owner calls Close. Others may kill it at any time.
type conn struct {
	standing
	net.Conn
	listener *Listener

	last      atomic.Bool // no further request may be served
	lingering atomic.Bool // the client may still be sending: Close reads on for a while
	closed    atomic.Bool
	stall     atomic.Int64              // how long a client may take nothing of what is written, in ns; 0: for ever
	until     atomic.Pointer[time.Time] // when it must be written; nil: never
	end       atomic.Pointer[func(cause error)]
	takes     func() // told while a Write waits for a client that takes something; may be nil

	once     sync.Once
	closeErr error
}

// Read notes that something came, and ends the exchange if the connection
// broke. The end of what the client sends is net/http's to interpret.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.busy.Load() {
		c.busy.Store(true)
	}
	switch {
	case err == nil, errors.Is(err, io.EOF), errors.Is(err, os.ErrDeadlineExceeded):
	default:
		c.interrupt(pipeline.ErrClientGone)
	}
	return n, err
}

// Write fails when the client takes nothing for as long as stall says, or at
// until; as long as it takes a byte now and then, Write goes on.
func (c *conn) Write(p []byte) (written int, err error) {
	stall, end := time.Duration(c.stall.Load()), time.Time{}
	if until := c.until.Load(); until != nil {
		end = *until
	}
	var patience patience
	for {
		if err := c.Conn.SetWriteDeadline(deadline(time.Now(), stall/patienceParts, end)); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(p[written:])
		written += n
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || passed(end) || patience.ends(n, netloop.Unsent(c.control)) {
			return written, err
		}
		if patience.parts == 0 && c.takes != nil {
			c.takes()
		}
	}
}

// control calls f with the descriptor.
func (c *conn) control(f func(descriptor uintptr)) error { return control(c.Conn, f) }

// CloseWrite ends the writing side. net/http calls it where the client may not
// have read the last response yet, so Close lingers.
func (c *conn) CloseWrite() error {
	c.lingering.Store(true)
	c.parting.Store(true)
	return c.closeWrite()
}

func (c *conn) source() io.Reader { return c.Conn }

func (c *conn) taking(f func()) { c.takes = f }

func (c *conn) closeWrite() error {
	half, ok := c.Conn.(halfCloser)
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

func (c *conn) part() { _ = c.Conn.SetReadDeadline(time.Now().Add(c.listener.limits.linger)) } // fails on a closed connection only

// Close is the owner's: it closes the connection, after lingering where that is
// due, and takes it off the listener's books. Only the first call counts.
func (c *conn) Close() error {
	c.once.Do(func() {
		c.closed.Store(true)
		if c.lingering.Load() && c.closeWrite() == nil {
			c.linger()
		}
		c.closeErr = c.Conn.Close()
		c.listener.drop(c)
	})
	return c.closeErr
}

// linger reads until the client closes too (RFC 9112 9.6): bytes that arrive at
// a closed socket are answered with a reset, which may take the response from
// the client before it was read.
func (c *conn) linger() {
	c.parting.Store(true)
	if c.Conn.SetReadDeadline(time.Now().Add(c.listener.limits.linger)) != nil {
		return
	}
	if c.listener.ending.Load() { // after the deadline was set: whoever ends the listener looks the other way round
		c.hasten()
	}
	_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes) // any end will do
}

// hasten bounds the lingering.
func (c *conn) hasten() {
	_ = c.Conn.SetReadDeadline(time.Now().Add(c.listener.limits.answer)) // fails on a closed connection only
}

// pending tells whether something has arrived that nobody has read yet.
func (c *conn) pending() bool { return arrived(c.control) }

// retire does nothing: the next response says so.
func (c *conn) retire() {}

// closeIdle closes the connection, unless something has arrived.
func (c *conn) closeIdle() {
	if !c.pending() {
		c.kill(false)
	}
}

// kill closes the connection under its owner, which sees an error and closes
// in turn.
func (c *conn) kill(reset bool) {
	if reset {
		c.reset()
	}
	_ = c.Conn.Close() // the owner sees what becomes of it
}

// reset makes the coming close a reset, so that a response that ends with the
// connection does not look whole.
func (c *conn) reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails on a closed connection only
	}
}

// interrupt ends the exchange under way, if there is one.
func (c *conn) interrupt(cause error) {
	if end := c.end.Load(); end != nil {
		(*end)(cause)
	}
}
