package proxy

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

const (
	// firstPause is the longest wait before the first repetition; it doubles with
	// each, up to longPause.
	firstPause = 25 * time.Millisecond
	longPause  = time.Second
)

// run tries endpoints until one has answered, as often as the route lets it.
func (f *forward) run(now time.Time) error {
	for moves := 0; ; {
		if r := f.route.Retry; r != nil && r.PerTry > 0 {
			f.watch.Try(now.Add(r.PerTry), r.PerTry)
		}
		begun, err := f.attempt(now)
		f.watch.Try(time.Time{}, 0)
		now = time.Now()
		if !begun {
			s := f.other(now)
			if moves++; s == nil || moves > len(f.sides) {
				return f.fail(err)
			}
			f.take(s)
			continue
		}
		pause, again := f.again(err, now)
		switch {
		case !again && err != nil:
			return f.fail(err)
		case !again:
			f.kept.settle()
			return f.accept(now)
		case err == nil:
			_ = f.try.Response.Close() // what it says is not wanted any more
			f.turn.End()
		}
		if err := f.pause(pause); err != nil {
			return f.fail(err)
		}
		now = time.Now()
	}
}

// fail ends the forwarding with an error.
func (f *forward) fail(err error) error {
	f.kept.settle()
	f.end()
	if e := pipeline.AsError(err); f.x.Attempts > 0 && f.wantsAttempts() {
		f.tellAttempts(&e.Fields)
		return e
	}
	return err
}

// again tells whether what came of an attempt, a response or an error, is followed
// by another one, and after which pause. That one then has a side, a place in the
// budget, and the body from its beginning.
func (f *forward) again(err error, now time.Time) (pause time.Duration, again bool) {
	f.giveBack()
	r := f.route.Retry
	if r == nil || f.x.Attempts >= r.Attempts || !f.matches(r, err) || f.x.Context().Err() != nil || f.watch.Expired() != nil {
		return 0, false
	}
	if !unsent(err) && !f.repeatable(r) {
		return 0, false
	}
	f.tried = append(f.tried, f.turn.Endpoint)
	next := f.side
	if s := f.other(now); s != nil {
		next = s
	}
	fresh := next.Group.Available(f.tried, now)
	if !fresh && !next.Group.Available(nil, now) {
		return 0, false // its circuit breaker has opened: what there is goes to the client
	}
	pause, inTime := f.delay(err, fresh, now)
	if !inTime {
		return 0, false
	}
	if !next.Group.Budget().Take(r.Budget) {
		if next.Exhausted != nil {
			next.Exhausted()
		}
		return 0, false
	}
	if !f.kept.rewind() {
		next.Group.Budget().Give()
		return 0, false
	}
	f.repeats = next.Group.Budget()
	if next != f.side {
		f.take(next)
	}
	if next.Repeated != nil {
		next.Repeated()
	}
	return pause, true
}

// giveBack gives back the place in the budget.
func (f *forward) giveBack() {
	if f.repeats != nil {
		f.repeats.Give()
		f.repeats = nil
	}
}

// matches tells whether the route wants another attempt after what came of one.
func (f *forward) matches(r *model.Retry, err error) bool {
	if err == nil {
		_, listed := slices.BinarySearch(r.On.Status, f.try.Response.Status)
		return listed && f.try.Response.Tunnel == nil
	}
	e := pipeline.AsError(err)
	if e.Fault == pipeline.Client {
		return false
	}
	if _, listed := slices.BinarySearch(r.On.Status, e.Status); listed {
		return true
	}
	switch e.Word {
	case pipeline.UpstreamConnect:
		return r.On.ConnectFailure || r.On.Refused && e.Unsent
	case pipeline.UpstreamReset:
		return r.On.Reset || r.On.Refused && e.Unsent
	case pipeline.UpstreamTimeout:
		return r.On.Timeout || r.PerTry > 0
	}
	return false
}

// repeatable tells whether the endpoint may see the request twice.
func (f *forward) repeatable(r *model.Retry) bool {
	return slices.Contains(r.Methods, f.x.Request.Method) || f.x.Request.Fields.Has(message.IdempotencyKey)
}

// unsent tells whether the endpoint cannot have seen the request.
func unsent(err error) bool { return err != nil && pipeline.AsError(err).Unsent }

// delay is how long to wait before the next attempt: exponentially longer with
// each, with full jitter (Brooker 2015). Where nothing was sent and another
// endpoint is there it is not waited at all; where none is, an endpoint that says
// how long to leave it alone (RFC 9110 10.2.3) gets that time. inTime is false where
// the exchange would be over by then.
func (f *forward) delay(err error, fresh bool, now time.Time) (pause time.Duration, inTime bool) {
	if fresh && unsent(err) {
		return 0, true
	}
	pause = rand.N(min(firstPause<<min(f.x.Attempts-1, 10), longPause))
	if err == nil && !fresh {
		pause = max(pause, retryAfter(f.try.Response.Fields, now))
	}
	deadline := f.watch.Deadline()
	return pause, deadline.IsZero() || now.Add(pause).Before(deadline)
}

// retryAfter is how long a response asks to be left alone.
func retryAfter(fields message.Fields, now time.Time) time.Duration {
	value := fields.Get(message.RetryAfter)
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := time.Parse(time.RFC1123, value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}

// pause waits, unless the exchange ends before.
func (f *forward) pause(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	f.x.Wait(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-f.x.Context().Done():
		}
	})
	if ctx := f.x.Context(); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f.watch.Expired()
}

// wantsAttempts tells whether the client asks how many attempts there were.
func (f *forward) wantsAttempts() bool { return f.x.Request.Fields.Has(message.XSluiceAttempts) }

func (f *forward) tellAttempts(fields *message.Fields) {
	if f.wantsAttempts() {
		fields.Put(message.XSluiceAttempts, strconv.Itoa(f.x.Attempts))
	}
}
