package resilience

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// send makes a request and returns its permit, which the test fails without.
func send(t *testing.T, b *Breaker, now time.Time) Permit {
	t.Helper()
	p, _, ok := b.Allow(now)
	if !ok {
		t.Fatalf("%v: refused while %v", now.Sub(epoch), b.Status(now).State)
	}
	return p
}

// requestsOf makes one request for each letter, every 10 ms from at on: s succeeds,
// f fails, l succeeds slowly.
func requestsOf(t *testing.T, b *Breaker, at int, letters string) {
	t.Helper()
	for i, letter := range letters {
		took := time.Millisecond
		if letter == 'l' {
			took = 3 * time.Second
		}
		now := after(at + 10*i)
		send(t, b, now).Done(now, letter == 'f', took)
	}
}

func TestBreakerOpens(t *testing.T) {
	rate := BreakerSettings{Window: 10 * time.Second, MinRequests: 20, ErrorRate: 0.55, OpenFor: time.Second}
	slow := BreakerSettings{Window: 10 * time.Second, MinRequests: 5, SlowAfter: 2 * time.Second, SlowRate: 0.8, OpenFor: time.Second}
	row := BreakerSettings{Window: 10 * time.Second, MinRequests: 20, Consecutive: 3, OpenFor: time.Second}
	one := BreakerSettings{Window: time.Second, ErrorRate: 0.01, OpenFor: time.Second}
	for _, c := range []struct {
		name     string
		settings BreakerSettings
		requests string // none but the last opens
		reason   string // empty: not even the last
	}{
		{"failures in a row", row, "ffsfff", "3 failures in a row"},
		{"not in a row", row, "ffsffsff", ""},
		{"a single failure", BreakerSettings{Consecutive: 1, OpenFor: time.Second}, "sf", "a failure"},
		{"error rate, just reached", rate, strings.Repeat("f", 11) + strings.Repeat("s", 9), "error rate 55% of 20 requests in 10s"},
		{"error rate, just missed", rate, strings.Repeat("f", 10) + strings.Repeat("s", 10), ""},
		{"error rate of too few", rate, strings.Repeat("f", 19), ""},
		{"error rate of one", one, "f", "error rate 100% of 1 request in 1s"},
		{"slow, not enough", slow, "slslslll", ""},
		{"slow", slow, "sllll", "80% of 5 requests in 10s took longer than 2s"},
		{"slow failures are failures", slow, "fffff", ""},
		{"slowness does not matter", row, "llllllllll", ""},
		{"nothing matters", BreakerSettings{}, "ffffffffffffffff", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var told []Transition
			b := NewBreaker(c.settings, func(transition Transition) { told = append(told, transition) })
			requestsOf(t, b, 0, c.requests)
			last := after(10 * (len(c.requests) - 1))
			var want []Transition
			if c.reason != "" {
				want = []Transition{{From: Closed, To: Open, Reason: c.reason, At: last}}
			}
			if diff := cmp.Diff(want, told); diff != "" {
				t.Errorf("transitions (-want +got):\n%s", diff)
			}
			if _, _, ok := b.Allow(last); ok == (c.reason != "") {
				t.Errorf("another one passes: %v", ok)
			}
		})
	}
}

// TestBreakerForgets lets failures grow old before there are enough.
func TestBreakerForgets(t *testing.T) {
	s := BreakerSettings{Window: time.Second, MinRequests: 4, ErrorRate: 0.5, OpenFor: time.Second}
	b := NewBreaker(s, nil)
	requestsOf(t, b, 0, "fff")
	requestsOf(t, b, 1200, "sff")
	if got := b.Status(after(1300)); got.State != Closed || got.Requests != 3 || got.Failures != 2 {
		t.Errorf("after more than the window: %+v", got)
	}
	requestsOf(t, b, 1400, "f")
	if got := b.Status(after(1400)); got.State != Open {
		t.Errorf("with enough in the window: %+v", got)
	}
}

// TestBreakerCycle goes through all states, with what people see of each.
func TestBreakerCycle(t *testing.T) {
	var told []Transition
	s := BreakerSettings{Window: 10 * time.Second, Consecutive: 2, SlowAfter: time.Second, SlowRate: 1, MinRequests: 50, OpenFor: 30 * time.Second, MaxConcurrent: 2, Successes: 3}
	b := NewBreaker(s, func(transition Transition) { told = append(told, transition) })
	status := func(at int, want BreakerStatus) {
		t.Helper()
		if diff := cmp.Diff(want, b.Status(after(at))); diff != "" {
			t.Errorf("status after %d ms (-want +got):\n%s", at, diff)
		}
	}
	refused := func(at int, want time.Duration) {
		t.Helper()
		if b.Ready(after(at)) {
			t.Errorf("ready after %d ms", at)
		}
		if _, wait, ok := b.Allow(after(at)); ok || wait != want {
			t.Errorf("after %d ms: %v, wait %v, want %v", at, ok, wait, want)
		}
	}
	status(0, BreakerStatus{})
	requestsOf(t, b, 0, "sff")
	open := BreakerStatus{
		State: Open, Since: after(20), Reason: "2 failures in a row", Requests: 3, Failures: 2, Consecutive: 2, ProbeAt: after(30_020),
	}
	status(20, open)
	refused(20, 30*time.Second)
	refused(30_019, time.Millisecond)

	// Nobody asked: it is open still.
	open.Requests, open.Failures = 0, 0
	status(40_000, open)
	first, second := send(t, b, after(40_000)), send(t, b, after(40_001))
	refused(40_002, whenFull)
	first.Done(after(40_003), false, time.Millisecond)
	status(40_003, BreakerStatus{State: HalfOpen, Since: after(40_000), Reason: "open_for of 30s is over", Consecutive: 2, Probing: 1, Successes: 1})
	third := send(t, b, after(40_004))
	third.Drop(after(40_005))
	fourth := send(t, b, after(40_006))
	refused(40_007, whenFull)
	fourth.Done(after(40_008), false, time.Second) // not longer than
	second.Done(after(40_009), false, 2*time.Second)
	refused(40_009, 30*time.Second)

	now := after(80_000)
	for range 3 {
		send(t, b, now).Done(now, false, 0)
	}
	status(80_000, BreakerStatus{Since: now, Reason: "3 probes succeeded"})
	want := []Transition{
		{Closed, Open, "2 failures in a row", after(20)},
		{Open, HalfOpen, "open_for of 30s is over", after(40_000)},
		{HalfOpen, Open, "a probe took longer than 1s", after(40_009)},
		{Open, HalfOpen, "open_for of 30s is over", now},
		{HalfOpen, Closed, "3 probes succeeded", now},
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("transitions (-want +got):\n%s", diff)
	}
}

// TestBreakerEarlierResults lets results come when the state they belong to is over.
func TestBreakerEarlierResults(t *testing.T) {
	s := BreakerSettings{Window: time.Second, Consecutive: 1, OpenFor: time.Second, MaxConcurrent: 2, Successes: 1}
	b := NewBreaker(s, nil)
	state := func(want State) {
		t.Helper()
		if got := b.Status(after(5000)).State; got != want {
			t.Fatalf("the breaker is %v, want %v", got, want)
		}
		if b.Closed() != (want == Closed) {
			t.Fatalf("the breaker is %v, and Closed is %v", want, b.Closed())
		}
	}
	closed, closed2, closed3 := send(t, b, epoch), send(t, b, epoch), send(t, b, epoch)
	closed3.Done(epoch, false, 0)
	send(t, b, epoch).Done(epoch, true, 0)
	closed.Done(after(100), true, 0) // does not open it for longer
	if _, wait, _ := b.Allow(after(100)); wait != 900*time.Millisecond {
		t.Errorf("open for another %v", wait)
	}
	probe, probe2 := send(t, b, after(1000)), send(t, b, after(1000))
	closed2.Done(after(1000), false, 0)
	state(HalfOpen)
	closed3.Late(after(1000))
	state(HalfOpen)
	probe.Done(after(1001), true, 0)
	state(Open)
	probe2.Done(after(1001), false, 0)
	state(Open)
	half, half2, late := send(t, b, after(3000)), send(t, b, after(3000)), after(3001)
	probe2.Drop(late)
	if b.Ready(late) {
		t.Error("a probe of an earlier time gave its place back")
	}
	half.Done(late, false, 0)
	state(Closed)
	half2.Done(late, true, 0)
	half.Late(late)
	state(Closed)
}

func TestBreakerLate(t *testing.T) {
	s := BreakerSettings{Window: time.Second, MinRequests: 4, ErrorRate: 0.5, OpenFor: time.Second, MaxConcurrent: 1, Successes: 2}
	b := NewBreaker(s, nil)
	p := send(t, b, epoch)
	p.Done(epoch, false, 0)
	requestsOf(t, b, 0, "ss")
	p.Late(after(500))
	if got := b.Status(after(500)); got.Requests != 3 || got.Failures != 1 || got.Consecutive != 1 {
		t.Errorf("a late failure is of a request that was counted: %+v", got)
	}
	if got := b.Status(after(1100)); got.Requests != 1 || got.Failures != 1 {
		t.Errorf("a late failure whose request is forgotten: %+v", got)
	}
	requestsOf(t, b, 1100, "sf")
	if got := b.Status(after(1110)); got.State != Closed || got.Requests != 2 || got.Failures != 2 {
		t.Errorf("before there are enough: %+v", got)
	}
	requestsOf(t, b, 1120, "ff")
	if got := b.Status(after(1200)).State; got != Open {
		t.Fatalf("the breaker is %v", got)
	}
	p = send(t, b, after(3000))
	p.Done(after(3000), false, 0)
	p.Late(after(3001))
	if got := b.Status(after(3001)); got.State != Open || got.Reason != "a probe failed" {
		t.Errorf("a probe's response broke off: %+v", got)
	}
}

func TestPermitOfNobody(t *testing.T) {
	var p Permit
	p.Done(epoch, true, 0)
	p.Late(epoch)
	p.Drop(epoch)
}

func TestStateNames(t *testing.T) {
	for state, want := range map[State]string{Closed: "closed", Open: "open", HalfOpen: "half_open", 7: "unknown"} {
		if got := state.String(); got != want {
			t.Errorf("state %d is %q, want %q", state, got, want)
		}
	}
}

// TestToldUsesBreaker lets what is told ask the breaker, and bring about the next
// transitions itself, which it learns of one after another.
func TestToldUsesBreaker(t *testing.T) {
	var b *Breaker
	var told []State
	b = NewBreaker(BreakerSettings{Consecutive: 1, OpenFor: time.Second}, func(transition Transition) {
		told = append(told, transition.To)
		if transition.To != Open {
			return
		}
		if got := b.Status(transition.At).State; got != Open {
			t.Errorf("told that it is open while it is %v", got)
		}
		send(t, b, after(1000)).Done(after(1000), false, 0)
		if len(told) != 1 {
			t.Error("a transition was told within another")
		}
	})
	requestsOf(t, b, 0, "f")
	if diff := cmp.Diff([]State{Open, HalfOpen, Closed}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// TestToldPanics lets one telling go wrong: the breaker goes on, and tells the next.
func TestToldPanics(t *testing.T) {
	told := 0
	b := NewBreaker(BreakerSettings{Consecutive: 1, OpenFor: time.Second}, func(Transition) {
		if told++; told == 1 {
			panic("told")
		}
	})
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		requestsOf(t, b, 0, "f")
	}()
	send(t, b, after(1000))
	if told != 2 {
		t.Errorf("told %d times", told)
	}
}

// TestBreakerConcurrently lets many use one breaker, and holds it to what must be so
// whoever comes first.
func TestBreakerConcurrently(t *testing.T) {
	var mu sync.Mutex
	var told []Transition
	s := BreakerSettings{Window: 50 * time.Millisecond, MinRequests: 5, ErrorRate: 0.5, Consecutive: 4, OpenFor: 20 * time.Millisecond, MaxConcurrent: 3, Successes: 4}
	b := NewBreaker(s, func(transition Transition) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, transition)
	})
	var clock atomic.Int64
	probes := make([]atomic.Int32, 1<<16) // by the number of the epoch
	var group sync.WaitGroup
	for worker := range 8 {
		group.Go(func() {
			for i := range 4000 {
				now := epoch.Add(time.Duration(clock.Add(1)) * 50 * time.Microsecond)
				p, wait, ok := b.Allow(now)
				if !ok {
					if wait <= 0 {
						t.Errorf("refused with a wait of %v", wait)
					}
					continue
				}
				var under *atomic.Int32
				if stateOf(p.epoch) == HalfOpen {
					under = &probes[p.epoch/epochStep%uint64(len(probes))]
					if n := under.Add(1); n > 3 {
						t.Errorf("%d probes at once", n)
					}
				}
				b.Ready(now)
				b.Status(now)
				if under != nil {
					under.Add(-1)
				}
				switch failed := (i/100+worker)%3 == 0; {
				case i%17 == 0:
					p.Drop(now)
				default:
					p.Done(now, failed, 0)
					if !failed && i%13 == 0 {
						p.Late(now)
					}
				}
			}
		})
	}
	group.Wait()
	lawful(t, told)
	if len(told) < 10 {
		t.Errorf("%d transitions only", len(told))
	}
	if got := b.Status(epoch); got.Probing != 0 || got.State != told[len(told)-1].To {
		t.Errorf("at the end: %+v", got)
	}
}
