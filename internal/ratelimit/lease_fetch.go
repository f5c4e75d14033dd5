package ratelimit

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// answer is what the store says to who asks for a portion.
type answer struct {
	left, taken, stamp  int64
	reset, retry, again time.Duration
}

// fetchPortions fetches portions, until ctx is done.
func (l *leases) fetchPortions(ctx context.Context) {
	for {
		if p := l.next(); p != nil {
			l.fetch(context.WithoutCancel(ctx), p) // what it brings is not to be lost
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-l.wanted:
		}
	}
}

// next is a holding whose portion the caller has to fetch, or nil.
func (l *leases) next() *holding {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.asked) > 0 {
		p := l.asked[0]
		if l.asked = l.asked[1:]; len(l.asked) == 0 {
			l.asked = nil // so that it does not keep what was there
		}
		if p.fetch.CompareAndSwap(fetchDue, fetchRuns) { // else a request does it
			return p
		}
	}
	return nil
}

// fetch fetches the next portion of a holding, for all who wait for it.
func (l *leases) fetch(ctx context.Context, p *holding) {
	n, ok := p.need(time.Since(l.began))
	if !ok {
		return
	}
	a, ok := l.remote.portion(ctx, p, n)
	if !ok {
		p.fail()
		return
	}
	p.arrive(ctx, time.Since(l.began), n, a)
}

// portion asks the store for a portion, once and within decisionTimeout. One that comes too
// late goes back.
func (r *remote) portion(ctx context.Context, p *holding, n need) (a answer, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, decisionTimeout)
	defer cancel()
	q := &p.rule.quota
	said, ok := r.ask(ctx, &call{
		script: r.script, key: p.name, numbers: portionNumbers,
		args: []any{q.Count, q.Per.Microseconds(), q.Burst, n.least, n.most, n.unit}, last: n.worth,
		late: func(said []int64) { p.leases.owe(refund{p, said[5], said[4]}) },
	})
	if !ok {
		return a, false
	}
	micro := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	return answer{left: said[1], reset: micro(said[2]), retry: micro(said[3]), stamp: said[4], taken: said[5], again: micro(said[6])}, true
}

// clean gives back what is owed and what lies unused for too long, until ctx is done.
func (l *leases) clean(ctx context.Context) {
	timer := time.NewTimer(leaseLife)
	defer timer.Stop()
	for {
		due := l.collect(time.Since(l.began), false)
		for r, ok := l.debt(); ok && ctx.Err() == nil; r, ok = l.debt() {
			l.giveBack(ctx, r)
		}
		timer.Reset(due)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.tidy:
		}
	}
}

// collect takes what is too old out of all hands, or all of it. It returns when it
// should be called again.
func (l *leases) collect(now time.Duration, all bool) time.Duration {
	for {
		l.mu.Lock()
		if len(l.expiry) == 0 || !all && l.expiry[0].due > now {
			due := leaseLife
			if len(l.expiry) > 0 {
				due = l.expiry[0].due - now
			}
			l.mu.Unlock()
			return due
		}
		p := heap.Pop(&l.expiry).(expiring).holding //nolint:forcetypeassert // it has nothing else
		l.mu.Unlock()
		back := p.expire(now, all)
		l.owe(back[:]...)
	}
}

// debt is one of those that are owed.
func (l *leases) debt() (r refund, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := len(l.owed) - 1
	if last < 0 {
		return r, false
	}
	r, l.owed[last] = l.owed[last], refund{} // else its holding is kept
	l.owed = l.owed[:last]
	return r, true
}

// giveBack gives back to the store what was not used. What the store does not take is
// lost: it was counted, and nobody has it.
func (l *leases) giveBack(ctx context.Context, r refund) {
	l.remote.giveBack(ctx, r.holding.name, r.n, r.holding.rule.most, r.stamp)
}

// giveAllBack ends the leases once nobody fetches: who waits has to look elsewhere, and
// what is in hand goes back as far as leaseEnd allows.
func (l *leases) giveAllBack(ctx context.Context) {
	for p := l.next(); p != nil; p = l.next() {
		p.fail()
	}
	l.collect(0, true)
	ctx, cancel := context.WithTimeout(ctx, leaseEnd)
	defer cancel()
	var group sync.WaitGroup
	for range leaseFetchers {
		group.Go(func() {
			for r, ok := l.debt(); ok && ctx.Err() == nil; r, ok = l.debt() {
				l.giveBack(ctx, r)
			}
		})
	}
	group.Wait()
}
