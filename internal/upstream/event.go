package upstream

import (
	"time"

	"sluice/internal/discovery"
	"sluice/internal/model"
)

// Event is a change of what is known of an upstream, for the log and the metrics.
type Event struct {
	Kind     EventKind
	Upstream string
	Endpoint string // empty: the upstream as a whole
	From, To string // states of a circuit breaker, of health or of a guard
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
	StanceChanged  EventKind = "stance" // of adaptive limits in front of the upstream

	LookupFailed    EventKind = "lookup failed" // the endpoint is the name that is looked up
	LookupRecovered EventKind = "lookup recovered"
)

// Observer is told of events, each after it is so: those of endpoints in their order
// and one at a time, by whoever comes by. It must not wait; nil: nobody.
type Observer func(Event)

func (o Observer) tell(e Event) {
	if o != nil {
		o(e)
	}
}

// lookups has an observer told of the look-ups for an upstream.
func lookups(upstream string, observer Observer) discovery.Observer {
	return discovery.Observer{
		Failed: func(m *model.DNS, err error) {
			observer.tell(Event{Kind: LookupFailed, Upstream: upstream, Endpoint: m.Name, Reason: err.Error()})
		},
		Recovered: func(m *model.DNS) {
			observer.tell(Event{Kind: LookupRecovered, Upstream: upstream, Endpoint: m.Name})
		},
	}
}
