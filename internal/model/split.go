package model

import "time"

// Split shares a route's exchanges out among upstreams.
type Split struct {
	Sides  []Side
	Sticky *Key // nil: each exchange anew
	// ForceHeader is the request's field whose value, where it is the version of a
	// side, leads there.
	ForceHeader string
	// Failover gives the share of a side without an available endpoint to the
	// others.
	Failover bool
}

// Side is an upstream with its share of a split.
type Side struct {
	Upstream *Upstream
	Weight   int
	Version  string
}

// Retry is when an exchange is tried again.
type Retry struct {
	Attempts int // with the first
	On       RetryOn
	// PerTry bounds each try up to the head of its response; a try that it ends is
	// followed by another. 0: none.
	PerTry time.Duration
	// Budget is the share of the upstream's exchanges in flight that may be
	// repetitions, 0 to 1; three may be always.
	Budget float64
	// Methods are those that may be repeated although the endpoint has seen them.
	Methods []string
	// Body is how much of a request's body is kept for a repetition.
	Body int64
}

// RetryOn is what a repetition follows.
type RetryOn struct {
	ConnectFailure bool
	Refused        bool  // the endpoint cannot have looked at the request
	Reset          bool  // the connection ended before a response
	Timeout        bool  // no response in the time of one try
	Status         []int // of the response, or of the gateway's own error; sorted
}
