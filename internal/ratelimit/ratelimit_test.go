package ratelimit_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/lease"
	"sluice/internal/ratelimit"
	"sluice/internal/resilience"
)

// nobody waits on a thread of its own.
type nobody struct{}

func (nobody) Wait(block func()) { block() }

func quota(count int64, per time.Duration, burst int64) resilience.Quota {
	return resilience.Quota{Count: count, Per: per, Burst: burst}
}

func settings(q resilience.Quota) *ratelimit.Settings {
	return &ratelimit.Settings{Identity: "it", Strategy: ratelimit.TokenBucket, Quota: q, MaxKeys: 100, Cost: 1, Name: "it"}
}

// passes is how many of n requests of a key pass at once.
func passes(l *ratelimit.Limit, key, tier string, n int) (passed int) {
	for range n {
		if l.Take(nobody{}, key, tier, 1).Allowed {
			passed++
		}
	}
	return passed
}

func wantPasses(t *testing.T, what string, got, want int) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %d passed, want %d", what, got, want)
	}
}

// TestAccuracy counts over 20 seconds, for a client that is a little too fast, one that
// is much too fast, and one that comes in bursts.
func TestAccuracy(t *testing.T) {
	for _, c := range []struct {
		every time.Duration
		burst int
	}{{time.Second / 150, 1}, {time.Second / 1000, 1}, {time.Second / 2, 100}} {
		t.Run(fmt.Sprint(c.burst, " every ", c.every), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := new(lease.Registry).NewSet()
				defer set.Release()
				l := ratelimit.Acquire(set, settings(quota(100, time.Second, 20)))
				if c.burst > 1 {
					l = ratelimit.Acquire(set, settings(quota(100, time.Second, 50)))
				}
				passed := 0
				for begun := time.Now(); time.Since(begun) < 20*time.Second; time.Sleep(c.every) {
					passed += passes(l, "k", "", c.burst)
				}
				want := 2020
				if c.burst > 1 {
					want = 40 * 50 // each burst finds a full bucket
				}
				if passed < want-20 || passed > want {
					t.Errorf("%d passed, want %d within 1%%", passed, want)
				}
			})
		})
	}
}

// TestWindow checks every window of the times that passed.
func TestWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := new(lease.Registry).NewSet()
		defer set.Release()
		s := settings(quota(10, time.Second, 10))
		s.Strategy = ratelimit.SlidingWindow
		l := ratelimit.Acquire(set, s)
		var times []time.Time
		for begun := time.Now(); time.Since(begun) < 5*time.Second; time.Sleep(7 * time.Millisecond) {
			if l.Take(nobody{}, "k", "", 1).Allowed {
				times = append(times, time.Now())
			}
		}
		for i := 10; i < len(times); i++ {
			if times[i].Sub(times[i-10]) < time.Second {
				t.Errorf("eleven passed within %v", times[i].Sub(times[i-10]))
			}
		}
		if len(times) < 48 {
			t.Errorf("only %d passed in 5s", len(times))
		}
	})
}

func TestKeysAndTiers(t *testing.T) {
	set := new(lease.Registry).NewSet()
	defer set.Release()
	s := settings(quota(1, time.Hour, 2))
	s.Tiers = []ratelimit.Tier{{Name: "gold", Quota: quota(1, time.Hour, 5)}}
	l := ratelimit.Acquire(set, s)
	wantPasses(t, "a key", passes(l, "a", "", 10), 2)
	wantPasses(t, "another key", passes(l, "b", "", 10), 2)
	wantPasses(t, "a key in its tier", passes(l, "a", "gold", 10), 5)
	wantPasses(t, "a key in a tier that there is not", passes(l, "c", "silver", 10), 2)
	if v := l.Take(nobody{}, "d", "", 3); v.Allowed || v.Remaining != 2 {
		t.Errorf("a cost of more than there is: %+v", v)
	}
	if held, evicted := l.Keys(); held != 5 || evicted != 0 {
		t.Errorf("%d keys are held, %d evicted", held, evicted)
	}
}

// TestManyKeys holds to the number of keys, and counts.
func TestManyKeys(t *testing.T) {
	set := new(lease.Registry).NewSet()
	defer set.Release()
	l := ratelimit.Acquire(set, settings(quota(1, time.Hour, 2)))
	for i := range 1000 {
		l.Take(nobody{}, fmt.Sprint(i), "", 1)
	}
	if held, evicted := l.Keys(); held != 100 || evicted != 900 {
		t.Errorf("%d keys are held, %d evicted", held, evicted)
	}
}

// TestReload keeps what is used up, as a share where the numbers change, and takes up
// what a snapshot says once it serves.
func TestReload(t *testing.T) {
	for _, strategy := range ratelimit.Strategies() {
		t.Run(strategy.Name, func(t *testing.T) {
			var registry lease.Registry
			acquire := func(q resilience.Quota) (*lease.Set, *ratelimit.Limit) {
				set := registry.NewSet()
				s := settings(q)
				s.Strategy = strategy.Name
				return set, ratelimit.Acquire(set, s)
			}
			first, before := acquire(quota(10, time.Hour, 10))
			wantPasses(t, "half", passes(before, "k", "", 5), 5)
			for range 100 {
				next, same := acquire(quota(10, time.Hour, 10))
				if v := same.Take(nobody{}, "k", "", 6); v.Allowed || v.Remaining != 5 {
					t.Fatalf("after a reload: %+v", v)
				}
				first.Release()
				first = next
			}
			unused, _ := acquire(quota(1000, time.Hour, 1000))
			if v := before.Take(nobody{}, "k", "", 6); v.Remaining != 5 {
				t.Errorf("a snapshot that never served has changed the limit: %+v", v)
			}
			unused.Release()
			second, after := acquire(quota(100, time.Hour, 100))
			if v := after.Take(nobody{}, "k", "", 51); v.Allowed || v.Remaining != 50 {
				t.Errorf("half of ten is %+v of a hundred", v)
			}
			if v := before.Take(nobody{}, "k", "", 50); !v.Allowed {
				t.Errorf("what serves on goes by the old numbers: %+v", v)
			}
			first.Release()
			second.Release()
			if err := registry.Idle(); err != nil {
				t.Error(err)
			}
			third, fresh := acquire(quota(10, time.Hour, 10))
			wantPasses(t, "a limit that was removed meanwhile", passes(fresh, "k", "", 20), 10)
			third.Release()
		})
	}
}

// TestConcurrent takes from one key on many goroutines, while the numbers change back
// and forth.
func TestConcurrent(t *testing.T) {
	var registry lease.Registry
	held := registry.NewSet()
	defer held.Release()
	ratelimit.Acquire(held, settings(quota(1, time.Hour, 1000)))
	var passed atomic.Int64
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 50 {
				set := registry.NewSet()
				l := ratelimit.Acquire(set, settings(quota(1, time.Hour, 1000+int64(i+j)%2)))
				passed.Add(int64(passes(l, "k", "", 10)))
				set.Release()
			}
		})
	}
	group.Wait()
	// Each change may lose what was taken at its very moment.
	if n := passed.Load(); n < 990 || n > 1000+8*50 {
		t.Errorf("%d passed of 1000", n)
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	set := new(lease.Registry).NewSet()
	defer set.Release()
	l := ratelimit.Acquire(set, settings(quota(1000, time.Second, 1000)))
	if n := testing.AllocsPerRun(100, func() { l.Take(nobody{}, "192.0.2.1", "", 1) }); n != 0 {
		t.Errorf("a decision allocates %v times", n)
	}
}

func BenchmarkTake(b *testing.B) {
	set := new(lease.Registry).NewSet()
	defer set.Release()
	l := ratelimit.Acquire(set, settings(quota(1_000_000_000, time.Second, 1_000_000_000)))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			l.Take(nobody{}, "192.0.2.1", "", 1)
		}
	})
}
