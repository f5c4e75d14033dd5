package upstream

import (
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/resilience"
)

var guarding = resilience.GuardSettings{Alpha: 0.2, Window: time.Minute, Upper: 2}

// wantState holds a guard to a state.
func wantState(t *testing.T, g *Guard, now time.Time, want string) {
	t.Helper()
	if got := g.Status(now); got.State != want {
		t.Errorf("it is %+v, want %s", got, want)
	}
}

// attempts is a number of attempts, one each ten milliseconds, that take so long.
func attempts(t *testing.T, g *Group, now *time.Time, n, status int, took time.Duration) {
	t.Helper()
	for range n {
		turn := begin(t, g, exchange(t), *now)
		if status == 0 {
			turn.Failed(now.Add(took))
		} else {
			turn.Answered(status, now.Add(took))
		}
		turn.End()
		*now = now.Add(10 * time.Millisecond)
	}
}

// TestGuardOfBreakers: an open circuit breaker of the upstream sheds, one of an endpoint
// does where half of them are open.
func TestGuardOfBreakers(t *testing.T) {
	for _, c := range []struct {
		name, endpoints, scope string
		states                 []string // after each endpoint that fails
	}{
		{"of the upstream", "a=1 b=1 c=1", model.ScopeUpstream, []string{"shedding"}},
		{"of one endpoint", "a=1", model.ScopeEndpoint, []string{"shedding"}},
		{"of two endpoints", "a=1 b=1", model.ScopeEndpoint, []string{"shedding", "shedding"}},
		{"of three endpoints", "a=1 b=1 c=1", model.ScopeEndpoint, []string{"normal", "shedding"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, set := acquire(t, new(lease.Registry), of(c.endpoints, breaker(c.scope, time.Minute)))
			guard, now := g.Guard(set, guarding), time.Now()
			wantState(t, guard, now, "normal")
			for i, state := range c.states {
				fail(t, g, g.Endpoints[i].URL, 2, now)
				wantState(t, guard, now, state)
			}
		})
	}
}

// TestGuardWithoutBreaker has nothing to be open.
func TestGuardWithoutBreaker(t *testing.T) {
	g, set := acquire(t, new(lease.Registry), of("a=1"))
	guard, now := g.Guard(set, guarding), time.Now()
	attempts(t, g, &now, 500, 503, time.Millisecond)
	attempts(t, g, &now, 500, 0, time.Millisecond)
	wantState(t, guard, now, "normal")
}

// TestGuardOfLatency: p99 that leaves its band tightens. Quick failures are no usual
// latency, and time-outs are one.
func TestGuardOfLatency(t *testing.T) {
	for name, status := range map[string]int{"answers": 200, "errors": 504, "time-outs": 0} {
		t.Run(name, func(t *testing.T) {
			var told events
			g, set := acquireTold(t, new(lease.Registry), of("a=1 b=1"), nowhere(), told.observe)
			guard, now := g.Guard(set, guarding), time.Now()
			pass := func(seconds, status int, took time.Duration) {
				for range seconds {
					attempts(t, g, &now, 100, status, took)
					guard.Judge(now)
				}
			}
			pass(30, 200, 50*time.Millisecond)
			pass(60, 503, time.Millisecond)
			pass(60, 0, time.Millisecond)
			pass(10, 200, 50*time.Millisecond)
			told.expect(t)
			pass(4, status, time.Second)
			wantState(t, guard, now, "guarded")
			told.expect(t, "stance  normal>guarded: p99 of 1.01s, usually up to 75.7ms")
			if ease := guard.Judge(now); ease != (resilience.Ease{Share: 1}) {
				t.Errorf("%+v is left", ease)
			}
		})
	}
}

// TestGuardOutlivesReloads that have the same settings.
func TestGuardOutlivesReloads(t *testing.T) {
	var registry lease.Registry
	m := of("a=1", breaker(model.ScopeUpstream, time.Minute))
	g, set := acquire(t, &registry, m)
	guard, now := g.Guard(set, guarding), time.Now()
	answered(t, g, 503, now)
	answered(t, g, 503, now)
	wantState(t, guard, now, "shedding")
	since := guard.Status(now).Since
	if again := g.Guard(set, guarding); again.kept != guard.kept || len(g.guards) != 1 {
		t.Error("two limits of one settings have two guards")
	}
	now = now.Add(time.Second)
	next, later := acquire(t, &registry, m)
	if status := next.Guard(later, guarding).Status(now); status.State != "shedding" || !status.Since.Equal(since) || status.Reason == "" {
		t.Errorf("after a reload: %+v", status)
	}
	other := guarding
	other.Alpha = 0.5
	if status := next.Guard(later, other).Status(now); status.State != "shedding" || status.Since.Equal(since) {
		t.Errorf("with other settings: %+v", status)
	}
	wantWord(t, next.Begin(new(Turn), exchange(t), nil, now), pipeline.CircuitOpen)
}
