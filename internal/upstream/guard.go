package upstream

import (
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/resilience"
)

// Guard judges an upstream for adaptive limits: by its circuit breakers, and by how long
// its endpoints take to the head of a response. It is safe for concurrent use.
type Guard struct {
	group *Group
	kept  *keptGuard
}

// keptGuard is a guard over reloads.
type keptGuard struct {
	settings resilience.GuardSettings
	began    time.Time
	*resilience.Guard
}

// Guard returns the upstream's guard with these settings, which is told of all attempts
// from then on; set holds it, and it outlives reloads that have the same. It is called
// before the group serves.
func (g *Group) Guard(set *lease.Set, s resilience.GuardSettings) *Guard {
	for _, kept := range g.guards {
		if kept.settings == s {
			return &Guard{g, kept}
		}
	}
	kept := lease.Acquire(set, "guard\n"+g.Name()+"\n"+model.Text(s), func() *keptGuard {
		name, observer := g.Name(), g.observer
		return &keptGuard{s, time.Now(), resilience.NewGuard(s, func(c resilience.StanceChange) {
			observer.tell(Event{Kind: StanceChanged, Upstream: name, From: c.From.String(), To: c.To.String(), Reason: c.Reason})
		})}
	})
	g.guards = append(g.guards, kept)
	return &Guard{g, kept}
}

// Judge returns what the state of the upstream leaves now of an adaptive rate.
func (g *Guard) Judge(now time.Time) resilience.Ease {
	return g.kept.Judge(now.Sub(g.kept.began), g.group.closed())
}

// GuardStatus is a guard as people see it.
type GuardStatus struct {
	State  string
	Since  time.Time // of the last change; zero: there was none
	Reason string    // of it
	Code   float64   // the state as a number, for the metric
}

// Status judges, and tells how the guard is.
func (g *Guard) Status(now time.Time) GuardStatus {
	g.Judge(now)
	stance, since, reason := g.kept.Status()
	status := GuardStatus{State: stance.String(), Reason: reason, Code: float64(stance)}
	if reason != "" {
		status.Since = g.kept.began.Add(since)
	}
	return status
}

// closed tells whether what is asked passes the circuit breakers: that of the upstream is
// closed, or those of more than half of its endpoints are. Fewer open ones are no reason
// to hold back: what they do not take goes to the others.
func (g *Group) closed() bool {
	if g.breaker != nil {
		return g.breaker.Closed()
	}
	if g.Breaker == nil {
		return true
	}
	members := g.members.Load()
	if members == nil {
		return true
	}
	turned := g.shared.turned.Load() // before the breakers are looked at
	known := g.passes.Load()
	if known == nil || known.turned != turned || known.members != members {
		known = &passes{turned, members, members.pass()}
		g.passes.Store(known)
	}
	return known.most
}

// passes is whether most of an upstream's endpoints pass what is asked, as of a number of
// transitions of circuit breakers.
type passes struct {
	turned  uint64
	members *roll
	most    bool
}

// pass tells whether the circuit breakers of more than half of the endpoints are closed.
func (r *roll) pass() bool {
	closed := 0
	for _, e := range r.endpoints {
		if e.breaker.Closed() {
			closed++
		}
	}
	return len(r.endpoints) == 0 || 2*closed > len(r.endpoints)
}

// guard tells the guards of an attempt.
func (t *Turn) guard(now time.Time, failed bool) {
	for _, kept := range t.group.guards {
		kept.Observe(now.Sub(kept.began), now.Sub(t.start), failed)
	}
}
