package login

import (
	"sync"
	"time"
)

// quiet is how long nothing more is logged of one sort of failure.
const quiet = 10 * time.Second

// notice is failures of one sort, which may come with each request, and are logged once in
// a while: the first one at once, and how many there were since with the next one.
type notice struct {
	mu    sync.Mutex
	told  time.Time
	times int
}

// due counts a failure, and returns how many are to be logged of now.
func (n *notice) due(now time.Time) (times int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.times++
	if !n.told.IsZero() && now.Sub(n.told) < quiet {
		return 0
	}
	times, n.times, n.told = n.times, 0, now
	return times
}
