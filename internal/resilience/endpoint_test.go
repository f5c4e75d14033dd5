package resilience

import (
	"sync"
	"testing"
	"time"
)

func TestOutcomes(t *testing.T) {
	var o Outcomes
	want := func(at, consecutive, requests, failures int) {
		t.Helper()
		c, r, f := o.Counts(after(at))
		if c != consecutive || r != requests || f != failures {
			t.Errorf("after %d ms: %d in a row, %d of %d, want %d in a row, %d of %d", at, c, f, r, consecutive, failures, requests)
		}
	}
	want(0, 0, 0, 0)
	for i, failed := range []bool{true, true, false, true} {
		o.Record(after(1000*i), failed)
	}
	want(3000, 1, 4, 3)
	want(8999, 1, 4, 3)
	want(11_000, 1, 2, 1)
	want(60_000, 1, 0, 0) // in a row, however long ago
	o.Record(after(60_000), true)
	want(60_000, 2, 1, 1)
	o.Reset()
	want(60_000, 0, 0, 0)
	o.Record(after(60_001), false)
	want(60_001, 0, 1, 0)
}

func TestEjection(t *testing.T) {
	const base = 10 * time.Second
	var e Ejection
	if e.Out(epoch) || !e.Until().IsZero() || e.Times() != 0 {
		t.Errorf("out before any ejection: until %v, %d times", e.Until(), e.Times())
	}
	for _, c := range []struct {
		name    string
		at      int // seconds
		until   int
		times   int
		another time.Duration // base of this one; 0: base
	}{
		{"the first", 0, 10, 1, 0},
		{"while out", 5, 10, 1, 0},
		{"at once after the return", 10, 30, 2, 0},
		{"after less than base of good time", 39, 69, 3, 0},
		{"after base of good time", 79, 109, 3, 0},
		{"after twice that", 130, 150, 2, 0},
		{"after long", 100_000, 100_010, 1, 0},
		{"with another base", 100_010, 100_012, 2, time.Second},
		{"without base", 100_012, 100_012, 3, -1},
	} {
		with := base
		switch {
		case c.another > 0:
			with = c.another
		case c.another < 0:
			with = 0
		}
		until := after(1000 * c.until)
		if got := e.Eject(after(1000*c.at), with); !got.Equal(until) || !e.Until().Equal(until) || e.Times() != c.times {
			t.Errorf("%s: until %v s, %d times, want %d s, %d", c.name, got.Sub(epoch).Seconds(), e.Times(), c.until, c.times)
		}
		if e.Out(until) || c.until > c.at && !e.Out(until.Add(-1)) {
			t.Errorf("%s: out at the wrong times", c.name)
		}
	}
}

// TestEjectionBound ejects more often than an ejection grows, and lets good time bring
// that down by one each.
func TestEjectionBound(t *testing.T) {
	var e Ejection
	now := epoch
	for i := range 15 {
		until := e.Eject(now, time.Second)
		if got, want := until.Sub(now), time.Duration(min(i+1, 10))*time.Second; got != want {
			t.Errorf("ejection %d is for %v, want %v", i+1, got, want)
		}
		now = until
	}
	now = now.Add(3 * time.Second)
	if got := e.Eject(now, time.Second).Sub(now); got != 8*time.Second {
		t.Errorf("after three seconds of good time it is for %v, want 8s", got)
	}
}

func TestAverage(t *testing.T) {
	var a Average
	want := func(at int, want time.Duration) {
		t.Helper()
		if got := a.Value(after(at)); got < want-want/1000 || got > want+want/1000 {
			t.Errorf("after %d ms: %v, want %v", at, got, want)
		}
	}
	want(0, 0)
	a.Observe(after(0), 100*time.Millisecond)
	want(0, 100*time.Millisecond)
	want(10_000, 36_788*time.Microsecond) // 1/e
	want(600_000, 0)
	// What is lower counts by the time since the last one.
	a.Observe(after(0), 10*time.Millisecond)
	want(0, 100*time.Millisecond)
	a.Observe(after(10_000), 10*time.Millisecond)
	want(10_000, 43_109*time.Microsecond) // 100/e + 10(1-1/e)
	// What is higher counts at once, whole.
	a.Observe(after(10_001), time.Second)
	want(10_001, time.Second)
	// Times out of order change nothing but the value.
	a.Observe(after(9000), 2*time.Second)
	want(9000, 2*time.Second)
	want(10_001, 2*time.Second)
	a.Observe(after(9000), 0)
	want(20_001, 735_759*time.Microsecond)
}

// TestAverageKnows tells an answer in no time from no answer.
func TestAverageKnows(t *testing.T) {
	var a Average
	a.Observe(epoch, 0)
	if a.Value(epoch) == 0 {
		t.Error("nothing is known after an answer")
	}
}

// TestEndpointConcurrently is for the race detector.
func TestEndpointConcurrently(t *testing.T) {
	var (
		o     Outcomes
		e     Ejection
		a     Average
		group sync.WaitGroup
	)
	const workers, each = 4, 500
	for range workers {
		group.Go(func() {
			for i := range each {
				now := after(i)
				o.Record(now, i%2 == 0)
				o.Counts(now)
				if !e.Out(now) {
					e.Eject(now, time.Millisecond)
				}
				e.Until()
				e.Times()
				a.Observe(now, time.Millisecond)
				a.Value(now)
			}
		})
	}
	group.Wait()
	if _, requests, failures := o.Counts(after(each)); requests != workers*each || failures != requests/2 {
		t.Errorf("%d requests, %d failures", requests, failures)
	}
}
