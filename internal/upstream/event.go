package upstream

import "time"

// Event is a change of what is known of an upstream, for the log and the metrics.
type Event struct {
	Kind     EventKind
	Upstream string
	Endpoint string // empty: the upstream as a whole
	From, To string // states of a circuit breaker or of health
	Reason   string
	Until    time.Time // of an ejection
}

// EventKind is what changed.
type EventKind string

// The kinds of event.
const (
	HealthChanged  EventKind = "health"
	Ejected        EventKind = "ejected"
	Returned       EventKind = "returned"
	BreakerChanged EventKind = "breaker"
	DrainChanged   EventKind = "drain"
	// The endpoint of these is the name that is looked up.
	LookupFailed    EventKind = "lookup failed"
	LookupRecovered EventKind = "lookup recovered"
)

// Observer is told of events. It must not wait, nor call the upstream; nil: nobody.
type Observer func(Event)

func (o Observer) tell(e Event) {
	if o != nil {
		o(e)
	}
}
