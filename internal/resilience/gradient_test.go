package resilience

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// endpoint is a simulated one: workers, each with a request at a time, and one queue.
type endpoint struct {
	workers []time.Duration // when each is free
	takes   time.Duration
	random  *rand.Rand // nil: each request takes the same
}

// serve returns when a request that comes now is answered.
func (e *endpoint) serve(now time.Duration) time.Duration {
	first := 0
	for i, free := range e.workers {
		if free < e.workers[first] {
			first = i
		}
	}
	took := e.takes
	if e.random != nil {
		took = time.Duration(float64(took) * (0.5 + e.random.ExpFloat64()/2))
	}
	e.workers[first] = max(now, e.workers[first]) + took
	return e.workers[first]
}

// resize changes the number of workers; those that go take their queue with them.
func (e *endpoint) resize(n int, now time.Duration) {
	slices.Sort(e.workers)
	for len(e.workers) < n {
		e.workers = append(e.workers, now)
	}
	e.workers = e.workers[:n]
}

// call is a request under way.
type call struct{ start, end time.Duration }

type calls []call

func (c calls) Len() int           { return len(c) }
func (c calls) Less(i, j int) bool { return c[i].end < c[j].end }
func (c calls) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *calls) Push(x any)        { *c = append(*c, x.(call)) }
func (c *calls) Pop() any {
	last := (*c)[len(*c)-1]
	*c = (*c)[:len(*c)-1]
	return last
}

// simulation is a gradient before an endpoint, and what comes.
type simulation struct {
	gradient *Gradient
	endpoint *endpoint
	arrivals *rand.Rand
	now      time.Duration
	under    calls
	done     []call
	limits   []int // at each arrival
}

func newSimulation(workers int, takes time.Duration, exact bool) *simulation {
	s := &simulation{
		gradient: NewGradient(GradientSettings{Min: 1, Max: 1000, Initial: 20}),
		endpoint: &endpoint{takes: takes},
		arrivals: rand.New(rand.NewPCG(1, 2)),
	}
	if !exact {
		s.endpoint.random = rand.New(rand.NewPCG(3, 4))
	}
	s.endpoint.resize(workers, 0)
	return s
}

// run lets requests come at random at a rate a second.
func (s *simulation) run(length time.Duration, rate float64) {
	for end := s.now + length; s.now < end; {
		s.now += time.Duration(s.arrivals.ExpFloat64() / rate * float64(time.Second))
		for len(s.under) > 0 && s.under[0].end <= s.now {
			n := len(s.under)
			c := heap.Pop(&s.under).(call)
			s.gradient.Observe(c.start, c.end, n, Served)
			s.done = append(s.done, c)
		}
		s.limits = append(s.limits, s.gradient.Limit())
		if len(s.under) < s.gradient.Limit() {
			heap.Push(&s.under, call{s.now, s.endpoint.serve(s.now)})
		}
	}
}

// between returns how many a second were served in a time, and the 99th percentile of
// how long they took.
func (s *simulation) between(from, to time.Duration) (rate float64, p99 time.Duration) {
	var took []time.Duration
	for _, c := range s.done {
		if c.end > from && c.end <= to {
			took = append(took, c.end-c.start)
		}
	}
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return float64(len(took)) / (to - from).Seconds(), took[len(took)*99/100]
}

// unloaded is the 99th percentile of an endpoint with nothing else to do.
func unloaded(takes time.Duration, exact bool) time.Duration {
	if exact {
		return takes
	}
	return time.Duration(float64(takes) * (0.5 + 4.6/2))
}

// TestGradientCapacity: an endpoint loses four fifths of what it can do, by fewer
// workers or by slower ones, and gets them back. From 10 s after each change on, or 60
// times what a request takes if that is more, nine tenths of what it can do is served, in
// under three times the unloaded time, and
// no second dips far below.
func TestGradientCapacity(t *testing.T) {
	for _, workers := range []int{10, 50, 200} {
		for _, takes := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond} {
			switch full := float64(workers) / takes.Seconds(); {
			case full < 200:
				continue // with a fifth of that, windows are too long for 10 s
			case full > 10_000:
				continue // shows no more, and takes long
			}
			for _, slower := range []bool{false, true} {
				for _, exact := range []bool{false, true} {
					t.Run(fmt.Sprintf("%d workers, %v, slower %v, exact %v", workers, takes, slower, exact), func(t *testing.T) {
						loseCapacity(t, newSimulation(workers, takes, exact), slower)
					})
				}
			}
		}
	}
}

// leastSecond is what is served in the worst second at least, of what can be.
const leastSecond = 0.7

func loseCapacity(t *testing.T, s *simulation, slower bool) {
	t.Helper()
	workers, takes := len(s.endpoint.workers), s.endpoint.takes
	full := float64(workers) / takes.Seconds()
	for i, share := range []float64{1, 0.2, 1} {
		if slower {
			s.endpoint.takes = time.Duration(float64(takes) / share)
		} else {
			s.endpoint.resize(int(float64(workers)*share), s.now)
		}
		settled := s.now + max(10*time.Second, 60*s.endpoint.takes)
		s.run(settled-s.now+15*time.Second, 1.5*full)
		rate, p99 := s.between(settled, s.now)
		if rate < 0.9*share*full {
			t.Errorf("phase %d: %.0f/s of %.0f", i, rate, share*full)
		}
		alone := unloaded(s.endpoint.takes, s.endpoint.random == nil)
		if p99 > 3*alone {
			t.Errorf("phase %d: p99 of %v, unloaded %v", i, p99, alone)
		}
		t.Logf("phase %d: %.3f of what it can do, p99 %.2f of unloaded, limit %d, base %v", i, rate/share/full, float64(p99)/float64(alone), s.gradient.Limit(), s.gradient.Base())
		if s.endpoint.random != nil && share*full < 1000 {
			continue // what is served in one second is chance
		}
		for at := settled; at+time.Second <= s.now; at += time.Second {
			if rate, _ := s.between(at, at+time.Second); rate < leastSecond*share*full {
				t.Errorf("phase %d: %.3f in the second from %v", i, rate/share/full, at)
			}
		}
	}
}

// TestGradientLasts: load above what can be done, for half an hour, does not make the
// limit grow, though no request ever meets an endpoint without others.
func TestGradientLasts(t *testing.T) {
	s := newSimulation(20, 100*time.Millisecond, false)
	for range 6 {
		s.run(5*time.Minute, 400)
		rate, p99 := s.between(s.now-4*time.Minute, s.now)
		if rate < 0.9*200 || p99 > 3*unloaded(100*time.Millisecond, false) {
			t.Fatalf("at %v: %.0f/s of 200, p99 %v, limit %d, base %v", s.now, rate, p99, s.gradient.Limit(), s.gradient.Base())
		}
		s.done = s.done[:0]
	}
}

// TestGradientIdle: with little load, which says nothing of how much could be done, the
// limit stays, whatever the latency does.
func TestGradientIdle(t *testing.T) {
	s := newSimulation(100, 20*time.Millisecond, false)
	s.run(time.Minute, 100) // two at once
	s.endpoint.takes *= 2
	s.run(time.Minute, 100)
	for i, limit := range s.limits {
		if limit != 20 {
			t.Fatalf("limit %d at request %d", limit, i)
		}
	}
}

// observe tells a gradient of n requests, one after the other, and returns when the last
// has ended.
func observe(g *Gradient, now time.Duration, n, inFlight int, takes time.Duration, outcome Outcome) time.Duration {
	for range n {
		now += 5 * time.Millisecond
		g.Observe(now-takes, now, inFlight, outcome)
	}
	return now
}

func TestGradientBounds(t *testing.T) {
	g := NewGradient(GradientSettings{Min: 3, Max: 40, Initial: 10})
	if g.Limit() != 10 || g.Base() != 0 {
		t.Errorf("limit %d, base %v at the beginning", g.Limit(), g.Base())
	}
	now := observe(g, 0, 1000, 40, time.Millisecond, Served)
	if g.Limit() != 40 {
		t.Errorf("limit %d where nothing takes longer", g.Limit())
	}
	if g.Base() != time.Millisecond {
		t.Errorf("base %v", g.Base())
	}
	now = observe(g, now, 1000, 40, time.Millisecond, Failed)
	if g.Limit() != 40 {
		t.Errorf("limit %d after requests that say nothing", g.Limit())
	}
	now = observe(g, now, 100, 40, time.Second, Dropped)
	once := g.Limit()
	if once >= 40 || once < 20 {
		t.Errorf("limit %d after some were dropped", once)
	}
	now = observe(g, now, 3000, 40, time.Second, Dropped)
	if g.Limit() != 3 {
		t.Errorf("limit %d after all were dropped", g.Limit())
	}
	observe(g, now+time.Minute, 2000, 40, time.Millisecond, Served)
	if g.Limit() != 40 {
		t.Errorf("limit %d when all is well again", g.Limit())
	}
}

// TestGradientFew: one dropped of many changes nothing.
func TestGradientFew(t *testing.T) {
	g := NewGradient(GradientSettings{Min: 1, Max: 40, Initial: 40})
	now := observe(g, 0, 300, 5, time.Millisecond, Served)
	for range 20 {
		now = observe(g, now, 1, 5, time.Millisecond, Dropped)
		now = observe(g, now, 100, 5, time.Millisecond, Served)
	}
	if g.Limit() != 40 {
		t.Errorf("limit %d", g.Limit())
	}
}

// TestGradientPartly: an endpoint of three refuses all that it gets, at once. The
// other two have room as before, for as long as that lasts.
func TestGradientPartly(t *testing.T) {
	const base = 50 * time.Millisecond
	g := NewGradient(GradientSettings{Min: 1, Max: 100, Initial: 30})
	now := observe(g, 0, 300, 10, base, Served) // one each 5 ms: ten at once
	for range 1000 {
		now = observe(g, now, 2, g.Limit(), base, Served)
		g.Observe(now-time.Millisecond, now, g.Limit(), Dropped)
	}
	if g.Limit() < 10 || g.Limit() > 15 {
		t.Errorf("limit %d for ten at once", g.Limit())
	}
}

// TestGradientAdjust: other bounds keep what is known, and the limit as far as they let it.
func TestGradientAdjust(t *testing.T) {
	g := NewGradient(GradientSettings{Min: 1, Max: 40, Initial: 10})
	if !g.Fresh() {
		t.Error("a new one knows something")
	}
	g.Adjust(GradientSettings{Min: 1, Max: 40, Initial: 20})
	if g.Limit() != 20 || !g.Fresh() {
		t.Errorf("limit %d where nothing was known yet", g.Limit())
	}
	now := observe(g, 0, 1000, 40, time.Millisecond, Served)
	if g.Fresh() {
		t.Error("nothing is known after a thousand requests")
	}
	for _, c := range []struct {
		bounds GradientSettings
		want   int
	}{
		{GradientSettings{Min: 1, Max: 40, Initial: 5}, 40},
		{GradientSettings{Min: 1, Max: 100, Initial: 5}, 40},
		{GradientSettings{Min: 1, Max: 15, Initial: 5}, 15},
		{GradientSettings{Min: 30, Max: 60, Initial: 50}, 30},
	} {
		g.Adjust(c.bounds)
		if g.Limit() != c.want || g.Base() != time.Millisecond {
			t.Errorf("%+v: limit %d, base %v; want %d", c.bounds, g.Limit(), g.Base(), c.want)
		}
	}
	observe(g, now, 1000, 60, time.Millisecond, Served)
	if g.Limit() != 60 {
		t.Errorf("limit %d under the new bounds", g.Limit())
	}
}

// TestGradientWrongBase: a base that was taken from a queue is found out, however much too
// long it is.
func TestGradientWrongBase(t *testing.T) {
	for exact, within := range map[bool]time.Duration{true: 6 * time.Second, false: 30 * time.Second} {
		const workers, takes = 10, 100 * time.Millisecond
		full := workers / takes.Seconds()
		s := newSimulation(workers, takes, exact)
		s.gradient.met, s.gradient.unsure = true, true
		for range 20 { // until as many are under way as may be
			s.gradient.base, s.gradient.window, s.gradient.trial = float64(3*takes), latencies{}, trial{}
			s.gradient.set(3 * workers)
			s.run(100*time.Millisecond, 1.5*full)
		}
		s.run(within, 1.5*full)
		settled := s.now
		if base := s.gradient.Base(); base > takes*5/4 {
			t.Errorf("exact %v: after %v the base is %v, with a limit of %d", exact, within, base, s.gradient.Limit())
		}
		s.run(20*time.Second, 1.5*full)
		if rate, p99 := s.between(settled, s.now); rate < 0.9*full || p99 > 3*unloaded(takes, exact) {
			t.Errorf("exact %v: then %.0f/s of %.0f, p99 %v", exact, rate, full, p99)
		}
	}
}
