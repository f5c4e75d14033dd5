package ratelimit_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/logtest"
	"sluice/internal/model"
	"sluice/internal/ratelimit"
	"sluice/internal/redistest"
	"sluice/internal/resilience"
)

// logged is a log that several goroutines write.
type logged struct{ logtest.Buffer }

// refusals are the outages that are told, but for those of a machine that stood still for
// longer than a decision waits.
func (l *logged) refusals() (n int) {
	for line := range strings.Lines(l.String()) {
		if strings.Contains(line, "cannot be used") && !strings.Contains(line, "deadline") {
			n++
		}
	}
	return n
}

// instance is a limit as one process has it.
func instance(t testing.TB, m model.RedisStore, s ratelimit.Settings, log *logged) *ratelimit.Limit {
	t.Helper()
	s.Store = &model.Store{Name: "main", Redis: m}
	s.Log = slog.New(slog.NewTextHandler(log, nil))
	set := new(lease.Registry).NewSet()
	l := ratelimit.Acquire(set, &s)
	if err := set.Commit(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Release)
	return l
}

// database is a Redis alone.
type database struct{ *redistest.Server }

func newDatabase(t *testing.T) database {
	t.Helper()
	return database{redistest.Start(t)}
}

func (d database) instance(t *testing.T, s ratelimit.Settings, log *logged) *ratelimit.Limit {
	t.Helper()
	return instance(t, model.RedisStore{Address: d.Address}, s, log)
}

func common(strategy string, q resilience.Quota) ratelimit.Settings {
	s := settings(q)
	s.Strategy, s.OnFailure = strategy, ratelimit.FailDeny
	return *s
}

// decided is the store's decision, however long the machine takes for it.
func decided(t *testing.T, l *ratelimit.Limit, key string, cost int64) (d ratelimit.Decision) {
	t.Helper()
	redistest.Until(t, "the store decides", func() bool { d = l.Take(nobody{}, key, "", cost); return !d.StoreFailed })
	return d
}

// TestInstances lets one limit through for all of them together.
func TestInstances(t *testing.T) {
	d := newDatabase(t)
	for _, strategy := range ratelimit.Strategies() {
		for _, n := range []int{1, 2, 4, 8} {
			t.Run(fmt.Sprint(strategy.Name, n), func(t *testing.T) {
				var passed, failed atomic.Int64
				var group sync.WaitGroup
				s := common(strategy.Name, quota(100, time.Hour, 100))
				s.Identity = t.Name()
				for i := range n {
					l := d.instance(t, s, new(logged))
					group.Go(func() {
						for range 150 * (i + 1) / n { // uneven
							switch v := l.Take(nobody{}, "k", "", 1); {
							case v.StoreFailed:
								failed.Add(1)
							case v.Allowed:
								passed.Add(1)
							}
						}
					})
				}
				group.Wait()
				if p, f := passed.Load(), failed.Load(); p > 100 || f == 0 && p != 100 {
					t.Errorf("%d passed of 100; the store failed %d times", p, f)
				}
			})
		}
	}
}

// TestRateInRedis never lets more through than the limit has for the time that passed,
// and a window never too much wherever it begins.
func TestRateInRedis(t *testing.T) {
	d := newDatabase(t)
	// want is what a bucket lets through of requests that come when these came.
	run := func(strategy string, q resilience.Quota) (passes []pass, want, failed int) {
		l := d.instance(t, common(strategy, q), new(logged))
		var book resilience.Bucket
		quota := resilience.NewBucketQuota(q)
		for begun := time.Now(); time.Since(begun) < 2500*time.Millisecond; {
			from := time.Now()
			if book.Take(quota, from.Sub(begun), 1).Allowed {
				want++
			}
			switch v := l.Take(nobody{}, "k", "", 1); {
			case v.StoreFailed:
				failed++
			case v.Allowed:
				passes = append(passes, pass{from, time.Now()})
			}
		}
		return passes, want, failed
	}
	passes, want, failed := run(ratelimit.TokenBucket, quota(100, time.Second, 20))
	n, took := len(passes), passes[len(passes)-1].to.Sub(passes[0].from)
	if most := 20 + took.Seconds()*100 + 1; float64(n) > most || failed == 0 && n < want*97/100-2 {
		t.Errorf("%d passed in %v, want %d, with %d failures of the store", n, took, want, failed)
	}
	passes, _, failed = run(ratelimit.SlidingWindow, quota(10, time.Second, 10))
	for i := 10; i < len(passes); i++ {
		if took := passes[i].to.Sub(passes[i-10].from); took < time.Second {
			t.Errorf("eleven passed within %v", took)
		}
	}
	if failed == 0 && len(passes) < 28 {
		t.Errorf("a window let only %d through", len(passes))
	}
}

// TestScripts decide as the strategies do in memory.
func TestScripts(t *testing.T) {
	d := newDatabase(t)
	for _, strategy := range ratelimit.Strategies() {
		t.Run(strategy.Name, func(t *testing.T) {
			for _, q := range []resilience.Quota{quota(10, time.Hour, 10), quota(1000, time.Hour, 1000)} {
				s := common(strategy.Name, q)
				s.Identity = fmt.Sprint(t.Name(), q)
				here := *settings(q)
				here.Strategy = strategy.Name
				set := new(lease.Registry).NewSet()
				memory, redis := ratelimit.Acquire(set, &here), d.instance(t, s, new(logged))
				unit := q.Count / 10
				for _, cost := range []int64{3 * unit, 1, unit, 4 * unit, 5 * unit, 2 * unit, unit} {
					want, got := memory.Take(nobody{}, "k", "", cost), decided(t, redis, "k", cost)
					near := func(a, b time.Duration) bool { return (a - b).Abs() < 30*time.Second }
					if got.Allowed != want.Allowed || got.Remaining != want.Remaining || !near(got.Reset, want.Reset) || !near(got.Retry, want.Retry) {
						t.Errorf("a cost of %d: %+v, in memory %+v", cost, got.Verdict, want.Verdict)
					}
				}
				if over := decided(t, redis, "k", 2*q.Count); over.Allowed || over.Retry <= 0 {
					t.Errorf("more than there ever is: %+v", over)
				}
				set.Release()
			}
		})
	}
}

// TestOtherNumbersInRedis keep the share that is used up.
func TestOtherNumbersInRedis(t *testing.T) {
	d := newDatabase(t)
	for _, strategy := range ratelimit.Strategies() {
		t.Run(strategy.Name, func(t *testing.T) {
			few, many := common(strategy.Name, quota(10, time.Hour, 10)), common(strategy.Name, quota(100, time.Hour, 100))
			decided(t, d.instance(t, few, new(logged)), "k", 5)
			if v := decided(t, d.instance(t, many, new(logged)), "k", 60); v.Remaining != 50 {
				t.Errorf("half of ten is %+v of a hundred", v)
			}
			few.Tiers = []ratelimit.Tier{{Name: "gold", Quota: quota(7, time.Hour, 7)}}
			l := d.instance(t, few, new(logged))
			var v ratelimit.Decision
			redistest.Until(t, "the store decides", func() bool { v = l.Take(nobody{}, "k", "gold", 1); return !v.StoreFailed })
			if v.Remaining != 6 {
				t.Errorf("in a tier: %+v", v)
			}
		})
	}
}

// TestOutage does as on_store_failure says, tells it once, and ends by itself.
func TestOutage(t *testing.T) {
	d := newDatabase(t)
	q := quota(10, time.Hour, 10)
	log := new(logged)
	local := common(ratelimit.TokenBucket, q)
	local.OnFailure = ratelimit.FailLocal
	window := common(ratelimit.SlidingWindow, q)
	window.OnFailure = ratelimit.FailLocal
	allow := common(ratelimit.TokenBucket, q)
	allow.Identity, allow.OnFailure = "allow", ratelimit.FailAllow
	first, second := d.instance(t, local, log), d.instance(t, window, new(logged))
	open, shut := d.instance(t, allow, new(logged)), d.instance(t, common(ratelimit.TokenBucket, q), new(logged))
	all := []*ratelimit.Limit{first, second, open, shut}
	for _, l := range all {
		decided(t, l, "k", 1)
		redistest.Until(t, "four instances are known", func() bool { _, n, _ := l.Store(); return n == 4 })
	}
	before := log.Count("cannot be used")
	d.Kill()
	for _, l := range all {
		redistest.Until(t, "the outage is noticed", func() bool { return l.Take(nobody{}, "other", "", 1).StoreFailed })
	}
	if answers, n, ok := first.Store(); answers || n != 4 || !ok {
		t.Errorf("it answers: %v, for %d instances, %v", answers, n, ok)
	}
	for _, l := range []*ratelimit.Limit{first, second} {
		wantPasses(t, "a fourth of ten", passes(l, "k", "", 10), 2)
	}
	if v := open.Take(nobody{}, "k", "", 100); !v.Allowed || !v.Unknown {
		t.Errorf("allow: %+v", v)
	}
	if v := shut.Take(nobody{}, "k", "", 1); v.Allowed || !v.Unknown {
		t.Errorf("deny: %+v", v)
	}
	redistest.Until(t, "the outage is told once", func() bool { return log.Count("cannot be used") == before+1 })
	d.Restart()
	for _, l := range all {
		decided(t, l, "k", 1)
	}
	redistest.Until(t, "the end is told", func() bool { return log.Count("can be used again") == before+1 })
}

// TestOutagesThatFollow each other go on with the share that is used up.
func TestOutagesThatFollow(t *testing.T) {
	d := newDatabase(t)
	s := common(ratelimit.TokenBucket, quota(10, time.Hour, 10))
	s.OnFailure = ratelimit.FailLocal
	l := d.instance(t, s, new(logged))
	for _, want := range []int{10, 0} {
		decided(t, l, "k", 1)
		d.Kill()
		redistest.Until(t, "the outage is noticed", func() bool { return l.Take(nobody{}, "other", "", 1).StoreFailed })
		wantPasses(t, "in an outage", passes(l, "k", "", 20), want)
		d.Restart()
	}
}

// TestReleased: exchanges that a reload overtakes, which has the limit elsewhere, are
// decided by what this instance may do alone, and nobody is told of an outage.
func TestReleased(t *testing.T) {
	for _, leased := range []bool{false, true} {
		d := newDatabase(t) // in which there is no other instance
		log := new(logged)
		s := common(ratelimit.TokenBucket, quota(10, time.Hour, 10))
		s.Lease, s.Log = leased, slog.New(slog.NewTextHandler(log, nil))
		s.Store = &model.Store{Name: "main", Redis: model.RedisStore{Address: d.Address}}
		set := new(lease.Registry).NewSet()
		l := ratelimit.Acquire(set, &s)
		if err := set.Commit(); err != nil {
			t.Fatal(err)
		}
		decided(t, l, "k", 1)
		var group sync.WaitGroup
		group.Go(func() { passes(l, "another", "", 100) })
		set.Release()
		wantPasses(t, fmt.Sprint("after the end, with leases: ", leased), passes(l, "k", "", 20), 10)
		group.Wait()
		if n := log.Count("cannot be used"); n > 0 {
			t.Errorf("an outage is told %d times", n)
		}
	}
}

// TestSilence of a store that has stopped holds nobody up.
func TestSilence(t *testing.T) {
	d := newDatabase(t)
	s := common(ratelimit.TokenBucket, quota(1000, time.Hour, 1000))
	l := d.instance(t, s, new(logged))
	decided(t, l, "k", 1)
	d.Signal(syscall.SIGSTOP)
	var longest time.Duration
	for range 200 {
		begun := time.Now()
		if v := l.Take(nobody{}, "k", "", 1); !v.StoreFailed {
			t.Error("a store that has stopped decides")
		}
		longest = max(longest, time.Since(begun))
	}
	if longest > 1500*time.Millisecond { // 50 and what a busy machine takes; the client by itself waits for two seconds
		t.Errorf("a request waited for %v", longest)
	}
	d.Signal(syscall.SIGCONT)
	decided(t, l, "k", 1)
}

func BenchmarkTakeExact(b *testing.B) {
	s := common(ratelimit.TokenBucket, quota(1_000_000_000, time.Second, 1_000_000_000))
	l := instance(b, model.RedisStore{Address: redistest.Start(b).Address}, s, new(logged))
	b.ReportAllocs()
	for b.Loop() {
		l.Take(nobody{}, "192.0.2.1", "", 1)
	}
}
