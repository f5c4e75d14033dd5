package upstream

import "math"

// Score is what one of several has for a key, by weighted rendezvous hashing
// (Thaler and Ravishankar 1998; Schindelhauer and Schomaker 2005): the one with
// the highest score gets the key. Who comes or gains takes its share from the
// others evenly and nothing moves among those; who leaves gives its share to them
// alike. seed tells those who share keys apart; a weight of 0 never wins.
func Score(key, seed uint64, weight int) float64 {
	// In (0, 1), never its ends.
	u := (float64(mix(key^seed)>>11) + 0.5) / (1 << 53)
	return -float64(weight) / math.Log(u)
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
func hashed(among []*Endpoint, key uint64) *Endpoint {
	var best *Endpoint
	highest := math.Inf(-1)
	for _, e := range among {
		if score := Score(key, e.seed, e.Weight); score > highest {
			best, highest = e, score
		}
	}
	return best
}
