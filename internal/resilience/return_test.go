package resilience

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// held is what was taken, and may go back.
type held struct {
	at, reset time.Duration
	cost      int64
}

// takesAndReturns takes at random times, and gives about half of that back: at once, or after up
// to so long. It returns what was kept.
func takesAndReturns(random *rand.Rand, step, late time.Duration, take func(now time.Duration, cost int64) Verdict, giveBack func(now time.Duration, h held) Verdict) (kept []taken, given int) {
	var now time.Duration
	var pending []held
	for range 1000 {
		now += time.Duration(random.Int64N(int64(2*step) + 1))
		for len(pending) > 0 && (len(pending) > 2 || random.IntN(2) == 0) {
			giveBack(now, pending[0])
			pending = pending[1:]
			given++
		}
		cost := 1 + random.Int64N(2)
		v := take(now, cost)
		switch {
		case !v.Allowed:
		case random.IntN(2) == 0:
			kept = append(kept, taken{now, cost})
		case random.IntN(4) == 0:
			pending = append(pending, held{now, v.Reset, cost})
			now += time.Duration(random.Int64N(int64(late) + 1))
		default:
			giveBack(now, held{now, v.Reset, cost})
			given++
		}
	}
	return kept, given
}

// TestBucketReturn: what goes back at once was as if never taken, and whatever goes back
// late, no more passes in any time than burst and rate let through.
func TestBucketReturn(t *testing.T) {
	given := 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		f := NewBucketQuota(Quota{1 + random.Int64N(1000), time.Second, 2 + random.Int64N(50)})
		each := f.Per / time.Duration(f.Count)
		var b Bucket
		kept, n := takesAndReturns(random, each, each, func(now time.Duration, cost int64) Verdict { return b.Take(f, now, cost) },
			func(now time.Duration, h held) Verdict { return b.Return(f, now, h.at+h.reset, h.cost) })
		given += n
		for i, first := range kept {
			sum := int64(0)
			for _, k := range kept[i:] {
				sum += k.n
				if missing := sum*f.interval - int64(k.at-first.at)*tick; missing > f.capacity {
					t.Fatalf("seed %d: %d passed in %v", seed, sum, k.at-first.at)
				}
			}
		}
	}
	if given < 1000 {
		t.Errorf("%d went back: histories that show little", given)
	}
	f := NewBucketQuota(Quota{10, time.Second, 10})
	var b Bucket
	for i := range 100 {
		v := b.Take(f, time.Duration(i), 10)
		if back := b.Return(f, time.Duration(i), time.Duration(i)+v.Reset, 10); !v.Allowed || back.Remaining != 10 || back.Reset != 0 {
			t.Fatalf("the %d. of those that go back at once: %+v, then %+v", i, v, back)
		}
	}
	v := b.Take(f, time.Second, 1)
	b.Return(f, time.Minute, time.Second+v.Reset, 1)
	if v := b.Take(f, time.Minute, 11); v.Remaining != 10 {
		t.Errorf("what goes back to a full bucket makes %d of ten", v.Remaining)
	}
}

// TestRingReturn: alike, of a window; and the groups of what is left are few.
func TestRingReturn(t *testing.T) {
	given := 0
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 0))
		q := &Quota{Count: 2 + random.Int64N([]int64{5, 127, 2000}[random.IntN(3)]), Per: time.Second, Burst: 1}
		var r SlidingWindow
		kept, n := takesAndReturns(random, q.Per/time.Duration(q.Count), 2*q.Per, func(now time.Duration, cost int64) Verdict { return r.Take(q, now, cost) },
			func(now time.Duration, h held) Verdict {
				v := r.Return(q, now, h.at, h.cost)
				if len(r.groups) > 2*(windowGroups+1) {
					t.Fatalf("seed %d: %d groups", seed, len(r.groups))
				}
				return v
			})
		given += n
		for i, k := range kept {
			if got := inWindow(kept[:i+1], k.at, q.Per); got > q.Count {
				t.Fatalf("seed %d: %d in a window of %d", seed, got, q.Count)
			}
		}
	}
	if given < 1000 {
		t.Errorf("%d went back: histories that show little", given)
	}
	q := &Quota{Count: 12_700, Per: time.Hour, Burst: 1}
	var r SlidingWindow
	for now := time.Duration(0); now < 20_000; now += 2 { // of each two the one that makes the other's group its own goes back
		if v := r.Take(q, now, 100); !v.Allowed {
			t.Fatalf("%v after %v", v, now)
		}
		r.Take(q, now+1, 1)
		r.Return(q, now+1, now, 100)
	}
	if r.total != 10_000 || len(r.groups) > 2*(windowGroups+1) {
		t.Errorf("%d taken one by one are in %d groups", r.total, len(r.groups))
	}
	q = &Quota{Count: 10, Per: time.Second, Burst: 1}
	r = SlidingWindow{}
	r.Take(q, 0, 3)
	for i := range time.Duration(100) {
		v := r.Take(q, i, 7)
		if back := r.Return(q, i, i, 7); !v.Allowed || back.Remaining != 7 {
			t.Fatalf("the %d. of those that go back at once: %+v, then %+v", i, v, back)
		}
	}
	r.Return(q, 0, 0, 3)
	if !r.Empty(q, 100) {
		t.Error("all went back, and something is left")
	}
}

// TestReturnsTogether leave what there was.
func TestReturnsTogether(t *testing.T) {
	f := NewBucketQuota(Quota{1, time.Hour, 100})
	q := &Quota{Count: 100, Per: time.Hour, Burst: 1}
	var (
		b     Bucket
		r     SlidingWindow
		group sync.WaitGroup
	)
	for range 4 {
		group.Go(func() {
			for now := range time.Duration(1000) {
				if v := b.Take(f, now, 3); v.Allowed {
					b.Return(f, now, now+v.Reset, 3)
				}
				if v := r.Take(q, now, 3); v.Allowed {
					r.Return(q, now, now, 3)
				}
			}
		})
	}
	group.Wait()
	if left := b.Take(f, 1000, 101).Remaining; left != 100 {
		t.Errorf("%d of 100 tokens are left", left)
	}
	if left := r.Take(q, 1000, 101).Remaining; left != 100 {
		t.Errorf("%d of 100 places are left", left)
	}
}
