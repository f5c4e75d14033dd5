package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sluice/internal/model"
	"sluice/internal/rpc"
)

// Watch holds the forwarding of an exchange to the time-outs of its route. It
// runs nothing: Deadline tells how long a transport may wait for whatever it
// waits for, and Expired what to fail with then. Context is for transports that
// can only wait on a context. Begin comes before anything else. Its methods are
// for any goroutine.
type Watch struct {
	mu       sync.Mutex
	limits   model.RouteTimeouts
	total    time.Time     // when the exchange must be over; zero: never
	called   bool          // total is what the client of a call has set
	response time.Time     // when the head of the response must be there; zero: never, or not known yet
	try      time.Time     // when that of the attempt under way must be; zero: never
	perTry   time.Duration // how long that has; 0: it is not bound
	last     time.Time     // when the last byte passed
	waited   time.Duration // how much of the time for the head of the response was over before
	quiet    time.Duration // how long no byte may pass; 0: for ever
	asking   bool          // the client is asked for more of its body
	giving   bool          // the response's bytes are on their way to the client: nothing is waited for here
	head     bool          // the head of the response is there
	begun    bool          // some of its body is
	nearer   func()        // told when the deadline may have come nearer; may be nil
}

// Begin starts the watch; start is when the exchange began. It returns what the
// time is now.
func (w *Watch) Begin(limits model.RouteTimeouts, start time.Time) (now time.Time) {
	w.limits, w.quiet, w.last = limits, limits.Idle, time.Now()
	if limits.Total > 0 {
		if start.IsZero() {
			start = w.last
		}
		w.total = start.Add(limits.Total)
	}
	return w.last
}

// Bound holds the exchange to the time that the client of a call has set, too;
// zero: it has set none. It is called with Begin.
func (w *Watch) Bound(until time.Time) {
	if !until.IsZero() && (w.total.IsZero() || until.Before(w.total)) {
		w.total, w.called = until, true
	}
}

// Spent takes what the exchange has waited before off the time for the head of the
// response. It is called with Begin.
func (w *Watch) Spent(waited time.Duration) { w.waited = waited }

// Await notes that more of the response's body is waited for: the client has
// taken what came before, which counts as bytes that passed.
func (w *Watch) Await() {
	now := time.Now()
	w.mu.Lock()
	w.last, w.giving = now, false
	nearer := w.nearer
	w.mu.Unlock()
	if nearer != nil {
		nearer()
	}
}

// Came notes how much of it came. Until the next Await it is the client that is
// waited for, which whoever writes to it bounds.
func (w *Watch) Came(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.giving, w.begun = true, w.begun || n > 0
}

// Try notes that an attempt begins, which is bytes that pass, and gives it so long
// for the head of its response; 0: for as long as the other time-outs let it. Of an
// attempt that carries a body the time begins anew with each piece of it, and does
// not run while the client is asked for one: as the time-out of the response it is
// counted from the end of the request.
func (w *Watch) Try(now time.Time, perTry time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.perTry, w.try = now, perTry, time.Time{}
	if perTry > 0 {
		w.try = now.Add(perTry)
	}
}

// Tried notes that the attempt is over, or has its head: what comes next is not
// held to its time.
func (w *Watch) Tried() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.try, w.perTry = time.Time{}, 0
}

// Total is when the exchange must be over; zero: never.
func (w *Watch) Total() time.Time { return w.total }

// Quiet is how long no byte may pass; 0: for ever. Who sends may look meanwhile
// whether the other side takes what was sent, which counts as bytes, too.
func (w *Watch) Quiet() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.quiet
}

// Touch notes that a byte passed, in either direction.
func (w *Watch) Touch() {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = now
}

// Ask notes that the client is asked for more of its body: the endpoint has
// taken what came before, which counts as bytes that passed.
func (w *Watch) Ask() {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last, w.asking = now, true
}

// Given notes what the client gave when it was asked; nothing counts not.
func (w *Watch) Given(n int) {
	now := time.Now()
	w.mu.Lock()
	w.asking = false
	if n > 0 {
		w.last = now
	}
	if w.try.IsZero() {
		w.mu.Unlock()
		return
	}
	w.try = now.Add(w.perTry)
	nearer := w.nearer
	w.mu.Unlock()
	if nearer != nil {
		nearer()
	}
}

// Sent notes that the request is read to its end: from here the head of the
// response is waited for. Only the first call counts.
func (w *Watch) Sent(now time.Time) {
	w.mu.Lock()
	if w.head || w.limits.Response == 0 || !w.response.IsZero() {
		w.mu.Unlock()
		return
	}
	w.response = now.Add(w.limits.Response - w.waited)
	nearer := w.nearer
	w.mu.Unlock()
	if nearer != nil {
		nearer()
	}
}

// Answered notes that the head of the response is there. A stream may be silent
// for longer, or shorter.
func (w *Watch) Answered(now time.Time, stream bool) {
	w.mu.Lock()
	w.last, w.head, w.response, w.try, w.perTry = now, true, time.Time{}, time.Time{}, 0
	if stream {
		w.quiet = w.limits.IdleStream
	}
	nearer := w.nearer
	w.mu.Unlock()
	if nearer != nil {
		nearer()
	}
}

// Deadline is until when one may wait, as of now; zero: for ever. It may be
// later when it has passed: then Expired returns nil.
func (w *Watch) Deadline() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deadline()
}

func (w *Watch) deadline() time.Time {
	deadline := Earlier(w.total, w.response)
	if !w.asking {
		deadline = Earlier(deadline, w.try)
	}
	if w.quiet > 0 && !w.giving {
		deadline = Earlier(deadline, w.last.Add(w.quiet))
	}
	return deadline
}

// Earlier is the first of two deadlines, of which the zero time is never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// Expired is the error of the time-out that is over, or nil.
func (w *Watch) Expired() error {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	over := func(at time.Time) bool { return !at.IsZero() && !now.Before(at) }
	switch {
	case over(w.total) && w.called:
		e := NewError(UpstreamTimeout, errors.New("grpc-timeout"))
		e.Fault = Client // who sets too short a time says nothing of the endpoint
		return e
	case over(w.total):
		// A head alone may be the endpoint's own word that this time, of which it was
		// told, is over.
		return parted(overdue("total_timeout", w.limits.Total), w.begun)
	case over(w.response):
		return overdue("timeout", w.limits.Response)
	case !w.asking && over(w.try):
		return overdue("per_try_timeout", w.perTry)
	case w.quiet == 0 || w.giving || !over(w.last.Add(w.quiet)):
		return nil
	case w.head || !w.asking:
		return parted(overdue("idle_timeout", w.quiet), w.head)
	}
	// Nothing but the client's body was waited for.
	e := NewError(RequestTimeout, fmt.Errorf("idle_timeout of %v in the body of the request", w.quiet))
	e.Close = true
	return e
}

// parted is the error of a response that the gateway's own settings end: where it
// streams the client of a call comes again.
func parted(e *Error, streams bool) error {
	if streams {
		e.Code = rpc.Unavailable
	}
	return e
}

func overdue(name string, after time.Duration) *Error {
	return NewError(UpstreamTimeout, fmt.Errorf("%s of %v", name, after))
}

// Context returns a context that ends with what Expired tells, by a timer that
// runs until stop. One after another may run, one at a time; nil watches nothing.
func (w *Watch) Context(parent context.Context) (ctx context.Context, stop context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	if w == nil {
		return ctx, cancel
	}
	a := &alarm{watch: w, cancel: cancel}
	w.mu.Lock()
	w.nearer = a.look
	w.mu.Unlock()
	a.look()
	return ctx, func(cause error) {
		a.end()
		cancel(cause)
	}
}

// alarm is the timer behind the context of a watch.
type alarm struct {
	watch  *Watch
	cancel context.CancelCauseFunc

	mu    sync.Mutex
	timer *time.Timer
	ended bool
}

// look ends the context if its time is over, else it comes back.
func (a *alarm) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return
	}
	if err := a.watch.Expired(); err != nil {
		a.ended = true
		a.cancel(err)
		return
	}
	if a.timer != nil {
		a.timer.Stop()
	}
	if deadline := a.watch.Deadline(); !deadline.IsZero() {
		a.timer = time.AfterFunc(time.Until(deadline), a.look)
	}
}

func (a *alarm) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	if a.timer != nil {
		a.timer.Stop()
	}
}
