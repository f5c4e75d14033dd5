package upstream

import (
	"sync/atomic"
	"time"

	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/resilience"
)

// Endpoint is one endpoint of a group, with the transport to it.
type Endpoint struct {
	model.Endpoint
	Transport pipeline.Transport
	breaker   *resilience.Breaker // of its own; nil: none
	seed      uint64              // of its scores
	token     string              // what a sticky cookie has for it
	state     *state
}

// health is what checks have found of an endpoint.
type health uint32

const (
	unknown health = iota
	healthy
	unhealthy
)

// String is the word for people and the admin API.
func (h health) String() string { return [...]string{"unknown", "healthy", "unhealthy"}[h] }

// state is what is known of an endpoint over all snapshots.
type state struct {
	active   atomic.Int64
	requests atomic.Int64
	failures atomic.Int64
	drained  atomic.Bool
	latency  resilience.Average
	outcomes resilience.Outcomes

	// What follows is guarded by shared.mu.

	current  int // the position of the smooth weighted round robin
	health   health
	fault    string // of the last check; empty: none
	checkers int    // how many check it now: two, while a snapshot with other checks takes over
	ejection resilience.Ejection
	ejected  bool      // until it is noticed that the time is over
	back     time.Time // since when it is there again: it starts slowly from then on; zero: from the beginning
}

// ready tells whether the endpoint's own circuit breaker lets an attempt pass.
func (e *Endpoint) ready(now time.Time) bool { return e.breaker == nil || e.breaker.Ready(now) }

// among tells whether a list has an endpoint, be it as another snapshot has it.
func among(list []*Endpoint, e *Endpoint) bool {
	for _, one := range list {
		if one.state == e.state {
			return true
		}
	}
	return false
}

// scale is how finely a weight is divided while an endpoint starts slowly.
const scale = 100

// starting tells until when an endpoint starts slowly, where now it does. The caller
// holds the lock.
func (s *state) starting(slow time.Duration, now time.Time) (until time.Time, starts bool) {
	if slow == 0 || s.back.IsZero() {
		return time.Time{}, false
	}
	until = s.back.Add(slow)
	return until, now.Before(until)
}

// weight is the endpoint's share now, in parts of scale, at least one. The caller
// holds the lock.
func (e *Endpoint) weight(slow time.Duration, now time.Time) int {
	whole := e.Weight * scale
	if _, starts := e.state.starting(slow, now); !starts {
		return whole
	}
	return max(1, int(float64(whole)*float64(now.Sub(e.state.back))/float64(slow)))
}
