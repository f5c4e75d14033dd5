package resilience

import (
	"sync"
	"time"
)

// outcomeWindow is for how long an outcome counts among the others.
const outcomeWindow = 10 * time.Second

// Outcomes are what became of the requests to one endpoint. The zero value is ready.
type Outcomes struct {
	mu          sync.Mutex
	window      Window
	consecutive int
}

// Record counts the outcome of a request.
func (o *Outcomes) Record(now time.Time, failed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ready()
	result := Tally{Requests: 1}
	if failed {
		result.Failures = 1
		o.consecutive++
	} else {
		o.consecutive = 0
	}
	o.window.Add(now, result)
}

// Counts returns the failures in a row, and the requests and failures of the last ten
// seconds.
func (o *Outcomes) Counts(now time.Time) (consecutive, requests, failures int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ready()
	sum := o.window.Sum(now)
	return o.consecutive, sum.Requests, sum.Failures
}

// Reset forgets all outcomes: those from before an ejection say nothing of what comes
// after it.
func (o *Outcomes) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.window, o.consecutive = Window{}, 0
}

// ready makes the window of a zero value. The caller holds mu.
func (o *Outcomes) ready() {
	if o.window.width == 0 {
		o.window = NewWindow(outcomeWindow)
	}
}
