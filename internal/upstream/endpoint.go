package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"

	"sluice/internal/lease"
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
	health   atomic.Uint32
	drained  atomic.Bool
	latency  resilience.Average
	outcomes resilience.Outcomes

	// Guarded by shared.mu.
	current  int // the position of the smooth weighted round robin
	ejection resilience.Ejection
	ejected  bool      // until it is noticed that the time is over
	back     time.Time // since when it is there again; it starts slowly from then on

	fault atomic.Pointer[string] // of the last check; nil: none
}

func (s *state) of() health { return health(s.health.Load()) }

// ready tells whether the endpoint's own circuit breaker lets an attempt pass.
func (e *Endpoint) ready(now time.Time) bool { return e.breaker == nil || e.breaker.Ready(now) }

// scale is how finely a weight is divided while an endpoint starts slowly.
const scale = 100

// weight is the endpoint's share now, in parts of scale. The caller holds the lock.
func (e *Endpoint) weight(slow time.Duration, now time.Time) int {
	whole := e.Weight * scale
	if slow == 0 || e.state.back.IsZero() {
		return whole
	}
	return max(1, int(float64(whole)*math.Min(1, math.Max(0, float64(now.Sub(e.state.back))/float64(slow)))))
}

// roll is the endpoints of an upstream at a time.
type roll struct {
	endpoints []*Endpoint // in the order in which they are written
}

// builder makes endpoints.
type builder struct {
	m        *model.Upstream
	shared   *shared
	connect  Connect
	observer Observer
}

// roll makes the endpoints, which set holds.
func (b *builder) roll(set *lease.Set, endpoints []model.Endpoint) *roll {
	r := &roll{}
	var fresh []*Endpoint
	repeated := map[string]int{}
	for _, m := range endpoints {
		// An endpoint may be listed twice, as with two versions.
		n := repeated[m.URL]
		repeated[m.URL]++
		e, isNew := b.endpoint(set, m, n)
		r.endpoints = append(r.endpoints, e)
		if isNew {
			fresh = append(fresh, e)
		}
	}
	if len(fresh) < len(r.endpoints) { // they come to others
		b.shared.mu.Lock()
		defer b.shared.mu.Unlock()
		for _, e := range fresh {
			e.state.back = time.Now()
		}
	}
	return r
}

// endpoint makes an endpoint, and tells whether nothing was known of it.
func (b *builder) endpoint(set *lease.Set, m model.Endpoint, n int) (e *Endpoint, isNew bool) {
	identity := b.m.Name + "\n" + m.URL + "\n" + strconv.Itoa(n)
	sum := sha256.Sum256([]byte("endpoint\n" + identity))
	e = &Endpoint{
		Endpoint: m, Transport: b.connect.Transport(set, b.m, m),
		seed: xxhash.Sum64String("endpoint\n" + identity), token: hex.EncodeToString(sum[:8]),
		state: lease.Acquire(set, "endpoint\n"+identity, func() *state { isNew = true; return &state{} }),
	}
	if b.m.Breaker != nil && b.m.Breaker.Scope == model.ScopeEndpoint {
		e.breaker = acquireBreaker(set, b.m, m.URL, b.observer)
	}
	if b.m.Health != nil {
		b.check(set, e, identity)
	}
	return e, isNew
}
