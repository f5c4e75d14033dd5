package resilience

import "time"

// BreakerStatus is a breaker as people see it.
type BreakerStatus struct {
	State  State
	Since  time.Time // of the last transition; zero: there was none
	Reason string    // of it

	// What the window holds. It is empty when the breaker closes; while it is open
	// nothing is added.
	Requests, Failures, Slow int
	Consecutive              int // failures in a row; those that opened it, while it is open

	Probing   int       // probes under way, where half open
	Successes int       // of probes so far, where half open
	ProbeAt   time.Time // where open, from when on a request is let through as a probe; else zero
}

// Status returns how the breaker stands. A breaker that is open stays so until a
// request comes, be it long after ProbeAt.
func (b *Breaker) Status(now time.Time) BreakerStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	seen := b.seen(now)
	s := BreakerStatus{
		State: b.state(), Since: b.since, Reason: b.reason,
		Requests: seen.Requests, Failures: seen.Failures, Slow: seen.Slow, Consecutive: b.consecutive,
		Probing: b.probing, Successes: b.successes,
	}
	if s.State == Open {
		s.ProbeAt = b.since.Add(b.settings.OpenFor)
	}
	return s
}
