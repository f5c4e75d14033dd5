package ratelimit

import (
	_ "embed" // the scripts
	"time"

	"sluice/internal/resilience"
)

// Strategy is an algorithm by which a limit decides.
type Strategy struct {
	Name string
	// Windowed says that a quota is a number in a window: it has no burst.
	Windowed bool
	// NewRule makes the rule of a quota that has no Problem.
	NewRule func(q resilience.Quota) Rule
	// Script decides in a Redis by its own time, as one step. Its key is a place, its
	// arguments are the quota (a number, microseconds, a burst) and the cost. It returns
	// whether that passes (1), what remains, in microseconds
	// until all is there again and until it would pass, and its time.
	//
	// With three arguments more (a most, a unit, and how much is worth a call) it takes
	// what there is from the cost up to the most, by units. Then the fourth number is
	// how long until there is another unit, 0 if there is one, and two follow: how much
	// it took, and how long until there is as much as is worth a call.
	Script string
	// Refund gives back to a Redis what was taken and is not used. Its keys are those of
	// Script, its arguments how much, the count or burst of the quota that it was taken
	// under, and the time that Script said. With three arguments more (when all would have
	// been there again, by Script, and the quota's number and microseconds) it gives back
	// nothing that has come back by itself.
	Refund string
}

// Rule is a quota as a strategy needs it. It is immutable.
type Rule interface {
	// New returns what is known of a key that was never seen.
	New() State
	// Adopt returns the state of a rule of the same strategy under this one: as full
	// as it was, as a share. The other one stays as it is.
	Adopt(s State, now time.Duration) State
}

// State is what is known of one key. It is safe for concurrent use. Times are
// durations since a beginning that all states of a limit have in common.
type State interface {
	// Take takes cost, which is at least 1, or nothing.
	Take(now time.Duration, cost int64) resilience.Verdict
	// Return gives back cost that was taken at a time, when reset was the Reset, and tells
	// what is there then.
	Return(now, at, reset time.Duration, cost int64) resilience.Verdict
	// Idle tells whether it is as good as a new one.
	Idle(now time.Duration) bool
	// home is the cell of the state, which lies in it: so both are in one place of memory,
	// of many that are in no cache.
	home() *cell
}

//go:embed script/token_bucket.lua
var bucketText string

//go:embed script/token_bucket_refund.lua
var bucketRefundText string

//go:embed script/sliding_window.lua
var windowText string

//go:embed script/sliding_window_refund.lua
var windowRefundText string

// The names of the strategies.
const (
	TokenBucket   = "token_bucket"
	SlidingWindow = "sliding_window"
)

// Strategies is the table of the strategies: all there are.
func Strategies() []Strategy {
	return []Strategy{
		{Name: TokenBucket, NewRule: func(q resilience.Quota) Rule { return &bucketRule{resilience.NewBucketQuota(q)} }, Script: bucketText, Refund: bucketRefundText},
		{Name: SlidingWindow, Windowed: true, NewRule: func(q resilience.Quota) Rule { return &windowRule{q} }, Script: windowText, Refund: windowRefundText},
	}
}

// StrategyNamed returns the strategy with a name that is in the table.
func StrategyNamed(name string) Strategy {
	for _, s := range Strategies() {
		if s.Name == name {
			return s
		}
	}
	panic("BUG: no strategy is called " + name)
}

type bucketRule struct{ quota *resilience.BucketQuota }

type bucket struct {
	cell cell
	resilience.Bucket
	quota *resilience.BucketQuota
}

// New returns a full bucket.
func (r *bucketRule) New() State { return &bucket{quota: r.quota} }

// Adopt returns a bucket that is as full.
func (r *bucketRule) Adopt(s State, now time.Duration) State {
	old, ok := s.(*bucket)
	if !ok {
		panic("BUG: a state of another strategy")
	}
	next := &bucket{quota: r.quota}
	next.Fit(&old.Bucket, old.quota, r.quota, now)
	return next
}

// Take takes tokens.
func (b *bucket) Take(now time.Duration, cost int64) resilience.Verdict {
	return b.Bucket.Take(b.quota, now, cost)
}

// Return gives tokens back.
func (b *bucket) Return(now, at, reset time.Duration, cost int64) resilience.Verdict {
	return b.Bucket.Return(b.quota, now, at+reset, cost)
}

// Idle tells whether the bucket is full.
func (b *bucket) Idle(now time.Duration) bool { return b.Full(now) }

func (b *bucket) home() *cell { return &b.cell }

type windowRule struct{ quota resilience.Quota }

type window struct {
	cell cell
	resilience.SlidingWindow
	quota *resilience.Quota
}

// New returns an empty window.
func (r *windowRule) New() State { return &window{quota: &r.quota} }

// Adopt returns a window that is as full.
func (r *windowRule) Adopt(s State, now time.Duration) State {
	old, ok := s.(*window)
	if !ok {
		panic("BUG: a state of another strategy")
	}
	next := &window{quota: &r.quota}
	next.Fit(&old.SlidingWindow, old.quota, &r.quota, now)
	return next
}

// Take takes room.
func (w *window) Take(now time.Duration, cost int64) resilience.Verdict {
	return w.SlidingWindow.Take(w.quota, now, cost)
}

// Return gives room back.
func (w *window) Return(now, at, _ time.Duration, cost int64) resilience.Verdict {
	return w.SlidingWindow.Return(w.quota, now, at, cost)
}

// Idle tells whether the window is empty.
func (w *window) Idle(now time.Duration) bool { return w.Empty(w.quota, now) }

func (w *window) home() *cell { return &w.cell }
