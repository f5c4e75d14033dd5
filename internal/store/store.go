// Package store holds clients of the databases that several instances share. A
// client is a lease by its settings, so that its connections outlive reloads.
// What is kept in a store is the business of whoever uses it.
package store

import (
	"sync"

	"github.com/redis/go-redis/v9"

	"sluice/internal/lease"
	"sluice/internal/model"
)

// Store is a database that can be reached, or not for now: it connects when it is
// used. It is safe for concurrent use.
type Store struct {
	// Redis is the client. It repeats what may not have arrived. It is closed with the
	// lease.
	Redis redis.UniversalClient
	// Once is the same client for scripts that must not be repeated.
	Once redis.Scripter

	ages  ages
	mu    sync.Mutex
	users map[<-chan struct{}]struct{}
}

// Acquire returns the store of these settings, the live one if there is one; set
// holds it.
func Acquire(set *lease.Set, m *model.Store) *Store {
	return lease.Acquire(set, "store\n"+model.Text(m.Redis), func() *Store {
		s := &Store{users: map[<-chan struct{}]struct{}{}}
		s.Redis = newRedis(&m.Redis, &s.ages)
		s.Once = once{s.Redis}
		return s
	})
}

// Keep keeps the client open until done is closed, also past the end of the
// lease: for what has to finish by it.
func (s *Store) Keep(done <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[done] = struct{}{}
}

// Release closes the client once nobody needs it any more.
func (s *Store) Release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	go func(users map[<-chan struct{}]struct{}) {
		for done := range users {
			<-done
		}
		_ = s.Redis.Close() // nobody is left to tell
	}(s.users)
	s.users = nil
}
