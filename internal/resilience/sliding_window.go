package resilience

import (
	"sort"
	"sync"
	"time"
)

// windowGroups is how many groups of takes a full window has at most, where each take
// costs 1. With one that is being filled they are a power of two.
const windowGroups = 127

// SlidingWindow lets never more than Count through in any time of Per. It holds the times
// of what it let through, in groups where Count is large: a group counts as a whole until
// its last take is Per ago, so that what is free again is so a little late, by 1/127 of
// the window at most for a steady flow, never early. It has up to twice as many groups
// where costs are unequal, of 16 bytes. The zero value is empty.
//
// Times are those of a Bucket.
type SlidingWindow struct {
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
func (w *SlidingWindow) Take(q *Quota, now time.Duration, cost int64) Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	now = w.forget(q, now)
	if cost > q.Count-w.total {
		return Verdict{Remaining: max(0, q.Count-w.total), Reset: w.reset(q, now), Retry: w.retry(q, now, cost)}
	}
	w.add(q, now, cost)
	return Verdict{Allowed: true, Remaining: q.Count - w.total, Reset: q.Per}
}

// Return gives back cost that was taken at a time for nothing, and tells what is there
// then. What has left the window meanwhile has come back by itself.
func (w *SlidingWindow) Return(q *Quota, now, at time.Duration, cost int64) Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	now = w.forget(q, now)
	if i := sort.Search(w.used, func(i int) bool { return w.at(i).last >= at }); i < w.used && at > now-q.Per {
		g := w.at(i)
		back := min(cost, g.n)
		g.n -= back
		w.total -= back
		w.tidy(q, i)
	}
	return Verdict{Allowed: true, Remaining: max(0, q.Count-w.total), Reset: w.reset(q, now)}
}

// What follows, but for Fit and Empty, is called with mu held.

func (w *SlidingWindow) at(i int) *group { return &w.groups[(w.first+i)&(len(w.groups)-1)] }

// forget drops what has left the window, and returns the time, which never goes back.
func (w *SlidingWindow) forget(q *Quota, now time.Duration) time.Duration {
	if w.used > 0 {
		now = max(now, w.at(w.used-1).last)
	}
	for w.used > 0 && w.at(0).last <= now-q.Per {
		w.total -= w.at(0).n
		w.first = (w.first + 1) & (len(w.groups) - 1)
		w.used--
	}
	return now
}

// add notes what is let through.
func (w *SlidingWindow) add(q *Quota, now time.Duration, cost int64) {
	size := (q.Count + windowGroups - 1) / windowGroups
	w.total += cost
	if w.used > 0 {
		if last := w.at(w.used - 1); last.n+cost <= size || last.last == now {
			last.last, last.n = now, last.n+cost
			return
		}
	}
	if w.used == len(w.groups) {
		w.grow()
	}
	w.used++
	*w.at(w.used - 1) = group{now, cost}
}

// tidy makes a group that has become small one with its neighbours, so that there are
// never too many.
func (w *SlidingWindow) tidy(q *Quota, i int) {
	size := (q.Count + windowGroups - 1) / windowGroups
	join := func(i int) bool {
		if i < 0 || i+1 >= w.used || w.at(i).n+w.at(i+1).n > size {
			return false
		}
		w.at(i + 1).n += w.at(i).n
		w.remove(i)
		return true
	}
	if join(i - 1) {
		i--
	}
	if !join(i) && w.at(i).n == 0 {
		w.remove(i)
	}
}

func (w *SlidingWindow) remove(i int) {
	for ; i < w.used-1; i++ {
		*w.at(i) = *w.at(i + 1)
	}
	w.used--
}

// grow makes room for twice as many groups. It ends, since of two neighbours one is
// more than half full.
func (w *SlidingWindow) grow() {
	groups := make([]group, max(4, 2*len(w.groups)))
	for i := range w.used {
		groups[i] = *w.at(i)
	}
	w.groups, w.first = groups, 0
}

// retry is how long it takes until there is room for cost.
func (w *SlidingWindow) retry(q *Quota, now time.Duration, cost int64) time.Duration {
	left := w.total
	for i := range w.used {
		if left -= w.at(i).n; cost <= q.Count-left {
			return w.at(i).last + q.Per - now
		}
	}
	return q.Per
}

// reset is how long it takes until all is there again.
func (w *SlidingWindow) reset(q *Quota, now time.Duration) time.Duration {
	if w.used == 0 {
		return 0
	}
	return w.at(w.used-1).last + q.Per - now
}

// Fit makes a new window as full in its quota as another is in that one's, as a share,
// rounded up; it comes free after the same share of the window. The other stays as it is,
// for whoever still has it.
func (w *SlidingWindow) Fit(other *SlidingWindow, from, to *Quota, now time.Duration) {
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
			w.add(to, now-age, n)
		}
	}
}

// Empty tells whether the window holds nothing: it is as good as a new one.
func (w *SlidingWindow) Empty(q *Quota, now time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget(q, now)
	return w.used == 0
}
