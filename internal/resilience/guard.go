package resilience

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"
)

// Stance is how much an adaptive limit lets through for the state of what it protects.
type Stance uint8

// The stances of a guard.
const (
	Normal     Stance = iota // all that the rate allows
	Guarded                  // what is usual, and no more: latency has left its band
	Shedding                 // half of what is usual: the breaker is not closed, or latency does not come back
	Recovering               // from that step by step to all
)

// String returns the stance's name in logs, metrics and status.
func (s Stance) String() string {
	switch s {
	case Normal:
		return "normal"
	case Guarded:
		return "guarded"
	case Shedding:
		return "shedding"
	case Recovering:
		return "recovering"
	}
	return "unknown"
}

// Ease is what a stance leaves of a rate: a share of what is usual, and a share of the
// room above it.
type Ease struct{ Share, Room float64 }

// easy leaves all.
var easy = Ease{1, 1}

// Least is what both leave.
func (e Ease) Least(other Ease) Ease {
	return Ease{min(e.Share, other.Share), min(e.Room, other.Room)}
}

// half is what shedding leaves of the usual.
const half = 0.5

// GuardSettings are how a guard judges latency: with the same numbers as AdaptiveRateSettings
// judges rates.
type GuardSettings struct {
	Alpha  float64
	Window time.Duration
	Upper  float64
}

// StanceChange is a guard's going from one stance to another.
type StanceChange struct {
	From, To Stance
	Reason   string // for people
}

// Guard tightens an adaptive rate when what it protects is in trouble: its circuit
// breaker is not closed, or the 99th percentile of its latency leaves the band that is
// usual for it. Times are those of a Bucket.
type Guard struct {
	settings GuardSettings
	told     func(StanceChange)

	// quiet is until when it stays Normal, whatever is observed, if the circuit breaker is
	// closed. It is written with mu held.
	quiet atomic.Int64

	mu     sync.Mutex
	stance Stance
	since  time.Duration // of the stance
	bad    time.Duration // when there was trouble last
	reason string        // of the last change

	usual   band // of the 99th percentile, in nanoseconds
	start   time.Duration
	begun   bool
	counts  [histogram]uint32
	count   int
	strikes int    // percentiles in a row outside of the band
	strayed string // the last of them, for people
	untold  Untold[StanceChange]
}

// Numbers of a guard. Its times are parts of Window, 1 s each where that is a minute.
const (
	guardSamples   = 100  // latencies that a percentile takes
	guardFew       = 20   // the same after guardPatience
	guardPatience  = 10   // parts, after which it takes what there is
	guardStrikes   = 3    // percentiles in a row, after which it is no chance
	guardCalm      = 5    // parts without trouble, after which it is over
	guardLong      = 30   // parts of trouble, after which being guarded is not enough
	guardRecovery  = 30   // parts, in which all is let through again
	leastTimeSigma = 0.25 // what a percentile varies at least, as a share

	octave    = 8 // steps in which a latency doubles
	histogram = 64 * octave
)

// NewGuard returns a guard that has seen nothing. told, which may be nil, is called after
// each change, as a breaker's is after each transition.
func NewGuard(s GuardSettings, told func(StanceChange)) *Guard {
	return &Guard{settings: s, told: told}
}

// Observe takes in how long a request took. failed: it was not answered, or with an
// error. Where that took longer than the slowest usually do it says how slow they are; a
// quick failure says nothing of how long work takes.
func (g *Guard) Observe(now, took time.Duration, failed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if failed && (!g.usual.learned() || float64(took) <= g.usual.mean) {
		return
	}
	if !g.begun {
		g.begun, g.start = true, now
	}
	g.counts[step(took)]++
	g.count++
}

// step is where a latency is counted: an eighth of an octave, 9% wide.
func step(took time.Duration) int {
	n := uint64(max(took, octave))
	exponent := bits.Len64(n) - 4 // so that what is left has four bits, of which the first is set
	return exponent*octave + int(n>>exponent)&(octave-1)
}

// edge is the longest latency of a step.
func edge(step int) time.Duration {
	exponent, rest := step/octave, step%octave
	return time.Duration(uint64(octave+rest+1)<<exponent - 1)
}

// Judge takes the stance that follows, and returns what that leaves. closed tells whether
// the circuit breaker is closed; where there is none, it is. While all is well and
// enough comes for percentiles that takes one atomic load.
func (g *Guard) Judge(now time.Duration, closed bool) Ease {
	if closed && now < time.Duration(g.quiet.Load()) {
		return easy
	}
	g.mu.Lock()
	defer g.untold.Unlock(&g.mu, g.told)
	now = max(now, g.since)
	g.measure(now)
	if !closed || g.strikes >= guardStrikes {
		g.bad = now
	}
	if to, reason := g.next(now, closed); to != g.stance {
		if g.told != nil {
			g.untold.Note(StanceChange{g.stance, to, reason})
		}
		g.stance, g.since, g.reason = to, now, reason
	}
	g.quiet.Store(int64(g.quietUntil(now)))
	return g.ease(now)
}

// Status returns the stance, since when it is taken and why; no reason says that there
// was no other.
func (g *Guard) Status() (stance Stance, since time.Duration, reason string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.stance, g.since, g.reason
}

// What follows is called with mu held.

func (g *Guard) parts(n int) time.Duration { return time.Duration(n) * part(g.settings.Window) }

// next is the stance that follows, or the same.
func (g *Guard) next(now time.Duration, closed bool) (to Stance, reason string) {
	const notClosed = "the circuit breaker is not closed"
	trouble := g.strikes >= guardStrikes
	calm := closed && !trouble && now-g.bad >= g.parts(guardCalm)
	switch g.stance {
	case Normal:
		switch {
		case !closed:
			return Shedding, notClosed
		case trouble:
			return Guarded, g.strayed
		}
	case Guarded:
		switch {
		case !closed:
			return Shedding, notClosed
		case trouble && now-g.since >= g.parts(guardLong):
			return Shedding, fmt.Sprintf("%s, for %v", g.strayed, short(float64(now-g.since)))
		case calm:
			return Normal, "latency is in its band again"
		}
	case Shedding:
		if calm {
			return Recovering, fmt.Sprintf("no trouble for %v", g.parts(guardCalm))
		}
	case Recovering:
		switch {
		case !closed:
			return Shedding, notClosed
		case trouble:
			return Shedding, g.strayed
		case now-g.since >= g.parts(guardRecovery):
			return Normal, fmt.Sprintf("no trouble for %v", short(float64(now-g.bad)))
		}
	}
	return g.stance, ""
}

// quietUntil is until when nothing but a circuit breaker can change the stance; not after
// now: something may at once.
func (g *Guard) quietUntil(now time.Duration) time.Duration {
	switch {
	case g.stance != Normal:
		return 0
	case !g.begun:
		return now + g.parts(1)
	}
	return g.start + g.parts(1)
}

func (g *Guard) ease(now time.Duration) Ease {
	switch g.stance {
	case Guarded:
		return Ease{1, 0}
	case Shedding:
		return Ease{half, 0}
	case Recovering:
		way := min(1, float64(now-g.since)/float64(g.parts(guardRecovery)))
		return Ease{half + (1-half)*way, way}
	case Normal:
	}
	return easy
}

// measure takes a percentile if there are enough latencies for one.
func (g *Guard) measure(now time.Duration) {
	if !g.begun {
		return
	}
	age := now - g.start
	patient := age >= g.parts(guardPatience)
	switch {
	case age < g.parts(1), !patient && g.count < guardSamples:
		return
	case g.count >= guardFew:
		g.compare(float64(g.percentile()))
	default:
		g.strikes = 0 // too few come for a percentile, and so for trouble
	}
	g.counts, g.count, g.start = [histogram]uint32{}, 0, now
}

// percentile is that below which 99 of 100 latencies are.
func (g *Guard) percentile() time.Duration {
	left := g.count / 100 // above it
	for i := histogram - 1; i > 0; i-- {
		if left -= int(g.counts[i]); left < 0 {
			return edge(i)
		}
	}
	return edge(0)
}

func (g *Guard) compare(p99 float64) {
	s := &g.settings
	top := g.usual.top(s.Upper, leastTimeSigma)
	if !g.usual.learned() || p99 <= top {
		g.strikes = 0
		g.usual.learn(p99, s.Alpha)
		return
	}
	g.strikes++
	g.strayed = fmt.Sprintf("p99 of %v, usually up to %v", short(p99), short(top))
	g.usual.stray(top, s.Alpha)
}

// short is a time with as many digits as people read.
func short(nanoseconds float64) time.Duration {
	d := time.Duration(nanoseconds)
	for unit := time.Second; unit > 1; unit /= 10 {
		if d >= 100*unit {
			return d.Round(unit)
		}
	}
	return d
}
