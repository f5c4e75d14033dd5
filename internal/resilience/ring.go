package resilience

import (
	"sort"
	"sync"
	"time"
)

// ringGroups is how many groups of takes a full window has at most, where each take
// costs 1. With one that is being filled they are a power of two.
const ringGroups = 127

// Ring is a sliding window: never more than Count is let through in any time of
// Per. It holds the times of what it let through, in groups where Count is large: a
// group counts as a whole until its last take is Per ago, so that what is free again
// is so a little late, by 1/127 of the window at most for a steady flow, never early.
// It has up to twice as many groups where costs are unequal, of 16 bytes. The zero
// value is empty.
//
// Times are those of a Bucket.
type Ring struct {
	mu     sync.Mutex
	groups []group // in the order of time, from first on, around; a power of two
	first  int
	used   int
	total  int64
}

type group struct {
	last time.Duration
	n    int64
}

// Take takes cost, at least 1, if there is room for it. A cost above Count never
// finds any.
func (r *Ring) Take(q *Quota, now time.Duration, cost int64) Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	now = r.forget(q, now)
	if cost > q.Count-r.total {
		return Verdict{Remaining: max(0, q.Count-r.total), Reset: r.reset(q, now), Retry: r.retry(q, now, cost)}
	}
	r.add(q, now, cost)
	return Verdict{Allowed: true, Remaining: q.Count - r.total, Reset: q.Per}
}

// Return gives back cost that was taken at a time for nothing, and tells what is there
// then. What has left the window meanwhile has come back by itself.
func (r *Ring) Return(q *Quota, now, at time.Duration, cost int64) Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	now = r.forget(q, now)
	if i := sort.Search(r.used, func(i int) bool { return r.at(i).last >= at }); i < r.used && at > now-q.Per {
		g := r.at(i)
		back := min(cost, g.n)
		g.n -= back
		r.total -= back
		r.tidy(q, i)
	}
	return Verdict{Allowed: true, Remaining: max(0, q.Count-r.total), Reset: r.reset(q, now)}
}

// What follows, but for Fit and Empty, is called with mu held.

func (r *Ring) at(i int) *group { return &r.groups[(r.first+i)&(len(r.groups)-1)] }

// forget drops what has left the window, and returns the time, which never goes back.
func (r *Ring) forget(q *Quota, now time.Duration) time.Duration {
	if r.used > 0 {
		now = max(now, r.at(r.used-1).last)
	}
	for r.used > 0 && r.at(0).last <= now-q.Per {
		r.total -= r.at(0).n
		r.first = (r.first + 1) & (len(r.groups) - 1)
		r.used--
	}
	return now
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

// tidy makes a group that has become small one with its neighbours, so that there are
// never too many.
func (r *Ring) tidy(q *Quota, i int) {
	size := (q.Count + ringGroups - 1) / ringGroups
	join := func(i int) bool {
		if i < 0 || i+1 >= r.used || r.at(i).n+r.at(i+1).n > size {
			return false
		}
		r.at(i + 1).n += r.at(i).n
		r.remove(i)
		return true
	}
	if join(i - 1) {
		i--
	}
	if !join(i) && r.at(i).n == 0 {
		r.remove(i)
	}
}

func (r *Ring) remove(i int) {
	for ; i < r.used-1; i++ {
		*r.at(i) = *r.at(i + 1)
	}
	r.used--
}

// grow makes room for twice as many groups. It ends, since of two neighbours one is
// more than half full.
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
		if left -= r.at(i).n; cost <= q.Count-left {
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
	return r.at(r.used-1).last + q.Per - now
}

// Fit makes a new ring as full in its quota as another is in that one's, as a share,
// rounded up; it comes free after the same share of the window. The other stays as it is,
// for whoever still has it.
func (r *Ring) Fit(other *Ring, from, to *Quota, now time.Duration) {
	other.mu.Lock()
	defer other.mu.Unlock()
	now = other.forget(from, now)
	scale := func(n int64) int64 { return (n*to.Count + from.Count - 1) / from.Count }
	left := other.total
	for i := range other.used {
		g := other.at(i)
		// What is rounded up is so once, not for each group.
		n := scale(left) - scale(left-g.n)
		left -= g.n
		if n > 0 {
			age := time.Duration(float64(now-g.last) / float64(from.Per) * float64(to.Per))
			r.add(to, now-age, n)
		}
	}
}

// Empty tells whether the window holds nothing: the ring is as good as a new one.
func (r *Ring) Empty(q *Quota, now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(q, now)
	return r.used == 0
}
