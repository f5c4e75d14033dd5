package ratelimit_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/ratelimit"
	"sluice/internal/redistest"
	"sluice/internal/resilience"
)

// inHand is the most that n instances together may have in hand of a quota.
func inHand(q resilience.Quota, n int64) int64 { return n * (q.Burst / (4 * n)) }

// pass is when a request passed: between two times.
type pass struct{ from, to time.Time }

// fleet is instances that share a limit, and know how many they are.
func (d database) fleet(t *testing.T, n int, s ratelimit.Settings) []*ratelimit.Limit {
	t.Helper()
	var limits []*ratelimit.Limit
	for range n {
		limits = append(limits, d.instance(t, s, new(logged)))
	}
	for _, l := range limits {
		redistest.Until(t, "all instances are known", func() bool { _, known, _ := l.Store(); return known == int64(n) })
	}
	return limits
}

// load is what comes of a load for a time, each time it ticks so many of each instance.
type load struct {
	passes            []pass
	decisions, failed int64
	first, last       time.Time
}

func ask(t *testing.T, limits []*ratelimit.Limit, q resilience.Quota, key string, each []int, during time.Duration) (l load) {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	var failed, decisions atomic.Int64
	l.first = time.Now()
	for i, limit := range limits {
		group.Go(func() {
			var passes []pass
			ticker := time.NewTicker(4 * time.Millisecond)
			defer ticker.Stop()
			for time.Since(l.first) < during {
				for range each[i] {
					from := time.Now()
					v := limit.Take(nobody{}, key, "", 1)
					decisions.Add(1)
					switch {
					case v.StoreFailed:
						failed.Add(1)
					case v.Allowed:
						passes = append(passes, pass{from, time.Now()})
					case v.Retry <= 0:
						t.Errorf("refused without a time to come back: %+v", v)
					}
					if v.Remaining < 0 || v.Remaining > q.Burst || v.Reset < 0 || v.Retry < 0 {
						t.Errorf("clients are told %+v", v)
					}
				}
				<-ticker.C
			}
			mu.Lock()
			l.passes = append(l.passes, passes...)
			mu.Unlock()
		})
	}
	group.Wait()
	l.last, l.failed, l.decisions = time.Now(), failed.Load(), decisions.Load()
	slices.SortFunc(l.passes, func(a, b pass) int { return a.to.Compare(b.to) })
	return l
}

// excess is by how much more than a bucket, or a window, has passed in any time.
func (l *load) excess(strategy string, q resilience.Quota) (worst int64) {
	for i, begin := range l.passes {
		// Of those that ended in order, all from i on may have passed since the earliest beginning.
		from := begin.from
		for j := i; j < len(l.passes); j++ {
			if earlier := l.passes[j].from; earlier.Before(from) {
				from = earlier
			}
			took := l.passes[j].to.Sub(from)
			n := int64(j - i + 1)
			if strategy == ratelimit.SlidingWindow {
				if took >= q.Per {
					break
				}
				worst = max(worst, n-q.Count)
			} else {
				worst = max(worst, n-q.Burst-int64(took.Seconds()*float64(q.Count)/q.Per.Seconds())-1)
			}
		}
	}
	return worst
}

// least is what has to pass of a load that is always there, but for a few percent.
func least(strategy string, q resilience.Quota, took time.Duration) int {
	if strategy == ratelimit.SlidingWindow {
		return int(0.95 * float64(q.Count) * float64(took/q.Per))
	}
	return int(0.95 * (float64(q.Burst) + float64(q.Count)*took.Seconds()/q.Per.Seconds()))
}

// TestLeaseBound lets never more through than the limit and what is in hand, wherever a
// time begins, and nearly all of the limit, wherever the load is.
func TestLeaseBound(t *testing.T) {
	d := newDatabase(t)
	fleets, during := []int{1, 4}, 1300*time.Millisecond
	if os.Getenv("LIMITS") == "long" {
		fleets, during = []int{1, 2, 4, 8}, 10*time.Second
	}
	for _, strategy := range ratelimit.Strategies() {
		for _, n := range fleets {
			t.Run(fmt.Sprint(strategy.Name, " of ", n), func(t *testing.T) {
				q := quota(400, time.Second, 100)
				if strategy.Windowed {
					q.Burst = q.Count
				}
				s := common(strategy.Name, q)
				s.Identity, s.Lease = t.Name(), true
				limits := d.fleet(t, n, s)
				uneven, alone := make([]int, n), make([]int, n)
				alone[n-1] = 4
				for i := range uneven {
					uneven[i] = 2 + 3*i/n
				}
				for _, each := range [][]int{uneven, alone} {
					before := d.calls(t)
					l := ask(t, limits, q, fmt.Sprint(each), each, during)
					calls := d.calls(t) - before
					bound, excess := inHand(q, int64(n)), l.excess(strategy.Name, q)
					t.Logf("%v: %d passed of %d, %d too much at worst of %d, %d failed, %d calls", each, len(l.passes), l.decisions, excess, bound, l.failed, calls)
					if excess > bound {
						t.Errorf("%d too much passed, more than %d", excess, bound)
					}
					if l.failed == 0 && len(l.passes) < least(strategy.Name, q, l.last.Sub(l.first)) {
						t.Errorf("only %d passed in %v", len(l.passes), l.last.Sub(l.first))
					}
				}
			})
		}
	}
}

// calls is how often a script was called.
func (d database) calls(t *testing.T) (n int) {
	t.Helper()
	for line := range strings.Lines(fmt.Sprint(d.Must("INFO", "commandstats"))) {
		if rest, ok := strings.CutPrefix(line, "cmdstat_evalsha:calls="); ok {
			number, _, _ := strings.Cut(rest, ",")
			n, _ = strconv.Atoi(number)
		}
	}
	return n
}
