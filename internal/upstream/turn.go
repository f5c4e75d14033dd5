package upstream

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/resilience"
)

// Turn is one attempt as it is counted at an endpoint. Begin starts it; then
// comes one of Answered, Failed and Dropped, and End after all; or Undo alone.
type Turn struct {
	Endpoint *Endpoint // nil: there is none, since Begin has failed
	group    *Group
	whole    resilience.Permit // of the upstream's circuit breaker
	own      resilience.Permit // of the endpoint's
	start    time.Time
	// Whether the circuit breakers, and the ejection of outliers, have it for a
	// failure.
	failed, outlying bool
	ended            atomic.Bool
}

// Begin picks an endpoint, one that was not tried while there is such, and counts
// an attempt in. Its errors are no_endpoint and circuit_open, and what ended the
// exchange while it waited for endpoints that were looked up for the first time.
func (g *Group) Begin(t *Turn, x *pipeline.Exchange, tried []*Endpoint, now time.Time) error {
	*t = Turn{group: g, start: now}
	if !g.known() {
		if err := g.await(x); err != nil {
			return err
		}
	}
	if g.breaker != nil {
		permit, wait, ok := g.breaker.Allow(now)
		if !ok {
			return circuitOpen(wait)
		}
		t.whole = permit
	}
	if err := g.choose(t, x, tried, now); err != nil {
		t.whole.Drop(now)
		return err
	}
	t.Endpoint.state.active.Add(1)
	t.Endpoint.state.requests.Add(1)
	return nil
}

// choose gives the attempt an endpoint whose own circuit breaker lets it pass.
func (g *Group) choose(t *Turn, x *pipeline.Exchange, tried []*Endpoint, now time.Time) error {
	v := g.look(now)
	if v == nil || len(v.usable.endpoints) == 0 {
		return pipeline.NewError(pipeline.NoEndpoint, g.none(v))
	}
	if len(tried) == 0 && !g.barred(&v.usable, now) {
		if _, ok := t.admit(g.pick(x, &v.usable, now), now); ok {
			return nil
		}
	}
	return g.chooseOpen(t, x, &v.usable, tried, now)
}

// chooseOpen is choose where not all endpoints will do. One that was tried is better
// than none.
func (g *Group) chooseOpen(t *Turn, x *pipeline.Exchange, usable *field, tried []*Endpoint, now time.Time) error {
	var memory room
	for range usable.endpoints { // each may be ready now, and no more when it is picked
		f := usable.open(&memory, tried, now)
		if len(f.endpoints) == 0 && len(tried) > 0 {
			f = usable.open(&memory, nil, now)
		}
		if len(f.endpoints) == 0 {
			break
		}
		if _, ok := t.admit(g.pick(x, &f, now), now); ok {
			return nil
		}
	}
	least := time.Duration(math.MaxInt64)
	for _, e := range usable.endpoints {
		wait, ok := t.admit(e, now)
		if ok {
			return nil
		}
		least = min(least, wait)
	}
	return circuitOpen(least)
}

// admit makes the attempt one at an endpoint, if its circuit breaker lets it pass;
// else wait is how long it will not.
func (t *Turn) admit(e *Endpoint, now time.Time) (wait time.Duration, ok bool) {
	if e.breaker != nil {
		permit, wait, ok := e.breaker.Allow(now)
		if !ok {
			return wait, false
		}
		t.own = permit
	}
	t.Endpoint = e
	return 0, true
}

// none is why there is no endpoint.
func (g *Group) none(v *view) error {
	if v == nil || len(v.roll.endpoints) == 0 {
		return fmt.Errorf("upstream %s has no endpoint", g.Name())
	}
	return fmt.Errorf("none of the %d endpoints of upstream %s is available", len(v.roll.endpoints), g.Name())
}

// known tells whether it is known which endpoints there are, or that this cannot be
// found out.
func (g *Group) known() bool { return g.members.Load() != nil || g.roster.asked() }

// await waits until they are, or for as long as a connection may take.
func (g *Group) await(x *pipeline.Exchange) error {
	x.Wait(func() {
		ctx, cancel := context.WithTimeout(x.Context(), max(g.Timeouts.Connect, time.Second))
		defer cancel()
		select {
		case <-g.roster.ready:
		case <-ctx.Done():
		}
	})
	if x.Context().Err() != nil {
		return context.Cause(x.Context())
	}
	return nil
}

// circuitOpen is the error of an open circuit breaker, which is so for another wait.
func circuitOpen(wait time.Duration) error {
	err := pipeline.NewError(pipeline.CircuitOpen, nil)
	err.Unsent = true
	seconds := wait / time.Second
	if wait%time.Second > 0 {
		seconds++
	}
	err.Fields.Put(message.RetryAfter, strconv.FormatInt(int64(max(1, seconds)), 10))
	return err
}

// Answered notes that the head of a response came.
func (t *Turn) Answered(status int, now time.Time) {
	breaker, outlier := t.group.Breaker, t.group.Outlier
	if breaker != nil {
		_, t.failed = slices.BinarySearch(breaker.FailureStatus, status)
		t.result(t.failed, now)
	}
	if outlier != nil {
		_, t.outlying = slices.BinarySearch(outlier.FailureStatus, status)
		t.group.judge(t.Endpoint, t.outlying, now)
	}
	t.guard(now, status >= 500)
	t.measure(now)
}

// Ended notes what a response that was Answered came to at its end, where that is
// told only then, as by the trailers of a call.
func (t *Turn) Ended(status int, now time.Time) {
	if b := t.group.Breaker; b != nil && !t.failed {
		if _, t.failed = slices.BinarySearch(b.FailureStatus, status); t.failed {
			t.whole.Late(now)
			t.own.Late(now)
		}
	}
	if o := t.group.Outlier; o != nil && !t.outlying {
		if _, t.outlying = slices.BinarySearch(o.FailureStatus, status); t.outlying {
			t.group.judge(t.Endpoint, true, now)
		}
	}
}

// Failed notes that none came, by the endpoint's fault.
func (t *Turn) Failed(now time.Time) {
	t.failed, t.outlying = true, true
	t.result(true, now)
	if t.group.Outlier != nil {
		t.group.judge(t.Endpoint, true, now)
	}
	t.guard(now, true)
	t.measure(now)
}

// result tells the circuit breakers.
func (t *Turn) result(failed bool, now time.Time) {
	took := now.Sub(t.start)
	t.whole.Done(now, failed, took)
	t.own.Done(now, failed, took)
}

// measure counts a failure, and takes the latency where the policy asks for it. A
// failure counts as slow, however fast it was: else who refuses everything would get
// everything.
func (t *Turn) measure(now time.Time) {
	took := now.Sub(t.start)
	if t.failed || t.outlying {
		t.Endpoint.state.failures.Add(1)
		took = max(took, unmeasured)
	}
	if t.group.Balancer.Policy == model.PowerOfTwo {
		t.Endpoint.state.latency.Observe(now, took)
	}
}

// Dropped notes that none came, by nobody's fault: the client left.
func (t *Turn) Dropped(now time.Time) {
	t.whole.Drop(now)
	t.own.Drop(now)
}

// Undo takes Begin back: no attempt was made.
func (t *Turn) Undo(now time.Time) {
	t.Dropped(now)
	t.Endpoint.state.requests.Add(-1)
	t.End()
}

// Broke notes that a response that was Answered ended before its time, by the
// endpoint's fault. Where its status was a failure already it is not counted twice.
func (t *Turn) Broke(now time.Time) {
	if !t.failed && !t.outlying {
		t.Endpoint.state.failures.Add(1)
	}
	if !t.failed {
		t.failed = true
		t.whole.Late(now)
		t.own.Late(now)
	}
	if !t.outlying && t.group.Outlier != nil {
		t.outlying = true
		t.group.judge(t.Endpoint, true, now)
	}
}

// End counts the attempt out, if Begin has counted it in. Only the first call counts.
func (t *Turn) End() {
	if t.Endpoint != nil && !t.ended.Swap(true) {
		t.Endpoint.state.active.Add(-1)
	}
}
