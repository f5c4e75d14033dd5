package resilience

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// day is how a service is used that people use: requests of each hour by the average.
var day = [24]float64{
	0.55, 0.42, 0.35, 0.30, 0.28, 0.31, 0.42, 0.66, 0.98, 1.22, 1.33, 1.36,
	1.32, 1.30, 1.34, 1.35, 1.31, 1.28, 1.33, 1.47, 1.58, 1.52, 1.24, 0.86,
}

// hour is how long one takes here: all changes come sixty times as fast as in a real day.
const hour = time.Minute

// curve is the load of a time, by the average.
func curve(at time.Duration) float64 {
	position := float64(at) / float64(hour)
	whole := math.Floor(position)
	from, to := day[int(whole)%24], day[(int(whole)+1)%24]
	return from + (to-from)*(position-whole)
}

var adaptiveSettings = AdaptiveRateSettings{Alpha: 0.2, Window: time.Minute, Upper: 2, Floor: 20, Ceiling: 5000, Burst: time.Second, Cost: 1}

// passage is what a time let through of what came.
type passage struct{ came, passed float64 }

func (p passage) denied() float64 { return 1 - p.passed/p.came }

// through lets requests come at random, at a rate a second that changes with time.
func through(p *AdaptiveRate, s *AdaptiveRateSettings, ease Ease, from, to time.Duration, rate func(at time.Duration) float64) (got passage) {
	random := rand.New(rand.NewPCG(uint64(from), 1))
	for at := from; ; {
		at += time.Duration(random.ExpFloat64() / rate(at) * float64(time.Second))
		if at >= to {
			return got
		}
		got.came++
		if p.Take(s, ease, at, 1).Allowed {
			got.passed++
		}
	}
}

// rates returns how many requests a second are let through now, and how many come usually.
func (r *AdaptiveRate) rates(s *AdaptiveRateSettings, ease Ease, now time.Duration) (allowed, usual float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun {
		r.advance(s, ease, now)
	}
	return r.rate(s, ease), r.usual.mean
}

// TestAdaptiveRateDay: a daily curve is not cut, nor is one that doubles in the course of
// a day.
func TestAdaptiveRateDay(t *testing.T) {
	for name, growth := range map[string]float64{"as always": 0, "twice as much at the end": 1} {
		t.Run(name, func(t *testing.T) {
			var p AdaptiveRate
			for at := range 24 {
				from := time.Duration(at) * hour
				got := through(&p, &adaptiveSettings, easy, from, from+hour, func(at time.Duration) float64 {
					return 100 * curve(at) * (1 + growth*float64(at)/float64(24*hour))
				})
				if got.denied() > 0.002 {
					t.Errorf("hour %d: %.2f%% of %.0f denied", at, 100*got.denied(), got.came)
				}
			}
		})
	}
}

// TestAdaptiveRateFlash: a crowd of ten times as many comes within seconds and stays for two
// minutes. It is cut to little more than is usual; before and after nothing is.
func TestAdaptiveRateFlash(t *testing.T) {
	const start, end = 10 * hour, 12 * hour
	var p AdaptiveRate
	if got := through(&p, &adaptiveSettings, easy, 0, start, func(at time.Duration) float64 { return 100 * curve(at) }); got.denied() > 0.002 {
		t.Errorf("before: %.2f%% denied", 100*got.denied())
	}
	_, before := p.rates(&adaptiveSettings, easy, start)
	crowd := through(&p, &adaptiveSettings, easy, start, end, func(at time.Duration) float64 {
		return 100 * curve(at) * min(10, 1+float64(at-start)/float64(time.Second))
	})
	if rate := crowd.passed / (end - start).Seconds(); rate > 1.6*before || rate < before {
		t.Errorf("the crowd: %.0f a second passed, usual were %.0f", rate, before)
	}
	if _, after := p.rates(&adaptiveSettings, easy, end); after > 1.3*before {
		t.Errorf("the crowd made itself usual: %.0f a second instead of %.0f", after, before)
	}
	if got := through(&p, &adaptiveSettings, easy, end, end+4*hour, func(at time.Duration) float64 { return 100 * curve(at) }); got.denied() > 0.002 {
		t.Errorf("after: %.2f%% denied", 100*got.denied())
	}
}

// TestAdaptiveRateStays: what comes suddenly and stays is usual in the end.
func TestAdaptiveRateStays(t *testing.T) {
	var p AdaptiveRate
	steady := func(rate float64) func(time.Duration) float64 {
		return func(time.Duration) float64 { return rate }
	}
	through(&p, &adaptiveSettings, easy, 0, 5*time.Minute, steady(50))
	at := 5 * time.Minute
	for range 120 {
		got := through(&p, &adaptiveSettings, easy, at, at+time.Minute, steady(150))
		if at += time.Minute; got.denied() < 0.01 {
			return
		}
	}
	_, usual := p.rates(&adaptiveSettings, easy, at)
	t.Errorf("after two hours of 150 a second still %.0f are usual", usual)
}

func TestAdaptiveRateBounds(t *testing.T) {
	s := &AdaptiveRateSettings{Alpha: 0.2, Window: time.Minute, Upper: 2, Floor: 20, Ceiling: 200, Burst: time.Second, Cost: 1}
	var p AdaptiveRate
	if rate, usual := p.rates(s, easy, 0); rate != 200 || usual != 0 {
		t.Errorf("%v allowed and %v usual where nothing is known", rate, usual)
	}
	if rate, _ := p.rates(s, Ease{half, 0}, 0); rate != 100 {
		t.Errorf("%v allowed where nothing is known, and half is shed", rate)
	}
	now := time.Duration(0)
	tell := func(perSecond int64, seconds int) {
		for range seconds {
			p.Take(s, easy, now, perSecond)
			now += time.Second
		}
	}
	tell(1, 100)
	if rate, _ := p.rates(s, easy, now); rate != 20 {
		t.Errorf("%v allowed where one a second comes, want the floor", rate)
	}
	tell(180, 7200)
	if rate, usual := p.rates(s, easy, now); rate != 200 || usual < 150 {
		t.Errorf("%v allowed and %v usual where 180 a second come, want the ceiling", rate, usual)
	}
	through(&p, s, easy, now, now+2*time.Minute, func(time.Duration) float64 { return 100 })
	now += 2 * time.Minute
	_, usual := p.rates(s, easy, now)
	for _, c := range []struct {
		ease       Ease
		least, top float64
	}{
		{easy, 1.1 * usual, 2 * usual},
		{Ease{1, 0}, usual, usual},
		{Ease{half, 0}, usual / 2, usual / 2},
	} {
		if rate, _ := p.rates(s, c.ease, now); rate < c.least-1e-9 || rate > c.top+1e-9 {
			t.Errorf("%+v: %v allowed, want %v to %v", c.ease, rate, c.least, c.top)
		}
	}
	if p.Idle(s, now) || !p.Idle(s, now+3*time.Minute) || !new(AdaptiveRate).Idle(s, 0) {
		t.Error("an adaptive rate is idle exactly after twice the window")
	}
	if rate, usual := p.rates(s, easy, now+100*time.Second); rate != 20 || usual > 1 {
		t.Errorf("%v allowed and %v usual after 100s without any", rate, usual)
	}
	p.Take(s, easy, now+24*time.Hour, 1)
	if rate, usual := p.rates(s, easy, now+24*time.Hour); rate != 200 || usual != 0 {
		t.Errorf("%v allowed and %v usual after a day without any", rate, usual)
	}
}

// TestAdaptiveRateTightened: what comes while the rate is tightened does not change what is
// usual.
func TestAdaptiveRateTightened(t *testing.T) {
	var p AdaptiveRate
	steady := func(time.Duration) float64 { return 100 }
	through(&p, &adaptiveSettings, easy, 0, time.Minute, steady)
	_, before := p.rates(&adaptiveSettings, easy, time.Minute)
	got := through(&p, &adaptiveSettings, Ease{half, 0}, time.Minute, 6*time.Minute, steady)
	if _, after := p.rates(&adaptiveSettings, Ease{half, 0}, 6*time.Minute); after != before {
		t.Errorf("usual are %v, before it was tightened %v", after, before)
	}
	if math.Abs(got.denied()-0.5) > 0.05 {
		t.Errorf("%.2f denied, want half", got.denied())
	}
}

// TestAdaptiveRateVerdict holds what is told to what comes true.
func TestAdaptiveRateVerdict(t *testing.T) {
	s := &AdaptiveRateSettings{Alpha: 0.2, Window: time.Minute, Upper: 2, Floor: 10, Ceiling: 10, Burst: time.Second, Cost: 1}
	var p AdaptiveRate
	for i := range 10 {
		if v := p.Take(s, easy, time.Hour, 1); !v.Allowed || v.Remaining != int64(9-i) || v.Reset != time.Duration(i+1)*time.Second/10 {
			t.Fatalf("take %d: %+v", i, v)
		}
	}
	v := p.Take(s, easy, time.Hour, 3)
	if v.Allowed || v.Remaining != 0 || v.Retry != 300*time.Millisecond || v.Reset != time.Second {
		t.Errorf("of an empty one: %+v", v)
	}
	if v := p.Take(s, easy, time.Hour+v.Retry-time.Millisecond, 3); v.Allowed {
		t.Errorf("before it was told to come: %+v", v)
	}
	if v := p.Take(s, easy, time.Hour+300*time.Millisecond, 3); !v.Allowed {
		t.Errorf("when it was told to come: %+v", v)
	}
	if v := p.Take(s, easy, time.Hour, 11); v.Allowed || v.Retry != time.Second {
		t.Errorf("more than there ever is: %+v", v)
	}
}

// TestAdaptiveRateAtOnce: what may come at once is what the rate gives in the time of a burst,
// and never less than the dearest request.
func TestAdaptiveRateAtOnce(t *testing.T) {
	for _, c := range []struct {
		burst      time.Duration
		cost       int64
		want, rest int64
	}{
		{time.Second, 1, 1, 0},
		{time.Minute, 1, 6, 0},
		{time.Minute, 4, 1, 2},
		{time.Second, 4, 1, 0},
	} {
		s := &AdaptiveRateSettings{Alpha: 0.2, Window: time.Minute, Upper: 2, Floor: 0.1, Ceiling: 0.1, Burst: c.burst, Cost: c.cost}
		var p AdaptiveRate
		passed := int64(0)
		v := p.Take(s, easy, 0, c.cost)
		for ; v.Allowed && passed < 10; v = p.Take(s, easy, 0, c.cost) {
			passed++
		}
		if passed != c.want || v.Remaining != c.rest {
			t.Errorf("%v, cost %d: %d passed at once, and %d remain", c.burst, c.cost, passed, v.Remaining)
		}
		if v := p.Take(s, easy, v.Retry, c.cost); !v.Allowed {
			t.Errorf("%v, cost %d: when it was told to come: %+v", c.burst, c.cost, v)
		}
	}
}

// TestAdaptiveRateReturn: what something else has refused takes nothing, and was asked for.
func TestAdaptiveRateReturn(t *testing.T) {
	s := &AdaptiveRateSettings{Alpha: 0.2, Window: time.Minute, Upper: 2, Floor: 1, Ceiling: 10, Burst: time.Second, Cost: 1}
	var p AdaptiveRate
	now := time.Duration(0)
	for range 20 {
		for range 5 {
			if v := p.Take(s, easy, now, 1); !v.Allowed || v.Remaining < 4 {
				t.Fatalf("after %v: %+v", now, v)
			}
			if v := p.Return(s, easy, 1); v.Remaining < 5 {
				t.Fatalf("after %v, and a return: %+v", now, v)
			}
		}
		now += time.Second
	}
	if _, usual := p.rates(s, easy, now); math.Abs(usual-5) > 0.01 {
		t.Errorf("%v a second are usual", usual)
	}
}

// TestAdaptiveRateShare: with other numbers the same share is there, as of a bucket.
func TestAdaptiveRateShare(t *testing.T) {
	of := func(rate float64) *AdaptiveRateSettings {
		return &AdaptiveRateSettings{Alpha: 0.2, Window: time.Minute, Upper: 2, Floor: rate, Ceiling: rate, Burst: 10 * time.Second, Cost: 1}
	}
	var p AdaptiveRate
	if v := p.Take(of(10), easy, 0, 60); v.Remaining != 40 {
		t.Fatalf("at first: %+v", v)
	}
	for _, c := range []struct {
		rate float64
		cost int64
		want int64
	}{{100, 200, 200}, {10, 10, 10}, {1000, 500, 500}, {10, 5, 0}} {
		if v := p.Take(of(c.rate), easy, 0, c.cost); !v.Allowed || v.Remaining != c.want {
			t.Errorf("with %v a second: %+v, want %d to remain", c.rate, v, c.want)
		}
	}
}

func TestAdaptiveRateConcurrent(t *testing.T) {
	s := &AdaptiveRateSettings{Alpha: 0.2, Window: time.Minute, Upper: 2, Floor: 100, Ceiling: 100, Burst: time.Second, Cost: 1}
	var (
		p      AdaptiveRate
		wg     sync.WaitGroup
		mu     sync.Mutex
		passed int
	)
	for worker := range 4 {
		wg.Go(func() {
			for i := range 1000 {
				if p.Take(s, easy, time.Duration(max(0, i-10*worker))*time.Millisecond, 1).Allowed {
					mu.Lock()
					passed++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if passed < 190 || passed > 200 {
		t.Errorf("%d passed in a second of 100 with as many at once", passed)
	}
}
