package resilience

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestWindow holds a window to what a list of all that was counted says: what is
// younger than nine tenths of the length is in the sum, what is older than the length
// is not.
func TestWindow(t *testing.T) {
	const length = time.Second
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 0))
		w := NewWindow(length)
		var counted []time.Time
		now := epoch
		for range 1000 {
			if random.IntN(100) == 0 {
				now = now.Add(time.Duration(random.Int64N(int64(3 * length))))
			}
			now = now.Add(time.Duration(random.Int64N(int64(20 * time.Millisecond))))
			if random.IntN(3) > 0 {
				w.Add(now, Tally{Requests: 1, Failures: 2, Slow: 3})
				counted = append(counted, now)
			}
			least, most := 0, 0
			for _, at := range counted {
				if age := now.Sub(at); age <= length*9/10 {
					least++
					most++
				} else if age < length {
					most++
				}
			}
			got := w.Sum(now)
			if got.Requests < least || got.Requests > most || got.Failures != 2*got.Requests || got.Slow != 3*got.Requests {
				t.Fatalf("seed %d: %+v, want %d to %d requests", seed, got, least, most)
			}
		}
	}
}

func TestWindowTime(t *testing.T) {
	one := Tally{Requests: 1}
	for _, c := range []struct {
		name   string
		length time.Duration
		times  []int // in milliseconds, at which one is counted
		at     int   // when they are summed up
		want   int
	}{
		{"nothing", time.Second, nil, 0, 0},
		{"a time before the bucket counts in the bucket", time.Second, []int{0, 500, 0, 100}, 1050, 3},
		{"a sum before what was counted", time.Second, []int{0, 500}, 0, 2},
		{"all are too old", time.Second, []int{0, 500}, 1500, 0},
		{"a pause longer than the window", time.Second, []int{0, 100_000}, 100_000, 1},
		{"a pause of days", time.Second, []int{0}, 1 << 30, 0},
		{"no length", 0, []int{0, 0}, 0, 2},
		{"no length, and some time", 0, []int{0, 0}, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := NewWindow(c.length)
			for _, at := range c.times {
				w.Add(after(at), one)
			}
			if got := w.Sum(after(c.at)).Requests; got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}
