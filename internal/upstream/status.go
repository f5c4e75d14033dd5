package upstream

import "time"

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
	// Failures are attempts without a whole answer, by the endpoint's fault, and those
	// that outlier_detection or circuit_breaker count by their status.
	Failures int64 `json:"failures"`
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
			Available: among(v.usable.endpoints, e) && e.ready(now), Drained: e.state.drained.Load(),
			Active: e.state.active.Load(), Requests: e.state.requests.Load(), Failures: e.state.failures.Load(),
		}
		if g.Health != nil {
			s.Health, s.Fault = e.state.health.String(), e.state.fault
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
