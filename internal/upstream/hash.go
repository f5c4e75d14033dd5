package upstream

import "math"

// Score is what one of several has for a key, by weighted rendezvous hashing
// (Thaler and Ravishankar 1998; Schindelhauer and Schomaker 2005): the one with
// the highest score gets the key. Who comes or gains takes its share from the
// others evenly and nothing moves among those; who leaves gives its share to them
// alike. seed tells those who share keys apart; a weight of 0 never wins.
func Score(key, seed uint64, weight int) float64 { return score(draw(key, seed), weight) }

func score(drawn float64, weight int) float64 { return -float64(weight) / math.Log(drawn) }

// draw is a number in (0, 1), never its ends.
func draw(key, seed uint64) float64 {
	return (float64(mix(key^seed)>>11) + 0.5) / (1 << 53)
}

// mix spreads a difference of one bit over all (Steele and others 2014, as in
// SplittableRandom).
func mix(z uint64) uint64 {
	z ^= z >> 30
	z *= 0xbf58476d1ce4e5b9
	z ^= z >> 27
	z *= 0x94d049bb133111eb
	return z ^ z>>31
}

// hashed is the endpoint to which a key belongs. Slow start counts not: it would
// move keys twice.
func (f *field) hashed(key uint64) *Endpoint {
	var best *Endpoint
	highest, drawn := math.Inf(-1), 0.0
	for _, e := range f.endpoints {
		d := draw(key, e.seed)
		if best != nil && d <= drawn && e.Weight <= best.Weight {
			continue // it cannot win, and a logarithm takes longer than all else
		}
		if s := score(d, e.Weight); s > highest {
			best, highest, drawn = e, s, d
		}
	}
	return best
}
