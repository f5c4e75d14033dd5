package resilience

import (
	"fmt"
	"time"
)

// Quota is how much a limit lets through in which time, and how much of it at
// once. All are more than 0; a window has no use for Burst.
type Quota struct {
	Count int64
	Per   time.Duration
	Burst int64
}

// What a quota may be, so that whatever is worked out of it fits into 64 bits.
const (
	maxCount = 1_000_000_000
	maxPer   = 365 * 24 * time.Hour
	maxFill  = 4 * maxPer // of an empty bucket
)

// Problem says what is wrong with a quota, for people; "" if nothing is.
func (q Quota) Problem() string {
	switch {
	case q.Count < 1 || q.Count > maxCount:
		return fmt.Sprintf("the rate is %d, it is 1 to %d", q.Count, maxCount)
	case q.Per < 1 || q.Per > maxPer:
		return fmt.Sprintf("the rate's time is %v, it is a year at most", q.Per)
	case q.Burst < 1 || q.Burst > maxCount:
		return fmt.Sprintf("the burst is %d, it is 1 to %d", q.Burst, maxCount)
	case float64(q.Per)/float64(q.Count)*float64(q.Burst) > float64(maxFill):
		return fmt.Sprintf("a burst of %d takes more than four years to come back at %d in %v: lower it, or raise the rate", q.Burst, q.Count, q.Per)
	}
	return ""
}

// Verdict is what a limit says to one request.
type Verdict struct {
	Allowed   bool
	Remaining int64         // how much more would be allowed now
	Reset     time.Duration // until all is there again
	// Retry is, where it is not allowed, how long until it would be if nobody else
	// came; where it never would be, how long until all is there.
	Retry time.Duration
}
