package transport

import (
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"sluice/internal/netloop"
)

// staleCheck is how often connections at rest are looked at, whether the
// endpoint has closed them.
const staleCheck = time.Second

// shelf holds the idle connections of one executor, that used last at the end.
// Nobody waits with its lock held, so that on a loop nobody waits for it.
type shelf struct {
	pool     *pool
	executor netloop.Executor
	foreign  bool // attempts come on goroutines that are no tasks of the executor

	mu     sync.Mutex
	idle   []*link
	keeper netloop.Event // set to end the task that retires connections; nil: none runs
}

// spawn runs f as a task; false, if the executor has stopped.
func (s *shelf) spawn(f func()) bool {
	if s.foreign {
		return s.executor.Post(f)
	}
	s.executor.Go(f)
	return true
}

// take takes the connection that was used last, is sound and began with an
// introduction; nil: there is none. Those that are not sound are closed.
func (s *shelf) take(introduction string) *link {
	for {
		l := s.pop(introduction)
		if l == nil || !l.conn.Stale() {
			return l
		}
		l.close()
	}
}

// pop takes the connection that was used last of those that began with an
// introduction.
func (s *shelf) pop(introduction string) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.idle) - 1; i >= 0; i-- {
		if s.idle[i].introduction == introduction {
			return s.remove(i)
		}
	}
	return nil
}

// popAny takes the connection that has rested longest.
func (s *shelf) popAny() *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) == 0 {
		return nil
	}
	return s.remove(0)
}

// remove takes a connection off. The caller holds the lock.
func (s *shelf) remove(i int) *link {
	l := s.idle[i]
	s.idle = slices.Delete(s.idle, i, i+1)
	s.pool.idle.Add(-1)
	return l
}

// push takes a connection that rests from now on. Where there is no room for it,
// it returns false: it is to be closed. A task of the executor calls it.
func (s *shelf) push(l *link) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pool
	if p.released.Load() { // under the lock: else clear might have been here already
		return false
	}
	if n := p.idle.Add(1); p.maxIdle > 0 && n > p.maxIdle || !s.kept() {
		p.idle.Add(-1)
		return false
	}
	l.since = s.executor.Now()
	s.idle = append(s.idle, l)
	return true
}

// kept sees to it that a keeper runs; false, if the executor has stopped.
func (s *shelf) kept() bool {
	if s.keeper != nil {
		return true
	}
	keeper := s.executor.NewEvent()
	if !s.spawn(func() { s.keep(keeper) }) {
		return false
	}
	s.keeper = keeper
	return true
}

// keep retires connections until none is left, or the shelf is cleared.
func (s *shelf) keep(keeper netloop.Event) {
	next := time.Now().Add(staleCheck)
	if timeout := s.pool.idleTimeout; timeout > 0 && timeout < staleCheck {
		next = time.Now().Add(timeout)
	}
	// Any other end of the waiting is for good: the shelf is cleared, or the executor
	// has stopped.
	for !next.IsZero() && errors.Is(keeper.Wait(next), os.ErrDeadlineExceeded) {
		var retired []*link
		next, retired = s.retire(time.Now())
		for _, l := range retired {
			l.close()
		}
	}
}

// retire takes off those that are to be closed, and tells when to look again;
// zero: never, the keeper ends. An executor that stops closes them by itself.
func (s *shelf) retire(now time.Time) (next time.Time, retired []*link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next = now.Add(staleCheck)
	timeout := s.pool.idleTimeout
	s.idle = slices.DeleteFunc(s.idle, func(l *link) bool {
		due := l.since.Add(timeout)
		if timeout > 0 && !now.Before(due) || l.conn.Stale() {
			retired = append(retired, l)
			return true
		}
		if timeout > 0 && due.Before(next) {
			next = due
		}
		return false
	})
	s.pool.idle.Add(int64(-len(retired)))
	if len(s.idle) == 0 {
		next, s.keeper = time.Time{}, nil
	}
	return next, retired
}

// clear closes all. A task of the executor calls it.
func (s *shelf) clear() {
	s.mu.Lock()
	idle := s.idle
	s.idle = nil
	s.pool.idle.Add(int64(-len(idle)))
	if s.keeper != nil {
		s.keeper.Set()
		s.keeper = nil
	}
	s.mu.Unlock()
	for _, l := range idle {
		l.close()
	}
}
