package snapshot

import (
	"context"
	"log/slog"

	"sluice/internal/upstream"
)

// tell puts what changed at an upstream into the process log, and counts it.
func (b *Builder) tell(e upstream.Event) {
	level := slog.LevelWarn
	switch {
	case e.Kind == upstream.HealthChanged && e.To == "healthy", e.Kind == upstream.Returned, e.Kind == upstream.DrainChanged,
		e.Kind == upstream.LookupRecovered, e.Kind == upstream.BreakerChanged && e.To != "open":
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
	b.Log.Log(context.Background(), level, messages[e.Kind], attributes...)
}

// messages are the words of the log for a kind of event.
var messages = map[upstream.EventKind]string{
	upstream.HealthChanged:   "the health of an endpoint changed",
	upstream.Ejected:         "an endpoint is ejected: it fails more than the others",
	upstream.Returned:        "an endpoint is back after its ejection",
	upstream.BreakerChanged:  "a circuit breaker changed its state",
	upstream.DrainChanged:    "an endpoint was drained or undrained",
	upstream.LookupFailed:    "an upstream cannot be looked up: its endpoints stay as they were",
	upstream.LookupRecovered: "an upstream can be looked up again",
}
