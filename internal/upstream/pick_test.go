package upstream

import (
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

func TestPickIsSmoothAndExact(t *testing.T) {
	for text, want := range map[string]string{
		"a=1":         "aaaa",
		"a=1 b=1":     "abababab",
		"a=3 b=1":     "aabaaaba",
		"a=5 b=1 c=1": "aabacaaaabacaa",
		"a=1 b=0 c=1": "acacac",
		"a=2 a=1 b=1": "aabaaaba",
	} {
		for _, name := range []string{model.RoundRobin, model.LeastConnections, model.ConsistentHash, model.StickyCookie} {
			g, _ := acquire(t, new(lease.Registry), of(text, policy(name))) // without key, cookie or load
			if got := picks(t, g, len(want)); got != want {
				t.Errorf("%s of %s: got %s, want %s", name, text, got, want)
			}
		}
	}
}

func TestNoEndpoint(t *testing.T) {
	for text, cause := range map[string]string{
		"":        "no_endpoint: upstream up has no endpoint",
		"a=0 b=0": "no_endpoint: none of the 2 endpoints of upstream up is available",
	} {
		g, _ := acquire(t, new(lease.Registry), of(text))
		_, err := pick(t, g)
		if e := wantWord(t, err, pipeline.NoEndpoint); e.Error() != cause {
			t.Errorf("%q: %v", text, e.Error())
		}
		if g.Available(nil, time.Now()) {
			t.Errorf("%q is available", text)
		}
	}
}

func TestPositionOutlivesSnapshots(t *testing.T) {
	var registry lease.Registry
	before, set := acquire(t, &registry, of("a=3 b=1"))
	if got := picks(t, before, 2); got != "aa" {
		t.Fatalf("got %s", got)
	}
	after, _ := acquire(t, &registry, of("a=3 b=1"))
	set.Release()
	if got := picks(t, after, 6); got != "baaaba" {
		t.Errorf("got %s: the position was lost", got)
	}
}

func TestPositionOutlivesOtherEndpoints(t *testing.T) {
	var registry lease.Registry
	before, set := acquire(t, &registry, of("a=1 b=1 c=1"))
	if got := picks(t, before, 1); got != "a" {
		t.Fatalf("got %s", got)
	}
	after, _ := acquire(t, &registry, of("d=1 a=1 b=1"))
	set.Release()
	got := picks(t, after, 30)
	if !strings.HasPrefix(got, "b") {
		t.Errorf("got %s: b was ahead", got)
	}
	for _, name := range []string{"a", "b", "d"} {
		if n := strings.Count(got, name); n < 9 || n > 11 {
			t.Errorf("%s was taken %d times of 30 in %s", name, n, got)
		}
	}
}

func TestPositionIsBoundedByTheWeightsOfNow(t *testing.T) {
	var registry lease.Registry
	before, set := acquire(t, &registry, of("a=1000 b=999"))
	picks(t, before, 1)
	after, _ := acquire(t, &registry, of("a=1 b=1"))
	set.Release()
	if got := picks(t, after, 8); strings.Count(got, "a") < 3 {
		t.Errorf("got %s: a waits for weights that are gone", got)
	}
}

// Two snapshots that share an upstream share its positions, however many ask at once.
func TestTurnsAreExactUnderConcurrency(t *testing.T) {
	for _, name := range []string{model.RoundRobin, model.ConsistentHash, model.StickyCookie} { // without key and cookie
		var registry lease.Registry
		one, _ := acquire(t, &registry, of("a=3 b=1", policy(name)))
		two, _ := acquire(t, &registry, of("a=3 b=1", policy(name)))
		counts := concurrently(t, 800, one, two)
		if counts["a"] != 600 || counts["b"] != 200 {
			t.Errorf("%s: %v, want 600 and 200", name, counts)
		}
	}
}

// concurrently counts the endpoints of n attempts by eight goroutines, each of which
// ends at once.
func concurrently(t *testing.T, n int, groups ...*Group) map[string]int {
	t.Helper()
	var wait sync.WaitGroup
	var mu sync.Mutex
	counts := map[string]int{}
	for i := range 8 {
		g := groups[i%len(groups)]
		wait.Go(func() {
			mine := map[string]int{}
			x := exchange(t)
			for range n / 8 {
				e, err := pickAt(g, x, time.Now())
				if err != nil {
					t.Error(err)
					return
				}
				mine[e.URL]++
			}
			mu.Lock()
			defer mu.Unlock()
			for url, n := range mine {
				counts[url] += n
			}
		})
	}
	wait.Wait()
	return counts
}

// A choice by chance goes by the weights, and so does one of two where all cost the
// same.
func TestChanceGoesByWeight(t *testing.T) {
	const n = 40000
	for text, shares := range map[string]map[string]float64{
		"a=1 b=1 c=1": {"a": 1. / 3, "b": 1. / 3, "c": 1. / 3},
		"a=3 b=1":     {"a": .75, "b": .25},
		"a=95 b=5":    {"a": .95, "b": .05},
		"a=3 b=2 c=0": {"a": .6, "b": .4},
		"a=7 b=2 a=1": {"a": .8, "b": .2},
	} {
		g, _ := acquire(t, new(lease.Registry), of(text, policy(model.RandomChoice)))
		counts := concurrently(t, n, g)
		for url, share := range shares {
			near(t, "random of "+text+": "+url, counts[url], n, share)
		}
		if len(counts) != len(shares) {
			t.Errorf("random of %s: %v", text, counts)
		}
	}
	for text, shares := range map[string][]float64{
		"a=1 b=1 c=1 d=1": {.25, .25, .25, .25},
		"a=3 b=1":         {.75, .25},
		"a=3 b=2":         {.6, .4},
		"a=95 b=5":        {.95, .05},
	} {
		m := of(text, policy(model.PowerOfTwo))
		g, _ := acquire(t, new(lease.Registry), m)
		seeded(g)
		counts, now := map[string]int{}, time.Now()
		// Whose latency is a little better is a matter of chance.
		noise := rand.New(rand.NewPCG(3, 4))
		for range n {
			now = now.Add(time.Hour) // what was is forgotten
			for _, e := range g.members.Load().endpoints {
				e.state.latency.Observe(now, time.Second+time.Duration(noise.Int64N(int64(time.Second))))
			}
			e, err := pickAt(g, exchange(t), now)
			if err != nil {
				t.Fatal(err)
			}
			counts[e.URL]++
		}
		for i, share := range shares {
			near(t, "two of "+text+": "+m.Endpoints[i].URL, counts[m.Endpoints[i].URL], n, share)
		}
	}
}

func TestTheFewestAttemptsForTheWeight(t *testing.T) {
	g, _ := acquire(t, new(lease.Registry), of("a=3 b=1 c=1", policy(model.LeastConnections)))
	now := time.Now()
	var under []*Turn
	counts := map[string]int{}
	for range 50 {
		turn := begin(t, g, exchange(t), now)
		under = append(under, turn)
		counts[turn.Endpoint.URL]++
	}
	if counts["a"] != 30 || counts["b"] != 10 || counts["c"] != 10 {
		t.Errorf("under way: %v, want 30, 10, 10", counts)
	}
	// Those of b end: it gets all until it has as many again.
	for _, turn := range under {
		if turn.Endpoint.URL == "b" {
			turn.End()
		}
	}
	for range 10 {
		if turn := begin(t, g, exchange(t), now); turn.Endpoint.URL != "b" {
			t.Fatalf("%s is taken, b is idle", turn.Endpoint.URL)
		}
	}
}

// However many begin and end at once, no endpoint has more under way than its share
// and what may begin beside it in the same moment.
func TestTheFewestAttemptsUnderConcurrency(t *testing.T) {
	g, _ := acquire(t, new(lease.Registry), of("a=1 b=1 c=1 d=1", policy(model.LeastConnections)))
	const goroutines, held = 8, 16
	var most atomic.Int64
	var wait sync.WaitGroup
	for range goroutines {
		wait.Go(func() {
			x := exchange(t)
			var mine [held]Turn
			for i := range 100 * held {
				turn := &mine[i%held]
				turn.End()
				if err := g.Begin(turn, x, nil, time.Now()); err != nil {
					t.Error(err)
					return
				}
				active := turn.Endpoint.state.active.Load()
				for {
					seen := most.Load()
					if active <= seen || most.CompareAndSwap(seen, active) {
						break
					}
				}
			}
			for i := range mine {
				mine[i].End()
			}
		})
	}
	wait.Wait()
	if limit := int64(goroutines*held/4 + goroutines); most.Load() > limit {
		t.Errorf("one had %d under way, its share is %d", most.Load(), goroutines*held/4)
	}
	for _, s := range g.Status(time.Now()).Endpoints {
		if s.Active != 0 {
			t.Errorf("%s: %d under way after all", s.URL, s.Active)
		}
	}
}

// The slow one, and the one that fails at once, get next to nothing; without any
// latency known all are tried.
func TestOfTwoAvoidsTheSlowAndTheFailing(t *testing.T) {
	g, _ := acquire(t, new(lease.Registry), of("fine=1 good=1 slow=1 failing=1", policy(model.PowerOfTwo)))
	seeded(g)
	now := time.Now()
	counts := map[string]int{}
	for range 4000 {
		now = now.Add(time.Millisecond)
		turn := begin(t, g, exchange(t), now)
		switch turn.Endpoint.URL {
		case "slow":
			turn.Answered(200, now.Add(500*time.Millisecond))
		case "failing":
			turn.Failed(now.Add(time.Microsecond))
		default:
			turn.Answered(200, now.Add(2*time.Millisecond))
		}
		turn.End()
		counts[turn.Endpoint.URL]++
	}
	if counts["slow"] == 0 || counts["failing"] == 0 {
		t.Errorf("%v: one was never tried", counts)
	}
	// They meet each other in a sixth of the draws, and that goes to one of them.
	if n := counts["slow"] + counts["failing"]; n > 4000*18/100 {
		t.Errorf("%v: the slow and the failing one got %d of 4000", counts, n)
	}
	if counts["failing"] > counts["slow"] {
		t.Errorf("%v: who fails fast is preferred to who is slow", counts)
	}
}

// An endpoint that does not answer at all is known by what piles up there.
func TestOfTwoAvoidsWhoDoesNotAnswer(t *testing.T) {
	g, _ := acquire(t, new(lease.Registry), of("a=1 hangs=1 b=1", policy(model.PowerOfTwo)))
	seeded(g)
	now := time.Now()
	hanging := 0
	for range 1000 {
		now = now.Add(time.Millisecond)
		turn := begin(t, g, exchange(t), now)
		if turn.Endpoint.URL == "hangs" {
			hanging++
			continue
		}
		turn.Answered(200, now.Add(2*time.Millisecond))
		turn.End()
	}
	if hanging == 0 || hanging > 3 {
		t.Errorf("%d attempts hang", hanging)
	}
}

func TestAnotherEndpointThanThoseTried(t *testing.T) {
	for _, name := range []string{model.RoundRobin, model.LeastConnections, model.PowerOfTwo, model.RandomChoice, model.ConsistentHash, model.StickyCookie} {
		g, _ := acquire(t, new(lease.Registry), of("a=100 b=1 c=1", policy(name)))
		now := time.Now()
		a, b, c := endpoint(t, g, "a"), endpoint(t, g, "b"), endpoint(t, g, "c")
		for i := range 50 {
			x := exchange(t, user(i), "Cookie: sluice="+a.token)
			if e, err := pickAt(g, x, now, a, b); err != nil || e != c {
				t.Fatalf("%s: got %v, %v, want the one that is left", name, e, err)
			}
			if e, err := pickAt(g, x, now, a); err != nil || e == a {
				t.Fatalf("%s: got %v, %v again", name, e, err)
			}
			if _, err := pickAt(g, x, now, a, b, c); err != nil { // then any
				t.Fatalf("%s: %v", name, err)
			}
		}
		if !g.Available([]*Endpoint{a, b}, now) || g.Available([]*Endpoint{a, b, c}, now) {
			t.Errorf("%s: what is available", name)
		}
	}
}

// What another snapshot has tried is the same endpoint.
func TestTriedInAnotherSnapshot(t *testing.T) {
	var registry lease.Registry
	before, _ := acquire(t, &registry, of("a=1 b=1"))
	after, _ := acquire(t, &registry, of("a=5 b=1"))
	for range 5 {
		if e, err := pickAt(after, exchange(t), time.Now(), endpoint(t, before, "a")); err != nil || e.URL != "b" {
			t.Fatalf("got %v, %v", e, err)
		}
	}
}
