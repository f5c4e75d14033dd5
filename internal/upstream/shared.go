package upstream

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"sluice/internal/resilience"
)

// shared is what all snapshots of an upstream have in common beside its endpoints.
type shared struct {
	epoch  atomic.Uint64 // raised after an endpoint's fitness has changed
	turned atomic.Uint64 // raised after a circuit breaker has gone to another state
	budget resilience.Budget
	random func(n int) int        // from 0 up to n, without n
	latest atomic.Pointer[roster] // the one that was started last; nil: none was

	// mu guards what follows, and what the states of endpoints say of it. Nothing that
	// may wait is done with it held.
	mu     sync.Mutex
	untold resilience.Untold[notice]
}

// notice is an event for an observer.
type notice struct {
	observer Observer
	event    Event
}

func newShared() *shared { return &shared{random: rand.IntN} }

// changed makes every view of the upstream be made anew.
func (s *shared) changed() { s.epoch.Add(1) }

// note leaves an event to unlock. The caller holds the lock.
func (s *shared) note(observer Observer, event Event) {
	if observer != nil {
		s.untold.Note(notice{observer, event})
	}
}

// unlock releases mu and tells what was noted, in that order and one at a time: where
// a goroutine is telling already, it goes on with it.
func (s *shared) unlock() {
	s.untold.Unlock(&s.mu, func(n notice) { n.observer(n.event) })
}
