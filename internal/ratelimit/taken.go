package ratelimit

import (
	"context"
	"time"

	"sluice/internal/resilience"
)

// taken is what a decision has taken of a limit, and from where: of the state that this
// instance has, of what it has in hand of the store's, or of the store.
type taken struct {
	rule *tierRule
	cost int64

	state   State         // nil: it was not this
	holding *holding      // alike
	at      time.Duration // when, by the clock of either

	name  string // of the key in the store
	stamp int64  // the store's time
}

// Return gives back what an allowed decision of the limit has taken, as the request was
// refused elsewhere, and tells what is there then, as far as is known. It is called once.
// What may wait for a store does so by x; what does not arrive there is lost.
func (l *Limit) Return(x Waiter, d *Decision) resilience.Verdict {
	from := &d.taken
	switch {
	case d.Unknown:
		return d.Verdict
	case from.state != nil:
		return from.state.Return(time.Since(l.shared.began), from.at, d.Reset, from.cost)
	case from.holding != nil:
		from.holding.putBack(from.unspent(time.Since(from.holding.leases.began), d.Reset))
	default:
		l.remote.putBack(x, from, d.Reset)
	}
	return from.rule.without(d.Verdict, from.cost)
}

// putBack gives back what a decision of the store has taken.
func (r *remote) putBack(x Waiter, from *taken, reset time.Duration) {
	if r.released.Load() || r.down.Load() {
		return
	}
	q := from.rule.quota
	due := from.stamp + reset.Microseconds()
	name, n, of, stamp := from.name, from.cost, from.rule.most, from.stamp // the decision stays where it is
	x.Wait(func() { r.giveBack(context.Background(), name, n, of, stamp, due, q.Count, q.Per.Microseconds()) })
}

// unspent is how much goes back into the hand that it was taken of. After the life of a
// portion it would not have been there any more, but in the store: of a window nobody
// knows where it was counted, so it is lost; of a bucket only what is missing by itself
// goes back.
func (from *taken) unspent(now, reset time.Duration) int64 {
	t := from.rule
	switch {
	case now-from.at < t.life:
		return from.cost
	case t.strategy.Windowed:
		return 0
	}
	missing := float64(max(0, from.at+reset-now)) * float64(t.quota.Count) / float64(t.quota.Per)
	return min(from.cost, int64(missing))
}

// without is what a verdict would have said if its cost had not been taken. When all of a
// window is there again hangs on what else is in it: later than it says it is not.
func (t *tierRule) without(v resilience.Verdict, cost int64) resilience.Verdict {
	v.Remaining = min(t.most, v.Remaining+cost)
	switch {
	case v.Remaining == t.most:
		v.Reset = 0
	case !t.strategy.Windowed:
		v.Reset = max(0, v.Reset-time.Duration(float64(t.quota.Per)/float64(t.quota.Count)*float64(cost)))
	}
	return v
}
