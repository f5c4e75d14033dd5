// Package upstream knows the endpoints of an upstream: who they are, which of
// them are fit, and whose turn it is. It counts what comes of each attempt, and
// takes an endpoint out that fails, by checks of its own, by what clients' requests
// came to, or because a circuit breaker is open. It sends no client's request: an
// endpoint carries the transport that does.
package upstream

import (
	"sync/atomic"
	"time"

	"sluice/internal/discovery"
	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/resilience"
)

// Group is an upstream as one snapshot has it. It is immutable once it serves; what is
// known of the endpoints is shared with every snapshot that has an upstream of the same
// name, and with it the same endpoint, so that it outlives reloads. It is safe for
// concurrent use.
type Group struct {
	*model.Upstream
	shared   *shared
	breaker  *resilience.Breaker // of the whole upstream; nil: none
	observer Observer
	roster   *roster                // where the members are looked up; nil: they are written out
	members  *atomic.Pointer[roll]  // nil in it until they are known
	view     atomic.Pointer[view]   // nil until the first look
	passes   atomic.Pointer[passes] // nil until somebody asks
	guards   []*keptGuard           // what judges it for adaptive limits
}

// Connect makes the connections to endpoints, and starts nothing. What they hold
// is held by set.
type Connect struct {
	// Transport is for attempts.
	Transport func(set *lease.Set, m *model.Upstream, endpoint model.Endpoint) pipeline.Transport
	// Probe is for health checks, which must not wait for a place among them.
	Probe func(set *lease.Set, m *model.Upstream, endpoint model.Endpoint) pipeline.Transport
}

// Acquire returns the group of an upstream. What it shares is held by set; nothing
// is started before that commits.
func Acquire(set *lease.Set, m *model.Upstream, connect Connect, observer Observer) *Group {
	g := &Group{Upstream: m, observer: observer}
	g.shared = lease.Acquire(set, "upstream\n"+m.Name, newShared)
	if m.Breaker != nil && m.Breaker.Scope != model.ScopeEndpoint {
		g.breaker = acquireBreaker(set, m, "", "", &g.shared.turned, observer)
	}
	b := &builder{m: m, shared: g.shared, connect: connect, observer: observer}
	if m.DNS != nil {
		names := discovery.Acquire(set, m.DNS, lookups(m.Name, observer))
		g.roster = lease.Acquire(set, "roster\n"+model.Text(m), func() *roster { return newRoster(set.Registry(), b, names) })
		g.members = &g.roster.current
		return g
	}
	g.members = new(atomic.Pointer[roll])
	g.members.Store(b.roll(set, m.Endpoints))
	return g
}

// Name is the upstream's name.
func (g *Group) Name() string { return g.Upstream.Name }

// Budget bounds the repetitions of exchanges at the upstream.
func (g *Group) Budget() *resilience.Budget { return &g.shared.budget }

// Available tells whether an attempt would find an endpoint that was not tried,
// and no open circuit breaker. Endpoints that are being looked up for the first time
// count: Begin waits for them.
func (g *Group) Available(tried []*Endpoint, now time.Time) bool {
	if g.breaker != nil && !g.breaker.Ready(now) {
		return false
	}
	if !g.known() {
		return true
	}
	v := g.look(now)
	if v == nil {
		return false
	}
	for _, e := range v.usable.endpoints {
		if !among(tried, e) && e.ready(now) {
			return true
		}
	}
	return false
}
