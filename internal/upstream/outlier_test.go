package upstream

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
)

// outlier ejects after so many failures in a row, for ten seconds, all but one of the
// endpoints.
func outlier(consecutive int, changes ...func(*model.OutlierDetection)) func(*model.Upstream) {
	return func(m *model.Upstream) {
		m.Outlier = &model.OutlierDetection{Consecutive: consecutive, BaseEjection: 10 * time.Second, MaxEjected: 0.9, FailureStatus: []int{500, 503}}
		for _, change := range changes {
			change(m.Outlier)
		}
	}
}

// rate ejects by the share of failures instead.
func rate(share float64, least int) func(*model.OutlierDetection) {
	return func(o *model.OutlierDetection) { o.Consecutive, o.ErrorRate, o.MinRequests = 0, share, least }
}

func TestEjectionByFailuresInARow(t *testing.T) {
	var told events
	g, _ := acquireTold(t, new(lease.Registry), of("a=1 b=1", outlier(3)), nowhere(), told.observe)
	now := time.Now()
	fail(t, g, "b", 2, now)
	for range 2 { // a success ends the row
		answered(t, g, 200, now)
	}
	fail(t, g, "b", 2, now)
	if got := statusOf(t, g, "b", now); got != "" {
		t.Errorf("after two failures b is %s", got)
	}
	told.expect(t)
	fail(t, g, "b", 1, now)
	told.expect(t, "ejected b: 3 failures in a row")
	if got := picksAt(t, g, 4, now.Add(9999*time.Millisecond)); got != "aaaa" {
		t.Errorf("ejected: %s", got)
	}
	if got := statusOf(t, g, "b", now); got != "ejected out" {
		t.Errorf("b is %s", got)
	}
	back := now.Add(10 * time.Second)
	if got := picksAt(t, g, 4, back); strings.Count(got, "b") != 2 {
		t.Errorf("after its time: %s", got)
	}
	told.expect(t, "returned b: its time is over")
	if got := statusOf(t, g, "b", back); got != "" {
		t.Errorf("then b is %s", got)
	}
	fail(t, g, "b", 2, back) // what was before does not count
	told.expect(t)
}

// A status that is listed is a failure, others are none; a client that leaves says
// nothing; a body that breaks is one, but none more after such a status.
func TestWhatCountsForEjection(t *testing.T) {
	now := time.Now()
	for name, test := range map[string]struct {
		happens  func(turn *Turn)
		failures int
	}{
		"503":                          {func(turn *Turn) { turn.Answered(503, now) }, 1},
		"502":                          {func(turn *Turn) { turn.Answered(502, now) }, 0},
		"200":                          {func(turn *Turn) { turn.Answered(200, now) }, 0},
		"no answer":                    {func(turn *Turn) { turn.Failed(now) }, 1},
		"the client left":              {func(turn *Turn) { turn.Dropped(now) }, 0},
		"a broken body":                {func(turn *Turn) { turn.Answered(200, now); turn.Broke(now) }, 1},
		"a broken body after a 503":    {func(turn *Turn) { turn.Answered(503, now); turn.Broke(now) }, 1},
		"a broken body, told of twice": {func(turn *Turn) { turn.Answered(200, now); turn.Broke(now); turn.Broke(now) }, 1},
	} {
		for least := 1; least <= 2; least++ {
			var told events
			g, _ := acquireTold(t, new(lease.Registry), of("a=1 b=1", outlier(least)), nowhere(), told.observe)
			turn := begin(t, g, exchange(t), now)
			test.happens(turn)
			turn.End()
			if got := len(told.take()) > 0; got != (test.failures >= least) {
				t.Errorf("%s, of %d: ejected is %v", name, least, got)
			}
			if got := g.Status(now).Endpoints[0].Failures; got != int64(test.failures) {
				t.Errorf("%s: %d failures are counted", name, got)
			}
		}
	}
}

func TestEjectionByRate(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		failures [3]int // of 25 answers of each endpoint, the last ones
		share    float64
		want     string
	}{
		{[3]int{0, 7, 0}, .28, "ejected b: 7 of the last 10s' 25 requests failed"}, // 0.28 times 25 is more than 7
		{[3]int{0, 6, 0}, .28, ""},
		{[3]int{2, 13, 3}, .5, "ejected b: 13 of the last 10s' 25 requests failed"},
		{[3]int{15, 15, 15}, .5, ""}, // it is not the endpoint that is at fault
	} {
		var told events
		g, _ := acquireTold(t, new(lease.Registry), of("a=1 b=1 c=1", outlier(0, rate(test.share, 25))), nowhere(), told.observe)
		for i := range 75 {
			status := 200
			if i/3 >= 25-test.failures[i%3] {
				status = 503
			}
			answered(t, g, status, now)
			if early := told.take(); i < 72 && len(early) > 0 {
				t.Fatalf("%+v: %q before there were enough requests", test, early)
			} else if i == 73 && strings.Join(early, ", ") != test.want {
				t.Errorf("%+v: %q", test, early)
			}
		}
	}
}

// Failures are forgotten with the time that the rate is of.
func TestEjectionByRateForgets(t *testing.T) {
	var told events
	g, _ := acquireTold(t, new(lease.Registry), of("a=1 b=1", outlier(0, rate(.5, 10))), nowhere(), told.observe)
	now := time.Now()
	fail(t, g, "b", 9, now)
	fail(t, g, "b", 9, now.Add(11*time.Second))
	told.expect(t)
	fail(t, g, "b", 1, now.Add(11*time.Second))
	told.expect(t, "ejected b: 10 of the last 10s' 10 requests failed")
}

func TestEjectionsGrowAndShrinkAgain(t *testing.T) {
	g, _ := acquire(t, new(lease.Registry), of("a=1 b=1", outlier(1)))
	now := time.Now()
	for i, want := range []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second} {
		fail(t, g, "b", 1, now)
		s := g.Status(now).Endpoints[1]
		if s.Ejected == nil || s.Ejected.Sub(now) != want || s.Ejections != i+1 {
			t.Fatalf("ejection %d: until %v after %v, %d in a row", i+1, s.Ejected, now, s.Ejections)
		}
		now = *s.Ejected
	}
	// Two base times of good conduct take two from the three.
	now = now.Add(20 * time.Second)
	fail(t, g, "b", 1, now)
	if got := g.Status(now).Endpoints[1].Ejected.Sub(now); got != 20*time.Second {
		t.Errorf("after good time: %v", got)
	}
}

func TestNoMoreAreEjectedThanMayBe(t *testing.T) {
	for _, test := range []struct {
		endpoints string
		most      float64
		want      int
	}{
		{"a=1 b=1 c=1 d=1", .5, 2},
		{"a=1 b=1 c=1", .5, 1},
		{"a=1 b=1 c=1", 1, 3},
		{"a=1", .5, 0},
		{"a=1 b=1 c=0 d=0", .5, 1},             // those that get nothing do not count
		{strings.Repeat("a=1 ", 100), .29, 29}, // 0.29 times 100 is not quite 29
	} {
		var told events
		m := of(test.endpoints, outlier(1, func(o *model.OutlierDetection) { o.MaxEjected = test.most }))
		g, _ := acquireTold(t, new(lease.Registry), m, nowhere(), told.observe)
		now := time.Now()
		for range 40 {
			turn := new(Turn)
			if err := g.Begin(turn, exchange(t), nil, now); err != nil {
				break // all are ejected
			}
			turn.Failed(now)
			turn.End()
		}
		if got := len(told.take()); got != test.want {
			t.Errorf("%s, %v: %d ejected, want %d", test.endpoints, test.most, got, test.want)
		}
	}
}

func TestEjectedEndpointsStartSlowly(t *testing.T) {
	g, _ := acquire(t, new(lease.Registry), of("a=1 b=1", outlier(1), slowStart(10*time.Second)))
	now := time.Now()
	fail(t, g, "b", 1, now)
	share := func(at time.Time) int { return strings.Count(picksAt(t, g, 300, at), "b") }
	if got := share(now.Add(10 * time.Second)); got > 4 {
		t.Errorf("at once %d of 300", got)
	}
	if got := share(now.Add(15 * time.Second)); got < 95 || got > 105 {
		t.Errorf("half way %d of 300", got)
	}
	if got := share(now.Add(20 * time.Second)); got < 148 || got > 152 {
		t.Errorf("after all %d of 300", got)
	}
}

// Where too few are left, ejected ones get attempts, and what those come to does not
// prolong it.
func TestPanicWithEjection(t *testing.T) {
	var told events
	g, _ := acquireTold(t, new(lease.Registry), of("a=1 b=1 c=1", outlier(1, func(o *model.OutlierDetection) { o.MaxEjected = 1 }), panicBelow(.6)), nowhere(), told.observe)
	now := time.Now()
	fail(t, g, "a", 1, now)
	if g.Status(now).Panicking {
		t.Error("two of three are too few")
	}
	fail(t, g, "b", 1, now)
	told.expect(t, "ejected a: a failure", "ejected b: a failure")
	if got := picksAt(t, g, 30, now); !g.Status(now).Panicking || strings.Count(got, "a") < 9 || strings.Count(got, "b") < 9 {
		t.Errorf("one of three is enough: %s", got)
	}
	fail(t, g, "a", 3, now.Add(time.Second))
	told.expect(t)
	if got := g.Status(now).Endpoints[0].Ejected; got == nil || got.Sub(now) != 10*time.Second {
		t.Errorf("a is out until %v", got)
	}
}

// A failure that comes late, of an attempt from before the ejection, does not eject
// again.
func TestALateFailure(t *testing.T) {
	var told events
	g, _ := acquireTold(t, new(lease.Registry), of("a=1 b=1", outlier(2)), nowhere(), told.observe)
	now := time.Now()
	late := begin(t, g, exchange(t), now, endpoint(t, g, "a"))
	fail(t, g, "b", 2, now)
	late.Failed(now.Add(11 * time.Second))
	late.End()
	told.expect(t, "ejected b: 2 failures in a row", "returned b: its time is over")
	fail(t, g, "b", 1, now.Add(11*time.Second)) // with the late one these are two
	told.expect(t, "ejected b: 2 failures in a row")
}

// An ejection outlives reloads, also one that has it in another way; where the new
// snapshot knows none, none counts.
func TestEjectionOutlivesSnapshots(t *testing.T) {
	var registry lease.Registry
	var told events
	before, set := acquireTold(t, &registry, of("a=1 b=1", outlier(2)), nowhere(), told.observe)
	now := time.Now()
	fail(t, before, "b", 2, now)
	with, next := acquireTold(t, &registry, of("a=1 b=3 c=1", outlier(5)), nowhere(), told.observe)
	set.Release()
	if got := statusOf(t, with, "b", now); got != "ejected out" {
		t.Errorf("after a reload b is %s", got)
	}
	without, _ := acquireTold(t, &registry, of("a=1 b=1"), nowhere(), told.observe)
	if got := picksAt(t, without, 4, now); strings.Count(got, "b") != 2 {
		t.Errorf("without outlier detection: %s", got)
	}
	// The old one goes on meanwhile, and both see the end.
	if got := picksAt(t, with, 4, now); strings.Contains(got, "b") {
		t.Errorf("with it: %s", got)
	}
	told.take()
	later := now.Add(10 * time.Second)
	if got := picksAt(t, with, 5, later); strings.Count(got, "b") != 3 {
		t.Errorf("after its time: %s", got)
	}
	told.expect(t, "returned b: its time is over")
	next.Release()
}
