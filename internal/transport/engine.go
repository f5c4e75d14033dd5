package transport

import (
	"context"
	"io"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/message"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
	"sluice/internal/wire"
)

// Engine is where attempts are made without net/http: as tasks of executors.
type Engine struct {
	executors       []netloop.Executor
	fallback        netloop.Executor
	buffers, pieces sync.Pool
}

// NewEngine makes attempts whose context is a *netloop.Context of one of the
// executors by that one: RoundTrip is called by its tasks then, and its response
// is read by them, too. All other attempts are of fallback, which is a driver of
// goroutines, and are made on whatever goroutine they come. It may be among the
// executors.
//
// Tasks of the executors that send a request's body read it while another waits
// for the response; such a body's Close wakes who reads it.
func NewEngine(executors []netloop.Executor, fallback netloop.Executor) *Engine {
	return &Engine{executors: executors, fallback: fallback}
}

// pool sends attempts to one endpoint by an engine, and holds the connections to
// it: a shelf of idle ones for each executor.
type pool struct {
	*way
	engine        *Engine
	name, address string // what a dialer needs
	literal       bool   // address needs no resolution
	maxIdle       int64  // 0: any number
	idleTimeout   time.Duration
	shelves       map[netloop.Executor]*shelf
	fallback      *shelf
	idle          atomic.Int64 // connections on shelves
	released      atomic.Bool
	queue         queue
}

func newPool(w *way, engine *Engine) *pool {
	p := &pool{
		way: w, engine: engine, maxIdle: int64(w.settings.MaxIdle), idleTimeout: w.settings.IdleTimeout,
		shelves: map[netloop.Executor]*shelf{},
	}
	p.queue.max, p.queue.maxPending = w.settings.MaxConnections, w.settings.MaxPending
	p.name, p.address = network(w.endpoint)
	_, err := netip.ParseAddrPort(p.address)
	p.literal = err == nil || p.name == "unix"
	for _, executor := range engine.executors {
		p.shelves[executor] = &shelf{pool: p, executor: executor}
	}
	if p.fallback = p.shelves[engine.fallback]; p.fallback == nil {
		p.fallback = &shelf{pool: p, executor: engine.fallback}
		p.shelves[engine.fallback] = p.fallback
	}
	p.fallback.foreign = true
	p.observer = contained(p.observer, p.contain)
	return p
}

// Release closes what is idle. What is under way goes on, and its connections
// close with it.
func (p *pool) Release() {
	p.released.Store(true)
	for _, s := range p.shelves {
		s.executor.Post(s.clear) // else the executor has stopped, and closed them
	}
}

// shelfOf is where an attempt belongs; own tells that its end wakes it exactly.
func (p *pool) shelfOf(ctx context.Context) (s *shelf, own bool) {
	if c, ok := ctx.(*netloop.Context); ok {
		if executor := c.Executor(); executor != nil {
			if s := p.shelves[executor]; s != nil {
				return s, true
			}
		}
	}
	return p.fallback, false
}

// RoundTrip does what pipeline.Transport asks for. A request that went to a
// reused connection which turned out to be dead is sent again on a new one,
// once, where that is safe (RFC 9110 9.2.2).
func (p *pool) RoundTrip(ctx context.Context, try *pipeline.Attempt) error {
	shelf, own := p.shelfOf(ctx)
	body := try.Request.Body
	if body != nil && try.Request.Length == 0 {
		_ = body.Close() // nothing will be read of it
		body = nil
	}
	buffer := p.engine.takeBuffer()
	request, err := wire.AppendRequestHead(buffer[:0], try.Request, framingOf(try.Request, body))
	if err != nil {
		err = pipeline.NewError(pipeline.BadRequest, err)
	}
	if err == nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	var l *link
	if err == nil {
		l, err = p.acquire(ctx, shelf, try.Watch, introduction(p.proxyProtocol, try))
	}
	if err != nil {
		p.engine.buffers.Put(buffer)
		if body != nil {
			_ = body.Close() // the error at hand is the one to tell
		}
		return err
	}
	l.begin(ctx, own, try, buffer, request)
	return p.exchange(l, body)
}

// exchange does an attempt that has a connection, and perhaps another after it.
func (p *pool) exchange(l *link, body io.ReadCloser) error {
	returned := false
	defer func() {
		if !returned { // a body or an informer panics, which goes on
			l.giveUp()
		}
	}()
	err := l.carry(body)
	if err != nil && l.mayReplay(err) {
		var next *link
		if next, err = p.replace(l); err != nil {
			returned = true
			return err
		}
		l = next
		err = l.ask()
	}
	if err != nil {
		err = l.fail(err)
	}
	returned = true
	return err
}

// framingOf says how a request's body goes out.
func framingOf(request *message.Request, body io.ReadCloser) wire.Framing {
	switch {
	case body == nil:
		return wire.Framing{}
	case request.Length < 0:
		return wire.Framing{Body: wire.ChunkedBody, Length: message.Unknown}
	}
	return wire.Framing{Body: wire.Sized, Length: request.Length}
}
