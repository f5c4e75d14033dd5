package ratelimit_test

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/ratelimit"
	"sluice/internal/redistest"
	"sluice/internal/resilience"
)

var long = flag.Bool("long", false, "count what leases let through for as many instances and as long as is promised")

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

// load is what comes of a load.
type load struct {
	passes            []pass
	decisions, failed int64
	first, last       time.Time
}

// tally notes what is decided.
type tally struct {
	t     *testing.T
	limit *ratelimit.Limit
	quota resilience.Quota
	load
}

// take takes n times one of a key.
func (a *tally) take(key string, n int) {
	for range n {
		from := time.Now()
		v := a.limit.Take(nobody{}, key, "", 1)
		a.decisions++
		switch {
		case v.StoreFailed:
			a.failed++
		case v.Allowed:
			a.passes = append(a.passes, pass{from, time.Now()})
		case v.Retry <= 0:
			a.t.Errorf("refused without a time to come back: %+v", v)
		}
		if v.Remaining < 0 || v.Remaining > a.quota.Burst || v.Reset < 0 || v.Retry < 0 {
			a.t.Errorf("clients are told %+v", v)
		}
	}
}

// together has each limit be asked on a goroutine of its own.
func together(t *testing.T, limits []*ratelimit.Limit, q resilience.Quota, each func(i int, began time.Time, a *tally)) (all load) {
	t.Helper()
	tallies := make([]*tally, len(limits))
	all.first = time.Now()
	var group sync.WaitGroup
	for i, limit := range limits {
		tallies[i] = &tally{t: t, limit: limit, quota: q}
		group.Go(func() { each(i, all.first, tallies[i]) })
	}
	group.Wait()
	all.last = time.Now()
	for _, a := range tallies {
		all.passes = append(all.passes, a.passes...)
		all.decisions += a.decisions
		all.failed += a.failed
	}
	slices.SortFunc(all.passes, func(a, b pass) int { return a.to.Compare(b.to) })
	return all
}

// steady asks each limit for a key so many times every 4 ms.
func steady(t *testing.T, limits []*ratelimit.Limit, q resilience.Quota, key string, n []int, during time.Duration) load {
	t.Helper()
	return together(t, limits, q, func(i int, began time.Time, a *tally) {
		ticker := time.NewTicker(4 * time.Millisecond)
		defer ticker.Stop()
		for time.Since(began) < during {
			a.take(key, n[i])
			<-ticker.C
		}
	})
}

// surges ask for much at once, and once more as long as that is in hand which was fetched
// ahead of a need that does not come; of a window when all has come free as well.
func surges(t *testing.T, limits []*ratelimit.Limit, q resilience.Quota, windowed bool) load {
	t.Helper()
	pause := q.Per / 4 // a bucket is full again
	if windowed {
		pause = q.Per / 20
	}
	return together(t, limits, q, func(_ int, began time.Time, a *tally) {
		all := int(q.Burst) / len(limits)
		a.take("surge", all*45/100)
		<-time.After(time.Until(began.Add(pause)))
		a.take("surge", 2*all)
		<-time.After(time.Until(began.Add(q.Per)))
		for time.Since(began) < q.Per+pause {
			a.take("surge", all)
			<-time.After(time.Millisecond)
		}
	})
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
	if *long {
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
					uneven[i] = 3 + 3*i/n
				}
				bounded := func(what string, l *load) {
					bound, excess := inHand(q, int64(n)), l.excess(strategy.Name, q)
					t.Logf("%s: %d passed of %d, %d too much at worst of %d, %d failed, %d calls up to now", what, len(l.passes), l.decisions, excess, bound, l.failed, d.calls(t))
					if excess > bound {
						t.Errorf("%d too much passed, more than %d", excess, bound)
					}
				}
				burst := surges(t, limits, q, strategy.Windowed)
				bounded("surges", &burst)
				for _, each := range [][]int{uneven, alone} {
					// A machine that is busy with much else stands still now and then, and what
					// would have passed by then is lost.
					for try := 1; ; try++ {
						key := fmt.Sprint(each, " ", try)
						l := steady(t, limits, q, key, each, during)
						bounded(key, &l)
						if len(l.passes) >= least(strategy.Name, q, l.last.Sub(l.first)) {
							break
						}
						if try == 5 {
							t.Errorf("only %d passed in %v", len(l.passes), l.last.Sub(l.first))
							break
						}
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
