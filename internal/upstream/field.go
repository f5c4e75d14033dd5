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

// open are the endpoints that an attempt may go to: those that were not tried and
// whose own circuit breaker lets it pass. It may be empty.
func (f *field) open(memory *room, tried []*Endpoint, now time.Time) field {
	endpoints, weights, total, least := memory.endpoints[:0], memory.weights[:0], 0, 0
	for i, e := range f.endpoints {
		if among(tried, e) || !e.ready(now) {
			continue
		}
		weight := f.weights[i]
		if least == 0 || weight < least {
			least = weight
		}
		endpoints, weights, total = append(endpoints, e), append(weights, weight), total+weight
	}
	return field{endpoints, weights, total, least}
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
