package resilience

import "math"

const (
	bandParts   = 60 // of the window
	bandLearned = 10 // values, after which a band is known
)

// band is between what a value usually is and what it seldom exceeds: a moving average,
// and the standard deviation of the residuals of a window, as a share of the average. It
// is guarded by whoever holds it.
//
// What leaves the band hardly moves it: a crowd that comes at once does not make itself
// usual, and one that stays is usual in the end.
type band struct {
	mean  float64
	sigma float64
	at    int
	known int // values, until the band is
	held  int // residuals
	parts [bandParts]float32
}

// top is what the value seldom exceeds.
func (b *band) top(upper, least float64) float64 {
	return b.mean * (1 + upper*max(b.sigma, least))
}

func (b *band) learned() bool { return b.known >= bandLearned }

// learn takes a value in that is inside of the band, with the weight alpha.
func (b *band) learn(value, alpha float64) {
	if b.known == 0 {
		b.mean = value
	}
	b.known = min(b.known+1, bandLearned)
	if b.mean > 0 {
		b.parts[b.at] = float32((value - b.mean) / b.mean)
		b.at = (b.at + 1) % bandParts
		b.held = min(b.held+1, bandParts)
		b.sigma = deviation(b.parts[:b.held])
	}
	b.mean += alpha * (value - b.mean)
}

// stray takes in that a value is outside, and the band reaches up to top: it follows as if
// the whole window had been one value.
func (b *band) stray(top, alpha float64) { b.mean += alpha / bandParts * (top - b.mean) }

func deviation(parts []float32) float64 {
	var sum, squares float64
	for _, part := range parts {
		sum += float64(part)
		squares += float64(part) * float64(part)
	}
	n := float64(len(parts))
	return math.Sqrt(max(0, squares/n-sum/n*sum/n))
}
