package resilience

import (
	"math"
	"sync"
	"time"
)

// AdaptiveRateSettings are how an adaptive rate follows what is usual.
type AdaptiveRateSettings struct {
	Alpha          float64       // weight of the last sixtieth of Window in the average, 0 to 1
	Window         time.Duration // of the standard deviation
	Upper          float64       // standard deviations above the average that are let through
	Floor, Ceiling float64       // requests a second that are let through at least, and at most; 0 < Floor <= Ceiling
	Burst          time.Duration // what the rate lets through in it may come at once
	Cost           int64         // so much may in any case: of a request at most, at least 1
}

// AdaptiveRate is a rate that adapts to what usually comes: the average rate of requests
// plus Upper standard deviations, never under Floor or above Ceiling. What grows slowly
// takes it along; a crowd that comes at once is cut, and becomes usual only if it lasts.
// Until it knows what is usual, ten sixtieths of Window, Ceiling holds; so it does after
// twice Window in which nothing came. The zero value is ready. Times are those of a Bucket.
type AdaptiveRate struct {
	mu     sync.Mutex
	usual  band          // requests a second
	begun  bool          // start is set
	start  time.Duration // of the part that is counted in
	asked  float64       // requests in it
	level  float64       // how full it is, as a share of what may be taken at once
	filled time.Duration // when that was so
}

const (
	// leastRateSigma is what a rate varies at least, as a share: requests of a machine come
	// so evenly that any more would be too many.
	leastRateSigma = 0.05
	// forgotten is after how many parts without a request nothing is usual any more.
	forgotten = 2 * bandParts
	// whole is what a rounding error leaves of a request.
	whole = 1 - 1e-9
)

// Take takes cost, at least 1, if it may be, and counts that it was asked for.
func (r *AdaptiveRate) Take(s *AdaptiveRateSettings, ease Ease, now time.Duration, cost int64) Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.begun {
		r.begun, r.start, r.filled, r.level = true, now, now, 1
	}
	now = max(now, r.filled)
	r.advance(s, ease, now)
	r.asked += float64(cost)

	rate, most := r.bounds(s, ease)
	r.level = min(1, r.level+rate*(now-r.filled).Seconds()/most)
	r.filled = now
	tokens := r.level * most
	v := Verdict{Allowed: tokens >= float64(cost)*whole}
	if v.Allowed {
		tokens = max(0, tokens-float64(cost))
		r.level = tokens / most
	} else {
		v.Retry = seconds((min(float64(cost), most) - tokens) / rate)
	}
	v.Remaining, v.Reset = count(tokens), seconds((most-tokens)/rate)
	return v
}

// Return gives back what was taken for a request that did not come about, as something
// else has refused it, and tells what is there then. That it was asked for counts.
func (r *AdaptiveRate) Return(s *AdaptiveRateSettings, ease Ease, cost int64) Verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	rate, most := r.bounds(s, ease)
	r.level = min(1, r.level+float64(cost)/most)
	return Verdict{Allowed: true, Remaining: count(r.level * most), Reset: seconds((most - r.level*most) / rate)}
}

// Idle tells whether it is as good as a new one: nothing has come for so long that
// nothing is usual.
func (r *AdaptiveRate) Idle(s *AdaptiveRateSettings, now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.begun || now-r.start > forgotten*part(s.Window)
}

// What follows is called with mu held.

// bounds are the rate now, and the most that may be taken at once.
func (r *AdaptiveRate) bounds(s *AdaptiveRateSettings, ease Ease) (rate, most float64) {
	rate = r.rate(s, ease)
	return rate, max(float64(s.Cost), rate*s.Burst.Seconds())
}

func (r *AdaptiveRate) rate(s *AdaptiveRateSettings, ease Ease) float64 {
	if !r.usual.learned() {
		return max(s.Floor, s.Ceiling*ease.Share)
	}
	mean := r.usual.mean
	return min(max(mean*ease.Share+(r.top(s)-mean)*ease.Room, s.Floor), s.Ceiling)
}

// top is the upper bound. As many as come by chance vary by the root of their number,
// whatever the window has seen.
func (r *AdaptiveRate) top(s *AdaptiveRateSettings) float64 {
	chance := 1 / math.Sqrt(max(r.usual.mean*part(s.Window).Seconds(), 1e-9))
	return r.usual.top(s.Upper, max(leastRateSigma, chance))
}

func part(window time.Duration) time.Duration { return max(window/bandParts, 1) }

// advance ends the parts of the window that have passed. What comes while the rate is
// tightened says nothing of what is usual: clients come again whom it has turned away.
func (r *AdaptiveRate) advance(s *AdaptiveRateSettings, ease Ease, now time.Duration) {
	width := part(s.Window)
	ended := int64((now - r.start) / width)
	if ended <= 0 {
		return
	}
	r.start += time.Duration(ended) * width
	asked := r.asked / width.Seconds()
	r.asked = 0
	if ended >= forgotten {
		r.usual = band{}
		return
	}
	if ease != easy {
		return
	}
	r.learn(s, asked)
	for range ended - 1 {
		r.learn(s, 0)
	}
}

func (r *AdaptiveRate) learn(s *AdaptiveRateSettings, asked float64) {
	if allowed := r.rate(s, easy); r.usual.learned() && asked > allowed {
		r.usual.stray(allowed, s.Alpha)
		return
	}
	r.usual.learn(min(asked, s.Ceiling), s.Alpha)
}

// count is how many whole tokens there are, but for what rounding has taken.
func count(tokens float64) int64 { return int64(tokens + (1 - whole)) }

// seconds is a time of so many seconds, rounded up, a year at most.
func seconds(n float64) time.Duration {
	return time.Duration(math.Ceil(min(n, maxPer.Seconds()) * float64(time.Second)))
}
