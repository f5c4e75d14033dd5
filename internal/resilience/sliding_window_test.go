package resilience

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// taken is what a window let through, and when.
type taken struct {
	at time.Duration
	n  int64
}

// inWindow is how much of all is in the window that ends at a time.
func inWindow(all []taken, end, per time.Duration) (n int64) {
	for i := len(all) - 1; i >= 0 && all[i].at > end-per; i-- {
		n += all[i].n
	}
	return n
}

func TestRingModel(t *testing.T) {
	denied, allowed := 0, 0
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 0))
		count := 1 + random.Int64N([]int64{5, 127, 2000}[random.IntN(3)])
		q := &Quota{Count: count, Per: time.Duration(1 + random.Int64N(int64(time.Second))), Burst: 1}
		exact := count <= windowGroups
		var (
			window SlidingWindow
			all    []taken
			now    time.Duration
		)
		for range 1000 {
			now += time.Duration(random.Int64N(2*int64(q.Per)/count + 1))
			if random.IntN(100) == 0 {
				now += q.Per / 2
			}
			cost := 1 + random.Int64N(2)
			if random.IntN(50) == 0 {
				cost = 1 + random.Int64N(math.MaxInt64)
			}
			before := inWindow(all, now, q.Per)
			v := window.Take(q, now, cost)
			if v.Allowed {
				allowed++
				all = append(all, taken{now, cost})
				if got := inWindow(all, now, q.Per); got > count {
					t.Fatalf("seed %d: %d in a window of %d", seed, got, count)
				}
				if v.Reset != q.Per || v.Retry != 0 {
					t.Fatalf("seed %d: %+v", seed, v)
				}
				before += cost
			} else {
				denied++
				if exact && cost <= count-before {
					t.Fatalf("seed %d: denied with %d of %d taken", seed, before, count)
				}
				window.comesTrue(t, q, now, cost, v)
			}
			if exact && v.Remaining != count-before || v.Remaining > count-before {
				t.Fatalf("seed %d: %d remain, %d of %d are taken", seed, v.Remaining, before, count)
			}
			if len(window.groups) > 2*(windowGroups+1) {
				t.Fatalf("seed %d: %d groups", seed, len(window.groups))
			}
		}
	}
	if allowed < 1000 || denied < 1000 {
		t.Errorf("%d allowed, %d denied: histories that show little", allowed, denied)
	}
}

// comesTrue holds a denial to what it told, on a copy: later it passes, not before.
func (w *SlidingWindow) comesTrue(t *testing.T, q *Quota, now time.Duration, cost int64, v Verdict) {
	t.Helper()
	if cost > q.Count {
		return
	}
	for _, c := range []struct {
		at   time.Duration
		want bool
	}{{now + v.Retry - 1, false}, {now + v.Retry, true}} {
		again := SlidingWindow{groups: append([]group(nil), w.groups...), first: w.first, used: w.used, total: w.total}
		if got := again.Take(q, c.at, cost); got.Allowed != c.want {
			t.Fatalf("told to come in %v; after %v: %v", v.Retry, c.at-now, got.Allowed)
		}
	}
	again := SlidingWindow{groups: append([]group(nil), w.groups...), first: w.first, used: w.used, total: w.total}
	if !again.Empty(q, now+v.Reset) {
		t.Fatalf("not empty after %v", v.Reset)
	}
}

// TestRingFlow: a steady flow loses at most one part in a hundred to the grouping.
func TestRingFlow(t *testing.T) {
	for _, count := range []int64{1, 100, 127, 128, 1000, 10_000} {
		q := &Quota{Count: count, Per: time.Second, Burst: 1}
		var window SlidingWindow
		passed := 0
		const seconds = 20
		step := time.Second / time.Duration(2*count)
		for now := time.Duration(0); now < seconds*time.Second; now += step {
			if window.Take(q, now, 1).Allowed {
				passed++
			}
		}
		if want := seconds * int(count); passed < want*99/100 || passed > want {
			t.Errorf("%d a second: %d in %d s", count, passed, seconds)
		}
		if len(window.groups) > windowGroups+1 {
			t.Errorf("%d a second: %d groups", count, len(window.groups))
		}
	}
}

func TestRingNeverFits(t *testing.T) {
	q := &Quota{Count: 3, Per: time.Second, Burst: 1}
	var window SlidingWindow
	if v := window.Take(q, 0, 4); v.Allowed || v.Retry != time.Second || v.Reset != 0 || v.Remaining != 3 {
		t.Errorf("%+v", v)
	}
}

func TestRingFit(t *testing.T) {
	for _, c := range []struct {
		name            string
		from, to        Quota
		takes           int
		remaining, free int64 // of the new quota, now and half a window later
	}{
		{"more", Quota{Count: 10, Per: time.Second}, Quota{Count: 100, Per: time.Second}, 5, 50, 100},
		{"less, rounded up once", Quota{Count: 100, Per: time.Second}, Quota{Count: 3, Per: time.Second}, 50, 1, 3},
		{"to one", Quota{Count: 100, Per: time.Second}, Quota{Count: 1, Per: time.Minute}, 1, 0, 1},
		{"slower", Quota{Count: 10, Per: time.Second}, Quota{Count: 10, Per: time.Hour}, 10, 0, 10},
		{"an empty one", Quota{Count: 10, Per: time.Second}, Quota{Count: 5, Per: time.Hour}, 0, 5, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			var window SlidingWindow
			now := time.Hour
			for range c.takes {
				window.Take(&c.from, now, 1)
			}
			now += c.from.Per / 2
			var next SlidingWindow
			next.Fit(&window, &c.from, &c.to, now)
			if v := next.Take(&c.to, now, c.to.Count+1); v.Remaining != c.remaining {
				t.Errorf("%d remain, want %d", v.Remaining, c.remaining)
			}
			if v := window.Take(&c.from, now, c.from.Count+1); v.Remaining != c.from.Count-int64(c.takes) {
				t.Errorf("%d remain of the old one, of which %d were taken", v.Remaining, c.takes)
			}
			now += c.to.Per / 2
			if v := next.Take(&c.to, now, c.to.Count+1); v.Remaining != c.free {
				t.Errorf("%d remain half a window later, want %d", v.Remaining, c.free)
			}
		})
	}
}

// TestRingConcurrent takes at times that come out of order: never too much.
func TestRingConcurrent(t *testing.T) {
	q := &Quota{Count: 500, Per: time.Second, Burst: 1}
	var (
		window SlidingWindow
		mu     sync.Mutex
		passed int
		wg     sync.WaitGroup
	)
	for worker := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				now := time.Duration(max(0, i-10*worker)) * time.Millisecond * 9 / 10
				if window.Take(q, now, 1).Allowed {
					mu.Lock()
					passed++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if passed != 500 {
		t.Errorf("%d passed in less than a window of 500", passed)
	}
}
