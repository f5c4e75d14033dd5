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
	highest := 0.0
	for _, e := range f.endpoints {
		drawn := draw(key, e.seed)
		// A logarithm takes longer than all else, and -log(x) is at least 1-x: it is
		// spared whoever cannot win even so.
		if float64(e.Weight) <= highest*(1-drawn) {
			continue
		}
		if s := score(drawn, e.Weight); s > highest {
			best, highest = e, s
		}
	}
	return best
}
