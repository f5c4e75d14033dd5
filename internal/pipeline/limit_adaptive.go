package pipeline

import "time"

// AdaptiveRateStatus is what people see of an adaptive rate.
type AdaptiveRateStatus struct {
	// Floor and Ceiling are requests a second of those without a tier.
	Floor   float64 `json:"floor"`
	Ceiling float64 `json:"ceiling"`
	// Keys is how many keys it knows something of, and Evicted how many it has forgotten
	// because there were too many.
	Keys    int   `json:"keys"`
	Evicted int64 `json:"evicted"`
	// Upstreams is how it stands with those that the limit's routes lead to.
	Upstreams []StanceStatus `json:"upstreams"`
}

// StanceStatus is how much an adaptive rate lets through to an upstream.
type StanceStatus struct {
	Upstream string     `json:"upstream"`
	State    string     `json:"state"`           // normal, guarded, shedding or recovering
	Since    *time.Time `json:"since,omitempty"` // of the last change; absent: there was none
	Reason   string     `json:"reason,omitempty"`
	Code     float64    `json:"-"` // the state as a number, for the metric
}
