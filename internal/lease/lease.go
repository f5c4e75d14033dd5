// Package lease keeps long-lived objects alive across snapshots by what they
// are: a connection pool by its endpoint, a listener by its address. It knows
// nothing of what it keeps.
//
// A snapshot takes its objects through a Set. Objects of equal identity are
// shared, so what did not change goes on with its state. An object ends when
// the last set that holds it is released.
package lease

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// Starter is an object that has something to start: a socket, a goroutine.
// Start is called once, when the first set that holds the object commits.
type Starter interface {
	Start() error
}

// Releaser is an object that has something to end. Release is called once,
// after the last set that held the object is released, and never before a
// Start that it belongs to has returned. It must not block: it stops new work
// and lets what is under way drain on its own.
type Releaser interface {
	Release()
}

// Lingerer is an object that is kept for a while after the last set that held it is
// released, for a set that takes it up meanwhile: where to forget what it knows would do
// harm, and a reload may be undone by another. It has nothing that goes on by itself.
type Lingerer interface {
	// Linger is how long it is kept.
	Linger() time.Duration
}

// Registry holds the objects of all live sets. The zero value is ready.
type Registry struct {
	mu      sync.Mutex
	objects map[string]*entry
}

type entry struct {
	value   any
	holders int
	started bool
	ending  *time.Timer // of a Lingerer that nobody holds; else nil
}

// Set is what one snapshot holds. It is used by one goroutine at a time.
type Set struct {
	registry *Registry
	held     map[string]*entry
	order    []string
	released bool
}

// NewSet returns an empty set.
func (r *Registry) NewSet() *Set {
	return &Set{registry: r, held: map[string]*entry{}}
}

// Registry is what the set takes its objects from: for one of them that holds
// objects of its own.
func (s *Set) Registry() *Registry { return s.registry }

// Acquire returns the live object with the identity key, or the one that build
// makes; the set holds it until it is released. build must start nothing: that
// is for Start. Two types under one key are a fault of the program.
func Acquire[T any](s *Set, key string, build func() T) T {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	e := s.held[key]
	if e == nil {
		if e = s.registry.objects[key]; e == nil {
			e = &entry{value: build()}
			if s.registry.objects == nil {
				s.registry.objects = map[string]*entry{}
			}
			s.registry.objects[key] = e
		}
		e.holders++
		if e.ending != nil {
			e.ending.Stop()
			e.ending = nil
		}
		s.held[key] = e
		s.order = append(s.order, key)
	}
	value, ok := e.value.(T)
	if !ok {
		panic(fmt.Sprintf("BUG: lease %q holds a %T", key, e.value))
	}
	return value
}

// Commit starts the objects that no earlier set has started, in the order in
// which they were acquired. If one fails, its error is returned and the set is
// to be released; those already started end with it.
func (s *Set) Commit() error {
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	for _, key := range s.order {
		e := s.held[key]
		if e.started {
			continue
		}
		if starter, ok := e.value.(Starter); ok {
			if err := starter.Start(); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		e.started = true
	}
	return nil
}

// Release gives back everything the set holds, last acquired first. A second
// call does nothing.
func (s *Set) Release() {
	if s.released {
		return
	}
	s.released = true
	s.registry.mu.Lock()
	defer s.registry.mu.Unlock()
	for i := len(s.order) - 1; i >= 0; i-- {
		key := s.order[i]
		e := s.held[key]
		if e.holders--; e.holders > 0 {
			continue
		}
		if lingerer, ok := e.value.(Lingerer); ok && e.started {
			s.registry.linger(key, e, lingerer.Linger())
			continue
		}
		s.registry.end(key, e)
	}
}

// end ends what nobody holds. It is called with the lock held.
func (r *Registry) end(key string, e *entry) {
	delete(r.objects, key)
	if releaser, ok := e.value.(Releaser); ok && e.started {
		releaser.Release()
	}
}

// linger ends what nobody holds once it was not taken up for so long. It is called with
// the lock held.
func (r *Registry) linger(key string, e *entry, wait time.Duration) {
	var timer *time.Timer
	timer = time.AfterFunc(wait, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if e.ending == timer { // it was not taken up in the last moment
			r.end(key, e)
		}
	})
	e.ending = timer
}

// ErrHeld is what Idle returns while objects are held.
var ErrHeld = errors.New("objects are still held")

// Idle returns nil once no set holds anything.
func (r *Registry) Idle() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.objects {
		if e.holders > 0 {
			return ErrHeld
		}
	}
	return nil
}
