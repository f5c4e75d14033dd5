// Package keyed holds a small state for each of many keys: what a limit knows of each
// client, or what was found out about each token. It bounds how many there are, so that
// whoever invents keys cannot make memory grow. It knows nothing of what the states are
// for, has no clock and no goroutine, and never writes anything down.
package keyed

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"
	"time"
)

// shardSize is about how many states have a lock in common, at most; maxShards is how
// many locks there are at most.
const (
	shardSize = 512
	maxShards = 1024
)

// Table holds a state for each key, up to a number of keys. Past it a state that was
// not asked for lately makes room, and is counted; one that is as good as none goes
// before the others, and is not. It is safe for use by any number of goroutines.
type Table[V any] struct {
	seed   maphash.Seed
	shift  uint // what is left of a key above it is its shard
	shards []shard[V]
	most   atomic.Int64
	fresh  func(v *V)
	idle   func(v *V, now time.Duration) bool
	linger time.Duration

	held    atomic.Int64
	evicted atomic.Int64
}

// NewTable returns an empty table for up to most keys, at least one. fresh prepares a
// new state before anybody sees it; if nil, a state begins as its zero value. idle tells
// whether a state is as good as a new one, so that nothing is lost with it; if nil, none
// ever is. Both are called with a lock held, and may not use the table.
//
// A state that has left the table may be used on, but nobody else sees what becomes of
// it. That meets nobody who uses a state at once: the table takes none away that was
// asked for since it last looked at it; only where it is full an idle one may go sooner.
func NewTable[V any](most int, fresh func(v *V), idle func(v *V, now time.Duration) bool) *Table[V] {
	most = max(most, 1)
	size := uint(bits.Len(uint(min(most/shardSize, maxShards))))
	if size > 0 {
		size-- // the power of two below
	}
	if fresh == nil {
		fresh = func(*V) {}
	}
	if idle == nil {
		idle = func(*V, time.Duration) bool { return false }
	}
	t := &Table[V]{
		seed: maphash.MakeSeed(), shift: 64 - size, shards: make([]shard[V], 1<<size),
		fresh: fresh, idle: idle,
	}
	t.most.Store(int64(most))
	return t
}

// Resize has the table take up to so many keys from now on, at least one. Where it holds
// more, they make room by and by as others come. Its locks stay as many as they are.
func (t *Table[V]) Resize(most int) { t.most.Store(int64(max(most, 1))) }

// shrinks is how many states make room for one at most, where there are more than the table
// may hold: nobody who asks for one waits for all of them.
const shrinks = 64

// Linger has idle states stay for so long where there is room, and returns the table,
// which nobody uses yet. Many keys are idle soon after each time that they come, and come
// back: they are not made anew each time. idle is asked about times that are so long ago.
func (t *Table[V]) Linger(long time.Duration) *Table[V] {
	t.linger = long
	return t
}

// Key returns the key of a text. It differs between tables and processes, so that
// nobody outside can choose texts that meet in one key.
func (t *Table[V]) Key(text string) uint64 { return maphash.String(t.seed, text) }

// Get returns the state of a key, which is one that Key returned; a new state, if there
// is none. now is handed to idle. For a key that is there it takes no lock and allocates
// nothing.
func (t *Table[V]) Get(key uint64, now time.Duration) *V {
	s := &t.shards[key>>t.shift]
	if n := s.find(key); n != nil {
		return &n.value
	}
	for tries := 0; ; tries++ {
		n, ok := t.add(s, key, now, tries >= shrinks)
		if ok {
			return &n.value
		}
		// The table is full, and nothing in this shard can go.
		t.thin(key, now)
	}
}

// add makes the state of a key. It fails where the table is full and the shard is empty,
// unless enough others have made room already.
func (t *Table[V]) add(s *shard[V], key uint64, now time.Duration, enough bool) (*node[V], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.find(key); n != nil {
		return n, true
	}
	s.sweep(t, now)
	for gone := 0; !t.reserve(enough || gone >= shrinks); gone++ {
		if !s.evict(t, now) {
			return nil, false
		}
	}
	n := &node[V]{key: key}
	t.fresh(&n.value)
	s.insert(n)
	return n, true
}

// reserve takes one of the table's places. Where there are too many taken, since it was
// made smaller, it takes one more if enough have made room for that.
func (t *Table[V]) reserve(enough bool) bool {
	for {
		held, most := t.held.Load(), t.most.Load()
		if held >= most && (held == most || !enough) {
			return false
		}
		if t.held.CompareAndSwap(held, held+1) {
			return true
		}
	}
}

// thin makes room in another shard than that of the key.
func (t *Table[V]) thin(key uint64, now time.Duration) {
	own := int(key >> t.shift)
	for i := 1; i < len(t.shards); i++ {
		s := &t.shards[(own+i)%len(t.shards)]
		s.mu.Lock()
		done := s.evict(t, now)
		s.mu.Unlock()
		if done {
			return
		}
	}
}

// Len returns how many states there are.
func (t *Table[V]) Len() int { return int(t.held.Load()) }

// Evicted returns how many states have made room for others that were not idle.
func (t *Table[V]) Evicted() int64 { return t.evicted.Load() }

// Range calls f for each state, in no order, until it returns false. States that come
// or go meanwhile may be among them or not. No lock is held while f runs.
func (t *Table[V]) Range(f func(key uint64, v *V) bool) {
	for i := range t.shards {
		for _, n := range t.shards[i].nodes() {
			if !f(n.key, &n.value) {
				return
			}
		}
	}
}
