package e2e

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

// wantLeased holds what passed, in any time, to the limit and what instances may have in
// hand; and as a whole to what has to pass of those who came, less what is in hand at the
// end. Each of alone decisions that the store did not make may have let one through more, or
// one less.
func wantLeased(t *testing.T, visits []visit, c fleetLimit, alone int) {
	t.Helper()
	due := dueOf(visits, c)
	visits = slices.DeleteFunc(slices.Clone(visits), func(v visit) bool { return v.after.IsZero() })
	slices.SortFunc(visits, func(a, b visit) int { return cmp.Compare(a.after.UnixNano(), b.after.UnixNano()) })
	quota := fleetBurst
	if c.algorithm == "sliding_window" {
		quota = fleetRate
	}
	hand := c.instances * (quota / (4 * c.instances))
	worst := 0.0
	for i := range visits {
		from := visits[i].before
		for j := i; j < len(visits); j++ {
			if visits[j].before.Before(from) {
				from = visits[j].before
			}
			took := visits[j].after.Sub(from)
			most := fleetBurst + fleetRate*took.Seconds()
			if c.algorithm == "sliding_window" {
				if took >= time.Second {
					break
				}
				most = fleetRate
			}
			worst = max(worst, float64(j-i+1)-most)
		}
	}
	t.Logf("%d passed; in no time more than %.1f too much, of which %d may be", len(visits), worst, hand+alone)
	if worst > float64(hand+alone) {
		t.Errorf("%.1f too much passed, want %d at most", worst, hand+alone)
	}
	if float64(len(visits)) < 0.93*float64(due)-float64(hand+alone) {
		t.Errorf("%d passed, want %d", len(visits), due)
	}
}

// dueOf is how many of those who came, in the order in which they did, one limit without
// instances lets through.
func dueOf(visits []visit, c fleetLimit) (n int) {
	book := tokens{rate: fleetRate, burst: fleetBurst}
	var window []time.Time
	for i := range visits {
		now := visits[i].before
		if c.algorithm != "sliding_window" {
			if book.take(now) {
				n++
			}
			continue
		}
		for len(window) > 0 && now.Sub(window[0]) >= time.Second {
			window = window[1:]
		}
		if len(window) < fleetRate {
			window = append(window, now)
			n++
		}
	}
	return n
}
