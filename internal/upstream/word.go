package upstream

import (
	"fmt"
	"strings"
	"time"
)

// State is the endpoint's state in words: what keeps attempts from it, or else what
// is known of its health.
func (s *EndpointStatus) State() string {
	var kept []string
	if s.Drained {
		kept = append(kept, "drained")
	}
	if s.Ejected != nil {
		kept = append(kept, fmt.Sprintf("ejected until %s, %d in a row", s.Ejected.Format(time.RFC3339), s.Ejections))
	}
	if s.Health == unhealthy.String() {
		kept = append(kept, withFault(s.Health, s.Fault))
	}
	switch {
	case len(kept) > 0 && s.Available:
		return strings.Join(kept, "; ") + " (panic: used nonetheless)"
	case len(kept) > 0:
		return strings.Join(kept, "; ")
	case s.Weight == 0:
		return "of no weight"
	case s.Health == unknown.String():
		return withFault(s.Health, s.Fault)
	case !s.Available:
		return "circuit breaker not closed"
	case s.Health == "":
		return "available"
	}
	return withFault(s.Health, s.Fault)
}

func withFault(state, fault string) string {
	if fault == "" {
		return state
	}
	return state + ": " + fault
}
