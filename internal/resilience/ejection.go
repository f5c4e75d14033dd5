package resilience

import (
	"sync"
	"time"
)

// maxTimes is how often an ejection grows.
const maxTimes = 10

// Ejection is for how long an endpoint gets nothing. Each ejection in a row is longer
// than the one before. The zero value is ready.
type Ejection struct {
	mu    sync.Mutex
	times int
	until time.Time
}

// Eject puts the endpoint out and returns until when: for base times the number of
// ejections in a row, ten at most. Each base of time that has passed since the last one
// was over takes one from that number. An endpoint that is out already stays out for
// as long as it would have.
func (e *Ejection) Eject(now time.Time, base time.Duration) (until time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Before(e.until) {
		return e.until
	}
	if base > 0 {
		good := now.Sub(e.until) / base
		e.times -= int(min(good, time.Duration(e.times)))
	}
	e.times = min(e.times+1, maxTimes)
	e.until = now.Add(time.Duration(e.times) * base)
	return e.until
}

// Out tells whether the endpoint is out.
func (e *Ejection) Out(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return now.Before(e.until)
}

// Until returns when the last ejection is or was over; zero if there was none.
func (e *Ejection) Until() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.until
}

// Times returns how many ejections in a row the last one was, ten at most; 0 if there
// was none.
func (e *Ejection) Times() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.times
}
