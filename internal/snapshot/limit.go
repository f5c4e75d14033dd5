package snapshot

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/resilience"
	"sluice/internal/upstream"
)

// shownLimit is a limit that people can look at, once however many routes have it.
type shownLimit struct {
	identity string
	status   func() pipeline.LimitStatus
	place    limitPlace // the first one
}

// limitPlace is where in the configuration a limit stands.
type limitPlace struct{ part, item, step int }

// The parts of the configuration, in the order in which their limits are shown.
const (
	ofGlobal = iota
	ofRoutes
	ofUpstreams
)

func (p limitPlace) compare(other limitPlace) int {
	return cmp.Or(cmp.Compare(p.part, other.part), cmp.Compare(p.item, other.item), cmp.Compare(p.step, other.step))
}

// showcase gathers the limits of a snapshot.
type showcase struct {
	limits map[string]*shownLimit // by identity
	routes map[*model.Route]int   // their places in the configuration
}

func newShowcase(routes []*model.Route) *showcase {
	c := &showcase{map[string]*shownLimit{}, map[*model.Route]int{}}
	for i, route := range routes {
		c.routes[route] = i
	}
	return c
}

// at returns what takes the limits of a place.
func (c *showcase) at(place limitPlace) func(identity string, status func() pipeline.LimitStatus) {
	return func(identity string, status func() pipeline.LimitStatus) {
		known := c.limits[identity]
		if known == nil {
			c.limits[identity] = &shownLimit{identity, status, place}
		} else if place.compare(known.place) < 0 {
			known.place = place
		}
	}
}

// step is the place of a middleware of a route.
func (c *showcase) step(route *model.Route, m *model.Middleware) limitPlace {
	if from, _, _ := strings.Cut(m.From, " "); from == "global" {
		return limitPlace{ofGlobal, 0, m.Place}
	}
	return limitPlace{ofRoutes, c.routes[route], m.Place}
}

// list has the limits in the order of the configuration.
func (c *showcase) list() []*shownLimit {
	return slices.SortedFunc(maps.Values(c.limits), func(a, b *shownLimit) int { return a.place.compare(b.place) })
}

// showKeys takes the keys of an issuer.
func (s *Snapshot) showKeys(status func() pipeline.KeysStatus) { s.keys = append(s.keys, status) }

// Limits tells how the limits are, in the order of the configuration: those of global, of
// the routes, of the upstreams.
func (s *Snapshot) Limits() []pipeline.LimitStatus {
	now := time.Now()
	list := make([]pipeline.LimitStatus, len(s.limits))
	for i, l := range s.limits {
		list[i] = l.status()
		for _, guarded := range s.guarded[l.identity] {
			list[i].AdaptiveRate.Upstreams = append(list[i].AdaptiveRate.Upstreams, stanceOf(guarded, now))
		}
	}
	return list
}

// guarded is an upstream that an adaptive limit is in front of.
type guarded struct {
	upstream string
	guard    *upstream.Guard
}

func stanceOf(g guarded, now time.Time) pipeline.StanceStatus {
	status := g.guard.Status(now)
	out := pipeline.StanceStatus{Upstream: g.upstream, State: status.State, Reason: status.Reason, Code: status.Code}
	if !status.Since.IsZero() {
		out.Since = &status.Since
	}
	return out
}

// guards makes the guards of adaptive limits in front of where a route leads. Of several
// upstreams that which leaves the least counts.
func (s *Snapshot) guards(route *model.Route, targets map[*model.Upstream]target) func(string, resilience.GuardSettings) func(time.Time) resilience.Ease {
	return func(identity string, settings resilience.GuardSettings) func(time.Time) resilience.Ease {
		var guards []*upstream.Guard
		for _, m := range upstreamsOf(route) {
			guard := targets[m].group.Guard(s.Leases, settings)
			guards = append(guards, guard)
			known := slices.ContainsFunc(s.guarded[identity], func(g guarded) bool { return g.upstream == m.Name })
			if !known {
				s.guarded[identity] = append(s.guarded[identity], guarded{m.Name, guard})
			}
		}
		return func(now time.Time) resilience.Ease {
			ease := resilience.Ease{Share: 1, Room: 1}
			for _, guard := range guards {
				ease = ease.Least(guard.Judge(now))
			}
			return ease
		}
	}
}

// upstreamsOf are those that a route leads to, each once. What serves in place of one
// whose circuit breaker is open is not among them.
func upstreamsOf(route *model.Route) []*model.Upstream {
	switch {
	case route.Split != nil:
		return leads(route.Split, "")
	case route.Upstream != nil:
		return []*model.Upstream{route.Upstream}
	}
	return nil
}
