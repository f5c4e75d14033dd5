package upstream

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cespare/xxhash/v2"

	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// pick chooses an endpoint that was not tried; where all were, one that was. Its
// error is no_endpoint.
func (g *Group) pick(x *pipeline.Exchange, v *view, tried []*Endpoint, now time.Time) (*Endpoint, error) {
	if v == nil || len(v.usable) == 0 {
		return nil, pipeline.NewError(pipeline.NoEndpoint, g.none(v))
	}
	among := v.usable
	if len(tried) > 0 || g.barred(v.usable, now) {
		among = untried(v.usable, tried, now)
	}
	if len(among) == 1 {
		return among[0], nil
	}
	switch g.Balancer.Policy {
	case model.LeastConnections:
		return g.least(among, v, now), nil
	case model.PowerOfTwo:
		return g.ofTwo(among, v, now), nil
	case model.RandomChoice:
		return g.random(among, v, now), nil
	case model.ConsistentHash:
		if key, there := pipeline.KeyOf(x, g.Balancer.HashOn); there {
			return hashed(among, xxhash.Sum64String(key)), nil
		}
	case model.StickyCookie:
		if token, there := x.Request.Fields.Cookie(g.Balancer.Cookie); there {
			if i := slices.IndexFunc(among, func(e *Endpoint) bool { return e.token == token }); i >= 0 {
				return among[i], nil
			}
		}
	}
	return g.turn(among, v, now), nil
}

// none is why there is no endpoint.
func (g *Group) none(v *view) error {
	if v == nil || len(v.roll.endpoints) == 0 {
		return fmt.Errorf("upstream %s has no endpoint", g.Name())
	}
	return fmt.Errorf("none of the %d endpoints of upstream %s is available", len(v.roll.endpoints), g.Name())
}

func among(list []*Endpoint, e *Endpoint) bool {
	return slices.ContainsFunc(list, func(one *Endpoint) bool { return one.state == e.state })
}

// barred tells whether the own circuit breaker of an endpoint lets nothing pass.
func (g *Group) barred(usable []*Endpoint, now time.Time) bool {
	if g.breaker != nil || g.Breaker == nil {
		return false
	}
	return slices.ContainsFunc(usable, func(e *Endpoint) bool { return !e.ready(now) })
}

// untried leaves out what was tried and what its own circuit breaker closes; all of
// them where nothing is left.
func untried(usable, tried []*Endpoint, now time.Time) []*Endpoint {
	left := make([]*Endpoint, 0, len(usable))
	for _, e := range usable {
		if !among(tried, e) && e.ready(now) {
			left = append(left, e)
		}
	}
	if len(left) > 0 {
		return left
	}
	for _, e := range usable {
		if e.ready(now) {
			left = append(left, e)
		}
	}
	if len(left) > 0 {
		return left
	}
	return usable
}

// turn is smooth weighted round robin as nginx has it: every endpoint gains its
// weight, the one that is ahead is taken and pays the sum.
func (g *Group) turn(among []*Endpoint, _ *view, now time.Time) *Endpoint {
	g.shared.mu.Lock()
	defer g.shared.mu.Unlock()
	total := 0
	for _, e := range among {
		total += e.weight(g.SlowStart, now)
	}
	var best *Endpoint
	for _, e := range among {
		// A position from before a reload may be out of all proportion to the
		// weights of now.
		e.state.current = min(max(e.state.current, -total), total) + e.weight(g.SlowStart, now)
		if best == nil || e.state.current > best.state.current {
			best = e
		}
	}
	best.state.current -= total
	return best
}

// weights calls f with each endpoint and its share of now.
func (g *Group) weights(among []*Endpoint, v *view, now time.Time, f func(i, weight int)) {
	if !v.warming {
		for i, e := range among {
			f(i, e.Weight*scale)
		}
		return
	}
	g.shared.mu.Lock()
	defer g.shared.mu.Unlock()
	for i, e := range among {
		f(i, e.weight(g.SlowStart, now))
	}
}

// least is the endpoint with the fewest attempts under way for its weight. Those
// that are equal take turns.
func (g *Group) least(among []*Endpoint, v *view, now time.Time) *Endpoint {
	first := int(g.shared.start.Add(1)) % len(among)
	best, cost := -1, math.Inf(1)
	g.weights(among, v, now, func(i, weight int) {
		mine := float64(among[i].state.active.Load()+1) / float64(weight)
		if mine < cost || mine == cost && (i-first+len(among))%len(among) < (best-first+len(among))%len(among) {
			best, cost = i, mine
		}
	})
	return among[best]
}

// random is a random endpoint, by weight.
func (g *Group) random(among []*Endpoint, v *view, now time.Time) *Endpoint {
	total := 0
	g.weights(among, v, now, func(_, weight int) { total += weight })
	at, chosen := rand.IntN(total), 0
	g.weights(among, v, now, func(i, weight int) {
		if at >= 0 {
			chosen = i
		}
		at -= weight
	})
	return among[chosen]
}

// unmeasured stands for the latency of an endpoint of which none is known while
// it is busy: it is not flooded before its first answer.
const unmeasured = time.Second

// ofTwo is the cheaper of two random endpoints, by weight: cost is the peak EWMA of
// its latency times the attempts that it would have (Mitzenmacher; Finagle).
func (g *Group) ofTwo(among []*Endpoint, v *view, now time.Time) *Endpoint {
	a := g.random(among, v, now)
	b := a
	for range 8 { // another, if weights give it a chance
		if b = g.random(among, v, now); b != a {
			break
		}
	}
	if b == a {
		b = among[(slices.Index(among, a)+1)%len(among)]
	}
	if b.cost(now) < a.cost(now) {
		return b
	}
	return a
}

func (e *Endpoint) cost(now time.Time) float64 {
	active := e.state.active.Load()
	latency := e.state.latency.Value(now)
	if latency == 0 {
		if active == 0 {
			return 0
		}
		latency = unmeasured
	}
	return float64(latency) * float64(active+1)
}
