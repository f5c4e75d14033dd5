package upstream

import (
	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/resilience"
)

// acquireBreaker is the circuit breaker of an upstream, or of one endpoint of it.
// It is another one where its settings are others: what was counted by those says
// nothing.
func acquireBreaker(set *lease.Set, m *model.Upstream, endpoint string, observer Observer) *resilience.Breaker {
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
	return lease.Acquire(set, "breaker\n"+m.Name+"\n"+endpoint+"\n"+identity, func() *resilience.Breaker {
		return resilience.NewBreaker(settings, func(t resilience.Transition) {
			observer.tell(Event{Kind: BreakerChanged, Upstream: m.Name, Endpoint: endpoint, From: t.From.String(), To: t.To.String(), Reason: t.Reason})
		})
	})
}
