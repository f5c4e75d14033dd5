package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"sluice/internal/pipeline"
)

// adapter serves net/http's requests by the pipeline.
type adapter struct {
	listener   *Listener
	generation *generation
	oversized  bool // its requests have a header past the limits, of which little is left
}

// ServeHTTP passes one exchange through the pipeline and writes its response.
func (a *adapter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, _ := r.Context().Value(connKey{}).(*conn)
	many := multiplexedOf(r)
	if many != nil && many.heads != nil {
		if stream, ok := streamOf(r); ok {
			if !many.heads.begin(stream) {
				panic(http.ErrAbortHandler)
			}
			defer many.heads.end(stream)
		}
	}
	if c != nil && c.closed.Load() {
		panic(http.ErrAbortHandler) // a request that was buffered when the connection ended
	}
	if c != nil {
		c.busy.Store(true) // one that came together with the one before was not read since
	}
	t := newTurn(a, c, many, w, r)
	cut := t.run()
	t.finish(cut)
	if t.hijacked {
		_ = c.Close()
	}
	if cut {
		panic(http.ErrAbortHandler)
	}
}

// turn is an exchange as the adapter sees it: both net/http's side and the
// pipeline's. It belongs to the goroutine of the connection but for what out
// guards.
type turn struct {
	*adapter
	c    *conn        // nil where the connection is one of many exchanges
	many *multiplexed // that one
	w    http.ResponseWriter
	r    *http.Request
	rc   *http.ResponseController
	x    *pipeline.Exchange
	body *body // nil: none

	ctx      context.Context // the exchange's
	cancel   context.CancelCauseFunc
	unfollow func() bool // ends the following of net/http's context; may be nil
	extended string      // the protocol that an extended CONNECT asks for
	failed   bool        // the response tells an error
	closing  bool        // the head said that the connection closes
	hijacked bool        // the connection is ours

	out  sync.Mutex // guards the writing of heads, informational ones too
	sent bool       // the head, or nothing more may be
}

func newTurn(a *adapter, c *conn, many *multiplexed, w http.ResponseWriter, r *http.Request) *turn {
	t := &turn{adapter: a, c: c, many: many, w: w, r: r, rc: http.NewResponseController(w)}
	m := a.listener.model.Load()
	request := newRequest(r)
	if t.extended = extended(r); t.extended == "websocket" {
		asUpgrade(request)
	} else if r.ContentLength != 0 && !withoutBody(t.rc, r, m.Timeouts.ReadHeader) {
		t.body = newBody(t, m)
		request.Body, request.Trailer = t.body, t.body.trailer
		if err := t.rc.EnableFullDuplex(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			panic("BUG: no full duplex: " + err.Error())
		}
	}
	if request.Body == nil {
		request.Length = 0
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	t.ctx, t.cancel = ctx, cancel
	peer := peerNamed(r.RemoteAddr)
	if many != nil {
		peer = many.peer
	}
	t.x = pipeline.NewExchange(ctx, request, m, peer, time.Now())
	if many != nil {
		t.x.Local, t.x.ClientCertificate = many.local, many.certificate
		many.begin(t)
	}
	if r.ProtoAtLeast(1, 1) {
		t.x.Informer = t
	}
	if c != nil {
		end := func(cause error) { cancel(cause) }
		c.end.Store(&end)
		c.active.Store(true)
	}
	if c == nil || !m.HalfClose {
		// net/http's context ends as soon as the client closes its writing side,
		// too; where that is to be served, only a broken connection counts.
		t.unfollow = context.AfterFunc(r.Context(), func() { cancel(t.cause(context.Cause(r.Context()))) }) //nolint:contextcheck // it is over
	}
	return t
}

// cause is why the exchange ends, where net/http's context has ended with why.
func (t *turn) cause(why error) error {
	if t.body != nil {
		if err := t.body.verdict(); err != nil {
			return err
		}
	}
	if malformed(why) {
		return refusalOver(why)
	}
	return pipeline.ErrClientGone
}

// run serves the exchange and writes its response. cut says that the client
// must see the connection break.
func (t *turn) run() (cut bool) {
	err := t.serve()
	switch {
	case errors.Is(err, http.ErrAbortHandler):
		t.note(err)
		t.listener.dispose(t.x)
		return true
	case err != nil:
		t.fail(err)
	}
	return t.respond()
}

// serve calls the service. A panic becomes an error.
func (t *turn) serve() (err error) {
	if err := t.refusal(); err != nil {
		return err
	}
	defer func() {
		if value := recover(); value != nil {
			err = t.recovered(value)
		}
	}()
	return t.listener.service.Serve(t.x)
}

// refusal is what is no request of the connection's protocol: net/http lets the
// preface of HTTP/2 pass.
func (t *turn) refusal() error {
	switch {
	case t.oversized:
		return pipeline.NewError(pipeline.HeaderTooLarge, errors.New("the header is past the limits"))
	case t.extended != "" && t.extended != "websocket":
		return refuseExtended(t.extended)
	case t.many != nil && unverified(t.x.Listener, t.x.ClientCertificate):
		return refuseUnverified()
	case t.c == nil, t.r.ProtoMajor == 1:
		return nil
	}
	e := pipeline.NewError(pipeline.BadVersion, fmt.Errorf("%s on an HTTP/1.1 connection", t.r.Proto))
	e.Close = true
	return e
}

func (t *turn) recovered(value any) error {
	if err, ok := value.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		return err
	}
	return t.listener.recovered(t.x, value)
}

// fail makes an error the response.
func (t *turn) fail(err error) {
	t.failed = true
	t.listener.fail(t.x, t.blame(err))
}

// note records an error that no response can tell any more. The first one is
// what ended the exchange.
func (t *turn) note(err error) {
	if t.x.Err == nil {
		t.x.Err = pipeline.AsError(t.blame(err))
	}
}

// blame returns the error behind an error: where the client's body failed or
// the gateway stops, what a handler made of that is not the cause.
func (t *turn) blame(err error) error {
	if t.body != nil {
		if own := t.body.failure(); own != nil {
			return own
		}
	}
	if cause := context.Cause(t.ctx); errors.Is(cause, errStopped) {
		return cause
	}
	return err
}

// lost is the error of a response that could not be written.
func (t *turn) lost(err error) error {
	switch {
	case malformed(err):
		return refusalOver(err)
	case passed(until(t.x, t.failed)):
		err = pipeline.NewError(pipeline.UpstreamTimeout, errTotal)
	}
	return lostClient(t.ctx, err)
}

// finish ends everything that the exchange has under way, and says so to the
// service.
func (t *turn) finish(cut bool) {
	t.out.Lock()
	t.sent = true // an informational response that comes late is dropped
	t.out.Unlock()
	if t.unfollow != nil {
		t.unfollow()
	}
	if t.c != nil {
		t.c.end.Store(nil)
		t.c.active.Store(false)
		t.c.stall.Store(0)
		t.c.until.Store(nil)
	}
	var until time.Time
	var interrupted bool
	if t.body != nil {
		until = t.restUntil(cut)
		interrupted = t.body.finish(until)
		t.x.BytesIn = t.body.count()
	}
	t.cancel(nil)
	t.listener.done(t.x)
	if t.many != nil {
		t.many.finish(t)
	}
	if t.body != nil && t.c != nil {
		t.settle(until, cut, interrupted)
	}
}

// restUntil is how long the rest of a request body may take, whoever reads it.
// That of a small one is worth its time where the connection goes on after it.
func (t *turn) restUntil(cut bool) time.Time {
	if t.c == nil || cut || t.closing || !t.body.small() {
		return past()
	}
	return time.Now().Add(t.listener.limits.drain)
}

// settle decides about a request body that was not read to its end. The rest of
// a small one is thrown away, within a time; with any other the connection
// ends, because what follows on it cannot be told from a request.
//
// net/http must not do it: at a body's end it begins to watch the connection
// for the client, and in full duplex that is too late once the handler has
// returned; nor does it look at how the reading ended.
func (t *turn) settle(until time.Time, cut, interrupted bool) {
	if t.body.complete() && !interrupted {
		return
	}
	if interrupted {
		until = past()
	}
	_ = t.rc.SetReadDeadline(until) // fails on a closed connection only
	if cut || t.body.drain() && !interrupted {
		return
	}
	t.c.last.Store(true)
	t.c.lingering.Store(true)
	_ = t.rc.SetReadDeadline(past())
}

// past is a deadline that is over.
func past() time.Time { return time.Unix(1, 0) }

func peerNamed(address string) netip.AddrPort {
	peer, err := netip.ParseAddrPort(address)
	if err != nil {
		return netip.AddrPort{}
	}
	return peer
}
