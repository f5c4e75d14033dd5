package resilience

import (
	"sync"
	"time"
)

// ringGroups is how many times of takes a ring holds at most.
const ringGroups = 64

// Ring is a sliding window: never more than Count is let through in any time of
// Per. It holds the times of what it let through, in groups where Count is large; a
// group counts as a whole until its last take is Per ago, so that a little less than
// Count may pass, by a group at most, never more. The zero value is empty.
type Ring struct {
	mu     sync.Mutex
	groups []group // in the order of time, from first on, around
	first  int
	used   int
	total  int64
}

type group struct {
	last time.Duration
	n    int64
}

// Take takes cost, at least 1, if there is room for it. A cost above Count never
// finds any. Times of different goroutines may differ a little.
func (r *Ring) Take(q *Quota, now time.Duration, cost int64) Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used > 0 {
		now = max(now, r.at(r.used-1).last)
	}
	r.forget(q, now)
	if r.total+cost > q.Count {
		return Verdict{Remaining: q.Count - r.total, Reset: r.reset(q, now), Retry: r.retry(q, now, cost)}
	}
	r.add(q, now, cost)
	return Verdict{Allowed: true, Remaining: q.Count - r.total, Reset: r.reset(q, now)}
}

func (r *Ring) at(i int) *group { return &r.groups[(r.first+i)%len(r.groups)] }

// forget drops what has left the window.
func (r *Ring) forget(q *Quota, now time.Duration) {
	for r.used > 0 && r.at(0).last <= now-q.Per {
		r.total -= r.at(0).n
		r.first = (r.first + 1) % len(r.groups)
		r.used--
	}
	if r.used == 0 {
		r.first = 0
	}
}

// add notes what is let through.
func (r *Ring) add(q *Quota, now time.Duration, cost int64) {
	size := (q.Count + ringGroups - 1) / ringGroups
	r.total += cost
	if r.used > 0 {
		if last := r.at(r.used - 1); last.n+cost <= size || last.last == now {
			last.last, last.n = now, last.n+cost
			return
		}
	}
	if r.used == len(r.groups) {
		r.grow()
	}
	r.used++
	*r.at(r.used - 1) = group{now, cost}
}

// grow makes room. Twice as many groups as fit into a window are enough: of two
// neighbours one is more than half full.
func (r *Ring) grow() {
	groups := make([]group, max(4, 2*len(r.groups)))
	for i := range r.used {
		groups[i] = *r.at(i)
	}
	r.groups, r.first = groups, 0
}

// retry is how long it takes until there is room for cost.
func (r *Ring) retry(q *Quota, now time.Duration, cost int64) time.Duration {
	left := r.total
	for i := range r.used {
		if left -= r.at(i).n; left+cost <= q.Count {
			return r.at(i).last + q.Per - now
		}
	}
	return q.Per
}

// reset is how long it takes until all is there again.
func (r *Ring) reset(q *Quota, now time.Duration) time.Duration {
	if r.used == 0 {
		return 0
	}
	return max(0, r.at(r.used-1).last+q.Per-now)
}

// Refit scales what the ring holds from one quota to another: it is as full as
// before, as a share.
func (r *Ring) Refit(from, to *Quota, now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(from, now)
	r.total = 0
	for i := range r.used {
		g := r.at(i)
		g.n = (g.n*to.Count + from.Count - 1) / from.Count // never less than its share
		g.last = now - time.Duration(float64(now-g.last)*float64(to.Per)/float64(from.Per))
		r.total += g.n
	}
}

// Empty tells whether the window holds nothing: the ring is as good as a new one.
func (r *Ring) Empty(q *Quota, now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(q, now)
	return r.used == 0
}
