package upstream

import (
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
)

// TestGuardLooksOnce at the circuit breakers of endpoints, until one of them has changed.
func TestGuardLooksOnce(t *testing.T) {
	g, set := acquire(t, new(lease.Registry), of("a=1 b=1 c=1", breaker(model.ScopeEndpoint, time.Minute)))
	guard, now := g.Guard(set, guarding), time.Now()
	guard.Judge(now)
	before := g.passes.Load()
	guard.Judge(now)
	if before == nil || g.passes.Load() != before {
		t.Error("it looks at them again")
	}
	fail(t, g, g.Endpoints[0].URL, 2, now)
	guard.Judge(now)
	if g.passes.Load() == before {
		t.Error("it does not look at them after one has opened")
	}
}
