package resilience

import (
	"sync"
	"sync/atomic"
	"testing"
)

func TestBudget(t *testing.T) {
	for _, c := range []struct {
		inFlight int
		share    float64
		want     int // repetitions at once
	}{
		{0, 0, 3},
		{0, 1, 3},
		{10, 0, 3},
		{15, 0.2, 3},
		{19, 0.2, 3},
		{20, 0.2, 4},
		{60, 0.2, 12},
		{100, 0.29, 29},
		{100, 0.57, 57},
		{5, 1, 5},
	} {
		var b Budget
		for range c.inFlight {
			b.Enter()
		}
		got := 0
		for got <= c.want && b.Take(c.share) {
			got++
		}
		if got != c.want {
			t.Errorf("%d in flight, %v of them: %d repetitions at once, want %d", c.inFlight, c.share, got, c.want)
		}
		if inFlight, repeating := b.Status(); inFlight != int64(c.inFlight) || repeating != int64(got) {
			t.Errorf("status: %d in flight, %d repeating", inFlight, repeating)
		}
		b.Give()
		if !b.Take(c.share) {
			t.Errorf("%d in flight, %v of them: none although one was given back", c.inFlight, c.share)
		}
	}
}

// TestBudgetShrinks takes repetitions of exchanges that have ended since.
func TestBudgetShrinks(t *testing.T) {
	var b Budget
	for range 40 {
		b.Enter()
	}
	for i := range 8 {
		if !b.Take(0.2) {
			t.Fatalf("repetition %d was refused", i)
		}
	}
	for range 20 {
		b.Leave()
	}
	for range 4 {
		b.Give()
		if b.Take(0.2) {
			t.Fatal("a repetition past what the exchanges in flight allow")
		}
	}
	b.Give()
	if !b.Take(0.2) {
		t.Error("refused although there is room")
	}
}

func TestBudgetBugs(t *testing.T) {
	for name, step := range map[string]func(*Budget){"leave": (*Budget).Leave, "give": (*Budget).Give} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			step(new(Budget))
		})
	}
}

func TestBudgetConcurrently(t *testing.T) {
	var b Budget
	for range 50 {
		b.Enter() // a fifth are ten
	}
	var repeating atomic.Int32
	var taken atomic.Int64
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			for range 2000 {
				if !b.Take(0.2) {
					continue
				}
				if n := repeating.Add(1); n > 10 {
					t.Errorf("%d repetitions at once", n)
				}
				taken.Add(1)
				repeating.Add(-1)
				b.Give()
			}
		})
	}
	group.Wait()
	if inFlight, repeating := b.Status(); inFlight != 50 || repeating != 0 || taken.Load() == 0 {
		t.Errorf("at the end: %d in flight, %d repeating, %d taken", inFlight, repeating, taken.Load())
	}
}
