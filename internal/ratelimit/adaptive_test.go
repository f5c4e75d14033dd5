package ratelimit_test

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/ratelimit"
	"sluice/internal/resilience"
)

// all leaves what an adaptive rate allows.
var all = resilience.Ease{Share: 1, Room: 1}

func adaptive(floor, ceiling float64) *ratelimit.AdaptiveSettings {
	return &ratelimit.AdaptiveSettings{Alpha: 0.2, Window: time.Minute, Upper: 2, Floor: floor, Ceiling: ceiling}
}

// passing is how many of 1000 requests of a key pass at once.
func passing(p *ratelimit.AdaptiveRate, key, tier string, ease resilience.Ease, instances int64) (passed int) {
	for range 1000 {
		if p.Take(key, tier, ease, instances, 1).Allowed {
			passed++
		}
	}
	return passed
}

// TestAdaptiveRateInstances: each has its part of the bounds; a ceiling that is the rate
// itself is none of its own.
func TestAdaptiveRateInstances(t *testing.T) {
	tight := resilience.Ease{}
	for _, c := range []struct {
		what           string
		floor, ceiling float64
		ease           resilience.Ease
		instances      int64
		want           int
	}{
		{"the ceiling of one", 0.1, 0.5, all, 1, 50},
		{"the ceiling of five", 0.1, 0.5, all, 5, 10},
		{"no ceiling", 0.1, 1, all, 5, 100},
		{"the floor of one", 0.2, 1, tight, 1, 20},
		{"the floor of five", 0.2, 1, tight, 5, 4},
		{"less than one", 0.1, 0.1, all, 50, 1},
	} {
		set := new(lease.Registry).NewSet()
		p := ratelimit.AcquireAdaptiveRate(set, settings(quota(100, time.Hour, 100)), adaptive(c.floor, c.ceiling))
		wantPasses(t, c.what, passing(p, "a", "", c.ease, c.instances), c.want)
		set.Release()
	}
}

func TestAdaptiveRateTiers(t *testing.T) {
	set := new(lease.Registry).NewSet()
	defer set.Release()
	s := settings(quota(100, time.Hour, 100))
	s.Tiers = []ratelimit.Tier{{Name: "gold", Quota: quota(1000, time.Hour, 400)}}
	p := ratelimit.AcquireAdaptiveRate(set, s, adaptive(0.1, 0.5))
	wantPasses(t, "a key", passing(p, "a", "", all, 1), 50)
	wantPasses(t, "the key in its tier", passing(p, "a", "gold", all, 1), 200)
	wantPasses(t, "a key in a tier that there is not", passing(p, "b", "silver", all, 1), 50)
	if floor, ceiling := p.Bounds(); floor*3600 != 10 || ceiling*3600 != 50 {
		t.Errorf("bounds %v to %v a second", floor, ceiling)
	}
	if held, evicted := p.Keys(); held != 3 || evicted != 0 {
		t.Errorf("%d keys are held, %d evicted", held, evicted)
	}
	for i := range 200 {
		p.Take(fmt.Sprint(i), "", all, 1, 1)
	}
	if held, evicted := p.Keys(); held != s.MaxKeys || evicted != 203-int64(s.MaxKeys) {
		t.Errorf("%d keys are held, %d evicted", held, evicted)
	}
}

// TestAdaptiveRateReload goes on where it is the same limit, and begins anew where it is not.
func TestAdaptiveRateReload(t *testing.T) {
	set := new(lease.Registry).NewSet()
	defer set.Release()
	s := settings(quota(100, time.Hour, 100))
	wantPasses(t, "at first", passing(ratelimit.AcquireAdaptiveRate(set, s, adaptive(0.1, 0.5)), "a", "", all, 1), 50)
	changed := adaptive(0.2, 0.5)
	changed.Alpha, changed.Window, changed.Upper = 0.5, time.Hour, 1
	wantPasses(t, "after a reload", passing(ratelimit.AcquireAdaptiveRate(set, s, changed), "a", "", all, 1), 0)
	s.Identity = "another"
	wantPasses(t, "of another limit", passing(ratelimit.AcquireAdaptiveRate(set, s, changed), "a", "", all, 1), 50)
}

func TestAdaptiveRateReturn(t *testing.T) {
	set := new(lease.Registry).NewSet()
	defer set.Release()
	p := ratelimit.AcquireAdaptiveRate(set, settings(quota(10, time.Hour, 10)), adaptive(0.1, 1))
	for range 100 {
		v := p.Take("a", "", all, 1, 1)
		if !v.Allowed {
			t.Fatal("what was given back is gone")
		}
		v.Return()
	}
	wantPasses(t, "after all was given back", passing(p, "a", "", all, 1), 10)
}

func TestAdaptiveRateAllocation(t *testing.T) {
	set := new(lease.Registry).NewSet()
	defer set.Release()
	p := ratelimit.AcquireAdaptiveRate(set, settings(quota(10, time.Hour, 10)), adaptive(0.1, 1))
	if n := testing.AllocsPerRun(100, func() {
		v := p.Take("a", "", all, 3, 1)
		v.Return()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkAdaptiveRate is what adaptive adds to the decision of a limit.
func BenchmarkAdaptiveRate(b *testing.B) {
	set := new(lease.Registry).NewSet()
	defer set.Release()
	p := ratelimit.AcquireAdaptiveRate(set, settings(quota(1_000_000, time.Second, 1_000_000)), adaptive(0.1, 1))
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p.Take("192.0.2.1", "", all, 1, 1)
		}
	})
}
