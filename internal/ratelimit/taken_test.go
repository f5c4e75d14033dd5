package ratelimit_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/lease"
	"sluice/internal/ratelimit"
	"sluice/internal/redistest"
)

// TestReturn: what goes back at once is there for others, wherever a limit is kept, and
// however many take and give back at the same time.
func TestReturn(t *testing.T) {
	d := newDatabase(t)
	for _, strategy := range ratelimit.Strategies() {
		for _, where := range []string{"memory", "exact", "lease", "local"} {
			t.Run(strategy.Name+" "+where, func(t *testing.T) {
				d := d
				s := common(strategy.Name, quota(20, time.Hour, 20))
				s.Identity, s.Cost, s.Lease = t.Name(), 4, where == "lease"
				var l *ratelimit.Limit
				switch where {
				case "memory":
					set := new(lease.Registry).NewSet()
					defer set.Release()
					l = ratelimit.Acquire(set, &s)
				case "local":
					d = newDatabase(t)
					s.OnFailure = ratelimit.FailLocal
					l = d.instance(t, s, new(logged))
					d.Kill()
					redistest.Until(t, "the outage is noticed", func() bool { return l.Take(nobody{}, "other", "", 4).StoreFailed })
				default:
					l = d.instance(t, s, new(logged))
				}
				take := func(key string) (v ratelimit.Decision) {
					redistest.Until(t, "it is decided", func() bool { v = l.Take(nobody{}, key, "", 4); return where == "local" || !v.StoreFailed })
					return v
				}
				take("k")
				// What a lease has given back to the store it tells of once the store has told it.
				left := func(n, want int64) bool { return n == want || where == "lease" && n >= want-5 && n < want }
				for i := range 50 {
					v := take("k")
					if !v.Allowed || !left(v.Remaining, 12) {
						t.Fatalf("after %d that went back: %+v", i, v)
					}
					if back := l.Return(nobody{}, &v); !left(back.Remaining, 16) || back.Reset <= 0 || back.Reset > v.Reset {
						t.Fatalf("a return of %+v leaves %+v", v, back)
					}
				}
				var group sync.WaitGroup
				for range 4 {
					group.Go(func() {
						for range 25 {
							if v := l.Take(nobody{}, "k", "", 4); v.Allowed {
								l.Return(nobody{}, &v)
							}
						}
					})
				}
				group.Wait()
				passed, want := 0, 4
				if where == "lease" { // what comes back after the lifetime of its portion is lost
					want = 1
				}
				redistest.Until(t, "those that are left have passed", func() bool { // a lease is to hear of what went back to the store
					if take("k").Allowed {
						passed++
					}
					return passed >= want
				})
				for range 5 {
					if take("k").Allowed {
						passed++
					}
				}
				if passed > 4 {
					t.Errorf("%d of four pass", passed)
				}
			})
		}
	}
}

// TestReturnOfNothing: what nobody has decided has taken nothing.
func TestReturnOfNothing(t *testing.T) {
	d := newDatabase(t)
	s := common(ratelimit.TokenBucket, quota(10, time.Hour, 10))
	s.OnFailure = ratelimit.FailAllow
	l := d.instance(t, s, new(logged))
	d.Kill()
	var v ratelimit.Decision
	redistest.Until(t, "the outage is noticed", func() bool { v = l.Take(nobody{}, "k", "", 1); return v.StoreFailed })
	if back := l.Return(nobody{}, &v); back != v.Verdict {
		t.Errorf("a return of %+v leaves %+v", v, back)
	}
}

// TestReturnToALease: what comes back goes to the store, if the instance has no use for it.
func TestReturnToALease(t *testing.T) {
	eachLeased(t, func(b bed) {
		l := b.d.instance(t, leased(b.strategy, 3), new(logged)) // too few to have any in hand
		var v ratelimit.Decision
		redistest.Until(t, "the store decides", func() bool { v = l.Take(nobody{}, "k", "", 1); return v.Allowed })
		l.Return(nobody{}, &v)
		redistest.Until(b.t, "it is back in the store", func() bool { return b.d.used(b.t, 3) == 0 })
	})
}

// TestLateReturn: what has come back by itself does not come back once more.
func TestLateReturn(t *testing.T) {
	for _, strategy := range ratelimit.Strategies() {
		t.Run(strategy.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := new(lease.Registry).NewSet()
				defer set.Release()
				s := common(strategy.Name, quota(10, time.Second, 10))
				l := ratelimit.Acquire(set, &s)
				v := l.Take(nobody{}, "k", "", 5)
				time.Sleep(2 * time.Second)
				wantPasses(t, "all", passes(l, "k", "", 20), 10)
				l.Return(nobody{}, &v)
				wantPasses(t, "after a return that comes late", passes(l, "k", "", 20), 0)
			})
		})
	}
}

// TestLateReturnToAStore is alike there: the time tells, by which all has come back.
func TestLateReturnToAStore(t *testing.T) {
	d := newDatabase(t)
	for _, strategy := range ratelimit.Strategies() {
		t.Run(strategy.Name, func(t *testing.T) {
			d.Must("FLUSHALL")
			said := d.portion(t, &strategy, 100, 60, 60, 1)
			giveBack := func(due int64) string {
				return fmt.Sprint(d.Must("EVAL", strategy.Refund, 1, "k", 60, 100, said[saidStamp], due, 100, time.Hour.Microseconds()))
			}
			if back := giveBack(said[saidStamp]); back != "[0]" {
				t.Errorf("%s of what is there again went back", back)
			}
			if back := giveBack(said[saidStamp] + time.Hour.Microseconds()); back != "[60]" {
				t.Errorf("%s of 60 went back", back)
			}
			want := d.portion(t, &strategy, 100, 1, 1, 1)
			if want[saidLeft] != 99 {
				t.Errorf("%d are left", want[saidLeft])
			}
		})
	}
}
