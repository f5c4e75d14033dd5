package upstream

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// checked is a group whose endpoints have health as it was found: "a=healthy".
func checked(t *testing.T, m *model.Upstream, found string) *Group {
	t.Helper()
	m.Health = &model.HealthCheck{}
	set := new(lease.Registry).NewSet() // not committed: nobody checks
	t.Cleanup(set.Release)
	g := Acquire(set, m, nowhere(), nil)
	become(t, g, found)
	return g
}

// become sets the health of endpoints.
func become(t *testing.T, g *Group, found string) {
	t.Helper()
	for one := range strings.FieldsSeq(found) {
		url, word, _ := strings.Cut(one, "=")
		e := endpoint(t, g, url)
		g.shared.mu.Lock()
		e.state.health = health(slices.Index([]string{"unknown", "healthy", "unhealthy"}, word))
		g.shared.mu.Unlock()
	}
	g.shared.changed()
}

func TestWhoIsFit(t *testing.T) {
	for _, test := range []struct {
		found     string
		threshold float64
		want      string // the endpoints of a round; empty: none
		panicking bool
	}{
		{"a=unknown b=unknown c=unknown d=unknown", 0.3, "abcd", false},
		{"a=healthy b=unknown c=unknown d=unknown", 0.3, "a", false}, // the others, when nothing better is there
		{"a=unknown b=unhealthy c=unhealthy d=unknown", 0.3, "ad", false},
		{"a=healthy b=healthy c=unhealthy d=unhealthy", 0.5, "ab", false}, // half is not fewer than half
		{"a=healthy b=unhealthy c=unhealthy d=unhealthy", 0.5, "abcd", true},
		{"a=unhealthy b=unhealthy c=unhealthy d=unhealthy", 0.01, "abcd", true},
		{"a=unhealthy b=unhealthy c=unhealthy d=unhealthy", 0, "", false},
		{"a=healthy b=unhealthy c=unhealthy d=unhealthy", 0, "a", false},
	} {
		g := checked(t, of("a=1 b=1 c=1 d=1 zero=0", panicBelow(test.threshold)), test.found+" zero=healthy")
		now := time.Now()
		if got := g.Status(now).Panicking; got != test.panicking {
			t.Errorf("%s: panicking %v", test.found, got)
		}
		if test.want == "" {
			_, err := pick(t, g)
			wantWord(t, err, pipeline.NoEndpoint)
			continue
		}
		if got := picks(t, g, 2*len(test.want)); got != test.want+test.want {
			t.Errorf("%s, %v: got %s, want %s", test.found, test.threshold, got, test.want)
		}
	}
}

// Without a check of its own a snapshot knows nothing of health, whatever another
// has found.
func TestHealthCountsWhereItIsAskedFor(t *testing.T) {
	var registry lease.Registry
	before, _ := acquire(t, &registry, of("a=1 b=1"))
	m := of("a=1 b=1")
	m.Health = &model.HealthCheck{}
	set := registry.NewSet()
	t.Cleanup(set.Release)
	after := Acquire(set, m, nowhere(), nil)
	become(t, after, "a=healthy b=unhealthy")
	if got := picks(t, before, 4); got != "abab" {
		t.Errorf("without checks: %s", got)
	}
	if got := picks(t, after, 2); got != "aa" {
		t.Errorf("with them: %s", got)
	}
	if got := before.Status(time.Now()).Endpoints[1].Health; got != "" {
		t.Errorf("without checks b is %s", got)
	}
}

func TestDrain(t *testing.T) {
	var registry lease.Registry
	var told events
	before, set := acquireTold(t, &registry, of("a=1 b=1 b=1"), nowhere(), told.observe)
	now := time.Now()
	under := begin(t, before, exchange(t), now, endpoint(t, before, "a"))
	if !before.Drain("b", true) || before.Drain("c", true) {
		t.Error("which endpoints there are")
	}
	told.expect(t, "drain b >drained: asked for", "drain b >drained: asked for")
	before.Drain("b", true)
	told.expect(t) // it is so already
	if got := picks(t, before, 3); got != "aaa" {
		t.Errorf("got %s", got)
	}
	if got := statusOf(t, before, "b", now); got != "drained out" {
		t.Errorf("b is %s", got)
	}
	// What is under way goes on, and a reload changes nothing.
	after, _ := acquireTold(t, &registry, of("a=1 b=2 b=1 c=1"), nowhere(), told.observe)
	set.Release()
	if got := after.Status(now).Endpoints[1].Active + after.Status(now).Endpoints[2].Active; got != 1 {
		t.Errorf("%d under way", got)
	}
	under.Answered(200, now)
	under.End()
	if got := picks(t, after, 4); strings.Contains(got, "b") {
		t.Errorf("after a reload: %s", got)
	}
	after.Drain("b", false)
	told.expect(t, "drain b >undrained: asked for", "drain b >undrained: asked for")
	if got := picks(t, after, 5); strings.Count(got, "b") != 3 {
		t.Errorf("undrained: %s", got)
	}
}

// A drained endpoint is none of those of which so many must be fit.
func TestDrainedAreNotMissing(t *testing.T) {
	g := checked(t, of("a=1 b=1 c=1", panicBelow(.6)), "a=healthy b=unhealthy c=unhealthy")
	if !g.Status(time.Now()).Panicking {
		t.Error("one of three is enough")
	}
	g.Drain("b", true)
	g.Drain("c", true)
	if got := picks(t, g, 3); g.Status(time.Now()).Panicking || got != "aaa" {
		t.Errorf("one of one is too few: %s", got)
	}
	g.Drain("a", true)
	_, err := pick(t, g)
	wantWord(t, err, pipeline.NoEndpoint)
}

// shareOf is an endpoint's part of n attempts, in percent.
func shareOf(t *testing.T, g *Group, url string, n int) int {
	t.Helper()
	return 100 * strings.Count(picks(t, g, n), url) / n
}

// A change is seen by whoever comes after it, however many look meanwhile.
func TestNoChangeIsLost(t *testing.T) {
	g, _ := acquire(t, new(lease.Registry), of("a=1 b=1"))
	stop := make(chan struct{})
	var looking sync.WaitGroup
	for range 4 {
		looking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					g.look(time.Now())
				}
			}
		})
	}
	for i := range 2000 {
		drained := i%2 == 0
		g.Drain("b", drained)
		if v := g.look(time.Now()); len(v.usable.endpoints) == 2 == drained {
			t.Errorf("change %d is lost", i)
			break
		}
	}
	close(stop)
	looking.Wait()
}

func TestSlowStart(t *testing.T) {
	for name, test := range map[string]struct {
		away func(g *Group) // takes b away
		back func(g *Group) // and brings it back
	}{
		"drained": {func(g *Group) { g.Drain("b", true) }, func(g *Group) { g.Drain("b", false) }},
		"unhealthy": {
			func(g *Group) { checksOf(g, "b", 2, false) },
			func(g *Group) { checksOf(g, "b", 2, true) },
		},
	} {
		for _, balancing := range []string{model.RoundRobin, model.LeastConnections, model.RandomChoice, model.PowerOfTwo} {
			t.Run(name+" "+balancing, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := checked(t, of("a=1 b=1", slowStart(10*time.Second), policy(balancing)), "")
					seeded(g)
					checksOf(g, "a", 2, true)
					checksOf(g, "b", 2, true)
					near := func(when string, want int) {
						t.Helper()
						if got := shareOf(t, g, "b", 2000); got < want-6 || got > want+6 {
							t.Errorf("%s: %d%%, want about %d%%", when, got, want)
						}
					}
					near("at first", 50)
					time.Sleep(time.Minute)
					test.away(g)
					near("away", 0)
					test.back(g)
					near("at once", 1)
					time.Sleep(5 * time.Second)
					near("half way", 33)
					time.Sleep(5 * time.Second)
					near("after all", 50)
				})
			})
		}
	}
}

// checksOf tells the result of checks of an endpoint.
func checksOf(g *Group, url string, n int, passing bool) {
	for _, e := range g.members.Load().endpoints {
		if e.URL != url {
			continue
		}
		c := &checker{m: &model.HealthCheck{HealthyAfter: 2, UnhealthyAfter: 2}, upstream: g.Name(), url: url, state: e.state, shared: g.shared, observer: g.observer}
		for range n {
			if passing {
				c.note(nil)
			} else {
				c.note(errBad)
			}
		}
	}
}

// Who comes to others starts slowly; who is there from the beginning does not, nor
// who comes where there is nobody else.
func TestSlowStartOfNewEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry lease.Registry
		first, set := acquire(t, &registry, of("a=1 b=1", slowStart(10*time.Second)))
		if got := shareOf(t, first, "b", 100); got != 50 {
			t.Errorf("at first: %d%%", got)
		}
		if at := first.look(time.Now()).until; !at.IsZero() {
			t.Errorf("those of the beginning start slowly, until %v", at)
		}
		time.Sleep(time.Minute)
		second, next := acquire(t, &registry, of("a=1 b=1 c=1", slowStart(10*time.Second)))
		set.Release()
		if got := shareOf(t, second, "c", 200); got > 1 {
			t.Errorf("c comes with %d%%", got)
		}
		time.Sleep(2 * time.Second)
		if got := shareOf(t, second, "c", 1100); got < 8 || got > 10 { // 20 of 220
			t.Errorf("after two seconds: %d%%", got)
		}
		// A reload does not begin it anew.
		third, last := acquire(t, &registry, of("a=2 b=2 c=2", slowStart(10*time.Second)))
		next.Release()
		if got := shareOf(t, third, "c", 1100); got < 8 || got > 10 {
			t.Errorf("after a reload: %d%%", got)
		}
		time.Sleep(8 * time.Second)
		if got := shareOf(t, third, "c", 300); got != 33 {
			t.Errorf("after all: %d%%", got)
		}
		fourth, _ := acquire(t, &registry, of("d=1 e=1", slowStart(10*time.Second)))
		last.Release()
		if got := shareOf(t, fourth, "d", 100); got != 50 {
			t.Errorf("of those that come alone: %d%%", got)
		}
	})
}

// A new endpoint that is checked starts when it is found healthy.
func TestSlowStartBeginsWithHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := checked(t, of("a=1 b=1", slowStart(10*time.Second)), "a=healthy")
		g.shared.mu.Lock()
		endpoint(t, g, "b").state.back = time.Now() // it has come to a
		g.shared.mu.Unlock()
		time.Sleep(time.Minute)
		checksOf(g, "b", 2, true)
		if got := shareOf(t, g, "b", 200); got > 1 {
			t.Errorf("b comes with %d%%", got)
		}
		time.Sleep(10 * time.Second)
		if got := shareOf(t, g, "b", 200); got != 50 {
			t.Errorf("after all: %d%%", got)
		}
	})
}

// An endpoint is the same one however its URL is written.
func TestStateOutlivesAnotherSpelling(t *testing.T) {
	var registry lease.Registry
	m := of("http://h:80=1 http://other=1")
	m.Endpoints[0].Address = "h:80"
	before, set := acquire(t, &registry, m)
	if !before.Drain("http://h:80", true) {
		t.Fatal("it is not found")
	}
	spelled := of("http://h=1 http://other=1")
	spelled.Endpoints[0].Address = "h:80"
	after, _ := acquire(t, &registry, spelled)
	set.Release()
	if s := after.Status(time.Now()).Endpoints[0]; !s.Drained || s.URL != "http://h" {
		t.Errorf("%+v", s)
	}
}
