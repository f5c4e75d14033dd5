package resilience

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestQuotaProblem(t *testing.T) {
	for _, c := range []struct {
		quota Quota
		want  string
	}{
		{Quota{100, time.Second, 200}, ""},
		{Quota{1, 24 * time.Hour, 1460}, ""},
		{Quota{maxCount, 1, maxCount}, ""},
		{Quota{0, time.Second, 1}, "the rate is 0"},
		{Quota{maxCount + 1, time.Second, 1}, "the rate is 1000000001"},
		{Quota{1, 0, 1}, "the rate's time is 0s"},
		{Quota{1, maxPer + 1, 1}, "a year at most"},
		{Quota{1, time.Second, 0}, "the burst is 0"},
		{Quota{1, time.Second, maxCount + 1}, "the burst is 1000000001"},
		{Quota{1, 24 * time.Hour, 1461}, "more than four years"},
	} {
		if got := c.quota.Problem(); (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%v: %q, want %q", c.quota, got, c.want)
		}
	}
}

func TestBucketQuotaOfNone(t *testing.T) {
	defer func() {
		if got, _ := recover().(string); !strings.HasPrefix(got, "BUG: ") {
			t.Errorf("panic of %q", got)
		}
	}()
	NewBucketQuota(Quota{})
}

// level is a bucket as most write it: how much is missing, in ticks, and when that was so.
type level struct {
	missing int64
	at      time.Duration
}

func (l *level) take(f *BucketQuota, now time.Duration, cost int64) Verdict {
	l.missing = max(0, l.missing-int64(now-l.at)*tick)
	l.at = now
	v := Verdict{Allowed: cost <= f.Burst && l.missing+cost*f.interval <= f.capacity}
	if v.Allowed {
		l.missing += cost * f.interval
	} else {
		v.Retry = ceil(min(l.missing+min(cost, f.Burst)*f.interval-f.capacity, f.capacity))
		if cost > f.Burst {
			v.Retry = ceil(f.capacity)
		}
	}
	for v.Remaining < f.Burst && (v.Remaining+1)*f.interval <= f.capacity-l.missing {
		v.Remaining++
	}
	v.Reset = ceil(l.missing)
	return v
}

func ceil(ticks int64) time.Duration { return time.Duration(math.Ceil(float64(ticks) / tick)) }

func TestBucketModel(t *testing.T) {
	denied, allowed := 0, 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		f := NewBucketQuota(Quota{1 + random.Int64N(1000), time.Duration(1 + random.Int64N(int64(time.Second))), 1 + random.Int64N(50)})
		var (
			bucket Bucket
			model  level
			now    time.Duration
		)
		for range 500 {
			now += time.Duration(random.Int64N(int64(duration(3*f.interval)) + 1))
			if random.IntN(50) == 0 {
				now += duration(f.capacity) / 2
			}
			cost := 1 + random.Int64N(3)
			if random.IntN(50) == 0 {
				cost = random.Int64N(math.MaxInt64) + 1
			}
			if got, want := bucket.Full(now), model.missing <= int64(now-model.at)*tick; got != want {
				t.Fatalf("seed %d: full: %v, want %v", seed, got, want)
			}
			before := bucket.full.Load()
			got, want := bucket.Take(f, now, cost), model.take(f, now, cost)
			if got != want {
				t.Fatalf("seed %d: %v at %v, cost %d:\n got %+v\nwant %+v", seed, f.Quota, now, cost, got, want)
			}
			if got.Allowed {
				allowed++
				continue
			}
			denied++
			if bucket.full.Load() != before {
				t.Fatalf("seed %d: a denied take cost something", seed)
			}
			if cost > f.Burst {
				continue
			}
			// It is told when to come again: then it passes, and not before.
			if (bucket.Take(f, now+got.Retry-1, cost)).Allowed {
				t.Fatalf("seed %d: allowed before %v", seed, got.Retry)
			}
			if !(bucket.Take(f, now+got.Retry, cost)).Allowed {
				t.Fatalf("seed %d: denied after %v", seed, got.Retry)
			}
			bucket.full.Store(before)
		}
	}
	if allowed < 1000 || denied < 1000 {
		t.Errorf("%d allowed, %d denied: histories that show little", allowed, denied)
	}
}

// TestBucketAccuracy counts what 20 seconds let through at 100 a second and a burst
// of 20: 2020, however many come and however they do.
func TestBucketAccuracy(t *testing.T) {
	f := NewBucketQuota(Quota{100, time.Second, 20})
	for _, c := range []struct {
		name  string
		every time.Duration
		each  int
	}{
		{"150 a second", time.Second / 150, 1},
		{"1000 a second", time.Millisecond, 1},
		{"bursts of 50", 200 * time.Millisecond, 50},
	} {
		var bucket Bucket
		passed := 0
		for now := time.Duration(0); now < 20*time.Second; now += c.every {
			for range c.each {
				if bucket.Take(f, now, 1).Allowed {
					passed++
				}
			}
		}
		if passed < 1998 || passed > 2020 {
			t.Errorf("%s: %d of 2020", c.name, passed)
		}
	}
}

// TestBucketRate: rates that no whole number of nanoseconds divides come out right.
func TestBucketRate(t *testing.T) {
	for _, count := range []int64{3, 7, 999, 333_333, 3_000_000} {
		f := NewBucketQuota(Quota{count, time.Second, 1})
		if rate := float64(time.Second) * tick / float64(f.interval); math.Abs(rate/float64(count)-1) > 0.001 {
			t.Errorf("%d a second became %f", count, rate)
		}
	}
}

func TestBucketFit(t *testing.T) {
	slow, fast := NewBucketQuota(Quota{10, time.Second, 100}), NewBucketQuota(Quota{1000, time.Minute, 40})
	now := time.Hour
	fitted := func(from, to *BucketQuota, taken int64) *Bucket {
		old, next := new(Bucket), new(Bucket)
		if taken > 0 {
			old.Take(from, now, taken)
		}
		before := old.full.Load()
		next.Fit(old, from, to, now)
		if old.full.Load() != before {
			t.Error("the old one is touched")
		}
		return next
	}
	if v := fitted(slow, fast, 75).Take(fast, now, 1); v.Remaining != 9 {
		t.Errorf("a quarter of 40 and one taken leaves %d, want 9", v.Remaining)
	}
	if !fitted(fast, slow, 0).Full(now) {
		t.Error("a full bucket is not full in another quota")
	}
	if v := fitted(slow, fast, 100).Take(fast, now, 1); v.Allowed {
		t.Error("an empty bucket let something through in another quota")
	}
}

// TestBucketConcurrent takes from one bucket at one time, and at times that come out
// of order: never more than there is, and all of it.
func TestBucketConcurrent(t *testing.T) {
	f := NewBucketQuota(Quota{1000, time.Second, 500})
	var (
		bucket Bucket
		passed atomic.Int64
		wg     sync.WaitGroup
	)
	for worker := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				// From 0 to 1 s, each worker a little behind the one before.
				now := time.Duration(max(0, i-10*worker)) * time.Second / 2000
				if bucket.Take(f, now, 1).Allowed {
					passed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if got := passed.Load(); got < 1400 || got > 1500 {
		t.Errorf("%d passed, want 1500 at most and few less", got)
	}
}
