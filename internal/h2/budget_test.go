package h2

import (
	"testing"
	"time"
)

func TestBudget(t *testing.T) {
	now := time.Unix(1000, 0)
	b := newBudget(10, 20, 2, now)
	spend := func(n float64, after time.Duration, want bool) {
		t.Helper()
		now = now.Add(after)
		if got := b.spend(n, now); got != want {
			t.Errorf("spending %v gives %v, with %v left", n, got, b.level)
		}
	}
	spend(10, 0, true)
	spend(1, 0, false)
	spend(1, time.Second, true) // -1, and 2 more
	spend(10, time.Hour, true)  // no more than it holds by time
	spend(1, 0, false)
	b.earn(100) // but work banks more
	spend(20, time.Hour, true)
	spend(1, 0, false)
}

func TestResetStreams(t *testing.T) {
	var resets resetStreams
	for id := uint32(1); id < 20; id += 2 {
		resets.add(id, 4)
	}
	if resets.has(11) || !resets.has(13) || !resets.has(19) || len(resets.ids) != 4 {
		t.Error(resets)
	}
}

// TestShortNames: the tables of usual names are each other's inverse.
func TestShortNames(t *testing.T) {
	for lower, name := range usualCanonical {
		if lowered(name) != lower {
			t.Errorf("%s becomes %s", name, lowered(name))
		}
	}
}
