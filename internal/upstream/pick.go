package upstream

import (
	"math"
	"time"

	"github.com/cespare/xxhash/v2"

	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// pick chooses one of the endpoints of a field, which has some, by the upstream's
// policy.
func (g *Group) pick(x *pipeline.Exchange, f *field, now time.Time) *Endpoint {
	if len(f.endpoints) == 1 {
		return f.endpoints[0]
	}
	switch g.Balancer.Policy {
	case model.LeastConnections:
		return g.idlest(f)
	case model.PowerOfTwo:
		return g.ofTwo(f, now)
	case model.RandomChoice:
		i, _ := f.at(g.shared.random(f.total))
		return f.endpoints[i]
	case model.ConsistentHash:
		if key, there := pipeline.KeyOf(x, g.Balancer.HashOn); there {
			return f.hashed(xxhash.Sum64String(key))
		}
	case model.StickyCookie:
		if e := g.kept(x, f); e != nil {
			return e
		}
	}
	return g.turn(f, math.Inf(1))
}

// turn is smooth weighted round robin as nginx has it, among the endpoints whose load
// is at most so much: each gains its weight, the one that is ahead is taken and pays
// the sum. nil: there is none.
func (g *Group) turn(f *field, most float64) *Endpoint {
	g.shared.mu.Lock()
	defer g.shared.mu.Unlock()
	total, all := 0, math.IsInf(most, 1)
	var best *state
	var at int
	for i, e := range f.endpoints {
		weight := f.weights[i]
		if !all && load(e, weight) > most {
			continue
		}
		total += weight
		// A position from before a reload may be out of all proportion to the
		// weights of now.
		s := e.state
		s.current = min(max(s.current, -f.total), f.total) + weight
		if best == nil || s.current > best.current {
			best, at = s, i
		}
	}
	if best == nil {
		return nil
	}
	best.current -= total
	return f.endpoints[at]
}

// load is how many attempts are under way for a part of a weight.
func load(e *Endpoint, weight int) float64 { return float64(e.state.active.Load()) / float64(weight) }

// idlest is the endpoint with the fewest attempts under way for its weight. Those
// that are equal take turns.
func (g *Group) idlest(f *field) *Endpoint {
	best, least, equals := 0, math.Inf(1), 0
	for i, e := range f.endpoints {
		switch l := load(e, f.weights[i]); {
		case l < least:
			best, least, equals = i, l, 1
		case l == least:
			equals++
		}
	}
	if equals > 1 {
		if e := g.turn(f, least); e != nil {
			return e
		}
	}
	return f.endpoints[best]
}

// ofTwo is the cheaper of two random endpoints (Mitzenmacher 2001). An endpoint counts
// as so many as its weight is of the least one, and two of those are drawn: so each
// has its share where all cost the same, one with much weight may meet itself, and
// among equals nobody does.
func (g *Group) ofTwo(f *field, now time.Time) *Endpoint {
	i, first := f.at(g.shared.random(f.total))
	other := g.shared.random(f.total - f.least)
	if other >= first+f.weights[i]-f.least {
		other += f.least // past the one that is drawn
	}
	j, _ := f.at(other)
	if j != i && f.cost(j, now) < f.cost(i, now) {
		return f.endpoints[j]
	}
	return f.endpoints[i]
}

// unmeasured stands for the latency of an endpoint of which none is known while
// it is busy: it is not flooded before its first answer.
const unmeasured = time.Second

// cost is the peak EWMA of an endpoint's latency times the attempts that it would
// have for its weight, as Finagle has it.
func (f *field) cost(i int, now time.Time) float64 {
	s := f.endpoints[i].state
	active, latency := s.active.Load(), s.latency.Value(now)
	if latency == 0 {
		if active == 0 {
			return 0
		}
		latency = unmeasured
	}
	return float64(latency) * (1 + float64(active)*float64(f.least)/float64(f.weights[i]))
}
