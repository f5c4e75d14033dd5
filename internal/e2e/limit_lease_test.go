package e2e

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

// wantLeased holds what passed, in any time, to the limit and what instances may have in
// hand; and as a whole to what has to pass of a load that is always there, less what is
// in hand at the end.
func wantLeased(t *testing.T, visits []visit, c fleetLimit) {
	t.Helper()
	visits = slices.DeleteFunc(slices.Clone(visits), func(v visit) bool { return v.after.IsZero() })
	slices.SortFunc(visits, func(a, b visit) int { return cmp.Compare(a.after.UnixNano(), b.after.UnixNano()) })
	quota, least := fleetBurst, fleetBurst+fleetRate*fleetLength().Seconds()
	if c.algorithm == "sliding_window" {
		quota, least = fleetRate, fleetRate*fleetLength().Seconds()
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
	t.Logf("%d passed; in no time more than %.1f too much, of which %d may be", len(visits), worst, hand)
	if worst > float64(hand) {
		t.Errorf("%.1f too much passed, want %d at most", worst, hand)
	}
	if float64(len(visits)) < 0.93*least-float64(hand) {
		t.Errorf("%d passed, want %.0f", len(visits), least)
	}
}
