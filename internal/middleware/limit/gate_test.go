package limit

import (
	"strconv"
	"testing"

	"sluice/internal/resilience"
)

// has tells whether a waiter has its turn.
func has(w *waiter) bool {
	select {
	case <-w.turn:
		return true
	default:
		return false
	}
}

// queued are so many waiters of a gate that has one place, which is taken.
func queued(t *testing.T, g *gate, n int) (all []*waiter) {
	t.Helper()
	r := &rules{most: 1, queue: n}
	if w, ok := g.enter(r, ""); w != nil || !ok {
		t.Fatal("a free gate has no place")
	}
	for range n {
		w, ok := g.enter(r, "")
		if w == nil || !ok {
			t.Fatal("the queue has no room")
		}
		all = append(all, w)
	}
	if w, ok := g.enter(r, ""); w != nil || ok {
		t.Fatal("a full queue has room")
	}
	return all
}

// TestGateOrder: places go to those who wait, the first one first; who has left gets none,
// and a place that came as its waiter left goes on to the next.
func TestGateOrder(t *testing.T) {
	var g gate
	all := queued(t, &g, 4)
	g.abandon(all[1])
	g.leave(false)
	if !has(all[0]) || has(all[1]) || has(all[2]) {
		t.Fatal("the place did not go to the first")
	}
	g.abandon(all[0]) // it left as its turn came
	if has(all[1]) || !has(all[2]) || has(all[3]) {
		t.Fatal("the place of one who left did not go to the next")
	}
	g.leave(false)
	g.leave(false)
	if !has(all[3]) || !g.idle() {
		t.Errorf("%+v is left", g.stand())
	}
}

// TestGateRules: a gate goes by the rules of who came last, whoever leaves.
func TestGateRules(t *testing.T) {
	var g gate
	wide, narrow := &rules{most: 3, queue: 1}, &rules{most: 1, queue: 1}
	for range 3 {
		g.enter(wide, "")
	}
	last, _ := g.enter(narrow, "")
	g.leave(false)
	g.leave(false)
	if has(last) {
		t.Error("two run where one may")
	}
	g.leave(false)
	if !has(last) {
		t.Error("the last one has no place")
	}
}

// TestGateAdaptive: an adaptive gate lets a number wait for their responses; those whose
// responses have begun count for the other bound alone.
func TestGateAdaptive(t *testing.T) {
	var g gate
	r := &rules{most: 3, queue: 5, adaptive: &resilience.GradientSettings{Min: 1, Max: 2, Initial: 2}}
	for range 2 {
		g.enter(r, "up")
	}
	third, _ := g.enter(r, "up")
	fourth, _ := g.enter(r, "up")
	if third == nil || fourth == nil {
		t.Fatal("more wait for responses than may")
	}
	g.begun(0, 1, resilience.Failed)
	if !has(third) {
		t.Error("a response that has begun makes no room")
	}
	g.begun(0, 1, resilience.Failed)
	if has(fourth) {
		t.Error("four are on their way where three may be")
	}
	g.leave(true)
	if !has(fourth) {
		t.Error("a response that has ended makes no room")
	}
	g.leave(true)
	g.leave(false)
	g.leave(false)
	if !g.idle() || g.awaiting != 0 {
		t.Errorf("%+v is left, %d of them wait for responses", g.stand(), g.awaiting)
	}
	g.enter(&rules{most: 1}, "up")
	if g.stand().gradient != nil {
		t.Error("it is adaptive still")
	}
}

// BenchmarkGateAbandon leaves queues from their middle, which takes the same however long
// they are.
func BenchmarkGateAbandon(b *testing.B) {
	for _, n := range []int{100, 100_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var g gate
			r := &rules{most: 1, queue: n}
			all := make([]*waiter, n)
			g.enter(r, "")
			for i := range all {
				all[i], _ = g.enter(r, "")
			}
			for i := 0; b.Loop(); i++ {
				at := (n/2 + i) % n
				g.abandon(all[at])
				all[at], _ = g.enter(r, "")
			}
		})
	}
}
