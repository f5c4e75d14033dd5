package resilience

import (
	"math"
	"sync"
	"time"
)

// PaceSettings are how an adaptive rate follows what is usual.
type PaceSettings struct {
	Alpha          float64       // weight of the last sixtieth of Window in the average, 0 to 1
	Window         time.Duration // of the standard deviation
	Upper          float64       // standard deviations above the average that are let through
	Floor, Ceiling float64       // requests a second that are let through at least, and at most; 0 < Floor <= Ceiling
	Burst          time.Duration // what the rate lets through in it may come at once
	Cost           int64         // so much may in any case: of a request at most, at least 1
}

// Pace is a rate that adapts to what usually comes: the average rate of requests plus
// Upper standard deviations, never under Floor or above Ceiling. What grows slowly takes
// it along; a crowd that comes at once is cut, and becomes usual only if it lasts.
// Until it knows what is usual, ten sixtieths of Window, Ceiling holds; so it does after
// twice Window in which nothing came. The zero value is ready. Times are those of a Bucket.
type Pace struct {
	mu     sync.Mutex
	usual  band          // requests a second
	begun  bool          // start is set
	start  time.Duration // of the part that is counted in
	asked  float64       // requests in it
	tokens float64       // what may be taken at once
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
func (p *Pace) Take(s *PaceSettings, ease Ease, now time.Duration, cost int64) Verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.begun {
		p.begun, p.start, p.filled, p.tokens = true, now, now, math.Inf(1)
	}
	now = max(now, p.filled)
	p.advance(s, ease, now)
	p.asked += float64(cost)

	rate := p.rate(s, ease)
	most := max(float64(s.Cost), rate*s.Burst.Seconds())
	p.tokens = min(most, p.tokens+rate*(now-p.filled).Seconds())
	p.filled = now
	v := Verdict{Allowed: p.tokens >= float64(cost)*whole}
	if v.Allowed {
		p.tokens = max(0, p.tokens-float64(cost))
	} else {
		v.Retry = seconds((min(float64(cost), most) - p.tokens) / rate)
	}
	v.Remaining, v.Reset = int64(p.tokens), seconds((most-p.tokens)/rate)
	return v
}

// Return gives back what was taken for a request that did not come about, as something
// else has refused it, and tells what is there then. That it was asked for counts.
func (p *Pace) Return(s *PaceSettings, ease Ease, cost int64) Verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	rate := p.rate(s, ease)
	most := max(float64(s.Cost), rate*s.Burst.Seconds())
	p.tokens = min(most, p.tokens+float64(cost))
	return Verdict{Allowed: true, Remaining: int64(p.tokens), Reset: seconds((most - p.tokens) / rate)}
}

// Idle tells whether it is as good as a new one: nothing has come for so long that
// nothing is usual.
func (p *Pace) Idle(s *PaceSettings, now time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.begun || now-p.start > forgotten*part(s.Window)
}

// What follows is called with mu held.

func (p *Pace) rate(s *PaceSettings, ease Ease) float64 {
	if !p.usual.learned() {
		return max(s.Floor, s.Ceiling*ease.Share)
	}
	mean := p.usual.mean
	return min(max(mean*ease.Share+(p.top(s)-mean)*ease.Room, s.Floor), s.Ceiling)
}

// top is the upper bound. As many as come by chance vary by the root of their number,
// whatever the window has seen.
func (p *Pace) top(s *PaceSettings) float64 {
	chance := 1 / math.Sqrt(max(p.usual.mean*part(s.Window).Seconds(), 1e-9))
	return p.usual.top(s.Upper, max(leastRateSigma, chance))
}

func part(window time.Duration) time.Duration { return max(window/bandParts, 1) }

// advance ends the parts of the window that have passed. What comes while the rate is
// tightened says nothing of what is usual: clients come again whom it has turned away.
func (p *Pace) advance(s *PaceSettings, ease Ease, now time.Duration) {
	width := part(s.Window)
	ended := int64((now - p.start) / width)
	if ended <= 0 {
		return
	}
	p.start += time.Duration(ended) * width
	asked := p.asked / width.Seconds()
	p.asked = 0
	if ended >= forgotten {
		p.usual = band{}
		return
	}
	if ease != easy {
		return
	}
	p.learn(s, asked)
	for range ended - 1 {
		p.learn(s, 0)
	}
}

func (p *Pace) learn(s *PaceSettings, asked float64) {
	if allowed := p.rate(s, easy); p.usual.learned() && asked > allowed {
		p.usual.stray(allowed, s.Alpha)
		return
	}
	p.usual.learn(min(asked, s.Ceiling), s.Alpha)
}

// seconds is a time of so many seconds, rounded up, a year at most.
func seconds(n float64) time.Duration {
	return time.Duration(math.Ceil(min(n, maxPer.Seconds()) * float64(time.Second)))
}
