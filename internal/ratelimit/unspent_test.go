package ratelimit

import (
	"testing"
	"time"

	"sluice/internal/resilience"
)

// TestOwed is no more than is bounded: a store that is slow does not make memory grow.
func TestOwed(t *testing.T) {
	l := &leases{tidy: make(chan struct{}, 1)}
	for range 2 * mostOwed {
		l.owe(refund{n: 1}, refund{})
	}
	if len(l.owed) != mostOwed {
		t.Errorf("%d are owed, %d may be", len(l.owed), mostOwed)
	}
}

// TestUnspent: what was in hand goes back there as long as it would have been there; later
// no more of it than is missing by itself.
func TestUnspent(t *testing.T) {
	s := &Settings{Strategy: TokenBucket, Quota: resilience.Quota{Count: 10, Per: time.Second, Burst: 100}, Cost: 5}
	for _, c := range []struct {
		strategy string
		after    time.Duration
		want     int64
	}{
		{TokenBucket, 0, 5},
		{TokenBucket, 999 * time.Millisecond, 5},
		{TokenBucket, time.Second, 5},
		{TokenBucket, 1800 * time.Millisecond, 2},
		{TokenBucket, 3 * time.Second, 0},
		{SlidingWindow, 99 * time.Millisecond, 5},
		{SlidingWindow, 100 * time.Millisecond, 0},
	} {
		s.Strategy = c.strategy
		var rule tierRule
		rule.init(s, "", s.Quota, 0)
		from := taken{rule: &rule, cost: 5, at: time.Hour}
		if got := from.unspent(time.Hour+c.after, 2*time.Second); got != c.want {
			t.Errorf("of a %s %d of five go back after %v, want %d", c.strategy, got, c.after, c.want)
		}
	}
}
