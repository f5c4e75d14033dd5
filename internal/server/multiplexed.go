package server

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"sluice/internal/h2"
	"sluice/internal/message"
	"sluice/internal/model"
)

// multiplexed is a client's connection with many exchanges at once: of HTTP/2,
// or of HTTP/3. Goroutines serve it, and the adapter its exchanges.
type multiplexed struct {
	standing
	listener    *Listener
	peer        netip.AddrPort
	local       func() netip.AddrPort
	certificate *message.ClientCertificate // the client's, verified; nil: none
	retires     func()                     // takes no request any more, as the client is told; those under way finish
	ends        func()                     // ends the connection
	heads       *heads                     // of HTTP/3; nil: of HTTP/2
	lasts       bool                       // it does not end by itself once it is retired

	mu      sync.Mutex
	turns   map[*turn]struct{}
	retired bool
}

var _ member = (*multiplexed)(nil)

// multiplex lets goroutines go on with a connection that turned out to be one of
// HTTP/2.
func (c *client) multiplex(in *input, m *model.Listener) {
	l, local := c.listener, c.localAddress()
	next := &multiplexed{listener: l, peer: c.peer, local: func() netip.AddrPort { return local }, turns: map[*turn]struct{}{}}
	next.name, next.since = c.name, c.since
	options := h2Options(m)
	options.Preface = bytes.Clone(in.bytes())
	if c.security != nil {
		state := c.security.tls.ConnectionState()
		options.TLS, next.certificate = &state, c.security.certificate
		next.verified.Store(next.certificate != nil)
	}
	c.moved = true
	inner, err := c.conn.Detach()
	if err != nil {
		l.drop(c)
		c.unopened(err)
		return
	}
	options.Handler = &adapter{listener: l}
	options.Oversized = &adapter{listener: l, oversized: true}
	options.Refused = func(r *http.Request, why error) { next.refused(r, refusalOver(why)) }
	options.Context = context.WithValue(context.Background(), connKey{}, next)
	options.Buffers, options.Log = l.streams, l.log
	conn := h2.NewConn(inner, options)
	next.retires, next.ends = conn.GoAway, conn.Close
	l.replace(c, next)
	go next.serve(conn, inner, m.Timeouts.MaxAge)
}

// h2Options are the settings of a listener as package h2 has them, where 0 stands
// for a default.
func h2Options(m *model.Listener) h2.Options {
	o := h2.Options{
		IdleTimeout: bounded(m.Timeouts.Idle), ReadHeaderTimeout: bounded(m.Timeouts.ReadHeader), StallTimeout: longestStall,
		MaxHeaderBytes: int(m.Limits.HeaderBytes), MaxFields: m.Limits.Headers,
	}
	if o.MaxFields == 0 {
		o.MaxFields = o.MaxHeaderBytes // each has bytes
	}
	return o
}

// longestStall is how long a client of HTTP/2 may take nothing at all: as long as
// a stream may by default. Routes say less for each response.
const longestStall = 5 * time.Minute

// bounded is a time-out of which 0 is without bound, as package h2 has it.
func bounded(timeout time.Duration) time.Duration {
	if timeout == 0 {
		return -1
	}
	return timeout
}

// serve runs until the connection is over.
func (c *multiplexed) serve(conn *h2.Conn, inner net.Conn, age time.Duration) {
	defer c.listener.drop(c)
	defer func() { _ = inner.Close() }() // it is over
	if age > 0 {
		retiring := time.AfterFunc(jittered(age), c.retire)
		defer retiring.Stop()
	}
	c.catchUp()
	if err := conn.Serve(); err != nil {
		c.listener.log.Debug("a connection of HTTP/2 broke", "listener", c.name, "peer", c.peer, "error", err)
	}
}

// begin takes an exchange into the connection's books.
func (c *multiplexed) begin(t *turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turns[t] = struct{}{}
	c.busy.Store(true)
	c.active.Store(true)
}

// finish takes it off.
func (c *multiplexed) finish(t *turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.turns, t)
	c.served.Store(true)
	c.busy.Store(len(c.turns) > 0)
	c.active.Store(len(c.turns) > 0)
	c.rest()
}

// catchUp retires a connection that is new on the books, if it missed what would
// have retired it.
func (c *multiplexed) catchUp() {
	if c.listener.ending.Load() || unverified(c.listener.model.Load(), c.certificate) {
		c.retire()
	}
}

func (c *multiplexed) retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired {
		return
	}
	c.retired = true
	c.retires()
	c.rest()
}

// rest ends a retired connection when nothing is under way, a moment later so
// that the client gets what was written. c.mu is held.
func (c *multiplexed) rest() {
	if c.lasts && c.retired && len(c.turns) == 0 {
		time.AfterFunc(c.listener.limits.answer, c.ends)
	}
}

// closeIdle is retire: a request that is on its way is still served.
func (c *multiplexed) closeIdle() { c.retire() }

func (c *multiplexed) hasten() {}

func (c *multiplexed) interrupt(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.turns {
		t.cancel(cause)
	}
}

func (c *multiplexed) kill(bool) { c.ends() }

// multiplexedOf is the connection that a request came on, nil for one of
// HTTP/1.1.
func multiplexedOf(r *http.Request) *multiplexed {
	c, _ := r.Context().Value(connKey{}).(*multiplexed)
	return c
}
