package ratelimit

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/resilience"
)

// purse is what an instance has in hand of one key under one rule. A request that finds
// enough takes no lock. Times are since the leases began.
type purse struct {
	leases *leases
	rule   *tierRule
	name   string // of the key in the store

	hand    atomic.Int64
	low     atomic.Int64 // below it the next portion is fetched
	refused atomic.Int64 // what was asked for and refused since mark
	word    atomic.Pointer[word]
	asked   atomic.Bool // a portion is under way, or waits for a traveller
	retired atomic.Bool // another rule has taken over: all goes back

	mu    sync.Mutex
	queue []*waiter
	// What is in hand are two lots, the older of which is used first: fresh is the
	// younger one, and what hand has above it the older one.
	fresh    int64
	lots     [2]lot // the older one, the younger one
	watched  bool
	taken    int64         // all that was ever put into the hand or given to a waiter, less what went back
	mark     time.Duration // since when pace counts
	markUsed int64         // what was used up then
	pace     float64       // what is asked for in the time of ahead
}

// lot is when something was taken from the store.
type lot struct {
	at    time.Duration
	stamp int64 // the store's time
}

// word is what the store has said last. It is immutable.
type word struct {
	left         int64 // in the store
	reset, retry time.Duration
	// Up to until the store has not enough left for cost to be worth a journey.
	until time.Duration
	cost  int64
}

// waiter is a request that finds too little in hand.
type waiter struct {
	cost int64
	told chan outcome // has room for one
}

type outcome struct {
	verdict resilience.Verdict
	ok      bool
}

// take decides by what is in hand, or by the store's last word that there is no more. It
// fails if the store has to be asked.
func (p *purse) take(now time.Duration, cost int64) (v resilience.Verdict, ok bool) {
	left, ok := p.spend(cost)
	w := p.word.Load() // there is one before there is anything in hand
	if !ok {
		if w == nil || now >= w.until || cost < w.cost {
			return v, false
		}
		p.refused.Add(cost)
		return p.refusal(w, now), true
	}
	if left < p.low.Load() && now >= w.until && !p.leases.remote.down.Load() && p.asked.CompareAndSwap(false, true) {
		p.leases.ask(p)
	}
	return resilience.Verdict{Allowed: true, Remaining: min(p.rule.most, w.left+left), Reset: max(0, w.reset-now)}, true
}

func (p *purse) refusal(w *word, now time.Duration) resilience.Verdict {
	return resilience.Verdict{Remaining: min(p.rule.most, w.left+p.hand.Load()), Reset: max(0, w.reset-now), Retry: max(w.retry, w.until) - now}
}

// spend takes cost out of the hand, or nothing. It returns what is left.
func (p *purse) spend(cost int64) (left int64, ok bool) {
	for {
		had := p.hand.Load()
		if had < cost {
			return had, false
		}
		if p.hand.CompareAndSwap(had, had-cost) {
			return had - cost, true
		}
	}
}

// withdraw takes all but keep out of the hand, and returns how much that is.
func (p *purse) withdraw(keep int64) int64 {
	for {
		had := p.hand.Load()
		if had <= keep {
			return 0
		}
		if p.hand.CompareAndSwap(had, keep) {
			p.taken -= had - keep
			return had - keep
		}
	}
}

// putBack puts back into the hand what was taken of it. It goes with the younger lot,
// and what is more than there may be in hand goes back to the store.
func (p *purse) putBack(cost int64) {
	l := p.leases
	p.mu.Lock()
	p.fresh += cost
	p.hand.Add(cost)
	excess := refund{p, p.withdraw(p.most()), p.lots[1].stamp}
	if p.retired.Load() || l.ended.Load() {
		excess.n += p.withdraw(0)
	}
	if p.hand.Load() > 0 && !p.watched {
		p.watched = true
		l.watch(p, p.due())
	}
	p.mu.Unlock()
	l.owe(excess)
}

// idle tells whether nothing is lost with the purse.
func (p *purse) idle(now time.Duration) bool {
	w := p.word.Load()
	return p.hand.Load() == 0 && !p.asked.Load() && (w == nil || now >= w.until)
}

// wait waits for the store's decision, no longer than patience.
func (p *purse) wait(cost int64) (resilience.Verdict, bool) {
	w := &waiter{cost, make(chan outcome, 1)}
	p.mu.Lock()
	if v, ok := p.take(time.Since(p.leases.began), cost); ok { // it has come meanwhile
		p.mu.Unlock()
		return v, true
	}
	p.queue = append(p.queue, w)
	p.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	if p.asked.CompareAndSwap(false, true) {
		p.leases.journey(context.Background(), p)
	}
	select {
	case o := <-w.told:
		return o.verdict, o.ok
	case <-timer.C:
	}
	p.mu.Lock()
	p.queue = slices.DeleteFunc(p.queue, func(o *waiter) bool { return o == w })
	p.mu.Unlock()
	select {
	case o := <-w.told:
		return o.verdict, o.ok
	default:
		return resilience.Verdict{}, false
	}
}

// need is what a journey asks for: least or nothing, and up to most, by so many units.
// Where nothing is left the next one is worth while once there is worth.
type need struct{ least, most, unit, size, worth int64 }

// need tells what to ask the store for. Where ok is false there is no need any more, and
// nothing is under way.
func (p *purse) need(now time.Duration) (n need, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n = need{unit: p.rule.cost, size: p.size(now)}
	if p.retired.Load() {
		n.size = 0
	}
	// What comes is for all instances: if each takes half a portion of it all are served.
	n.worth = max(n.unit, n.size*p.leases.remote.instances.Load()/2)
	n.most = max(0, n.size-p.hand.Load())
	if len(p.queue) == 0 {
		n.least = n.unit
		ok = n.most >= n.least && p.hand.Load() < p.low.Load()
		p.asked.Store(ok)
		return n, ok
	}
	n.least = p.queue[0].cost
	for _, w := range p.queue {
		n.most += w.cost
	}
	return n, true
}

// What follows is called with mu held.

// size is how much there may be in hand: what the key needs for a while by its recent
// use, and never more than a part of this instance's share of the quota. It decides
// whether portions are fetched before somebody waits.
func (p *purse) size(now time.Duration) int64 {
	used := p.taken - p.hand.Load()
	asked := float64(used - p.markUsed + p.refused.Load())
	if since := now - p.mark; since < ahead {
		p.pace = max(p.pace, asked)
	} else {
		p.pace = asked * float64(ahead) / float64(since)
		p.mark, p.markUsed = now, used
		p.refused.Store(0)
	}
	unit := p.rule.cost
	size := min(max(unit, int64(math.Ceil(p.pace))), p.most())
	size -= size % unit
	low := (size + 1) / 2
	if p.pace*float64(p.rule.life)/float64(ahead) < float64(unit) {
		size, low = 0, 0 // it would lie there unused
	}
	p.low.Store(low)
	return size
}

// most is how much there may ever be in hand.
func (p *purse) most() int64 {
	return p.rule.most / (handShare * max(1, p.leases.remote.instances.Load()))
}

// arrive takes what a journey has brought, or has not. It gives to those who wait, first
// come first served, and the rest into the hand.
func (p *purse) arrive(now time.Duration, n need, a answer) {
	p.mu.Lock()
	w := &word{left: a.left, reset: now + a.reset, retry: now + a.retry, cost: n.unit}
	early := *w
	p.word.Store(&early) // nobody is refused before what came is in hand
	if a.taken == 0 {
		w.cost = n.least
		a.retry = max(a.retry, time.Millisecond) // also of more than there ever is
	}
	if a.retry > 0 {
		w.until = now + min(time.Second, a.retry+jitter(min(a.again-a.retry, ahead/2)))
	}
	p.taken += a.taken
	rest := p.serve(now, w, a.taken)
	excess := p.keep(now, n, rest, a.stamp)
	p.word.Store(w)
	p.asked.Store(false)
	again := len(p.queue) > 0 && p.asked.CompareAndSwap(false, true)
	p.mu.Unlock()
	if excess.n > 0 {
		p.leases.owe(excess)
	}
	if again {
		p.leases.ask(p)
	}
}

// serve gives what was taken to those who wait and returns the rest.
func (p *purse) serve(now time.Duration, w *word, taken int64) (rest int64) {
	rest = taken
	for i, each := range p.queue {
		switch {
		case each.cost <= rest:
			rest -= each.cost
			each.told <- outcome{resilience.Verdict{Allowed: true, Remaining: min(p.rule.most, w.left+rest), Reset: w.reset - now}, true}
		case now < w.until: // nor has the store more
			p.refused.Add(each.cost)
			each.told <- outcome{p.refusal(w, now), true}
		default: // it came too late to be counted
			p.queue = p.queue[i:]
			return rest
		}
	}
	p.queue = nil
	return rest
}

// keep puts into the hand what there is room for, and returns what is too much: of those
// who did not wait long enough.
func (p *purse) keep(now time.Duration, n need, rest, stamp int64) (excess refund) {
	if had := p.hand.Load(); had > p.fresh {
		p.fresh += rest // the older lot is not used up yet, so the younger one takes it up
	} else {
		p.lots[0] = p.lots[1]
		p.lots[1] = lot{now, stamp}
		p.fresh = rest
	}
	p.hand.Add(rest)
	excess = refund{p, p.withdraw(n.size), stamp}
	if p.hand.Load() > 0 && !p.watched {
		p.watched = true
		p.leases.watch(p, p.due())
	}
	return excess
}

// due is when the first lot becomes too old.
func (p *purse) due() time.Duration {
	if p.hand.Load() > p.fresh {
		return p.lots[0].at + p.rule.life
	}
	return p.lots[1].at + p.rule.life
}

// fail tells those who wait that the store has not answered.
func (p *purse) fail() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, w := range p.queue {
		w.told <- outcome{}
	}
	p.queue = nil
	p.asked.Store(false)
}

// age takes what is too old out of the hand, or all of it. It returns that by lots.
func (p *purse) age(now time.Duration, all bool) [2]refund {
	p.mu.Lock()
	defer p.mu.Unlock()
	all = all || p.retired.Load()
	var back [2]refund
	life := p.rule.life
	if all || p.lots[0].at+life <= now {
		back[0] = refund{p, p.withdraw(p.fresh), p.lots[0].stamp}
	}
	if all || p.lots[1].at+life <= now {
		back[1] = refund{p, p.withdraw(0), p.lots[1].stamp}
	}
	p.watched = p.hand.Load() > 0
	if p.watched {
		p.leases.watch(p, p.due())
	}
	return back
}

// retire gives back all there is.
func (p *purse) retire() {
	p.retired.Store(true)
	back := p.age(0, true)
	p.leases.owe(back[:]...)
}

// jitter is a part of a time, so that instances which ask one store again and again do
// not keep an order of theirs.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d/2+1) //nolint:gosec // G404: nobody gains by guessing it
}
