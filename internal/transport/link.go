package transport

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"sluice/internal/message"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
	"sluice/internal/wire"
)

// link is a connection to an endpoint, and what one attempt after another does
// with it. It belongs to whoever took it from its pool, but for what mu guards.
type link struct {
	pool    *pool
	shelf   *shelf
	conn    netloop.Conn
	secure  *netloop.TLS // conn, where it is encrypted; else nil
	since   time.Time    // when it came to rest
	reused  bool         // it has carried an attempt before
	written int64        // bytes, of all attempts
	// introduction is what was sent before anything else, in clear.
	introduction string

	// What follows is of the attempt under way.
	ctx     context.Context
	try     *pipeline.Attempt
	guard   netloop.Guard
	own     bool    // ctx is the engine's, and so is the body
	target  *target // of the guard, where its end is not exact
	before  int64   // written, when the attempt began
	under   int64   // what was written to the socket by then: another number where it is encrypted
	request []byte  // the head of the request with a small body, until a byte has come or the buffer is given back
	whole   bool    // there is no more of the request
	bare    bool    // it has no body
	sender  *sender // of a larger body; nil: none
	holding bool    // the body is held back for a 100 (Continue)
	seen    bool    // the endpoint may have seen the request on another connection

	buffer   *buffer // nil: given back, for now or for good
	data     []byte  // what came is in data[from:to]
	from, to int
	came     bool // anything has come

	framing  wire.Framing // of the response
	informed int          // informational responses
	closing  bool         // one of them says that the connection closes
	left     int64        // bytes of a sized body that were not read from the connection
	chunked  wire.Chunked
	broken   error // of the chunked coding
	trailer  *message.Fields

	mu         sync.Mutex // guards what follows
	head       time.Time  // when the head of the response must be there; zero: never, or not known yet
	hold       time.Time  // until when the body is held back
	look       time.Time  // when to look whether the endpoint takes what was sent; zero: never
	taken      int64      // what was found then; -1: nothing yet
	readUntil  time.Time  // the deadline that is set
	writeUntil time.Time
}

// target is who is interrupted by the end of a context that may tell of it late:
// the connection, while the attempt has it.
type target struct {
	mu   sync.Mutex
	conn netloop.Conn
}

// Interrupt lets what waits return cause.
func (t *target) Interrupt(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn != nil {
		t.conn.Interrupt(cause)
	}
}

func (t *target) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conn = nil
}

// reuse notes that another attempt takes it.
func (l *link) reuse() {
	l.reused = true
	l.pool.reused()
}

// begin gives the connection to an attempt whose request has this head.
func (l *link) begin(ctx context.Context, own bool, try *pipeline.Attempt, b *buffer, request []byte) {
	l.ctx, l.own, l.try = ctx, own, try
	l.before, l.request, l.whole = l.written, request, false
	if l.under = l.written; l.secure != nil {
		l.under = int64(len(l.introduction)) + l.secure.Sent()
	}
	l.lend(b)
	l.came = false
	l.informed, l.closing, l.seen = 0, false, false
	if own {
		l.guard = netloop.NewGuard(ctx, l.shelf.executor, l.conn)
		return
	}
	l.target = &target{conn: l.conn}
	l.guard = netloop.NewGuard(ctx, l.shelf.executor, l.target)
}

// unguard ends the interruptions.
func (l *link) unguard() {
	l.guard.End()
	if l.target != nil {
		l.target.end()
		l.target = nil
	}
}

// end takes the connection from its attempt.
func (l *link) end() {
	l.unguard()
	l.drain()
	l.ctx, l.try, l.request, l.sender, l.holding = nil, nil, nil, nil, false
	l.chunked, l.broken, l.trailer = wire.Chunked{}, nil, nil
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head, l.hold, l.look = time.Time{}, time.Time{}, time.Time{}
}

// lend gives the attempt a buffer.
func (l *link) lend(b *buffer) { l.buffer, l.data, l.from, l.to = b, b[:], 0, 0 }

// drain gives the buffer back.
func (l *link) drain() {
	if l.buffer != nil {
		l.pool.engine.buffers.Put(l.buffer)
	}
	l.buffer, l.data, l.from, l.to = nil, nil, 0, 0
}

// close closes the connection for good.
func (l *link) close() {
	l.drop()
	l.pool.leave()
}

// drop is close, but another connection may be made in its place.
func (l *link) drop() {
	_ = l.conn.Close() // nothing is to be saved
	l.told()
}

// told says that the connection is closed.
func (l *link) told() { l.pool.closed() }

// receive reads what comes, within the time-outs.
func (l *link) receive(p []byte) (int, error) { return l.receiveInto(nil, p, 0) }

// receiveInto is receive, or the same into a pipe: at most n bytes.
func (l *link) receiveInto(pipe *netloop.Pipe, p []byte, most int64) (n int, err error) {
	l.hasten()
	for {
		if pipe != nil {
			n, err = l.conn.ReadInto(pipe, most)
		} else {
			n, err = l.conn.Read(p)
		}
		if n > 0 && !l.came {
			l.came, l.request = true, nil
		}
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if err := l.overdue(); err != nil {
			return 0, err
		}
	}
}

// hasten sees to it that waiting for bytes ends in time. A deadline that comes
// too early stays: when it has passed is soon enough to set another, so that
// moving it on, as every attempt does, costs nothing.
func (l *link) hasten() {
	l.mu.Lock()
	defer l.mu.Unlock()
	until := l.deadline()
	if until.IsZero() || !l.readUntil.IsZero() && !until.Before(l.readUntil) {
		return
	}
	l.readUntil = until
	l.conn.SetReadDeadline(until)
}

// deadline is until when bytes are waited for; zero: for ever. The caller holds
// the lock.
func (l *link) deadline() time.Time {
	return pipeline.Earlier(pipeline.Earlier(deadlineOf(l.try.Watch), l.head), pipeline.Earlier(l.hold, l.look))
}

// overdue does what is due when a deadline of reading has passed: it is an
// error, the end of holding the body back, or nothing, and the next is set.
func (l *link) overdue() error {
	now := time.Now()
	l.lookOn(now)
	if watch := l.try.Watch; watch != nil {
		if err := watch.Expired(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	head, hold := l.head, l.hold
	if l.holding && !now.Before(hold) {
		l.hold = time.Time{}
	}
	l.readUntil = l.deadline()
	l.conn.SetReadDeadline(l.readUntil)
	l.mu.Unlock()
	switch {
	case !head.IsZero() && !now.Before(head):
		return pipeline.NewError(pipeline.UpstreamTimeout, errors.New("no response within "+l.pool.timeouts.ResponseHeader.String()))
	case l.holding && !now.Before(hold):
		return l.proceed()
	}
	return nil
}

// write writes all of p, within the time-outs of the watch. Bytes that went out
// are counted.
func (l *link) write(p []byte) error {
	until := deadlineOf(l.try.Watch)
	if !until.IsZero() && (l.writeUntil.IsZero() || until.Before(l.writeUntil)) {
		l.writeUntil = until
		l.conn.SetWriteDeadline(until)
	}
	for {
		n, err := l.conn.Write(p)
		l.written += int64(n)
		if p = p[n:]; err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if watch := l.try.Watch; watch != nil {
			if n > 0 {
				watch.Touch()
			}
			if err := watch.Expired(); err != nil {
				return err
			}
		}
		l.writeUntil = deadlineOf(l.try.Watch)
		l.conn.SetWriteDeadline(l.writeUntil)
	}
}

// sent notes that all of the request is on its way.
func (l *link) sent() {
	if l.pool.timeouts.ResponseHeader > 0 {
		l.mu.Lock()
		l.head = time.Now().Add(l.pool.timeouts.ResponseHeader)
		l.mu.Unlock()
	}
}

// complete ends an attempt whose response is there to its end. The connection
// goes on if it can. Nobody touches the link afterwards.
func (l *link) complete() {
	sound := l.settleRequest() && !l.framing.Close && l.from == l.to
	l.end()
	if sound {
		l.pass()
	} else {
		l.close()
	}
}

// settleRequest tells whether all of the request was sent. If not, the
// connection is closed, and the body, too.
func (l *link) settleRequest() bool {
	if l.sender == nil {
		return l.whole
	}
	if l.sender.finish() {
		return true
	}
	l.abort()
	return false
}

// abort ends the sending of a body under way; the connection is of no use any
// more.
func (l *link) abort() {
	l.conn.Interrupt(errStopped)
	l.sender.stop()
}

// fail ends an attempt by an error, and says what it means.
func (l *link) fail(err error) error {
	err = l.failure(err)
	l.giveUp()
	return err
}

// giveUp ends an attempt with its connection.
func (l *link) giveUp() {
	if l.sender != nil {
		l.abort()
	}
	l.end()
	l.close()
}

// failure says what an error means.
func (l *link) failure(err error) error {
	if l.sender != nil {
		if client := l.sender.failure(); client != nil {
			return client
		}
	}
	if l.ctx.Err() != nil {
		return ended(l.ctx)
	}
	var rule *wire.Error
	switch {
	case isKnown(err):
		return err
	case errors.As(err, &rule):
		return pipeline.NewError(pipeline.UpstreamProtocol, err)
	case errors.Is(err, io.EOF):
		err = errCut
	}
	return pipeline.NewError(pipeline.UpstreamReset, err)
}

// errCut is the end of a connection before that of a response.
var errCut = errors.New("the endpoint closed the connection before the end of its response")
