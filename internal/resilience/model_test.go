package resilience

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// history is settings and steps, made of bytes; where they end, zeros follow.
type history struct{ rest []byte }

// next returns a number below n.
func (h *history) next(n int) int {
	if len(h.rest) == 0 {
		return 0
	}
	b := h.rest[0]
	h.rest = h.rest[1:]
	return int(b) % n
}

func (h *history) settings() BreakerSettings {
	return BreakerSettings{
		Window:        time.Duration(1+h.next(3)) * time.Second,
		MinRequests:   1 + h.next(8),
		ErrorRate:     []float64{0, 0.29, 0.5, 0.55, 0.7, 1}[h.next(6)],
		Consecutive:   h.next(6),
		SlowAfter:     100 * time.Millisecond,
		SlowRate:      []float64{0, 0.3, 0.58, 1}[h.next(4)],
		OpenFor:       time.Duration(1+h.next(20)) * 100 * time.Millisecond,
		MaxConcurrent: 1 + h.next(4),
		Successes:     1 + h.next(4),
	}
}

// pass is a permit of both.
type pass struct {
	permit Permit
	ticket ticket
}

// run is a history that both go through.
type run struct {
	t         *testing.T
	h         *history
	breaker   *Breaker
	reference *reference
	told      []Transition
	now       time.Time
	under     []pass // under way
	succeeded []pass // done as successes, which may fail late
}

// follow goes through a history, and returns the transitions.
func follow(t *testing.T, steps []byte) []Transition {
	t.Helper()
	r := &run{t: t, h: &history{steps}, now: epoch}
	s := r.h.settings()
	r.breaker = NewBreaker(s, func(transition Transition) { r.told = append(r.told, transition) })
	r.reference = &reference{s: s}
	for len(r.h.rest) > 0 {
		r.step()
		r.compare()
	}
	lawful(t, r.told)
	for i, transition := range r.told {
		if transition.Reason == "" {
			t.Errorf("transition %d, %v, has no reason", i, transition)
		}
		r.told[i].Reason = ""
	}
	if diff := cmp.Diff(r.reference.told, r.told); diff != "" {
		t.Errorf("transitions (-reference +breaker):\n%s", diff)
	}
	return r.told
}

// step does the same to both. Times come a little out of order, as those of
// goroutines do that have asked the clock before they wait for a lock.
func (r *run) step() {
	now := r.now.Add(-time.Duration(r.h.next(3)) * 7 * time.Millisecond)
	switch r.h.next(8) {
	case 0, 1, 2:
		permit, wait, ok := r.breaker.Allow(now)
		ticket, wait2, ok2 := r.reference.allow(now)
		if ok != ok2 || wait != wait2 {
			r.t.Fatalf("Allow: %v, wait %v; reference: %v, wait %v", ok, wait, ok2, wait2)
		}
		if ok == (wait > 0) {
			r.t.Fatalf("Allow: %v, and a wait of %v", ok, wait)
		}
		if ok {
			r.under = append(r.under, pass{permit, ticket})
		}
	case 3, 4:
		if p, ok := take(r.h, &r.under); ok {
			failed, took := r.h.next(3) == 0, time.Duration(1+r.h.next(2)*100)*time.Millisecond
			p.permit.Done(now, failed, took)
			r.reference.done(p.ticket, now, failed, took)
			if !failed {
				r.succeeded = append(r.succeeded, p)
			}
		}
	case 5:
		if p, ok := take(r.h, &r.under); ok {
			p.permit.Drop(now)
			r.reference.drop(p.ticket)
		}
	case 6:
		if p, ok := take(r.h, &r.succeeded); ok {
			p.permit.Late(now)
			r.reference.late(p.ticket, now)
		}
	case 7:
		r.now = r.now.Add(time.Duration(r.h.next(256)) * 3 * time.Millisecond)
	}
}

// take removes one that the history chooses.
func take(h *history, from *[]pass) (p pass, ok bool) {
	if len(*from) == 0 {
		return p, false
	}
	i := h.next(len(*from))
	p = (*from)[i]
	*from = append((*from)[:i], (*from)[i+1:]...)
	return p, true
}

// compare holds the breaker to the reference, and both to what must always be so.
func (r *run) compare() {
	got, want := r.breaker.Status(r.now), r.reference.status(r.now)
	got.Reason = ""
	if got != want {
		r.t.Fatalf("status (-reference +breaker):\n%s", cmp.Diff(want, got))
	}
	if got, want := r.breaker.Ready(r.now), r.reference.ready(r.now); got != want {
		r.t.Fatalf("ready: %v, reference: %v", got, want)
	}
	probes := 0
	for _, p := range r.under {
		if p.permit.epoch == r.breaker.epoch.Load() && got.State == HalfOpen {
			probes++
		}
	}
	s := r.breaker.settings
	if got.Probing != probes || probes > s.MaxConcurrent {
		r.t.Fatalf("%d probes are under way, the breaker says %d, %d are allowed", probes, got.Probing, s.MaxConcurrent)
	}
	if got.Successes >= s.Successes {
		r.t.Fatalf("still half open after %d successes, %d are needed", got.Successes, s.Successes)
	}
}

// lawful holds transitions to those that there are, one following the other.
func lawful(t *testing.T, told []Transition) {
	t.Helper()
	state := Closed
	for i, transition := range told {
		if transition.From != state {
			t.Fatalf("transition %d is from %v, the one before led to %v", i, transition.From, state)
		}
		state = transition.To
		switch [2]State{transition.From, state} {
		case [2]State{Closed, Open}, [2]State{Open, HalfOpen}, [2]State{HalfOpen, Open}, [2]State{HalfOpen, Closed}:
		default:
			t.Fatalf("transition %d is from %v to %v", i, transition.From, state)
		}
	}
}

// randomHistory is one of many steps.
func randomHistory(seed uint64) []byte {
	random := rand.New(rand.NewPCG(seed, 0))
	steps := make([]byte, 1500)
	for i := range steps {
		steps[i] = byte(random.Uint32())
	}
	return steps
}

func TestHistories(t *testing.T) {
	count := map[[2]State]int{}
	for seed := range uint64(300) {
		for _, transition := range follow(t, randomHistory(seed)) {
			count[[2]State{transition.From, transition.To}]++
		}
		if t.Failed() {
			t.Fatalf("history of seed %d", seed)
		}
	}
	// Histories in which nothing happens would show nothing.
	for _, transition := range [][2]State{{Closed, Open}, {Open, HalfOpen}, {HalfOpen, Open}, {HalfOpen, Closed}} {
		if count[transition] < 200 {
			t.Errorf("%v to %v: %d times in all histories", transition[0], transition[1], count[transition])
		}
	}
}

func FuzzBreaker(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomHistory(seed))
	}
	f.Fuzz(func(t *testing.T, steps []byte) { follow(t, steps[:min(len(steps), 3000)]) })
}
