package resilience

import "time"

// Quota is how much a limit lets through in which time, and how much of it at
// once. All are more than 0; a window has no use for Burst.
type Quota struct {
	Count int64
	Per   time.Duration
	Burst int64
}

// Verdict is what a limit says to one request.
type Verdict struct {
	Allowed   bool
	Remaining int64         // how much more would be allowed now
	Reset     time.Duration // until all is there again
	Retry     time.Duration // where it is not allowed, until it would be
}
