package upstream

import "time"

// field is endpoints among which one is chosen, with their shares.
type field struct {
	endpoints []*Endpoint
	weights   []int // of each, above 0
	total     int   // of all
	least     int   // of one
}

func (f *field) add(e *Endpoint, weight int) {
	f.endpoints, f.weights = append(f.endpoints, e), append(f.weights, weight)
	f.total += weight
	if f.least == 0 || weight < f.least {
		f.least = weight
	}
}

// at is the endpoint that has the nth part of all shares, and the first part that it
// has.
func (f *field) at(n int) (i, first int) {
	for i, weight := range f.weights {
		if n < first+weight {
			return i, first
		}
		first += weight
	}
	panic("BUG: a part of the shares is nobody's")
}

// room is memory for a field that is needed for one choice. A larger one is
// allocated.
type room struct {
	endpoints [16]*Endpoint
	weights   [16]int
}

// open are the endpoints of a view that an attempt may go to: those that were not
// tried and whose own circuit breaker lets it pass; where there are none, those that
// were tried and do. It may be empty.
func (g *Group) open(usable *field, tried []*Endpoint, now time.Time, memory *room) field {
	if len(tried) == 0 && !g.barred(usable, now) {
		return *usable
	}
	only := func(want func(*Endpoint) bool) field {
		f := field{endpoints: memory.endpoints[:0], weights: memory.weights[:0]}
		for i, e := range usable.endpoints {
			if want(e) {
				f.add(e, usable.weights[i])
			}
		}
		return f
	}
	f := only(func(e *Endpoint) bool { return !among(tried, e) && e.ready(now) })
	if len(f.endpoints) == 0 {
		f = only(func(e *Endpoint) bool { return e.ready(now) })
	}
	return f
}

// barred tells whether the own circuit breaker of an endpoint lets nothing pass.
func (g *Group) barred(usable *field, now time.Time) bool {
	if g.breaker != nil || g.Breaker == nil {
		return false
	}
	for _, e := range usable.endpoints {
		if !e.ready(now) {
			return true
		}
	}
	return false
}
