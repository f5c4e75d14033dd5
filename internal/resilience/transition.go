package resilience

import (
	"fmt"
	"time"
)

// What is here is called with mu held.

func (b *Breaker) state() State { return stateOf(b.epoch.Load()) }

// judge opens a closed breaker if what it has seen is enough.
func (b *Breaker) judge(now time.Time) {
	s := &b.settings
	if s.Consecutive > 0 && b.consecutive >= s.Consecutive {
		b.enter(Open, now, inARow(b.consecutive))
		return
	}
	seen := b.seen(now)
	if seen.Requests < s.MinRequests {
		return
	}
	// Divided, not multiplied: 11 of 20 is 55%, and 0.55 times 20 is more than 11.
	if rate := share(seen.Failures, seen.Requests); s.ErrorRate > 0 && rate >= s.ErrorRate {
		b.enter(Open, now, fmt.Sprintf("error rate %.0f%% of %s in %v", 100*rate, requests(seen.Requests), s.Window))
		return
	}
	if rate := share(seen.Slow, seen.Requests); s.SlowRate > 0 && rate >= s.SlowRate {
		b.enter(Open, now, fmt.Sprintf("%.0f%% of %s in %v took longer than %v", 100*rate, requests(seen.Requests), s.Window, s.SlowAfter))
	}
}

// seen is what the window holds. A failure that came late is younger than its
// request: where that is forgotten already, the failure stands for it.
func (b *Breaker) seen(now time.Time) Tally {
	t := b.window.Sum(now)
	t.Requests = max(t.Requests, t.Failures)
	return t
}

// probed takes the result of a probe.
func (b *Breaker) probed(now time.Time, failed, slow bool) {
	switch {
	case failed:
		b.enter(Open, now, "a probe failed")
	case slow:
		b.enter(Open, now, fmt.Sprintf("a probe took longer than %v", b.settings.SlowAfter))
	default:
		if b.successes++; b.successes >= b.settings.Successes {
			b.enter(Closed, now, succeeded(b.successes))
		}
	}
}

// enter begins an epoch.
func (b *Breaker) enter(to State, now time.Time, reason string) {
	epoch := b.epoch.Load()
	if b.told != nil {
		b.untold.Note(Transition{From: stateOf(epoch), To: to, Reason: reason, At: now})
	}
	b.since, b.reason = now, reason
	b.probing, b.successes = 0, 0
	if to == Closed {
		b.consecutive, b.window = 0, NewWindow(b.settings.Window)
	}
	b.epoch.Store(epoch&^epochState + epochStep | uint64(to))
}

// unlock releases mu, after it has told what happened.
func (b *Breaker) unlock() { b.untold.Unlock(&b.mu, b.told) }

func share(part, all int) float64 { return float64(part) / float64(all) }

func (b *Breaker) rested() string { return fmt.Sprintf("open_for of %v is over", b.settings.OpenFor) }

func inARow(n int) string {
	if n == 1 {
		return "a failure"
	}
	return fmt.Sprintf("%d failures in a row", n)
}

func requests(n int) string {
	if n == 1 {
		return "1 request"
	}
	return fmt.Sprintf("%d requests", n)
}

func succeeded(n int) string {
	if n == 1 {
		return "a probe succeeded"
	}
	return fmt.Sprintf("%d probes succeeded", n)
}
