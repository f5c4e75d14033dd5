package ratelimit

import (
	"strconv"
	"time"

	"sluice/internal/keyed"
	"sluice/internal/lease"
	"sluice/internal/resilience"
)

// Adaptive is how an adaptive rate follows what usually comes of each key, under a quota
// that bounds it from outside.
type Adaptive struct {
	Alpha  float64       // weight of the last sixtieth of Window in the average, 0 to 1
	Window time.Duration // of the standard deviation
	Upper  float64       // standard deviations above the average that are let through
	// Floor and Ceiling are the least and the most that are let through, as shares of the
	// quota's rate: 0 < Floor <= Ceiling <= 1.
	Floor, Ceiling float64
}

// Pacer is an adaptive rate as one snapshot has it. What it knows of each key outlives
// snapshots, whatever their numbers. It is safe for concurrent use.
type Pacer struct {
	base  resilience.PaceSettings
	tiers map[string]pacerTier
	whole bool // the ceiling is the rate itself
	known *paces
}

// paces is what is known over reloads.
type paces struct {
	began time.Time
	table *keyed.Table[resilience.Pace]
}

type pacerTier struct {
	settings resilience.PaceSettings
	salt     uint64 // tells its keys from those of other tiers
}

// AcquirePacer returns the adaptive rate of the limit with these settings, with what the
// live one of its identity knows if there is one; set holds it. The bounds of a tier are
// the same shares of its own quota.
func AcquirePacer(set *lease.Set, s *Settings, a *Adaptive) *Pacer {
	key := "adaptive rate\n" + s.Identity + "\n" + strconv.Itoa(s.MaxKeys)
	known := lease.Acquire(set, key, func() *paces {
		// What a window has to be to tell of idleness is that of whoever made the table: a
		// changed one makes keys be forgotten sooner or later, and nothing else.
		idle := a.settings(s.Quota, s.Cost)
		return &paces{time.Now(), keyed.NewTable(s.MaxKeys, nil, func(p *resilience.Pace, now time.Duration) bool { return p.Idle(&idle, now) })}
	})
	p := &Pacer{base: a.settings(s.Quota, s.Cost), tiers: map[string]pacerTier{}, whole: a.Ceiling == 1, known: known}
	for _, t := range s.Tiers {
		p.tiers[t.Name] = pacerTier{a.settings(t.Quota, s.Cost), known.table.Key("tier " + t.Name)}
	}
	return p
}

// settings are those of a pace under a quota: as much of the burst as of the rate may
// come at once.
func (a *Adaptive) settings(q resilience.Quota, cost int64) resilience.PaceSettings {
	rate := float64(q.Count) / q.Per.Seconds()
	return resilience.PaceSettings{
		Alpha: a.Alpha, Window: a.Window, Upper: a.Upper, Floor: a.Floor * rate, Ceiling: a.Ceiling * rate,
		Burst: time.Duration(float64(q.Burst) / rate * float64(time.Second)), Cost: cost,
	}
}

// Paced is what a Pacer has decided.
type Paced struct {
	resilience.Verdict
	pace     *resilience.Pace
	settings resilience.PaceSettings
	ease     resilience.Ease
	cost     int64
}

// Return gives back what an allowed one has taken, as the request was refused elsewhere,
// and tells what is there then.
func (p *Paced) Return() resilience.Verdict { return p.pace.Return(&p.settings, p.ease, p.cost) }

// Take lets cost, which is at least 1, through for a key, or takes nothing. ease is what
// the state of what the limit protects leaves now. Of instances, at least 1, that share
// the limit each has its part of the bounds, but for a ceiling that is the rate itself:
// that all of them enforce together.
func (p *Pacer) Take(key, tier string, ease resilience.Ease, instances, cost int64) Paced {
	now := time.Since(p.known.began)
	s, hash := p.base, p.known.table.Key(key)
	if tier != "" {
		if own, ok := p.tiers[tier]; ok {
			s = own.settings
			hash ^= own.salt
		}
	}
	s.Floor /= float64(instances)
	if !p.whole {
		s.Ceiling /= float64(instances)
	}
	pace := p.known.table.Get(hash, now)
	return Paced{pace.Take(&s, ease, now, cost), pace, s, ease, cost}
}

// Bounds returns the floor and the ceiling of those without a tier, in requests a
// second, of all instances together.
func (p *Pacer) Bounds() (floor, ceiling float64) { return p.base.Floor, p.base.Ceiling }

// Keys returns how many keys it knows something of, and how many it has forgotten
// because there were too many.
func (p *Pacer) Keys() (held int, evicted int64) {
	return p.known.table.Len(), p.known.table.Evicted()
}
