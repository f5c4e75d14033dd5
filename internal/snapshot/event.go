package snapshot

import (
	"context"
	"log/slog"

	"sluice/internal/model"
	"sluice/internal/resilience"
	"sluice/internal/upstream"
)

// tell puts what changed at an upstream into the process log, and counts it.
func (b *Builder) tell(e upstream.Event) {
	switch e.Kind {
	case upstream.BreakerChanged:
		b.Metrics.BreakerChanged(e.Upstream, e.Endpoint, e.To)
	case upstream.Ejected:
		b.Metrics.EndpointEjected(e.Upstream, e.Endpoint)
	case upstream.HealthChanged, upstream.Returned, upstream.DrainChanged, upstream.StanceChanged, upstream.LookupFailed, upstream.LookupRecovered:
	}
	level := slog.LevelWarn
	switch {
	case e.Kind == upstream.HealthChanged && e.To == "healthy", e.Kind == upstream.Returned, e.Kind == upstream.DrainChanged,
		e.Kind == upstream.LookupRecovered, e.Kind == upstream.BreakerChanged && e.To != "open",
		e.Kind == upstream.StanceChanged && (e.To == "normal" || e.To == "recovering"):
		level = slog.LevelInfo
	}
	attributes := []any{"upstream", e.Upstream}
	if e.Endpoint != "" {
		attributes = append(attributes, "endpoint", e.Endpoint)
	}
	if e.From != "" {
		attributes = append(attributes, "from", e.From)
	}
	if e.To != "" {
		attributes = append(attributes, "to", e.To)
	}
	if e.Reason != "" {
		attributes = append(attributes, "reason", e.Reason)
	}
	if !e.Until.IsZero() {
		attributes = append(attributes, "until", e.Until)
	}
	b.Log.Log(context.Background(), level, messages[e.Kind], attributes...) //nolint:sloglint // it is one of few
}

// expect lets what may be told of an upstream be counted from zero on.
func (b *Builder) expect(m *model.Upstream) {
	states := []string{resilience.Closed.String(), resilience.Open.String(), resilience.HalfOpen.String()}
	if m.Breaker != nil && m.Breaker.Scope != model.ScopeEndpoint {
		b.Metrics.ExpectBreaker(m.Name, "", states...)
	}
	for _, e := range m.Endpoints {
		if m.Breaker != nil && m.Breaker.Scope == model.ScopeEndpoint {
			b.Metrics.ExpectBreaker(m.Name, e.URL, states...)
		}
		if m.Outlier != nil {
			b.Metrics.ExpectEjection(m.Name, e.URL)
		}
	}
}

// messages are the words of the log for a kind of event.
var messages = map[upstream.EventKind]string{
	upstream.HealthChanged:   "the health of an endpoint changed",
	upstream.Ejected:         "an endpoint is ejected: too many of its requests failed",
	upstream.Returned:        "an endpoint is back after its ejection",
	upstream.BreakerChanged:  "a circuit breaker changed its state",
	upstream.DrainChanged:    "an endpoint was drained or undrained",
	upstream.StanceChanged:   "adaptive limits let more or less through to an upstream",
	upstream.LookupFailed:    "an upstream cannot be looked up: its endpoints stay as they were",
	upstream.LookupRecovered: "an upstream can be looked up again",
}
