package proxy

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// watch holds an exchange's forwarding to the route's time-outs. It ends its
// context with upstream_timeout when one is over, with request_timeout where it
// was the client that stalled, and with the exchange's own cause when the client
// leaves. Whoever made it ends it.
type watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limits model.RouteTimeouts
	start  time.Time
	last   atomic.Int64 // when the last byte passed, from start, in nanoseconds
	asking atomic.Bool  // the client is asked for more of its body

	mu       sync.Mutex
	head     bool          // the response's head is there
	ended    bool          // no timer may start any more
	quiet    time.Duration // how long no byte may pass; 0: for ever
	total    *time.Timer
	response *time.Timer
	idle     *time.Timer
}

func newWatch(x *pipeline.Exchange, limits model.RouteTimeouts) *watch {
	w := &watch{limits: limits, start: time.Now(), quiet: limits.Idle}
	w.ctx, w.cancel = context.WithCancelCause(x.Context())
	w.mu.Lock()
	defer w.mu.Unlock()
	if limits.Total > 0 {
		left := limits.Total
		if !x.Start.IsZero() {
			left -= w.start.Sub(x.Start)
		}
		w.total = time.AfterFunc(left, func() { w.cancel(timeout("total_timeout", limits.Total)) })
	}
	if w.quiet > 0 {
		w.idle = time.AfterFunc(w.quiet, w.checkIdle)
	}
	return w
}

// touch notes that a byte passed.
func (w *watch) touch() { w.last.Store(int64(time.Since(w.start))) }

// ask notes that the client is asked for more of its body: the endpoint has
// taken what came before, which counts as bytes that passed.
func (w *watch) ask() {
	w.touch()
	w.asking.Store(true)
}

// checkIdle runs when the time without a byte may be over.
func (w *watch) checkIdle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended || w.quiet == 0 {
		return
	}
	left := w.quiet - (time.Since(w.start) - time.Duration(w.last.Load()))
	if left <= 0 {
		w.cancel(w.stalled())
		return
	}
	w.idle.Reset(left)
}

// stalled is the error of the time without a byte: the client's fault if nothing
// but its body was waited for. The caller holds the lock.
func (w *watch) stalled() error {
	if w.head || !w.asking.Load() {
		return timeout("idle_timeout", w.quiet)
	}
	e := pipeline.NewError(pipeline.RequestTimeout, fmt.Errorf("idle_timeout of %v in the body of the request", w.quiet))
	e.Close = true
	return e
}

// sent notes that the request is read to its end; from here the response's head
// is waited for. It may be called more than once.
func (w *watch) sent() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.head || w.ended || w.response != nil || w.limits.Response == 0 {
		return
	}
	w.response = time.AfterFunc(w.limits.Response, func() { w.cancel(timeout("timeout", w.limits.Response)) })
}

// answered notes that the head is there. A stream may be silent for longer.
func (w *watch) answered(stream bool) {
	w.touch()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.head = true
	stop(w.response)
	if !stream {
		return
	}
	stop(w.idle)
	if w.quiet = w.limits.IdleStream; w.quiet > 0 {
		w.idle = time.AfterFunc(w.quiet, w.checkIdle)
	}
}

// informer passes informational responses on; they count as bytes. It is nil
// where the client takes none.
func (w *watch) informer(inform func(int, message.Fields)) func(int, message.Fields) {
	if inform == nil {
		return nil
	}
	return func(status int, fields message.Fields) {
		w.touch()
		dropHops(&fields)
		inform(status, fields)
	}
}

// end stops the timers and the context. It may be called more than once.
func (w *watch) end() {
	w.mu.Lock()
	w.ended = true
	stop(w.total)
	stop(w.response)
	stop(w.idle)
	w.mu.Unlock()
	w.cancel(nil)
}

func stop(timer *time.Timer) {
	if timer != nil {
		timer.Stop()
	}
}
