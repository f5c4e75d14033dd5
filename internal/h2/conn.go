// Package h2 serves HTTP/2 to one client: it reads frames from a connection,
// makes an http.Request of each stream, has it answered by an http.Handler, and
// writes what that says (RFC 9113, with RFC 7541, RFC 8441 and, as far as a
// server must, RFC 9218). Framing is golang.org/x/net/http2's Framer, the
// compression of fields its hpack; what is here is the connection: its states,
// flow control, limits and time-outs.
//
// It knows nothing of listeners, TLS or ALPN: it is given a connection on which
// HTTP/2 is agreed. It is no client, and it does not push.
//
// One goroutine reads, one writes while there is something to write, and one
// runs for each stream whose handler has not returned. Whatever a client sends,
// memory and work are bounded by the Options: what it may send ahead by windows,
// what it makes the server answer by budgets (see the Err variables).
package h2

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Conn is a connection of a client. Its methods may be called from any
// goroutine, Serve once.
type Conn struct {
	conn    net.Conn
	options Options
	remote  string
	values  context.Context // that requests' contexts begin with

	// The reader's own.
	reader  *bufio.Reader
	framer  *http2.Framer // its writing half belongs to who holds mu
	decoder *hpack.Decoder
	block   block
	names   map[string]string // canonical names that no table has
	slow    bool              // a deadline for a frame or a block is set
	replied bool              // something was put into out and the writer not woken

	lapses atomic.Bool // there are lapsed requests

	mu        sync.Mutex
	quiet     sync.Cond // writing has become false, or a handler has ended
	serving   bool      // Serve was called
	ending    bool      // the reader is to stop; cause says why
	over      bool      // no stream, and nothing of a handler, goes on
	cause     error
	streams   map[uint32]*stream // that are open, or whose handlers have not returned
	open      int                // of these, the open ones
	maxID     uint32             // the last stream that the client has opened
	resetHere resetStreams       // the last of them
	active    int                // streams whose handlers have not returned
	running   int                // handlers that run
	waiting   []*stream          // for a handler to end
	idle      []*worker          // that wait for a stream
	lapsed    []lapsed

	// Writing.
	writing  bool
	failed   bool   // nothing can be written any more
	out      []byte // frames in the order of the wire
	spare    []byte // the other buffer, while none writes
	turn     uint64 // counts the buffers that were given to the connection
	replies  int    // of out, that the client asked for
	deadline time.Time
	encoder  *hpack.Encoder
	window   int64   // that the client gives to the connection
	initial  int64   // and to a new stream
	first    *stream // streams with content to send, and windows for it
	last     *stream
	crowd    []*stream // streams that wait for room in out
	date     string
	dateOf   int64

	// Reading.
	credit  int64 // what the client may still send
	eaten   int64 // what was read and not given back yet
	control budget
	resets  budget

	clock clock
}

// NewConn makes a connection of inner, which it owns from here on.
func NewConn(inner net.Conn, options Options) *Conn {
	options.setDefaults()
	now := time.Now()
	c := &Conn{
		conn: inner, options: options, names: map[string]string{},
		streams: map[uint32]*stream{}, window: initialWindow, initial: initialWindow, credit: int64(options.ConnWindow),
		control: newBudget(controlBurst, controlBank, controlRate, now), resets: newBudget(resetBurst, resetBurst, resetRate, now),
	}
	if address := inner.RemoteAddr(); address != nil {
		c.remote = address.String()
	}
	c.values = context.WithoutCancel(options.Context)
	if address := inner.LocalAddr(); address != nil {
		c.values = context.WithValue(c.values, http.LocalAddrContextKey, address)
	}
	c.quiet.L = &c.mu
	var source io.Reader = inner
	if len(options.Preface) > 0 {
		source = &prefaced{Reader: inner, ahead: options.Preface}
	}
	c.reader = bufio.NewReaderSize(source, 4<<10)
	c.framer = http2.NewFramer(outWriter{c}, c.reader)
	c.framer.SetMaxReadFrameSize(frameSize)
	c.decoder = hpack.NewDecoder(tableSize, c.block.emit)
	c.block.limit(&c.options)
	c.decoder.SetMaxStringLength(c.block.hard)
	c.encoder = hpack.NewEncoder(outWriter{c})
	c.clock.init(c, now)
	return c
}

// tableSize is that of the dynamic tables of both directions (RFC 7541 4.2).
const tableSize = 4096

// prefaced reads what was read ahead first.
type prefaced struct {
	io.Reader
	ahead []byte
}

func (p *prefaced) Read(b []byte) (int, error) {
	if len(p.ahead) == 0 {
		return p.Reader.Read(b)
	}
	n := copy(b, p.ahead)
	p.ahead = p.ahead[n:]
	return n, nil
}

// Serve serves until the connection is over: it is closed, and every handler
// has returned. The error is why it ended: nil if either side ended it in good
// order, a *ProtocolError behind errors.As if the client broke a rule, else one
// that wraps ErrClosed.
func (c *Conn) Serve() error {
	cut := context.AfterFunc(c.options.Context, c.Close)
	defer cut()
	c.mu.Lock()
	c.serving = true
	c.greet()
	c.clock.start()
	c.wake()
	c.mu.Unlock()
	err := c.read()
	c.end(err)
	return err
}

// end tells the client why, ends what is under way, and closes the connection.
func (c *Conn) end(err error) {
	rule := ruleOf(err)
	c.mu.Lock()
	c.clock.stop()
	c.ending, c.over = true, true
	if rule != nil {
		c.options.Log.Debug("a client broke a rule of HTTP/2", "peer", c.remote, "error", err)
		c.sayGoAway(c.clock.lastID(c.maxID), rule.Code, rule.Rule)
	}
	c.forgo(err)
	cause := broken(io.EOF)
	if rule != nil {
		cause = broken(rule)
	}
	for _, s := range c.streams {
		s.kill(cause)
	}
	c.waiting = nil
	c.dismiss()
	polite := err == nil || rule != nil
	if polite {
		// However much waits, the client has to read it within this time.
		_ = c.conn.SetWriteDeadline(time.Now().Add(lingerTime))
		c.wake()
		for c.writing {
			c.quiet.Wait()
		}
	}
	c.mu.Unlock()
	c.report()
	if polite {
		c.linger()
	}
	_ = c.conn.Close() // nothing is to be said any more
	c.mu.Lock()
	for c.writing || c.running > 0 {
		c.quiet.Wait()
	}
	c.mu.Unlock()
}

const (
	// lingerTime is how long a client may take to read the last frames and to
	// close. A close with bytes unread would break the connection before it could.
	lingerTime  = time.Second
	lingerBytes = 1 << 20
)

// linger closes the writing side and throws away what still comes.
func (c *Conn) linger() {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.conn.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c.conn, lingerBytes) // ends as it may
}

// Close cuts the connection. Handlers that run see their contexts end.
func (c *Conn) Close() {
	c.mu.Lock()
	c.ending = true
	if c.cause == nil {
		c.cause = broken(net.ErrClosed)
	}
	c.mu.Unlock()
	_ = c.conn.Close() // it is, then
}

// GoAway ends the connection in good order (RFC 9113 6.8): the client is told to
// begin no more streams; those that it began before it could know are served, and
// then the connection closes.
func (c *Conn) GoAway() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goAway()
}

// interrupt makes the reader end with a cause, nil for good order. The caller
// holds mu.
func (c *Conn) interrupt(cause error) {
	if c.ending {
		return
	}
	c.ending, c.cause = true, cause
	_ = c.conn.SetReadDeadline(time.Unix(1, 0)) // fails on a closed connection, which ends the reader too
}

// setReadDeadline bounds reading, unless it is interrupted.
func (c *Conn) setReadDeadline(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ending {
		_ = c.conn.SetReadDeadline(at) // as above
	}
}

// lost is why reading failed.
func (c *Conn) lost(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var timeout net.Error
	switch {
	case c.ending:
		return c.cause
	case errors.As(err, &timeout) && timeout.Timeout():
		return ErrHeaderTimeout
	case c.open == 0:
		return nil // whoever waits for nothing may go as it likes
	}
	return broken(err)
}
