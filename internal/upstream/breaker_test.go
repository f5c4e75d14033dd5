package upstream

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// breaker opens after two failures in a row, for so long.
func breaker(scope string, openFor time.Duration, changes ...func(*model.CircuitBreaker)) func(*model.Upstream) {
	return func(m *model.Upstream) {
		m.Breaker = &model.CircuitBreaker{
			Scope: scope, Window: 10 * time.Second, Consecutive: 2, FailureStatus: []int{500, 503},
			OpenFor: openFor, MaxConcurrent: 1, Successes: 1,
		}
		for _, change := range changes {
			change(m.Breaker)
		}
	}
}

// closedFor wants circuit_open with so many seconds.
func closedFor(t *testing.T, g *Group, now time.Time, seconds string) {
	t.Helper()
	turn := new(Turn)
	err := wantWord(t, g.Begin(turn, exchange(t), nil, now), pipeline.CircuitOpen)
	if got := err.Fields.Get(message.RetryAfter); got != seconds || !err.Unsent {
		t.Errorf("Retry-After is %q, want %s; unsent %v", got, seconds, err.Unsent)
	}
	turn.End() // nothing was counted
	for _, s := range g.Status(now).Endpoints {
		if s.Active != 0 {
			t.Errorf("%s has %d under way", s.URL, s.Active)
		}
	}
}

func TestBreakerOfTheUpstream(t *testing.T) {
	var told events
	g, _ := acquireTold(t, new(lease.Registry), of("a=1 b=1", breaker(model.ScopeUpstream, 30*time.Second)), nowhere(), told.observe)
	now := time.Now()
	answered(t, g, 503, now)
	answered(t, g, 200, now)
	answered(t, g, 500, now)
	if !g.Available(nil, now) {
		t.Error("it is open too early")
	}
	answered(t, g, 503, now) // of another endpoint
	told.expect(t, "breaker  closed>open: 2 failures in a row")
	closedFor(t, g, now, "30")
	closedFor(t, g, now.Add(29001*time.Millisecond), "1")
	if g.Available(nil, now) {
		t.Error("it is available")
	}
	if s := g.Breakers(now); len(s) != 1 || s[0].State != "open" || s[0].Endpoint != "" || !s[0].ProbeAt.Equal(now.Add(30*time.Second)) || s[0].Code() != 1 {
		t.Errorf("status %+v", s)
	}
	// One probe at a time.
	now = now.Add(30 * time.Second)
	probe := begin(t, g, exchange(t), now)
	told.expect(t, "breaker  open>half_open: open_for of 30s is over")
	wantWord(t, g.Begin(new(Turn), exchange(t), nil, now), pipeline.CircuitOpen)
	// A client that leaves gives its place back.
	probe.Dropped(now)
	probe.End()
	probe = begin(t, g, exchange(t), now)
	probe.Answered(200, now)
	probe.End()
	told.expect(t, "breaker  half_open>closed: a probe succeeded")
	answered(t, g, 200, now)
}

// Where no endpoint is there, the place among the probes is given back.
func TestBreakerWithoutEndpoint(t *testing.T) {
	g, _ := acquire(t, new(lease.Registry), of("a=1", breaker(model.ScopeUpstream, time.Second)))
	now := time.Now()
	answered(t, g, 503, now)
	answered(t, g, 503, now)
	g.Drain("a", true)
	now = now.Add(time.Second)
	for range 3 {
		wantWord(t, g.Begin(new(Turn), exchange(t), nil, now), pipeline.NoEndpoint)
	}
	g.Drain("a", false)
	answered(t, g, 200, now)
}

func TestBreakersOfEndpoints(t *testing.T) {
	var told events
	g, _ := acquireTold(t, new(lease.Registry), of("a=1 b=1 c=1", breaker(model.ScopeEndpoint, 30*time.Second)), nowhere(), told.observe)
	now := time.Now()
	fail(t, g, "b", 2, now)
	told.expect(t, "breaker b closed>open: 2 failures in a row")
	if got := picksAt(t, g, 10, now); strings.Contains(got, "b") {
		t.Errorf("b is open: %s", got)
	}
	if got := statusOf(t, g, "b", now); got != "out" {
		t.Errorf("b is %q", got)
	}
	// What was tried is better than what is open.
	a, c := endpoint(t, g, "a"), endpoint(t, g, "c")
	if e, err := pickAt(g, exchange(t), now, a, c); err != nil || e.URL == "b" {
		t.Errorf("got %v, %v", e, err)
	}
	if g.Available([]*Endpoint{a, c}, now) || !g.Available([]*Endpoint{a}, now) {
		t.Error("what is available")
	}
	fail(t, g, "a", 2, now.Add(10*time.Second))
	fail(t, g, "c", 2, now.Add(20*time.Second))
	told.take()
	// All are open: the time is that of the one that is the first to close.
	for range 3 {
		closedFor(t, g, now.Add(20*time.Second), "10")
	}
	states := map[string]string{}
	for _, s := range g.Breakers(now) {
		states[s.Endpoint] = s.State
	}
	if len(states) != 3 || states["b"] != "open" {
		t.Errorf("got %v", states)
	}
	// It alone gets the probe, and no second one.
	now = now.Add(30 * time.Second)
	probe := begin(t, g, exchange(t), now)
	if probe.Endpoint.URL != "b" {
		t.Fatalf("the probe goes to %s", probe.Endpoint.URL)
	}
	wantWord(t, g.Begin(new(Turn), exchange(t), nil, now), pipeline.CircuitOpen)
	probe.Answered(200, now)
	probe.End()
	told.expect(t, "breaker b open>half_open: open_for of 30s is over", "breaker b half_open>closed: a probe succeeded")
	if got := picksAt(t, g, 3, now); got != "bbb" {
		t.Errorf("only b is closed: %s", got)
	}
}

// The users of an endpoint whose breaker is open go evenly to the others.
func TestUsersOfOneThatIsOpen(t *testing.T) {
	const users = 3000
	g, _ := acquire(t, new(lease.Registry), of("a=1 b=1 c=1", policy(model.ConsistentHash), breaker(model.ScopeEndpoint, time.Hour)))
	was, now := homes(t, g, users), time.Now()
	fail(t, g, "b", 2, now)
	counts := map[string]int{}
	for i, home := range homes(t, g, users) {
		if was[i] == "b" {
			counts[home]++
		} else if home != was[i] {
			t.Fatalf("a user of %s moves to %s", was[i], home)
		}
	}
	near(t, "to a", counts["a"], counts["a"]+counts["c"], .5)
	if counts["b"] > 0 {
		t.Errorf("%d stay", counts["b"])
	}
}

// A breaker goes on over reloads; one with other settings begins anew.
func TestBreakerOutlivesSnapshots(t *testing.T) {
	for _, scope := range []string{model.ScopeUpstream, model.ScopeEndpoint} {
		var registry lease.Registry
		before, set := acquire(t, &registry, of("a=1", breaker(scope, 30*time.Second)))
		now := time.Now()
		under := begin(t, before, exchange(t), now)
		fail(t, before, "a", 1, now)
		after, _ := acquire(t, &registry, of("a=2 b=0", breaker(scope, 30*time.Second)))
		set.Release()
		under.Failed(now) // of the old snapshot
		under.End()
		closedFor(t, after, now, "30")
		other, _ := acquire(t, &registry, of("a=1", breaker(scope, 20*time.Second)))
		answered(t, other, 200, now)
	}
}

// A body that breaks makes a failure of a success, once, for the breaker and for
// ejection, each where it was none before.
func TestABodyThatBreaks(t *testing.T) {
	now := time.Now()
	for _, scope := range []string{model.ScopeUpstream, model.ScopeEndpoint} {
		g, _ := acquire(t, new(lease.Registry), of("a=1", breaker(scope, 30*time.Second), func(m *model.Upstream) {
			m.Outlier = &model.OutlierDetection{Consecutive: 9, FailureStatus: []int{429}}
		}))
		turn := begin(t, g, exchange(t), now)
		turn.Answered(429, now) // of ejection only
		for range 2 {
			turn.Broke(now)
		}
		turn.End()
		if s := g.Breakers(now)[0]; s.Failures != 1 || s.Requests != 1 || s.State != "closed" {
			t.Errorf("%s: %+v", scope, s)
		}
		consecutive, requests, failures := turn.Endpoint.state.outcomes.Counts(now)
		if consecutive != 1 || requests != 1 || failures != 1 {
			t.Errorf("%s: %d in a row, %d of %d", scope, consecutive, failures, requests)
		}
		if n := g.Status(now).Endpoints[0].Failures; n != 1 {
			t.Errorf("%s: %d failures", scope, n)
		}
	}
}

func TestSlowCallsOpenTheBreaker(t *testing.T) {
	g, _ := acquire(t, new(lease.Registry), of("a=1", breaker(model.ScopeUpstream, 30*time.Second, func(b *model.CircuitBreaker) {
		b.Consecutive, b.MinRequests, b.SlowCall = 0, 2, &model.SlowCall{LongerThan: time.Second, Rate: .5}
	})))
	now := time.Now()
	for _, took := range []time.Duration{time.Second, time.Second + 1} {
		turn := begin(t, g, exchange(t), now)
		turn.Answered(200, now.Add(took))
		turn.End()
	}
	closedFor(t, g, now.Add(2*time.Second), "30")
}
