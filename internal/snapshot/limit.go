package snapshot

import (
	"slices"
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
}

// show takes a limit.
func (s *Snapshot) show(identity string, status func() pipeline.LimitStatus) {
	known := slices.ContainsFunc(s.limits, func(l shownLimit) bool { return l.identity == identity })
	if !known {
		s.limits = append(s.limits, shownLimit{identity, status})
	}
}

// showKeys takes the keys of an issuer.
func (s *Snapshot) showKeys(status func() pipeline.KeysStatus) { s.keys = append(s.keys, status) }

// Limits tells how the limits are: those of upstreams first, then those of routes in
// the order in which these match.
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
