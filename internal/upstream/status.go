package upstream

import (
	"time"

	"sluice/internal/resilience"
)

// Status is an upstream as people see it.
type Status struct {
	Name      string           `json:"name"`
	Policy    string           `json:"policy"`
	Panicking bool             `json:"panicking"` // too few endpoints are fit: health and ejection are ignored
	InFlight  int64            `json:"in_flight"` // exchanges
	Repeating int64            `json:"repeating"` // of them, those that are being repeated
	Endpoints []EndpointStatus `json:"endpoints"`
}

// EndpointStatus is an endpoint as people see it. The counts run for as long as
// some snapshot has the endpoint.
type EndpointStatus struct {
	URL       string     `json:"url"`
	Weight    int        `json:"weight"`
	Version   string     `json:"version,omitempty"`
	Available bool       `json:"available"`        // it gets attempts
	Health    string     `json:"health,omitempty"` // unknown, healthy or unhealthy; empty: it is not checked
	Fault     string     `json:"fault,omitempty"`  // of the last check
	Drained   bool       `json:"drained"`
	Ejected   *time.Time `json:"ejected_until,omitempty"`
	Ejections int        `json:"ejections"`            // in a row
	LatencyMS float64    `json:"latency_ms,omitempty"` // peak EWMA, where the policy asks for it
	Active    int64      `json:"active"`               // attempts under way
	Requests  int64      `json:"requests"`             // attempts begun
	Failures  int64      `json:"failures"`             // attempts that failed by the endpoint's fault
}

// Fit tells whether neither checks, nor an ejection, nor a drain keep attempts from
// the endpoint. One that is not gets some nonetheless while its upstream panics.
func (s *EndpointStatus) Fit() bool {
	return s.Health != unhealthy.String() && s.Ejected == nil && !s.Drained
}

// Status returns the endpoints in the order in which they are written.
func (g *Group) Status(now time.Time) Status {
	inFlight, repeating := g.shared.budget.Status()
	status := Status{Name: g.Name(), Policy: g.Balancer.Policy, InFlight: inFlight, Repeating: repeating, Endpoints: []EndpointStatus{}}
	v := g.look(now)
	if v == nil {
		return status
	}
	status.Panicking = v.panicking
	g.shared.mu.Lock()
	defer g.shared.mu.Unlock()
	for _, e := range v.roll.endpoints {
		s := EndpointStatus{
			URL: e.URL, Weight: e.Weight, Version: e.Version,
			Available: among(v.usable, e) && e.ready(now), Drained: e.state.drained.Load(),
			Active: e.state.active.Load(), Requests: e.state.requests.Load(), Failures: e.state.failures.Load(),
		}
		if g.Health != nil {
			s.Health = e.state.of().String()
			if fault := e.state.fault.Load(); fault != nil {
				s.Fault = *fault
			}
		}
		if g.Outlier != nil {
			s.Ejections = e.state.ejection.Times()
			if e.state.ejection.Out(now) {
				until := e.state.ejection.Until()
				s.Ejected = &until
			}
		}
		s.LatencyMS = float64(e.state.latency.Value(now)) / float64(time.Millisecond)
		status.Endpoints = append(status.Endpoints, s)
	}
	return status
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

// Drain lets the endpoints with a URL get no new attempt, or lets them get such
// again; it tells whether there are any. What is under way goes on.
func (g *Group) Drain(url string, drained bool) (found bool) {
	members := g.members.Load()
	if members == nil {
		return false
	}
	for _, e := range members.endpoints {
		if e.URL != url {
			continue
		}
		found = true
		if e.state.drained.Swap(drained) == drained {
			continue
		}
		word := map[bool]string{true: "drained", false: "undrained"}[drained]
		if !drained {
			g.shared.mu.Lock()
			e.state.back = time.Now()
			g.shared.mu.Unlock()
		}
		g.shared.changed()
		g.observer.tell(Event{Kind: DrainChanged, Upstream: g.Name(), Endpoint: e.URL, To: word, Reason: "asked for"})
	}
	return found
}
