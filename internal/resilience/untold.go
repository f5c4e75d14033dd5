package resilience

import "sync"

// Untold is what has happened to something that a lock guards, until whoever wants to
// know is told of it: without the lock, one thing after another and in order. The zero
// value is ready. Its methods are called with that lock held.
type Untold[T any] struct {
	list    []T
	telling bool // a goroutine is
}

// Note leaves something to Unlock.
func (u *Untold[T]) Note(what T) { u.list = append(u.list, what) }

// Unlock releases mu, after it has called tell with what was noted, mu not held
// meanwhile. Where another goroutine is telling already it leaves that to it.
func (u *Untold[T]) Unlock(mu *sync.Mutex, tell func(T)) {
	defer mu.Unlock()
	if u.telling || len(u.list) == 0 {
		return
	}
	u.telling = true
	defer func() { u.telling = false }()
	for len(u.list) > 0 {
		next := u.list
		u.list = nil
		unlocked(mu, next, tell)
	}
}

func unlocked[T any](mu *sync.Mutex, list []T, tell func(T)) {
	mu.Unlock()
	defer mu.Lock()
	for _, what := range list {
		tell(what)
	}
}
