package resilience

import (
	"strings"
	"testing"
	"time"
)

// guarded is a guard with its time and what it told.
type guarded struct {
	*Guard
	t       *testing.T
	now     time.Duration
	changes []StanceChange
	ease    Ease
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{t: t, now: time.Hour}
	g.Guard = NewGuard(GuardSettings{Alpha: 0.2, Window: time.Minute, Upper: 2}, g.told)
	return g
}

// pass lets seconds pass with 100 requests each, of which the slowest take so long.
func (g *guarded) pass(seconds int, slowest time.Duration, closed bool) {
	for range seconds {
		for i := range 100 {
			took := slowest / 4
			if i < 3 {
				took = slowest
			}
			g.Observe(g.now, took, false)
			g.now += 10 * time.Millisecond
		}
		g.judge(closed)
	}
}

func (g *guarded) judge(closed bool) { g.ease = g.Judge(g.now, closed) }

func (g *guarded) told(change StanceChange) {
	if change.From == change.To || change.Reason == "" {
		g.t.Errorf("change %+v", change)
	}
	if n := len(g.changes); n > 0 && g.changes[n-1].To != change.From {
		g.t.Errorf("change %+v after %+v", change, g.changes[n-1])
	}
	g.changes = append(g.changes, change)
}

// expect holds the changes since the last call to those that are wanted.
func (g *guarded) expect(wanted ...string) {
	g.t.Helper()
	var got []string
	for _, change := range g.changes {
		got = append(got, change.To.String()+": "+change.Reason)
	}
	g.changes = g.changes[:0]
	if len(got) != len(wanted) {
		g.t.Fatalf("changes %q, want %q", got, wanted)
	}
	for i := range got {
		if !strings.Contains(got[i], wanted[i]) {
			g.t.Fatalf("change %q, want %q", got[i], wanted[i])
		}
	}
}

func TestGuardLatency(t *testing.T) {
	g := newGuarded(t)
	g.pass(60, 100*time.Millisecond, true)
	g.expect()
	g.pass(2, time.Second, true) // may be chance
	g.pass(10, 100*time.Millisecond, true)
	g.expect()
	if g.ease != easy {
		t.Errorf("%+v in normal", g.ease)
	}
	g.pass(4, time.Second, true)
	g.expect("guarded: p99 of ")
	if g.ease != (Ease{1, 0}) {
		t.Errorf("%+v when guarded", g.ease)
	}
	g.pass(4, 100*time.Millisecond, true)
	g.expect()
	g.pass(4, 100*time.Millisecond, true)
	g.expect("normal: latency is in its band again")
	g.pass(20, time.Second, true)
	g.expect("guarded: ")
	g.pass(20, time.Second, true)
	g.expect("shedding: p99 of 1.01s, usually up to 159ms, for 30s")
	if g.ease != (Ease{half, 0}) {
		t.Errorf("%+v when shedding", g.ease)
	}
	g.pass(8, 100*time.Millisecond, true)
	g.expect("recovering: no trouble for 5s")
	was := Ease{half, 0}
	for range 25 {
		g.pass(1, 100*time.Millisecond, true)
		if g.ease.Share < was.Share || g.ease.Room < was.Room {
			t.Errorf("from %+v to %+v while recovering", was, g.ease)
		}
		was = g.ease
	}
	if was.Room < 0.5 || was.Share < 0.8 {
		t.Errorf("%+v after most of the recovery", was)
	}
	g.pass(8, 100*time.Millisecond, true)
	g.expect("normal: no trouble for 35s")
	if stance, since, reason := g.Status(); stance != Normal || since == 0 || reason == "" {
		t.Errorf("status %v since %v, %q", stance, since, reason)
	}
}

func TestGuardBreaker(t *testing.T) {
	g := newGuarded(t)
	g.pass(1, 100*time.Millisecond, false)
	g.expect("shedding: the circuit breaker is not closed")
	for range 30 { // nothing passes an open breaker
		g.now += time.Second
		g.judge(false)
	}
	g.pass(4, 100*time.Millisecond, true)
	g.expect()
	g.pass(2, 100*time.Millisecond, true)
	g.expect("recovering")
	g.pass(10, 100*time.Millisecond, true)
	g.pass(1, 100*time.Millisecond, false)
	g.expect("shedding: the circuit breaker is not closed")
	g.pass(40, 100*time.Millisecond, true)
	g.expect("recovering", "normal")
	g.pass(4, time.Second, true)
	g.pass(1, time.Second, false)
	g.expect("guarded", "shedding: the circuit breaker is not closed")
	g.pass(6, 100*time.Millisecond, true)
	g.pass(10, time.Second, true)
	g.expect("recovering", "shedding: p99")
}

// TestGuardLasts: an upstream that has become slower for good is not held back for ever.
func TestGuardLasts(t *testing.T) {
	g := newGuarded(t)
	g.pass(60, 100*time.Millisecond, true)
	for range 60 {
		g.pass(60, 200*time.Millisecond, true)
		if stance, _, _ := g.Status(); stance == Normal && g.now > time.Hour+5*time.Minute {
			return
		}
	}
	t.Error("after an hour its latency is still unusual")
}

// TestGuardFew: where few requests come a percentile is taken after ten seconds, or not at
// all.
func TestGuardFew(t *testing.T) {
	g := newGuarded(t)
	few := func(seconds, each int, took time.Duration) {
		for range seconds {
			for range each {
				g.Observe(g.now, took, false)
			}
			g.now += time.Second
			g.judge(true)
		}
	}
	few(300, 3, 10*time.Millisecond)
	few(29, 3, time.Second)
	g.expect()
	few(4, 3, time.Second)
	g.expect("guarded")
	few(40, 1, time.Second)
	g.expect("normal")
}

// TestGuardFailures: an upstream that refuses all at once is not taken for a quick one,
// after which its usual latency would be trouble; one that lets all run out of time is
// taken for a slow one.
func TestGuardFailures(t *testing.T) {
	g := newGuarded(t)
	fails := func(seconds int, took time.Duration) {
		for range seconds {
			for range 100 {
				g.Observe(g.now, took, true)
				g.now += 10 * time.Millisecond
			}
			g.judge(true)
		}
	}
	fails(60, time.Hour) // nothing is usual yet
	g.pass(60, 100*time.Millisecond, true)
	fails(300, time.Millisecond)
	g.pass(60, 100*time.Millisecond, true)
	g.expect()
	fails(4, time.Second)
	g.expect("guarded: p99 of 1.01s")
}

func TestPercentile(t *testing.T) {
	g := NewGuard(GuardSettings{Alpha: 0.2, Window: time.Minute, Upper: 2}, nil)
	for i := range 1000 {
		g.Observe(0, time.Duration(i+1)*time.Millisecond, false)
	}
	if p99 := g.percentile(); p99 < 990*time.Millisecond || p99 > 1100*time.Millisecond {
		t.Errorf("%v of 1 to 1000 ms", p99)
	}
	for _, took := range []time.Duration{-1, 0, 1, 8, 9, 15, 16, 17, 1000, time.Millisecond, time.Hour, 1<<63 - 1} {
		at := step(took)
		if edge(at) < took || at > 0 && edge(at-1) >= max(took, octave) {
			t.Errorf("%d ns is counted in step %d, from %d to %d", took, at, edge(at-1), edge(at))
		}
	}
}

// TestGuardReason: people are told times that they can read.
func TestGuardReason(t *testing.T) {
	g := newGuarded(t)
	g.pass(1, 100*time.Millisecond, false)
	for range 60 {
		g.now += time.Second + 123456789
		g.judge(true)
	}
	g.expect("shedding", "recovering: no trouble for 5s", "normal: no trouble for 36s")
}

func TestEase(t *testing.T) {
	if got := (Ease{1, 0}).Least(Ease{0.75, 0.5}); got != (Ease{0.75, 0}) {
		t.Errorf("of two guards: %+v", got)
	}
}

func TestStance(t *testing.T) {
	for stance, want := range map[Stance]string{Normal: "normal", Guarded: "guarded", Shedding: "shedding", Recovering: "recovering", 9: "unknown"} {
		if stance.String() != want {
			t.Errorf("%q, want %q", stance, want)
		}
	}
}
