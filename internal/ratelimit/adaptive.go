package ratelimit

import (
	"time"

	"sluice/internal/keyed"
	"sluice/internal/lease"
	"sluice/internal/resilience"
)

// AdaptiveSettings are how an adaptive rate follows what usually comes of each key, under a
// quota that bounds it from outside.
type AdaptiveSettings struct {
	Alpha  float64       // weight of the last sixtieth of Window in the average, 0 to 1
	Window time.Duration // of the standard deviation
	Upper  float64       // standard deviations above the average that are let through
	// Floor and Ceiling are the least and the most that are let through, as shares of the
	// quota's rate: 0 < Floor <= Ceiling <= 1.
	Floor, Ceiling float64
}

// AdaptiveRate is an adaptive rate as one snapshot has it. What it knows of each key
// outlives snapshots, whatever their numbers. It is safe for concurrent use.
type AdaptiveRate struct {
	base  resilience.AdaptiveRateSettings
	tiers map[string]adaptiveTier
	whole bool // the ceiling is the rate itself
	known *adaptiveRates
}

// adaptiveRates are what is known over reloads.
type adaptiveRates struct {
	began time.Time
	table *keyed.Table[resilience.AdaptiveRate]
}

type adaptiveTier struct {
	settings resilience.AdaptiveRateSettings
	salt     uint64 // tells its keys from those of other tiers
}

// AcquireAdaptiveRate returns the adaptive rate of the limit with these settings, with what
// the live one of its identity knows if there is one; set holds it. The bounds of a tier
// are the same shares of its own quota.
func AcquireAdaptiveRate(set *lease.Set, s *Settings, a *AdaptiveSettings) *AdaptiveRate {
	key := "adaptive rate\n" + s.Identity
	known := lease.Acquire(set, key, func() *adaptiveRates {
		// What a window has to be to tell of idleness is that of whoever made the table: a
		// changed one makes keys be forgotten sooner or later, and nothing else.
		idle := a.settings(s.Quota, s.Cost)
		return &adaptiveRates{time.Now(), keyed.NewTable(s.MaxKeys, nil, func(r *resilience.AdaptiveRate, now time.Duration) bool { return r.Idle(&idle, now) })}
	})
	hold(set, key, s.MaxKeys, known.table.Resize)
	r := &AdaptiveRate{base: a.settings(s.Quota, s.Cost), tiers: map[string]adaptiveTier{}, whole: a.Ceiling == 1, known: known}
	for _, t := range s.Tiers {
		r.tiers[t.Name] = adaptiveTier{a.settings(t.Quota, s.Cost), known.table.Key("tier " + t.Name)}
	}
	return r
}

// settings are those of a rate under a quota: as much of the burst as of the rate may
// come at once.
func (a *AdaptiveSettings) settings(q resilience.Quota, cost int64) resilience.AdaptiveRateSettings {
	rate := float64(q.Count) / q.Per.Seconds()
	return resilience.AdaptiveRateSettings{
		Alpha: a.Alpha, Window: a.Window, Upper: a.Upper, Floor: a.Floor * rate, Ceiling: a.Ceiling * rate,
		Burst: time.Duration(float64(q.Burst) / rate * float64(time.Second)), Cost: cost,
	}
}

// AdaptiveDecision is what an AdaptiveRate has decided.
type AdaptiveDecision struct {
	resilience.Verdict
	rate     *resilience.AdaptiveRate
	settings resilience.AdaptiveRateSettings
	ease     resilience.Ease
	cost     int64
}

// Return gives back what an allowed one has taken, as the request was refused elsewhere,
// and tells what is there then.
func (d *AdaptiveDecision) Return() resilience.Verdict {
	return d.rate.Return(&d.settings, d.ease, d.cost)
}

// Take lets cost, which is at least 1, through for a key, or takes nothing. ease is what
// the state of what the limit protects leaves now. Of instances, at least 1, that share
// the limit each has its part of the bounds, but for a ceiling that is the rate itself:
// that all of them enforce together.
func (r *AdaptiveRate) Take(key, tier string, ease resilience.Ease, instances, cost int64) AdaptiveDecision {
	now := time.Since(r.known.began)
	s, hash := r.base, r.known.table.Key(key)
	if tier != "" {
		if own, ok := r.tiers[tier]; ok {
			s = own.settings
			hash ^= own.salt
		}
	}
	s.Floor /= float64(instances)
	if !r.whole {
		s.Ceiling /= float64(instances)
	}
	rate := r.known.table.Get(hash, now)
	return AdaptiveDecision{rate.Take(&s, ease, now, cost), rate, s, ease, cost}
}

// Bounds returns the floor and the ceiling of those without a tier, in requests a
// second, of all instances together.
func (r *AdaptiveRate) Bounds() (floor, ceiling float64) { return r.base.Floor, r.base.Ceiling }

// Keys returns how many keys it knows something of, and how many it has forgotten
// because there were too many.
func (r *AdaptiveRate) Keys() (held int, evicted int64) {
	return r.known.table.Len(), r.known.table.Evicted()
}
