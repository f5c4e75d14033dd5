package resilience

import (
	"testing"
	"time"
)

// usual are the settings of a configuration that gives none.
var usual = BreakerSettings{
	Window: 10 * time.Second, MinRequests: 20, ErrorRate: 0.5, Consecutive: 5,
	SlowAfter: 2 * time.Second, SlowRate: 0.8,
	OpenFor: 30 * time.Second, MaxConcurrent: 3, Successes: 3,
}

// cost measures a step alone, on all processors at once, and what it allocates.
// Time goes on by a tenth of a millisecond a step, so that windows slide.
func cost(b *testing.B, step func(now time.Time)) {
	b.Helper()
	const tick = 100 * time.Microsecond
	b.Run("alone", func(b *testing.B) {
		b.ReportAllocs()
		now := epoch
		for b.Loop() {
			now = now.Add(tick)
			step(now)
		}
	})
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			now := epoch
			for pb.Next() {
				now = now.Add(tick)
				step(now)
			}
		})
	})
}

func BenchmarkBreaker(b *testing.B) {
	b.Run("closed", func(b *testing.B) {
		breaker := NewBreaker(usual, nil)
		cost(b, func(now time.Time) { closedStep(breaker, now) })
	})
	b.Run("open", func(b *testing.B) {
		breaker := opened(usual)
		cost(b, func(time.Time) { breaker.Allow(epoch) })
	})
	b.Run("half_open", func(b *testing.B) {
		s := usual
		s.MaxConcurrent = 1 << 20
		breaker := opened(s)
		cost(b, func(time.Time) { probeStep(breaker) })
	})
	b.Run("ready", func(b *testing.B) {
		breaker := NewBreaker(usual, nil)
		cost(b, func(now time.Time) { breaker.Ready(now) })
	})
}

// closedStep is one request through a breaker that stays closed.
func closedStep(b *Breaker, now time.Time) {
	p, _, _ := b.Allow(now)
	p.Done(now, false, time.Millisecond)
}

// probeStep is a probe of a client that leaves.
func probeStep(b *Breaker) {
	now := epoch.Add(time.Hour)
	p, _, _ := b.Allow(now)
	p.Drop(now)
}

// opened is a breaker that opened at epoch.
func opened(s BreakerSettings) *Breaker {
	s.Consecutive = 1
	b := NewBreaker(s, nil)
	p, _, _ := b.Allow(epoch)
	p.Done(epoch, true, 0)
	return b
}

func BenchmarkBudget(b *testing.B) {
	b.Run("exchange", func(b *testing.B) {
		var budget Budget
		cost(b, func(time.Time) { budget.Enter(); budget.Leave() })
	})
	b.Run("repetition", func(b *testing.B) {
		var budget Budget
		cost(b, func(time.Time) { takeStep(&budget) })
	})
}

func takeStep(b *Budget) {
	if b.Take(0.2) {
		b.Give()
	}
}

func BenchmarkOutcomes(b *testing.B) {
	var o Outcomes
	cost(b, func(now time.Time) { o.Record(now, false); o.Counts(now) })
}

func BenchmarkAverage(b *testing.B) {
	var a Average
	b.Run("observe", func(b *testing.B) {
		cost(b, func(now time.Time) { a.Observe(now, time.Millisecond) })
	})
	b.Run("value", func(b *testing.B) {
		cost(b, func(now time.Time) { a.Value(now) })
	})
}

func BenchmarkBucket(b *testing.B) {
	f := NewBucketQuota(Quota{Count: 20_000, Per: time.Second, Burst: 100})
	var bucket Bucket
	cost(b, func(now time.Time) { bucket.Take(f, now.Sub(epoch), 1) })
}

func BenchmarkSlidingWindow(b *testing.B) {
	for name, count := range map[string]int64{"allowed": 20_000, "denied": 5000} {
		b.Run(name, func(b *testing.B) {
			q := &Quota{Count: count, Per: time.Second, Burst: 1}
			var window SlidingWindow
			cost(b, func(now time.Time) { window.Take(q, now.Sub(epoch), 1) })
		})
	}
}

func BenchmarkGradient(b *testing.B) {
	g := NewGradient(GradientSettings{Min: 1, Max: 100, Initial: 20})
	cost(b, func(now time.Time) { g.Observe(now.Sub(epoch), now.Sub(epoch)+time.Millisecond, 10, Served); g.Limit() })
}

func BenchmarkAdaptiveRate(b *testing.B) {
	var p AdaptiveRate
	cost(b, func(now time.Time) { p.Take(&adaptiveSettings, easy, now.Sub(epoch), 1) })
}

func BenchmarkGuard(b *testing.B) {
	g := NewGuard(GuardSettings{Alpha: 0.2, Window: time.Minute, Upper: 2}, nil)
	b.Run("observe", func(b *testing.B) {
		cost(b, func(now time.Time) { g.Observe(now.Sub(epoch), time.Millisecond, false) })
	})
	b.Run("judge", func(b *testing.B) {
		cost(b, func(now time.Time) { g.Judge(now.Sub(epoch), true) })
	})
}

// TestNoAllocation holds what every request does to no allocation at all.
func TestNoAllocation(t *testing.T) {
	now := epoch
	closed, open := NewBreaker(usual, nil), opened(usual)
	probed := usual
	probed.MaxConcurrent = 10
	half := opened(probed)
	var (
		budget  Budget
		out     Outcomes
		eject   Ejection
		average Average
		bucket  Bucket
		window  SlidingWindow
	)
	gradient := NewGradient(GradientSettings{Min: 1, Max: 100, Initial: 20})
	guard := NewGuard(GuardSettings{Alpha: 0.2, Window: time.Minute, Upper: 2}, nil)
	var adaptive AdaptiveRate
	quota := NewBucketQuota(Quota{Count: 20, Per: time.Second, Burst: 10})
	since := func() time.Duration { return now.Sub(epoch) }
	for name, step := range map[string]func(){
		"closed":         func() { closedStep(closed, now) },
		"late":           func() { p, _, _ := closed.Allow(now); p.Done(now, false, 0); p.Late(now) },
		"open":           func() { open.Allow(epoch) },
		"half open":      func() { probeStep(half) },
		"ready":          func() { closed.Ready(now); open.Ready(now) },
		"status":         func() { open.Status(now) },
		"budget":         func() { budget.Enter(); takeStep(&budget); budget.Leave() },
		"outcomes":       func() { out.Record(now, true); out.Counts(now) },
		"ejection":       func() { eject.Eject(now, time.Second); eject.Out(now) },
		"average":        func() { average.Observe(now, time.Millisecond); average.Value(now) },
		"gradient":       func() { gradient.Observe(since(), since()+time.Millisecond, 20, Served); gradient.Limit() },
		"adaptive rate":  func() { adaptive.Take(&adaptiveSettings, easy, since(), 1) },
		"guard":          func() { guard.Observe(since(), time.Millisecond, false); guard.Judge(since(), true) },
		"bucket":         func() { bucket.Take(quota, since(), 3); bucket.Full(since()) },
		"sliding window": func() { window.Take(&quota.Quota, since(), 3); window.Empty(&quota.Quota, since()) },
	} {
		if n := testing.AllocsPerRun(100, func() { now = now.Add(time.Millisecond * 100); step() }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
