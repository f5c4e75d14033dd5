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

// holding is what an instance has in hand of one key under one rule. A request that finds
// enough takes no lock. Times are since the leases began.
type holding struct {
	leases *leases
	rule   *tierRule
	name   string // of the key in the store

	hand    atomic.Int64
	low     atomic.Int64 // below it the next portion is fetched
	refused atomic.Int64 // what was asked for and refused since mark
	reply   atomic.Pointer[reply]
	fetch   atomic.Int32 // whether a portion is on its way
	retired atomic.Bool  // another rule has taken over: all goes back

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

// The states of a fetch.
const (
	noFetch   int32 = iota
	fetchDue        // it waits for a fetcher, or for a request that cannot wait as long
	fetchRuns       // somebody asks the store
)

// lot is when something was taken from the store.
type lot struct {
	at    time.Duration
	stamp int64 // the store's time
}

// reply is what the store has said last. It is immutable.
type reply struct {
	left         int64 // in the store
	reset, retry time.Duration
	// Up to until the store has not enough left for cost to be worth a fetch.
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

// take decides by what is in hand, or by the store's last reply that there is no more. It
// fails if the store has to be asked.
func (h *holding) take(now time.Duration, cost int64) (v resilience.Verdict, ok bool) {
	left, ok := h.spend(cost)
	w := h.reply.Load() // there is one before there is anything in hand
	if !ok {
		if w == nil || now >= w.until || cost < w.cost {
			return v, false
		}
		h.refused.Add(cost)
		return h.refusal(w, now), true
	}
	if left < h.low.Load() && now >= w.until && !h.leases.remote.down.Load() && h.fetch.CompareAndSwap(noFetch, fetchDue) {
		h.leases.ask(h)
	}
	return resilience.Verdict{Allowed: true, Remaining: min(h.rule.most, w.left+left), Reset: max(0, w.reset-now)}, true
}

func (h *holding) refusal(w *reply, now time.Duration) resilience.Verdict {
	return resilience.Verdict{Remaining: min(h.rule.most, w.left+h.hand.Load()), Reset: max(0, w.reset-now), Retry: max(w.retry, w.until) - now}
}

// spend takes cost out of the hand, or nothing. It returns what is left.
func (h *holding) spend(cost int64) (left int64, ok bool) {
	for {
		had := h.hand.Load()
		if had < cost {
			return had, false
		}
		if h.hand.CompareAndSwap(had, had-cost) {
			return had - cost, true
		}
	}
}

// withdraw takes all but keep out of the hand, and returns how much that is.
func (h *holding) withdraw(keep int64) int64 {
	for {
		had := h.hand.Load()
		if had <= keep {
			return 0
		}
		if h.hand.CompareAndSwap(had, keep) {
			h.taken -= had - keep
			return had - keep
		}
	}
}

// putBack puts back into the hand what was taken of it. It goes with the younger lot,
// and what is more than there may be in hand goes back to the store.
func (h *holding) putBack(cost int64) {
	l := h.leases
	h.mu.Lock()
	h.fresh += cost
	h.hand.Add(cost)
	excess := refund{h, h.withdraw(h.most()), h.lots[1].stamp}
	if h.retired.Load() || l.ended.Load() {
		excess.n += h.withdraw(0)
	}
	if h.hand.Load() > 0 && !h.watched {
		h.watched = true
		l.watch(h, h.due())
	}
	h.mu.Unlock()
	l.owe(excess)
}

// idle tells whether nothing is lost with the holding.
func (h *holding) idle(now time.Duration) bool {
	w := h.reply.Load()
	return h.hand.Load() == 0 && h.fetch.Load() == noFetch && (w == nil || now >= w.until)
}

// wait waits for the store's decision, no longer than decisionTimeout.
func (h *holding) wait(cost int64) (resilience.Verdict, bool) {
	w := &waiter{cost, make(chan outcome, 1)}
	h.mu.Lock()
	if v, ok := h.take(time.Since(h.leases.began), cost); ok { // it has come meanwhile
		h.mu.Unlock()
		return v, true
	}
	h.queue = append(h.queue, w)
	h.mu.Unlock()
	timer := time.NewTimer(decisionTimeout)
	defer timer.Stop()
	if h.fetch.CompareAndSwap(noFetch, fetchRuns) || h.fetch.CompareAndSwap(fetchDue, fetchRuns) {
		h.leases.fetch(context.Background(), h)
	}
	select {
	case o := <-w.told:
		return o.verdict, o.ok
	case <-timer.C:
	}
	h.mu.Lock()
	h.queue = slices.DeleteFunc(h.queue, func(o *waiter) bool { return o == w })
	h.mu.Unlock()
	select {
	case o := <-w.told:
		return o.verdict, o.ok
	default:
		return resilience.Verdict{}, false
	}
}

// need is what a fetch asks for: least or nothing, and up to most, by so many units.
// Where nothing is left the next one is worth while once there is worth.
type need struct{ least, most, unit, size, worth int64 }

// need tells what to ask the store for. Where ok is false there is no need any more, and
// nothing is under way.
func (h *holding) need(now time.Duration) (n need, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n = need{unit: h.rule.cost, size: h.size(now)}
	if h.retired.Load() {
		n.size = 0
	}
	// What comes is for all instances: if each takes half a portion of it all are served.
	n.worth = max(n.unit, n.size*h.leases.remote.instances.Load()/2)
	n.most = max(0, n.size-h.hand.Load())
	if len(h.queue) == 0 {
		n.least = n.unit
		ok = n.most >= n.least && h.hand.Load() < h.low.Load()
		if !ok {
			h.fetch.Store(noFetch)
		}
		return n, ok
	}
	n.least = h.queue[0].cost
	for _, w := range h.queue {
		n.most += w.cost
	}
	return n, true
}

// What follows is called with mu held.

// size is how much there may be in hand: what the key needs for a while by its recent
// use, and never more than a part of this instance's share of the quota. It decides
// whether portions are fetched before somebody waits.
func (h *holding) size(now time.Duration) int64 {
	used := h.taken - h.hand.Load()
	asked := float64(used - h.markUsed + h.refused.Load())
	if since := now - h.mark; since < ahead {
		h.pace = max(h.pace, asked)
	} else {
		h.pace = asked * float64(ahead) / float64(since)
		h.mark, h.markUsed = now, used
		h.refused.Store(0)
	}
	unit := h.rule.cost
	size := min(max(unit, int64(math.Ceil(h.pace))), h.most())
	size -= size % unit
	low := (size + 1) / 2
	if h.pace*float64(h.rule.life)/float64(ahead) < float64(unit) {
		size, low = 0, 0 // it would lie there unused
	}
	h.low.Store(low)
	return size
}

// most is how much there may ever be in hand.
func (h *holding) most() int64 {
	return h.rule.most / (handShare * max(1, h.leases.remote.instances.Load()))
}

// arrive takes what a fetch has brought, or has not. It gives to those who wait, first
// come first served, and the rest into the hand.
func (h *holding) arrive(ctx context.Context, now time.Duration, n need, a answer) {
	h.mu.Lock()
	w := &reply{left: a.left, reset: now + a.reset, retry: now + a.retry, cost: n.unit}
	early := *w
	h.reply.Store(&early) // nobody is refused before what came is in hand
	if a.taken == 0 {
		w.cost = n.least
		a.retry = max(a.retry, time.Millisecond) // also of more than there ever is
	}
	if a.retry > 0 {
		w.until = now + min(time.Second, a.retry+jitter(min(a.again-a.retry, ahead/2)))
	}
	h.taken += a.taken
	rest := h.serve(now, w, a.taken)
	excess := h.keep(now, n, rest, a.stamp)
	h.reply.Store(w)
	again := len(h.queue) > 0
	if !again {
		h.fetch.Store(noFetch)
	}
	h.mu.Unlock()
	if excess.n > 0 {
		h.leases.owe(excess)
	}
	if again { // those who wait cannot wait for a fetcher too
		go h.leases.fetch(ctx, h)
	}
}

// serve gives what was taken to those who wait and returns the rest.
func (h *holding) serve(now time.Duration, w *reply, taken int64) (rest int64) {
	rest = taken
	for i, each := range h.queue {
		switch {
		case each.cost <= rest:
			rest -= each.cost
			each.told <- outcome{resilience.Verdict{Allowed: true, Remaining: min(h.rule.most, w.left+rest), Reset: w.reset - now}, true}
		case now < w.until: // nor has the store more
			h.refused.Add(each.cost)
			each.told <- outcome{h.refusal(w, now), true}
		default: // it came too late to be counted
			h.queue = h.queue[i:]
			return rest
		}
	}
	h.queue = nil
	return rest
}

// keep puts into the hand what there is room for, and returns what is too much: of those
// who did not wait long enough.
func (h *holding) keep(now time.Duration, n need, rest, stamp int64) (excess refund) {
	if had := h.hand.Load(); had > h.fresh {
		h.fresh += rest // the older lot is not used up yet, so the younger one takes it up
	} else {
		h.lots[0] = h.lots[1]
		h.lots[1] = lot{now, stamp}
		h.fresh = rest
	}
	h.hand.Add(rest)
	excess = refund{h, h.withdraw(n.size), stamp}
	if h.hand.Load() > 0 && !h.watched {
		h.watched = true
		h.leases.watch(h, h.due())
	}
	return excess
}

// due is when the first lot becomes too old.
func (h *holding) due() time.Duration {
	if h.hand.Load() > h.fresh {
		return h.lots[0].at + h.rule.life
	}
	return h.lots[1].at + h.rule.life
}

// fail tells those who wait that the store has not answered.
func (h *holding) fail() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.queue {
		w.told <- outcome{}
	}
	h.queue = nil
	h.fetch.Store(noFetch)
}

// expire takes what is too old out of the hand, or all of it. It returns that by lots.
func (h *holding) expire(now time.Duration, all bool) [2]refund {
	h.mu.Lock()
	defer h.mu.Unlock()
	all = all || h.retired.Load()
	var back [2]refund
	life := h.rule.life
	if all || h.lots[0].at+life <= now {
		back[0] = refund{h, h.withdraw(h.fresh), h.lots[0].stamp}
	}
	if all || h.lots[1].at+life <= now {
		back[1] = refund{h, h.withdraw(0), h.lots[1].stamp}
	}
	h.watched = h.hand.Load() > 0
	if h.watched {
		h.leases.watch(h, h.due())
	}
	return back
}

// retire gives back all there is.
func (h *holding) retire() {
	h.retired.Store(true)
	back := h.expire(0, true)
	h.leases.owe(back[:]...)
}

// jitter is a part of a time, so that instances which ask one store again and again do
// not keep an order of theirs.
func jitter(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d/2 + rand.N(d/2+1) //nolint:gosec // G404: nobody gains by guessing it
}
