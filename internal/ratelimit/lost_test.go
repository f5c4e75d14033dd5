package ratelimit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/ratelimit"
	"sluice/internal/redistest"
)

// TestStoreForgets all it knew in mid-run: instances that say again that they live are not
// taken for alone meanwhile, which would give each the shares of others.
func TestStoreForgets(t *testing.T) {
	d := newDatabase(t)
	limits := d.fleet(t, 3, common(ratelimit.TokenBucket, quota(100, time.Hour, 100)))
	for range 2 {
		d.Must("FLUSHALL")
		redistest.Until(t, "all have said again that they live", func() bool {
			for _, l := range limits {
				if _, n, _ := l.Store(); n != 3 {
					t.Fatalf("%d instances are taken for alive", n)
				}
			}
			return d.Must("ZCARD", "sluice:{instances}") == int64(3)
		})
	}
}

// TestClockOfTheStoreGoesBack: what was said before comes from later, and an instance that has
// said it and is gone does not count until that time comes.
func TestClockOfTheStoreGoesBack(t *testing.T) {
	d := newDatabase(t)
	l := d.instance(t, common(ratelimit.TokenBucket, quota(100, time.Hour, 100)), new(logged))
	decided(t, l, "k", 1)
	d.Must("ZADD", "sluice:{instances}", time.Now().Add(time.Hour).UnixMilli(), "one that is gone")
	redistest.Until(t, "it is forgotten", func() bool { return d.Must("ZCARD", "sluice:{instances}") == int64(1) })
	if _, n, _ := l.Store(); n != 1 {
		t.Errorf("%d instances are taken for alive", n)
	}
}

// TestLateGoesBack: what a store takes for a decision that was made without it goes back.
func TestLateGoesBack(t *testing.T) {
	for _, leased := range []bool{false, true} {
		for _, strategy := range ratelimit.Strategies() {
			t.Run(fmt.Sprint(strategy.Name, ", leased: ", leased), func(t *testing.T) {
				d := newDatabase(t)
				s := common(strategy.Name, quota(100, time.Hour, 100))
				s.Lease = leased
				log := new(logged)
				l := instance(t, model.RedisStore{Address: far(t, d.Address, 70*time.Millisecond)}, s, log)
				if v := l.Take(nobody{}, "k", "", 5); !v.StoreFailed {
					t.Fatalf("a store that is too far away has decided: %+v", v)
				}
				redistest.Until(t, "it has taken and given back", func() bool {
					return strings.Contains(fmt.Sprint(d.Must("KEYS", "*")), "sluice:limit:") && d.used(t, 100) <= 1
				})
			})
		}
	}
}
