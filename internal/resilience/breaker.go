package resilience

import (
	"sync"
	"sync/atomic"
	"time"
)

// State is whether a breaker lets requests through.
type State uint8

// The states of a breaker. It goes from Closed to Open, from Open to HalfOpen, and
// from HalfOpen to either; never from Open to Closed.
const (
	Closed   State = iota // all pass
	Open                  // none does
	HalfOpen              // some do, as probes
)

// String returns the state's name in logs, metrics and status.
func (s State) String() string {
	switch s {
	case Closed:
		return "closed"
	case Open:
		return "open"
	case HalfOpen:
		return "half_open"
	}
	return "unknown"
}

// BreakerSettings are when a breaker opens and how it closes again.
type BreakerSettings struct {
	Window      time.Duration // in which requests count for the rates
	MinRequests int           // in the window, below which no rate matters
	ErrorRate   float64       // of the requests, 0 to 1, that opens it; 0: does not matter
	Consecutive int           // failures in a row that open it; 0: does not matter
	SlowAfter   time.Duration // a request that took longer is slow
	SlowRate    float64       // of the requests, 0 to 1, that opens it when slow; 0: slowness does not matter

	OpenFor       time.Duration // from opening until the first probe
	MaxConcurrent int           // probes at once; at least one
	Successes     int           // of probes that close it; at least one
}

// Transition is a breaker's going from one state to another.
type Transition struct {
	From, To State
	Reason   string // for people
	At       time.Time
}

// Breaker is a circuit breaker. Where it is closed, letting a request through takes
// one atomic load, and its result a lock that is held for some tens of nanoseconds; neither
// allocates.
type Breaker struct {
	settings BreakerSettings
	told     func(Transition)

	// epoch is the state now and which of all the times that the breaker was in one:
	// what an earlier epoch let through has no say in this one. It is written with
	// mu held.
	epoch atomic.Uint64

	mu          sync.Mutex
	since       time.Time // of the last transition; zero: there was none
	reason      string    // of it
	window      Window    // what became of requests since it closed
	consecutive int       // failures in a row since then
	probing     int       // probes under way in this epoch
	successes   int       // of probes in this epoch
	untold      Untold[Transition]
}

// NewBreaker returns a closed breaker. told, which may be nil, is called after each
// transition, one call at a time and in their order, with no lock held; the goroutine
// that brings about a transition may leave it to another that is still telling an
// earlier one.
func NewBreaker(s BreakerSettings, told func(Transition)) *Breaker {
	s.MaxConcurrent = max(s.MaxConcurrent, 1)
	s.Successes = max(s.Successes, 1)
	return &Breaker{settings: s, told: told, window: NewWindow(s.Window)}
}

// An epoch has its number above its state.
const (
	epochStep  = 1 << 2
	epochState = epochStep - 1
)

func stateOf(epoch uint64) State { return State(epoch & epochState) }

// whenFull is how long to wait for a place among the probes: some answer will have
// come, this way or that.
const whenFull = 100 * time.Millisecond

// Allow decides about a request. ok: it may go, and its permit is to be given back
// with Done or Drop. Otherwise wait, which is positive, is how long the breaker stays
// open, or when there may be a place among the probes.
//
// Probes keep their places until they are given back, so whoever makes requests
// bounds the time that they take.
func (b *Breaker) Allow(now time.Time) (p Permit, wait time.Duration, ok bool) {
	if epoch := b.epoch.Load(); stateOf(epoch) == Closed {
		return Permit{b, epoch}, 0, true
	}
	b.mu.Lock()
	defer b.unlock()
	switch b.state() {
	case Closed:
		return Permit{b, b.epoch.Load()}, 0, true
	case Open:
		if wait = b.since.Add(b.settings.OpenFor).Sub(now); wait > 0 {
			return Permit{}, wait, false
		}
		b.enter(HalfOpen, now, b.rested())
	case HalfOpen:
		if b.probing >= b.settings.MaxConcurrent {
			return Permit{}, whenFull, false
		}
	}
	b.probing++
	return Permit{b, b.epoch.Load()}, 0, true
}

// Ready tells whether Allow would let a request through, and takes nothing.
func (b *Breaker) Ready(now time.Time) bool {
	if stateOf(b.epoch.Load()) == Closed {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.state() {
	case Open:
		return !now.Before(b.since.Add(b.settings.OpenFor))
	case HalfOpen:
		return b.probing < b.settings.MaxConcurrent
	case Closed:
	}
	return true
}

// Closed tells whether the breaker is closed.
func (b *Breaker) Closed() bool { return stateOf(b.epoch.Load()) == Closed }

// Permit is one request that a breaker let through. The zero value belongs to no
// breaker, and its methods do nothing.
type Permit struct {
	breaker *Breaker
	epoch   uint64
}

// Done gives the permit back with what became of the request. It or Drop is called
// exactly once. A result that comes when the breaker's state is another one than at
// Allow, or the same for another time, changes nothing.
func (p Permit) Done(now time.Time, failed bool, took time.Duration) {
	b := p.breaker
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	if b.epoch.Load() != p.epoch {
		return
	}
	slow := b.settings.SlowRate > 0 && took > b.settings.SlowAfter
	if stateOf(p.epoch) == HalfOpen {
		b.probing--
		b.probed(now, failed, slow)
		return
	}
	result := Tally{Requests: 1}
	if failed {
		result.Failures = 1
		b.consecutive++
	} else {
		b.consecutive = 0
	}
	if slow {
		result.Slow = 1
	}
	b.window.Add(now, result)
	b.judge(now)
}

// Drop gives the permit back of a request that says nothing of its destination: the
// client has left.
func (p Permit) Drop(now time.Time) {
	b := p.breaker
	if b == nil || stateOf(p.epoch) != HalfOpen {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.epoch.Load() == p.epoch {
		b.probing--
	}
}

// Late makes a failure of a request that was Done as a success, at most once: its
// response broke off. It counts like one that came now, unless the state has changed
// since Allow.
func (p Permit) Late(now time.Time) {
	b := p.breaker
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.unlock()
	if b.epoch.Load() != p.epoch {
		return
	}
	if stateOf(p.epoch) == HalfOpen {
		b.probed(now, true, false)
		return
	}
	b.consecutive++
	b.window.Add(now, Tally{Failures: 1})
	b.judge(now)
}
