package ratelimit_test

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/ratelimit"
)

// portion has a script take from cost to most of a quota of n in an hour.
func (d database) portion(t *testing.T, s *ratelimit.Strategy, n, cost, most, unit int64) (answer []int64) {
	t.Helper()
	said, ok := d.Must("EVAL", s.Script, 1, "k", n, time.Hour.Microseconds(), n, cost, most, unit, unit).([]any)
	if !ok || len(said) != 7 {
		t.Fatalf("the script says %v", said)
	}
	for _, each := range said {
		number, ok := each.(int64)
		if !ok {
			t.Fatalf("the script says %v", said)
		}
		answer = append(answer, number)
	}
	return answer
}

// The places of what a script says.
const (
	saidLeft  = 1
	saidRetry = 3
	saidStamp = 4
	saidTaken = 5
	saidAgain = 6
)

func TestPortionScripts(t *testing.T) {
	d := newDatabase(t)
	for _, strategy := range ratelimit.Strategies() {
		t.Run(strategy.Name, func(t *testing.T) {
			want := func(what string, got []int64, taken, left int64, dry bool) {
				t.Helper()
				if got[saidTaken] != taken || got[saidLeft] != left || got[saidRetry] > 0 != dry || got[saidAgain] > 0 != dry {
					t.Errorf("%s: %v, want %d taken and %d left", what, got, taken, left)
				}
			}
			giveBack := func(n, of, stamp int64) {
				t.Helper()
				d.Must("EVAL", strategy.Refund, 1, "k", n, of, stamp)
			}
			d.Must("FLUSHALL")
			giveBack(5, 100, 1)
			first := d.portion(t, &strategy, 100, 1, 10, 1)
			want("a portion", first, 10, 90, false)
			giveBack(4, 100, first[saidStamp])
			want("after a return", d.portion(t, &strategy, 100, 1, 1, 1), 1, 93, false)
			want("all but a little", d.portion(t, &strategy, 100, 80, 86, 1), 86, 7, false)
			want("as many units as there are", d.portion(t, &strategy, 100, 3, 10, 3), 6, 1, true)
			want("less than a unit", d.portion(t, &strategy, 100, 3, 10, 3), 0, 1, true)
			giveBack(3, 50, first[saidStamp])
			want("a return of half the numbers", d.portion(t, &strategy, 100, 7, 7, 1), 7, 0, true)
		})
	}
}

// TestReturnsToAWindow goes to the group that has counted it, and leaves few groups.
func TestReturnsToAWindow(t *testing.T) {
	d := newDatabase(t)
	window := ratelimit.StrategyNamed(ratelimit.SlidingWindow)
	const n = 10_000
	for i := range 1000 {
		answer := d.portion(t, &window, n, 1, 100, 1)
		if answer[saidTaken] != 100 {
			t.Fatalf("%v after %d", answer, i)
		}
		d.Must("EVAL", window.Refund, 1, "k", 99, n, answer[saidStamp])
	}
	if said := fmt.Sprint(d.Must("LINDEX", "k", 0)); said != "1000 10000" {
		t.Errorf("after a thousand of ten thousand: %s", said)
	}
	if groups, ok := d.Must("LLEN", "k").(int64); !ok || groups > 2*128 {
		t.Errorf("%d groups", groups)
	}
	d.Must("DEL", "k")
	for range 400 { // of each two the one goes back that parts the other from those before
		large := d.portion(t, &window, n, 79, 79, 1)
		d.portion(t, &window, n, 1, 1, 1)
		d.Must("EVAL", window.Refund, 1, "k", 79, n, large[saidStamp])
	}
	if said := fmt.Sprint(d.Must("LINDEX", "k", 0)); said != "400 10000" {
		t.Errorf("after 400 of ten thousand: %s", said)
	}
	if groups, ok := d.Must("LLEN", "k").(int64); !ok || groups > 2*128 {
		t.Errorf("%d groups", groups)
	}
	late := d.portion(t, &window, n, 1, 1, 1)[saidStamp] + 1
	if back := fmt.Sprint(d.Must("EVAL", window.Refund, 1, "k", 1, n, late)); back != "[0]" {
		t.Errorf("%s of what no group has went back", back)
	}
}
