package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
	"sluice/internal/wire"
)

// fieldRoom is how many fields have room in an exchange: of the request, then of
// what is made from it. More are allocated.
const fieldRoom = 32

// exchange is an exchange of the engine, with all that belongs to it in one
// piece of memory, which nothing uses again: a middleware may keep any of it. It
// belongs to the connection's task, but for what content guards and what goes
// through out.
type exchange struct {
	pipeline.Exchange
	client  *client
	ctx     netloop.Context
	request message.Request
	framing wire.Framing // of the request
	content content      // its body
	out     door         // to the client's socket

	begun  bool // something of the response may have gone out
	failed bool // the response tells an error
	closes bool // the connection ends with the response, as its head says

	fields [fieldRoom]message.Field
}

// newExchange returns an exchange that has not begun.
func newExchange(c *client, in *input) *exchange {
	e := &exchange{client: c}
	e.request.Fields = e.fields[:0]
	e.request.Scheme = "http"
	if c.security != nil {
		e.request.Scheme, e.ClientCertificate = "https", c.security.certificate
	}
	e.Request = &e.request
	e.Peer, e.Local = c.peer, c.local
	e.ctx.Init(c.conn.Executor())
	e.content.exchange, e.content.in = e, in
	return e
}

var (
	// errNoRequest is a connection that ends without another request.
	errNoRequest = errors.New("the client closed between requests")
	// errLineEnd is an empty line and nothing behind it, which some clients send
	// after a body (RFC 9112 2.2): the connection is at rest.
	errLineEnd = errors.New("an empty line between requests")
)

// readHead reads the head of a request. Its errors are errNoRequest, a
// *wire.Error, io.EOF where the client closed its side in the middle,
// os.ErrDeadlineExceeded, or the connection's.
func (e *exchange) readHead(in *input) error {
	m := e.client.listener.model.Load()
	e.Listener = m
	limits := limitsOf(m)
	var scan wire.Scan
	timed := false
	if in.buffered() == 0 {
		if e.client.lineEnd { // it is read with what is behind it, as if both had come together
			in.put("\r\n")
			e.client.lineEnd = false
		}
		// The handler is called when something is there: this does not wait, but
		// over TLS for the rest of a record.
		if e.client.security != nil && m.Timeouts.ReadHeader > 0 {
			timed = true
			in.conn.SetReadDeadline(time.Now().Add(m.Timeouts.ReadHeader))
		}
		if err := in.fill(); err != nil {
			return errNoRequest
		}
	}
	e.Start = time.Now()
	if !in.since.IsZero() {
		e.Start, in.since = in.since, time.Time{}
	}
	e.Init(&e.ctx, e.client.peerText)
	for {
		n, framing, err := wire.RequestHead(&e.request, in.bytes(), &scan, limits)
		if err != nil {
			return err
		}
		if n > 0 {
			e.framing = framing
			e.parcel()
			if framing.Length != 0 { // of a body there, or not known
				e.content.begin(m, limits, n)
			}
			in.use(n)
			if timed {
				in.conn.SetReadDeadline(time.Time{})
			}
			return nil
		}
		if string(in.bytes()) == "\r\n" {
			in.use(len("\r\n"))
			e.client.lineEnd = true
			return errLineEnd
		}
		if !timed && m.Timeouts.ReadHeader > 0 {
			timed = true
			in.conn.SetReadDeadline(e.Start.Add(m.Timeouts.ReadHeader))
		}
		if err := in.fill(); err != nil {
			if onlyLineEnd(in.bytes()) {
				return errNoRequest
			}
			return err
		}
	}
}

// parcel leaves the room that the request's fields do not take, nor its id, to
// what is added to them, and to what is made from the request.
func (e *exchange) parcel() {
	fields := e.request.Fields
	if end := len(fields) + 1; cap(fields) == fieldRoom && end <= fieldRoom {
		e.request.Fields = fields[:len(fields):end]
		e.GiveRoom(e.fields[:end])
	}
}

// onlyLineEnd tells whether nothing of a request has come but the empty line
// that may stand before it (RFC 9112 2.2).
func onlyLineEnd(data []byte) bool { return string(data) == "\r\n" || string(data) == "\r" }

func limitsOf(m *model.Listener) wire.Limits {
	return wire.Limits{HeaderBytes: int(m.Limits.HeaderBytes), Headers: m.Limits.Headers, URIBytes: int(m.Limits.URIBytes)}
}

// refuse answers what is no request, and parts.
func (e *exchange) refuse(refusal *pipeline.Error) {
	refusal.Close = true
	if e.request.Protocol == "" {
		e.request.Protocol = message.HTTP11
	}
	e.client.conn.SetReadDeadline(time.Time{})
	e.client.exchange.Store(e)
	e.client.active.Store(true)
	e.fail(refusal)
	cut := e.respond()
	e.over()
	if !cut {
		e.client.part()
	}
}

// lost notes a connection that broke in the middle of a head: the client's doing,
// or ours where the listener ends.
func (e *exchange) lost(err error) {
	why := pipeline.NewError(pipeline.ClientClosed, fmt.Errorf("%w: %w", pipeline.ErrClientGone, err))
	if errors.Is(err, errEnding) || errors.Is(err, netloop.ErrStopped) {
		why = pipeline.NewError(pipeline.Overloaded, errStopped)
	}
	pipeline.Fail(&e.Exchange, why)
	_ = e.Response.Close() // nobody reads it
	e.client.listener.done(&e.Exchange)
}

// run serves the exchange; false says that the connection is not to be used for
// another.
func (e *exchange) run() bool {
	c := e.client
	c.exchange.Store(e)
	c.active.Store(true)
	e.watch()
	if e.content.none() {
		e.content.in.spare()
	}
	if e.request.Protocol == message.HTTP11 {
		e.Informer = e
	}
	if err := e.serve(); err != nil {
		e.fail(err)
	}
	if e.Response != nil && e.Response.Tunnel != nil && e.fits() {
		return e.upgrade()
	}
	cut := e.respond()
	reuse := e.over() && !cut
	switch {
	case cut:
		return false
	case reuse && !e.closes:
		return true
	case !reuse || !e.asked() || e.content.in.buffered() > 0 || arrived(c.conn.Control): // else nothing more is sent
		c.part()
	}
	return false
}

// asked tells whether the client asked for the end of the connection, and so may
// send nothing more (RFC 9112 9.6). One of HTTP/1.0 says nothing, and some send
// an empty line behind a body (RFC 9112 2.2).
func (e *exchange) asked() bool {
	return e.framing.Close && e.request.Protocol == message.HTTP11
}

// watch lets the exchange end when the client leaves, also while it waits for something
// else than the client's body.
func (e *exchange) watch() {
	e.client.conn.WatchHangup(e.client.hungUp, !e.Listener.HalfClose)
}

// serve calls the service. A panic becomes an error.
func (e *exchange) serve() (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = e.recovered(value)
		}
	}()
	return e.client.listener.service.Serve(&e.Exchange)
}

func (e *exchange) recovered(value any) error {
	return e.client.listener.recovered(&e.Exchange, value)
}

// fail makes an error the response.
func (e *exchange) fail(err error) {
	e.failed = true
	e.client.listener.fail(&e.Exchange, e.blame(err))
}

// note records an error that no response can tell any more. The first one is
// what ended the exchange.
func (e *exchange) note(err error) {
	if e.Err == nil {
		e.Err = pipeline.AsError(e.blame(err))
	}
}

// blame returns the error behind an error: where the client's body failed or
// the gateway stops, what a handler made of that is not the cause.
func (e *exchange) blame(err error) error {
	if own := e.content.failure(); own != nil {
		return own
	}
	if cause := e.ctx.Err(); errors.Is(cause, errStopped) {
		return cause
	}
	return err
}

// over ends what the exchange has under way, says so to the service, and brings
// the connection to the end of the request, if that is worth it. It tells
// whether another request can follow.
func (e *exchange) over() (reusable bool) {
	c := e.client
	e.content.finish()
	c.conn.WatchHangup(nil, false)
	c.conn.SetWriteDeadline(time.Time{})
	e.BytesIn = e.content.count()
	c.exchange.Store(nil)
	c.active.Store(false)
	e.ctx.Cancel(context.Canceled)
	c.listener.done(&e.Exchange)
	return e.content.settled(!e.closes)
}
