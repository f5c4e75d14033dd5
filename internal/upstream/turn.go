package upstream

import (
	"context"
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
// comes one of Answered, Failed and Dropped, and End after all.
type Turn struct {
	Endpoint *Endpoint
	group    *Group
	whole    resilience.Permit // of the upstream's circuit breaker
	own      resilience.Permit // of the endpoint's
	start    time.Time
	failed   bool
	ended    atomic.Bool
}

// Begin picks an endpoint, one that was not tried while there is such, and counts
// an attempt in. Its errors are no_endpoint and circuit_open.
func (g *Group) Begin(t *Turn, x *pipeline.Exchange, tried []*Endpoint, now time.Time) error {
	if err := g.known(x); err != nil {
		return err
	}
	*t = Turn{group: g, start: now}
	if g.breaker != nil {
		permit, wait, ok := g.breaker.Allow(now)
		if !ok {
			return circuitOpen(wait)
		}
		t.whole = permit
	}
	if err := g.choose(t, x, tried, now); err != nil {
		t.whole.Drop(now)
		t.Endpoint = nil
		return err
	}
	t.Endpoint.state.active.Add(1)
	t.Endpoint.state.requests.Add(1)
	return nil
}

// choose picks an endpoint whose own circuit breaker lets the attempt pass.
func (g *Group) choose(t *Turn, x *pipeline.Exchange, tried []*Endpoint, now time.Time) error {
	v := g.look(now)
	for {
		e, err := g.pick(x, v, tried, now)
		if err != nil {
			return err
		}
		t.Endpoint = e
		if e.breaker == nil {
			return nil
		}
		permit, wait, ok := e.breaker.Allow(now)
		if ok {
			t.own = permit
			return nil
		}
		if among(tried, e) || len(tried) >= len(v.usable) {
			return circuitOpen(wait)
		}
		tried = append(slices.Clip(tried), e) // it was open a moment ago, or is full
	}
}

// known waits until the endpoints of an upstream that is looked up are known for
// the first time.
func (g *Group) known(x *pipeline.Exchange) error {
	if g.roster == nil || g.members.Load() != nil {
		return nil
	}
	x.Wait(func() {
		ctx, cancel := context.WithTimeout(x.Context(), max(g.Timeouts.Connect, time.Second))
		defer cancel()
		select {
		case <-g.roster.ready:
		case <-ctx.Done():
		}
	})
	if err := x.Context().Err(); err != nil {
		return context.Cause(x.Context())
	}
	return nil
}

// circuitOpen is the error of an open circuit breaker, which is so for another wait.
func circuitOpen(wait time.Duration) error {
	err := pipeline.NewError(pipeline.CircuitOpen, nil)
	err.Unsent = true
	err.Fields.Put(message.RetryAfter, strconv.Itoa(max(1, int((wait+time.Second-1)/time.Second))))
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
		_, failed := slices.BinarySearch(outlier.FailureStatus, status)
		t.group.judge(t.Endpoint, failed, now)
		t.failed = t.failed || failed
	}
	t.measure(now)
}

// Failed notes that none came, by the endpoint's fault.
func (t *Turn) Failed(now time.Time) {
	t.failed = true
	t.Endpoint.state.failures.Add(1)
	t.result(true, now)
	if t.group.Outlier != nil {
		t.group.judge(t.Endpoint, true, now)
	}
	t.measure(now)
}

// result tells the circuit breakers.
func (t *Turn) result(failed bool, now time.Time) {
	took := now.Sub(t.start)
	t.whole.Done(now, failed, took)
	t.own.Done(now, failed, took)
}

// measure takes the latency where the policy asks for it. A failure counts as slow,
// however fast it was: else who refuses everything would get everything.
func (t *Turn) measure(now time.Time) {
	if t.group.Balancer.Policy != model.PowerOfTwo {
		return
	}
	took := now.Sub(t.start)
	if t.failed {
		took = max(took, unmeasured)
	}
	t.Endpoint.state.latency.Observe(now, took)
}

// Dropped notes that none came, by nobody's fault: the client left.
func (t *Turn) Dropped(now time.Time) {
	t.whole.Drop(now)
	t.own.Drop(now)
}

// Broke notes that a response that was Answered ended before its time, by the
// endpoint's fault. One that was a failure by its status is none again.
func (t *Turn) Broke(now time.Time) {
	t.Endpoint.state.failures.Add(1)
	if t.failed {
		return
	}
	t.failed = true
	t.whole.Late(now)
	t.own.Late(now)
	if t.group.Outlier != nil {
		t.group.judge(t.Endpoint, true, now)
	}
}

// End counts the attempt out, if Begin has counted it in. Only the first call counts.
func (t *Turn) End() {
	if t.Endpoint != nil && !t.ended.Swap(true) {
		t.Endpoint.state.active.Add(-1)
	}
}

// Mark puts the sticky cookie into a response, where the client does not have it.
func (t *Turn) Mark(x *pipeline.Exchange, response *message.Response) {
	b := &t.group.Balancer
	if b.Policy != model.StickyCookie {
		return
	}
	if token, there := x.Request.Fields.Cookie(b.Cookie); there && token == t.Endpoint.token {
		return
	}
	value := b.Cookie + "=" + t.Endpoint.token + "; Path=/; HttpOnly; SameSite=Lax"
	if b.TTL > 0 {
		value += "; Max-Age=" + strconv.Itoa(int((b.TTL+time.Second-1)/time.Second))
	}
	if x.Listener.TLS != nil {
		value += "; Secure"
	}
	response.Fields.Add(message.SetCookie.String(), value)
}
