package resilience

import (
	"math"
	"sync"
	"time"
)

// tau is the time in which an average goes two thirds of the way to what is new.
const tau = 10 * time.Second

// Average is the moving average of latencies that Finagle calls peak EWMA: one that is
// higher counts at once and whole, a lower one by the time that has passed, so that an
// endpoint which becomes slow is avoided soon and trusted again slowly. The zero value
// is ready.
type Average struct {
	mu    sync.Mutex
	value float64 // in nanoseconds, at the time of at
	at    time.Time
}

// Observe takes a latency in.
func (a *Average) Observe(now time.Time, took time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	latency := float64(max(took, 1))
	if latency > a.value {
		a.value = latency
	} else {
		old := a.remains(now)
		a.value = a.value*old + latency*(1-old)
	}
	if now.After(a.at) {
		a.at = now
	}
}

// Value returns the average, which goes down while nothing is observed: an endpoint
// that was avoided for long is worth another try. 0 says that nothing is known, or
// nothing any more.
func (a *Average) Value(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Duration(a.value * a.remains(now))
}

// remains is the share of what is old after the time since the last observation.
func (a *Average) remains(now time.Time) float64 {
	since := now.Sub(a.at)
	if since <= 0 {
		return 1
	}
	return math.Exp(-float64(since) / float64(tau))
}
