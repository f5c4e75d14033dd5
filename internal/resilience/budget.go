package resilience

import "sync/atomic"

// floor is how many repetitions there may be at once however little else there is.
const floor = 3

// Budget bounds repetitions by what is in flight, so that many failures do not become
// many times the load. The zero value is ready.
type Budget struct {
	inFlight  atomic.Int64
	repeating atomic.Int64
}

// Enter counts an exchange that begins, however often it is tried. Leave follows.
func (b *Budget) Enter() { b.inFlight.Add(1) }

// Leave counts an exchange that has ended.
func (b *Budget) Leave() {
	if b.inFlight.Add(-1) < 0 {
		panic("BUG: an exchange left that had not entered")
	}
}

// Take asks for a repetition: there may be three at once, or the given share of the
// exchanges in flight, 0 to 1, if that is more. If true, Give follows when it has
// ended.
func (b *Budget) Take(share float64) bool {
	for {
		n := b.repeating.Load()
		if n >= floor && !within(n+1, b.inFlight.Load(), share) {
			return false
		}
		if b.repeating.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// within tells whether n is at most a share of all. It divides: 29 of 100 is 29%, and
// 0.29 times 100 is less than 29. None is a share of nothing.
func within(n, all int64, share float64) bool {
	return float64(n)/float64(all) <= share
}

// Give counts a repetition that has ended.
func (b *Budget) Give() {
	if b.repeating.Add(-1) < 0 {
		panic("BUG: a repetition was given back that was not taken")
	}
}

// Status returns the exchanges in flight and the repetitions among them.
func (b *Budget) Status() (inFlight, repeating int64) {
	return b.inFlight.Load(), b.repeating.Load()
}
