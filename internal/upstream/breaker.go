package upstream

import (
	"sync/atomic"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/resilience"
)

// acquireBreaker is the circuit breaker of an upstream, or of one endpoint of it.
// It is another one where its settings are others: what was counted by those says
// nothing. Its transitions are counted in turned.
func acquireBreaker(set *lease.Set, m *model.Upstream, place, endpoint string, turned *atomic.Uint64, observer Observer) *resilience.Breaker {
	settings := resilience.BreakerSettings{
		Window: m.Breaker.Window, MinRequests: m.Breaker.MinRequests, ErrorRate: m.Breaker.ErrorRate, Consecutive: m.Breaker.Consecutive,
		OpenFor: m.Breaker.OpenFor, MaxConcurrent: m.Breaker.MaxConcurrent, Successes: m.Breaker.Successes,
	}
	if slow := m.Breaker.SlowCall; slow != nil {
		settings.SlowAfter, settings.SlowRate = slow.LongerThan, slow.Rate
	}
	identity := model.Text(struct {
		Settings resilience.BreakerSettings
		Status   []int
	}{settings, m.Breaker.FailureStatus})
	return lease.Acquire(set, "breaker\n"+m.Name+"\n"+place+"\n"+identity, func() *resilience.Breaker {
		return resilience.NewBreaker(settings, func(t resilience.Transition) {
			turned.Add(1)
			observer.tell(Event{Kind: BreakerChanged, Upstream: m.Name, Endpoint: endpoint, From: t.From.String(), To: t.To.String(), Reason: t.Reason})
		})
	})
}

// BreakerStatus is a circuit breaker as people see it.
type BreakerStatus struct {
	Upstream string     `json:"upstream"`
	Endpoint string     `json:"endpoint,omitempty"` // empty: it is the upstream's
	State    string     `json:"state"`
	Since    *time.Time `json:"since,omitempty"`  // of the last transition; absent: there was none
	Reason   string     `json:"reason,omitempty"` // of it
	// Within the window.
	Requests    int `json:"requests"`
	Failures    int `json:"failures"`
	Slow        int `json:"slow"`
	Consecutive int `json:"consecutive_failures"`
	// Of a half-open one.
	Probing   int        `json:"probing"` // under way
	Successes int        `json:"successes"`
	ProbeAt   *time.Time `json:"probe_at,omitempty"` // when an open one lets an attempt through as a probe

	code resilience.State
}

// Code is the state as a number, for the metric.
func (s *BreakerStatus) Code() float64 { return float64(s.code) }

// Breakers are the circuit breakers of the upstream.
func (g *Group) Breakers(now time.Time) []BreakerStatus {
	if g.breaker != nil {
		return []BreakerStatus{breakerStatus(g.Name(), "", g.breaker.Status(now))}
	}
	members := g.members.Load()
	if g.Breaker == nil || members == nil {
		return nil
	}
	list := make([]BreakerStatus, 0, len(members.endpoints))
	seen := map[*resilience.Breaker]bool{}
	for _, e := range members.endpoints {
		if !seen[e.breaker] { // an endpoint may be listed twice
			seen[e.breaker] = true
			list = append(list, breakerStatus(g.Name(), e.URL, e.breaker.Status(now)))
		}
	}
	return list
}

func breakerStatus(upstream, endpoint string, s resilience.BreakerStatus) BreakerStatus {
	out := BreakerStatus{
		Upstream: upstream, Endpoint: endpoint, State: s.State.String(), Reason: s.Reason,
		Requests: s.Requests, Failures: s.Failures, Slow: s.Slow, Consecutive: s.Consecutive,
		Probing: s.Probing, Successes: s.Successes, code: s.State,
	}
	if !s.Since.IsZero() {
		out.Since = &s.Since
	}
	if !s.ProbeAt.IsZero() {
		out.ProbeAt = &s.ProbeAt
	}
	return out
}
