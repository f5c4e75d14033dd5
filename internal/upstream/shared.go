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
	budget resilience.Budget
	random func(n int) int        // from 0 up to n, without n
	latest atomic.Pointer[roster] // the one that was started last; nil: none was

	// mu guards what follows, and what the states of endpoints say of it. Nothing that
	// may wait is done with it held.
	mu      sync.Mutex
	untold  []untold
	telling bool // a goroutine is telling untold
}

// untold is an event that nobody was told yet.
type untold struct {
	observer Observer
	event    Event
}

func newShared() *shared { return &shared{random: rand.IntN} }

// changed makes every view of the upstream be made anew.
func (s *shared) changed() { s.epoch.Add(1) }

// note leaves an event to unlock. The caller holds the lock.
func (s *shared) note(observer Observer, event Event) {
	if observer != nil {
		s.untold = append(s.untold, untold{observer, event})
	}
}

// unlock releases mu and tells what was noted, in that order and one at a time: where
// a goroutine is telling already, it goes on with it.
func (s *shared) unlock() {
	defer s.mu.Unlock()
	if s.telling {
		return
	}
	s.telling = true
	defer func() { s.telling = false }()
	for len(s.untold) > 0 {
		next := s.untold
		s.untold = nil
		s.tell(next)
	}
}

// tell is unlocked for as long as it tells.
func (s *shared) tell(events []untold) {
	s.mu.Unlock()
	defer s.mu.Lock()
	for _, one := range events {
		one.observer(one.event)
	}
}
