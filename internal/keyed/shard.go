package keyed

import (
	"sync"
	"sync/atomic"
	"time"
)

// The marks of a node.
const (
	fresh  uint32 = iota // was asked for once, when it was made
	used                 // was asked for since
	unused               // was not asked for since the hand or the broom came by
	gone                 // has left the table
)

// node is a state with its key. What is fixed when it is made is read without a lock.
type node[V any] struct {
	key  uint64
	next atomic.Pointer[node[V]] // of the same slot of the index
	mark atomic.Uint32
	seat int32 // in the ring
	// value comes last: it alone is written by those who have the state.
	value V
}

// touch marks the node as used. It fails if it is gone.
func (n *node[V]) touch() bool {
	for {
		mark := n.mark.Load()
		switch mark {
		case used:
			return true // read only, so that a hot key's line is shared by all processors
		case gone:
			return false
		}
		if n.mark.CompareAndSwap(mark, used) {
			return true
		}
	}
}

// shard is the part of a table that has one lock.
//
// Its index is a hash table with chains, changed with the lock held and read without.
// Whoever reads while it changes may miss a node, never find a wrong one; a miss is
// looked at again with the lock held.
//
// Its ring is the clock of the second-chance algorithm (Corbató 1968). Where a node must
// go, a hand goes round, takes the marks of use away, and ends at a node that has none.
// The broom goes round on its own, for each node that comes: it takes away those that were
// idle for long enough, and leaves the marks of all others.
type shard[V any] struct {
	mu    sync.Mutex
	index atomic.Pointer[index[V]]
	ring  []*node[V] // nil: a free seat
	free  []int32    // seats, the one freed last at the end
	hand  int
	broom int
	held  int
	_     [40]byte // a shard is two lines of memory, which no neighbour shares
}

type index[V any] []atomic.Pointer[node[V]]

func (x index[V]) slot(key uint64) *atomic.Pointer[node[V]] { return &x[key&uint64(len(x)-1)] }

// find returns the node of a key, or nil.
func (s *shard[V]) find(key uint64) *node[V] {
	x := s.index.Load()
	if x == nil {
		return nil
	}
	for n := x.slot(key).Load(); n != nil; n = n.next.Load() {
		if n.key == key {
			if n.touch() {
				return n
			}
			return nil
		}
	}
	return nil
}

// What follows is called with mu held.

// insert adds a node. Where another has just made room it gets that seat, behind the hand,
// so that all others are looked at before it.
func (s *shard[V]) insert(n *node[V]) {
	if last := len(s.free) - 1; last >= 0 {
		n.seat = s.free[last]
		s.free = s.free[:last]
		s.ring[n.seat] = n
	} else {
		n.seat = int32(len(s.ring))
		s.ring = append(s.ring, n)
	}
	s.held++
	x := s.index.Load()
	if x == nil || s.held > len(*x) {
		s.grow()
		return
	}
	link(*x, n)
}

func link[V any](x index[V], n *node[V]) {
	slot := x.slot(n.key)
	n.next.Store(slot.Load())
	slot.Store(n)
}

// grow makes an index of twice the size for all nodes of the ring.
func (s *shard[V]) grow() {
	size := 8
	if x := s.index.Load(); x != nil {
		size = 2 * len(*x)
	}
	x := make(index[V], size)
	for _, n := range s.ring {
		if n != nil {
			link(x, n)
		}
	}
	s.index.Store(&x)
}

// remove takes away a node that is marked as gone. It keeps its next, so that whoever
// stands on it finds on.
func (s *shard[V]) remove(t *Table[V], n *node[V]) {
	at := s.index.Load().slot(n.key)
	for at.Load() != n {
		at = &at.Load().next
	}
	at.Store(n.next.Load())
	s.ring[n.seat] = nil
	s.free = append(s.free, n.seat)
	s.held--
	t.held.Add(-1)
}

// step returns what is in the seat of a hand, or nil, and moves the hand on.
func (s *shard[V]) step(hand *int) *node[V] {
	if *hand >= len(s.ring) {
		*hand = 0
	}
	n := s.ring[*hand]
	*hand++
	return n
}

// expire takes a node away if it has been idle for long enough, at the second look: whoever got it a
// moment ago may be about to use it.
func (s *shard[V]) expire(t *Table[V], n *node[V], now time.Duration) {
	mark := n.mark.Load()
	if !t.idle(&n.value, now-t.linger) {
		return
	}
	if mark != unused {
		n.mark.CompareAndSwap(mark, unused)
		return
	}
	if n.mark.CompareAndSwap(unused, gone) {
		s.remove(t, n)
	}
}

// sweeps is how many seats are looked at for each node that comes. An idle node is
// looked at twice until it goes, so with four those that were idle for long enough never
// outnumber the others by much.
const sweeps = 4

// sweep takes away idle nodes, a few at a time.
func (s *shard[V]) sweep(t *Table[V], now time.Duration) {
	for range min(sweeps, len(s.ring)) {
		if n := s.step(&s.broom); n != nil {
			s.expire(t, n, now)
		}
	}
}

// choice is among how many seats an idle node is looked for before one goes that is not.
const choice = 16

// evict takes one node away, and fails only if there is none. It ends, since a round of
// the hand takes away all marks of use, and only those come back that are asked for meanwhile.
func (s *shard[V]) evict(t *Table[V], now time.Duration) bool {
	for range min(choice, len(s.ring)) {
		n := s.step(&s.broom)
		if n == nil {
			continue
		}
		if mark := n.mark.Load(); t.idle(&n.value, now) && n.mark.CompareAndSwap(mark, gone) {
			s.remove(t, n)
			return true
		}
	}
	for s.held > 0 {
		n := s.step(&s.hand)
		if n == nil || n.mark.CompareAndSwap(used, unused) {
			continue
		}
		if mark := n.mark.Load(); mark != used && n.mark.CompareAndSwap(mark, gone) {
			s.remove(t, n)
			t.evicted.Add(1)
			return true
		}
	}
	return false
}

// nodes returns those that there are. It takes the lock itself.
func (s *shard[V]) nodes() []*node[V] {
	s.mu.Lock()
	defer s.mu.Unlock()
	nodes := make([]*node[V], 0, s.held)
	for _, n := range s.ring {
		if n != nil {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
