package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"sluice/internal/lease"
	"sluice/internal/model"
)

// roll is the endpoints of an upstream at a time. It is immutable.
type roll struct {
	endpoints []*Endpoint // in the order in which they are written
}

// builder makes the endpoints of an upstream.
type builder struct {
	m        *model.Upstream
	shared   *shared
	connect  Connect
	observer Observer
}

// roll makes the endpoints, which set holds. One of which nothing was known starts
// slowly where it comes to others that are known: with none, all begin alike.
func (b *builder) roll(set *lease.Set, endpoints []model.Endpoint) *roll {
	r := &roll{}
	var fresh []*Endpoint
	repeated := map[string]int{}
	for _, m := range endpoints {
		// An endpoint may be listed twice, as with two versions.
		n := repeated[m.Place()]
		repeated[m.Place()]++
		e, isNew := b.endpoint(set, m, n)
		r.endpoints = append(r.endpoints, e)
		if isNew {
			fresh = append(fresh, e)
		}
	}
	if len(fresh) < len(r.endpoints) {
		b.shared.mu.Lock()
		defer b.shared.mu.Unlock()
		for _, e := range fresh {
			e.state.back = time.Now()
		}
	}
	return r
}

// endpoint makes the nth endpoint at a place, and tells whether nothing was known of
// it.
func (b *builder) endpoint(set *lease.Set, m model.Endpoint, n int) (e *Endpoint, isNew bool) {
	identity := "endpoint\n" + b.m.Name + "\n" + m.Place() + "\n" + strconv.Itoa(n)
	sum := sha256.Sum256([]byte(identity))
	e = &Endpoint{
		Endpoint: m, Transport: b.connect.Transport(set, b.m, m),
		seed: xxhash.Sum64String(identity), token: hex.EncodeToString(sum[:8]),
		state: lease.Acquire(set, identity, func() *state { isNew = true; return &state{} }),
	}
	if b.m.Breaker != nil && b.m.Breaker.Scope == model.ScopeEndpoint {
		e.breaker = acquireBreaker(set, b.m, m.Place(), m.URL, &b.shared.turned, b.observer)
	}
	if b.m.Health != nil {
		b.check(set, e, identity)
	}
	return e, isNew
}
