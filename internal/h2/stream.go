package h2

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// stream is a request with its response (RFC 9113 5.1). One piece of memory holds
// what belongs to it, and nothing of it is used again. But for what says
// otherwise the connection's mu guards it.
type stream struct {
	conn    *Conn
	id      uint32
	began   time.Time
	request *http.Request // these four are set before the handler runs
	target  url.URL
	cancel  context.CancelCauseFunc
	handler http.Handler

	gone error // the stream is over, and this is why

	// What the client sends.
	inbox    inbox
	credit   int64 // what it may still send
	eaten    int64 // what was read and not given back yet
	length   int64 // that it announced, or -1
	received int64
	ended    bool // END_STREAM came
	unwanted bool // the handler closed the body
	proceed  bool // the client waits for 100
	trailer  []hpack.HeaderField
	readable sync.Cond
	reading  limit

	// What goes to the client.
	window   int64
	pending  []byte // the handler's own, while it waits
	final    bool   // and the response ends with it
	queued   bool
	next     *stream
	begun    bool // the head is out
	finished bool // END_STREAM is out
	mark     int  // where in out the last frame of the response begins
	markTurn uint64
	writable sync.Cond
	writing  limit
	progress time.Time // when the client took something last, while something waits
	stall    *time.Timer
	watched  bool // stall runs

	body     body
	response response
}

// newStream makes a stream that is not open yet.
func newStream(c *Conn, id uint32, window int64) *stream {
	s := &stream{conn: c, id: id, began: time.Now(), window: window, credit: int64(c.options.StreamWindow), length: -1, handler: c.options.Handler}
	s.readable.L, s.writable.L = &c.mu, &c.mu
	s.body.stream, s.response.stream = s, s
	s.response.declared = -1
	return s
}

// start takes a stream up. The caller holds mu.
func (c *Conn) start(s *stream) {
	c.streams[s.id] = s
	c.open++
	c.active++
	if c.running >= c.options.MaxConcurrentStreams { // handlers of streams that were reset still run
		c.waiting = append(c.waiting, s)
		return
	}
	c.work(s)
}

// kill ends a stream without a word to the client. The caller holds mu.
func (s *stream) kill(cause error) {
	if s.gone != nil {
		return
	}
	c := s.conn
	s.gone = cause
	s.cancel(cause)
	if c.streams[s.id] == s {
		delete(c.streams, s.id)
		if !s.closed() {
			c.open--
		}
	}
	c.dequeue(s)
	c.refund(s.inbox.drop(c.options.Buffers))
	s.readable.Broadcast()
	s.writable.Broadcast()
	for i, other := range c.waiting {
		if other == s {
			c.waiting = append(c.waiting[:i], c.waiting[i+1:]...)
			c.lapse(s, cause)
			c.left()
			return
		}
	}
}

// closed tells whether both sides have said all.
func (s *stream) closed() bool { return s.ended && s.finished }

// left counts a stream whose handler has returned, or never runs.
func (c *Conn) left() {
	if c.active--; c.active == 0 {
		c.clock.rest, c.clock.untidy = time.Now(), true
		c.clock.set(c.clock.rest)
		c.depart()
	}
}

// endRemote notes the client's END_STREAM.
func (s *stream) endRemote() {
	s.ended = true
	s.readable.Broadcast()
	if s.finished {
		s.conn.open--
	}
}

// endLocal notes that END_STREAM is out.
func (s *stream) endLocal() {
	s.finished = true
	if s.ended {
		s.conn.open--
	}
}

// reset ends a stream with RST_STREAM. The caller holds mu.
func (s *stream) reset(code http2.ErrCode, cause error) {
	if s.gone != nil {
		return
	}
	_ = s.conn.framer.WriteRSTStream(s.id, code) // into a buffer
	s.conn.resetHere.add(s.id, s.conn.options.MaxConcurrentStreams)
	s.kill(cause)
}

// fault answers what breaks a rule of a stream. A stream that does not exist
// cannot be reset: before its time that ends the connection, later it is passed
// over.
func (c *Conn) fault(id uint32, rule *ProtocolError) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.live(id)
	switch {
	case s != nil:
		return c.faultStream(s, rule)
	case id == 0 || id > c.maxID || id%2 == 0:
		return rule
	}
	return c.spend(1)
}

// faultStream is fault for a stream that is there, and for who holds mu. A client
// that makes the server reset streams is counted as one that resets them.
func (c *Conn) faultStream(s *stream, rule error) error {
	c.noteStream(rule)
	err := c.hasty(s)
	s.reset(ruleOf(rule).Code, rule)
	if err != nil {
		return err
	}
	return c.reply()
}

func (c *Conn) noteStream(rule error) {
	c.options.Log.Debug("a client broke a rule of HTTP/2 on a stream", "peer", c.remote, "error", rule)
}

// refuse answers a stream that is not taken up.
func (c *Conn) refuse(s *stream, rule error) error {
	if !errors.Is(rule, ErrRefused) {
		c.noteStream(rule)
	}
	c.lapse(s, rule)
	_ = c.framer.WriteRSTStream(s.id, ruleOf(rule).Code) // into a buffer
	c.resetHere.add(s.id, c.options.MaxConcurrentStreams)
	if err := c.hasty(s); err != nil {
		return err
	}
	return c.reply()
}

// resetStreams remembers streams that were reset here, of which frames may still be under
// way (RFC 9113 5.1), as far as memory allows.
type resetStreams struct {
	ids  []uint32
	next int
}

func (r *resetStreams) add(id uint32, most int) {
	if len(r.ids) < most {
		r.ids = append(r.ids, id)
		return
	}
	r.ids[r.next] = id
	r.next = (r.next + 1) % len(r.ids)
}

func (r *resetStreams) has(id uint32) bool {
	for _, other := range r.ids {
		if other == id {
			return true
		}
	}
	return false
}

// limit is a time by which waiting ends.
type limit struct {
	at    time.Time // zero: none
	timer *time.Timer
}

// set changes the time; who waits looks again.
func (l *limit) set(at time.Time, cond *sync.Cond) {
	l.at = at
	cond.Broadcast()
}

// passed tells whether the time has come.
func (l *limit) passed() bool { return !l.at.IsZero() && !time.Now().Before(l.at) }

// wait waits for a signal, or for the time to come. The caller holds the
// condition's lock.
func (l *limit) wait(cond *sync.Cond) {
	if !l.at.IsZero() {
		left := time.Until(l.at)
		if l.timer == nil {
			l.timer = time.AfterFunc(left, func() {
				cond.L.Lock()
				defer cond.L.Unlock()
				cond.Broadcast()
			})
		} else {
			l.timer.Reset(left)
		}
	}
	cond.Wait()
}

func (l *limit) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
