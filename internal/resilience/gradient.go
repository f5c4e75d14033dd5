package resilience

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Outcome is what a request says of the load of its destination.
type Outcome uint8

// The outcomes of requests.
const (
	Served  Outcome = iota // it was answered, and how long that took counts
	Failed                 // it says nothing: the client left, or a failure came at once
	Dropped                // it was refused or timed out for overload
)

// GradientSettings are where an adaptive limit begins and between what it stays.
type GradientSettings struct{ Min, Max, Initial int } // 1 <= Min <= Initial <= Max

// Gradient finds out how many requests a destination can have under way at once, from how
// long they take: where more of them only take longer, they wait in a queue. It is of
// the family of Netflix' Gradient2 and Envoy's gradient controller, and compares the
// latency of a window with that of a destination without a queue, its base. It differs
// in how it knows the base. Gradient2's is an average that follows the latency, and with
// it the limit grows without end under load that lasts. Envoy's comes from letting
// next to nothing through, again and again.
//
// Here a limit that is lowered is an experiment as well. By Little's law the throughput
// times the base is what is under way without a queue. Lowered to a little less than
// that, the latency falls if there was a queue, and it stays if the destination has become
// slower, which then is its new base. A base that has not been seen for long under
// load, or may come from the middle of a change, is looked for in the same way. That costs
// a twentieth of the throughput for a moment, and more only while the base proves too long.
//
// Times are those of a Bucket.
type Gradient struct {
	settings GradientSettings
	limit    atomic.Int64

	mu    sync.Mutex
	exact float64 // the limit with its fraction
	base  float64 // latency without a queue, in nanoseconds; 0: not known yet
	met   bool    // it has grown until it met resistance

	opens  time.Duration // before it, what ends tells of another limit, or is the quick part only
	window latencies
	seen   time.Duration // when the base was last seen under load
	unsure bool          // the base may come from the middle of a change

	trial trial
}

// latencies are what a window has seen.
type latencies struct {
	open     bool
	start    time.Duration
	served   int
	dropped  int
	inFlight int     // the most
	sum      float64 // of the latencies
	squares  float64 // the sum of theirs
}

// trial is an experiment that is under way.
type trial struct {
	running bool
	planned bool    // to look for the base, not, or not any more, since the latency is too high
	origin  float64 // the limit before all of its steps
	limit   float64 // the one before this step
	latency float64 // under that
	steps   int
	stays   int // steps in a row that the latency did not follow
}

const (
	windowLength  = 100 * time.Millisecond // at least, and at least base
	windowSamples = 30                     // at least

	// A queue up to which the limit grows, and one above which it is lowered: as the
	// latency by the base, and how many wait. Both must be exceeded, since one that
	// waits doubles the latency of a destination that does one thing at a time.
	growLatency, growQueue = 1.25, 1.5
	mostLatency, mostQueue = 1.6, 3

	growth      = 0.1  // of the limit, in a window without a queue
	firstGrowth = 0.5  // the same until it meets resistance for the first time
	drained     = 0.95 // of what is under way without a queue is an experiment's limit
	telling     = 0.8  // of the limit is so much less that a queue would show it
	clearly     = 0.6  // the same where it is asked a second time
	steepest    = 0.4  // of the limit is left at least when it is lowered
	leftByDrops = 0.8  // of the limit is left after a window in which many were dropped

	muchFaster = 0.8  // of the base is a latency that tells of another destination
	baseSeen   = 1.05 // of the base is a latency without a queue
	baseUnseen = 10 * time.Second
	trialSteps = 10
)

// NewGradient returns a limit that knows nothing yet.
func NewGradient(s GradientSettings) *Gradient {
	g := &Gradient{settings: s, exact: float64(s.Initial)}
	g.limit.Store(int64(s.Initial))
	return g
}

// Limit returns how many requests may be under way now.
func (g *Gradient) Limit() int { return int(g.limit.Load()) }

// Base returns how long a request takes without a queue; 0: not known yet.
func (g *Gradient) Base() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return time.Duration(g.base)
}

// Adjust changes between what the limit stays. What is known stays, and the limit as far
// as it may.
func (g *Gradient) Adjust(s GradientSettings) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s == g.settings {
		return
	}
	fresh := g.fresh()
	g.settings = s
	if fresh {
		g.exact = float64(s.Initial)
	}
	g.set(g.exact)
}

// Fresh tells whether it knows no more than when it began, so that nothing is lost with it.
func (g *Gradient) Fresh() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fresh()
}

// Observe is told of a request that ends, and how many were under way with it just
// before that.
func (g *Gradient) Observe(start, end time.Duration, inFlight int, outcome Outcome) {
	if outcome == Failed {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if end < g.opens {
		return
	}
	w := &g.window
	if !w.open {
		// It begins with an end, so that it has as many ends as intervals.
		*w = latencies{open: true, start: end}
		return
	}
	w.inFlight = max(w.inFlight, inFlight)
	if outcome == Dropped {
		w.dropped++
	} else {
		latency := float64(max(end-start, 1))
		w.served++
		w.sum += latency
		w.squares += latency * latency
	}
	if w.served+w.dropped >= windowSamples && end-w.start >= max(windowLength, time.Duration(g.base)) {
		g.judge(end)
	}
}

// What follows is called with mu held.

func (g *Gradient) fresh() bool {
	return g.base == 0 && g.exact == float64(g.settings.Initial)
}

// judge ends a window.
func (g *Gradient) judge(now time.Duration) {
	w := g.window
	g.window = latencies{open: true, start: now}
	if w.dropped > 0 && w.dropped*10 >= w.served {
		g.trial = trial{}
		g.reset(now, g.afterDrops(w, now), g.base)
		return
	}
	v := w.view(now)
	if g.base == 0 {
		g.first(v)
		return
	}
	v.slower = v.latency / g.base
	v.free = v.rate * g.base
	v.waiting = v.rate * (v.latency - g.base)
	if g.trial.running {
		g.tried(v)
	} else {
		g.steer(v)
	}
}

// afterDrops is the limit after a window in which many were dropped. What was served
// meanwhile keeps its room: where one of several endpoints refuses all that it gets,
// however little that is, the others are not to starve.
func (g *Gradient) afterDrops(w latencies, now time.Duration) float64 {
	served := float64(w.served) / float64(now-w.start)
	return min(g.exact, max(g.exact*leftByDrops, served*g.base*growLatency))
}

// view is what a window says.
type view struct {
	now      time.Duration
	latency  float64 // the average
	doubt    float64 // its standard error
	rate     float64 // how many were served in a nanosecond
	slower   float64 // that, by the base
	free     float64 // how many would be under way without a queue, by Little's law
	waiting  float64 // how many more are
	inFlight float64 // the most
}

// average is how many were under way, by Little's law.
func (v view) average() float64 { return v.rate * v.latency }

func (w *latencies) view(now time.Duration) view {
	n := float64(w.served)
	mean := w.sum / n
	spread := max(0, w.squares/n-mean*mean)
	return view{now: now, latency: mean, doubt: math.Sqrt(spread / n), rate: n / float64(now-w.start), inFlight: float64(w.inFlight)}
}

// first takes the first base. A beginning shows the quick ones only, so that the window
// after it counts.
func (g *Gradient) first(v view) {
	if g.opens == 0 {
		g.opens = v.now + time.Duration(2*v.latency)
		g.window = latencies{}
		return
	}
	g.base, g.seen = v.latency, v.now
	if g.full(v) {
		// There may have been a queue already.
		v.free, v.slower = v.rate*g.base, 1
		g.try(v, true)
	}
}

// full tells whether as many were under way as may be.
func (g *Gradient) full(v view) bool { return v.inFlight >= 0.9*float64(g.limit.Load()) }

// steer changes the limit by what a window says.
func (g *Gradient) steer(v view) {
	full := g.full(v)
	switch {
	case g.queues(v) && v.average() >= g.exact/2:
		g.try(v, false)
		return
	case v.latency+2*v.doubt < muchFaster*g.base:
		// It has become faster; how fast it is without a queue is to be seen.
		g.base = v.latency
		g.try(v, true)
		return
	case full && (g.unsure || v.slower > baseSeen && v.now-g.seen > max(baseUnseen, time.Duration(20*g.base))):
		g.try(v, true)
		return
	case full && (v.slower < growLatency || v.waiting < growQueue):
		g.grow()
	case full:
		g.met = true
	}
	switch {
	case v.latency+2*v.doubt < g.base:
		g.base += (v.latency - g.base) / 4
	case v.average() < g.exact/2:
		g.base += (v.latency - g.base) / 100 // with little load it may change, but no queue's doing
	}
	if v.slower <= baseSeen {
		g.seen = v.now
	}
}

// queues tells whether there is too long a queue, without doubt.
func (g *Gradient) queues(v view) bool {
	return v.latency-2*v.doubt > mostLatency*g.base && v.waiting > mostQueue
}

func (g *Gradient) grow() {
	rate := growth
	if !g.met {
		rate = firstGrowth
	}
	g.set(g.exact + max(math.Sqrt(g.exact), g.exact*rate))
}

// try begins an experiment.
func (g *Gradient) try(v view, planned bool) {
	g.met, g.unsure = true, false
	g.trial = trial{running: true, planned: planned, origin: g.exact}
	most := telling
	if planned {
		most = 1
	}
	g.step(v, steepest, most)
}

// step lowers the limit to less than what is under way without a queue, between two shares
// of itself. Where the base is looked for the steps become longer: by twentieths one that
// is far too long would last for as many windows.
func (g *Gradient) step(v view, least, most float64) {
	t := &g.trial
	t.steps++
	t.limit, t.latency = g.exact, v.latency
	free := drained * v.free
	if t.planned {
		free = math.Pow(drained, float64(t.steps)) * v.free
	}
	g.reset(v.now, min(max(free, least*g.exact), most*g.exact), v.latency)
}

// tried draws a conclusion from a window of an experiment.
func (g *Gradient) tried(v view) {
	t := &g.trial
	// A latency that is all queue falls like the limit.
	falls := v.latency < t.latency*(1+g.exact/t.limit)/2
	rises := v.latency-2*v.doubt > t.latency*1.1
	switch {
	case t.steps >= trialSteps:
	case v.latency+2*v.doubt < 0.98*g.base:
		// There was a queue when the base was seen last.
		g.base, t.planned = v.latency, true
		v.free *= v.slower
		g.step(v, steepest, 1)
		return
	case v.slower > growLatency && !falls && !rises && g.exact <= telling*t.limit:
		if t.stays++; t.stays < 2 && g.queues(v) {
			g.step(v, clearly, clearly)
			return
		}
		// There is no queue: it has become slower, and can do as much at once as before.
		g.base, g.unsure = v.latency, true
		g.reset(v.now, t.origin, v.latency)
	case g.queues(v) && falls:
		t.stays = 0
		g.step(v, steepest, telling)
		return
	case g.queues(v):
		t.stays = 0
		g.step(v, clearly, clearly)
		return
	case v.slower < growLatency:
		g.base += (v.latency - g.base) / 4
		g.set(min(t.origin, g.exact*growLatency))
	default:
		g.unsure = true
	}
	g.trial = trial{}
	g.seen = v.now
}

// reset sets a limit that shows only when what began before it has ended.
func (g *Gradient) reset(now time.Duration, limit, latency float64) {
	g.set(limit)
	g.opens = now + time.Duration(2*latency)
	g.window = latencies{}
}

func (g *Gradient) set(limit float64) {
	g.exact = min(max(limit, float64(g.settings.Min)), float64(g.settings.Max))
	g.limit.Store(int64(math.Round(g.exact)))
}
