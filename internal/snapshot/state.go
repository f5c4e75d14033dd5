package snapshot

import (
	"time"

	"sluice/internal/telemetry"
	"sluice/internal/upstream"
)

// State is what the metrics read of the serving snapshot; empty before the first.
func (c *Current) State() telemetry.State {
	var state telemetry.State
	s := c.pointer.Load()
	if s == nil {
		return state
	}
	now := time.Now()
	for _, group := range s.Upstreams {
		for _, e := range group.Status(now).Endpoints {
			state.Endpoints = append(state.Endpoints, telemetry.EndpointState{Upstream: group.Name(), Endpoint: e.URL, Healthy: e.Fit()})
		}
	}
	for _, b := range s.Breakers(now) {
		state.Breakers = append(state.Breakers, telemetry.BreakerState{Upstream: b.Upstream, Endpoint: b.Endpoint, Code: b.Code()})
	}
	for _, l := range s.Limits() {
		state.Limits = append(state.Limits, telemetry.LimitState{
			Limit: l.Limit, Keys: l.Keys, Evicted: l.Evicted, Concurrency: l.Concurrent(), Running: l.Running, Waiting: l.Waiting,
		})
		if l.AdaptiveRate == nil {
			continue
		}
		for _, u := range l.AdaptiveRate.Upstreams {
			state.Stances = append(state.Stances, telemetry.StanceState{Limit: l.Limit, Upstream: u.Upstream, Code: u.Code})
		}
	}
	for _, status := range s.keys {
		if k := status(); k.URL != "" {
			state.Keys = append(state.Keys, telemetry.KeysState{URL: k.URL, Keys: k.Keys, Fetched: k.Fetched, Failed: k.Failed, Last: k.Last})
		}
	}
	for _, l := range s.ListenerStatus() {
		expiry := func(certificate string, end time.Time) {
			if !end.IsZero() { // there is one
				state.Certificates = append(state.Certificates, telemetry.CertificateState{Listener: l.Name, Certificate: certificate, NotAfter: end})
			}
		}
		for _, c := range l.Certificates {
			expiry(c.Cert, c.NotAfter)
		}
		for _, c := range l.ACME {
			expiry(c.Domain, c.NotAfter)
		}
	}
	return state
}

// Breakers tells how the circuit breakers are, in the order of the upstreams.
func (s *Snapshot) Breakers(now time.Time) []upstream.BreakerStatus {
	list := []upstream.BreakerStatus{}
	for _, group := range s.Upstreams {
		list = append(list, group.Breakers(now)...)
	}
	return list
}
