package limit_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
	"sluice/internal/resilience"
)

// recorded is how many requests www.cs.wisc.edu had in each hour of 29 November 2000, from
// 01:00 on, by its published statistics.
var recorded = [24]float64{
	8973, 8977, 7893, 7981, 8692, 8092, 10428, 11956, 17461, 15733, 14610, 17516,
	16736, 18890, 18280, 19190, 12900, 16804, 15420, 15007, 14939, 12824, 12743, 10219,
}

// The day goes by twenty times as fast here, at a site that is ten times as busy.
const (
	hour  = time.Hour / 20
	scale = 10.0 / 3600
)

// usually is how many requests a second come at a time of that day.
func usually(at time.Duration) float64 {
	position := float64(at) / float64(hour)
	whole := int(position)
	from, to := recorded[whole%24], recorded[(whole+1)%24]
	return (from + (to-from)*(position-float64(whole))) * scale
}

// load is requests that come at random, by a rate that changes with time.
type load struct {
	t      *testing.T
	h      pipeline.Handler
	begun  time.Time
	random *rand.Rand
}

// until serves what comes until a time.
func (l *load) until(end time.Duration, rate func(at time.Duration) float64) (came, passed float64) {
	for {
		at := time.Since(l.begun)
		time.Sleep(time.Duration(l.random.ExpFloat64() / rate(at) * float64(time.Second)))
		if time.Since(l.begun) >= end {
			return came, passed
		}
		came++
		if l.h.Serve(request(l.t.Context(), "192.0.2.1")) == nil {
			passed++
		}
	}
}

// whole wants what comes until a time to pass, in each hour.
func (l *load) whole(end time.Duration, rate func(at time.Duration) float64) {
	l.t.Helper()
	for time.Since(l.begun) < end {
		next := time.Since(l.begun).Truncate(hour) + hour
		if came, passed := l.until(min(next, end), rate); passed < 0.995*came {
			l.t.Errorf("until %v: %.0f of %.0f passed", next, passed, came)
		}
	}
}

// TestAdaptiveRateDay runs a day as it was recorded, with growth in the course of it, and
// with a crowd of ten times as many that comes within seconds: that is cut to little more
// than is usual, all else is not.
func TestAdaptiveRateDay(t *testing.T) {
	for name, run := range map[string]func(l *load){
		"as it was": func(l *load) { l.whole(24*hour, usually) },
		"slow growth": func(l *load) {
			l.whole(24*hour, func(at time.Duration) float64 { return usually(at) * (1 + 3*float64(at)/float64(24*hour)) })
		},
		"a flash crowd": func(l *load) {
			const start, end = 13 * hour, 13*hour + 2*time.Minute
			l.whole(start, usually)
			came, passed := l.until(end, func(at time.Duration) float64 { return usually(at) * min(10, 1+(at-start).Seconds()) })
			if usual := usually(start) * (end - start).Seconds(); came < 8*usual || passed > 1.6*usual || passed < usual {
				l.t.Errorf("%.0f of a crowd of %.0f passed, where %.0f are usual", passed, came, usual)
			}
			l.whole(24*hour, usually)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newBed(t).chain("{rate_limit: {rate: 1000/s, key: global, adaptive: {floor: 1/s}}}", answer)
				run(&load{t, h, time.Now(), rand.New(rand.NewPCG(1, 2))})
			})
		})
	}
}

// TestAdaptiveRateBounds: a request passes both bounds, and what the one refuses takes nothing
// of the other.
func TestAdaptiveRateBounds(t *testing.T) {
	b := newBed(t)
	of := func() *pipeline.Exchange { return request(t.Context(), "192.0.2.1") }
	const adaptive = ", adaptive: {ceiling: 5/h}}}"
	x := of()
	if err := b.chain("{rate_limit: {rate: 10/h"+adaptive, answer).Serve(x); err != nil || x.Standing.Remaining != 4 {
		t.Errorf("%v, clients are told %+v", err, x.Standing)
	}
	if got := b.passes(b.chain("{rate_limit: {rate: 10/h"+adaptive, answer), 20, pipeline.RateLimited, of); got != 4 {
		t.Errorf("%d passed under the ceiling", got)
	}
	x = of()
	err := pipeline.AsError(b.chain("{rate_limit: {rate: 10/h"+adaptive, answer).Serve(x))
	if retry := err.Fields.Get(message.RetryAfter); retry != "720" || !x.Standing.Denied || x.Standing.Remaining != 0 {
		t.Errorf("come back after %s, %+v", retry, x.Standing)
	}
	if got := b.passes(b.chain("{rate_limit: {rate: 10/h}}", answer), 20, pipeline.RateLimited, of); got != 5 {
		t.Errorf("%d of 10 passed when 5 had been taken", got)
	}

	other := func() *pipeline.Exchange { return request(t.Context(), "192.0.2.2") }
	b.passes(b.chain("{rate_limit: {rate: 10/h}}", answer), 10, pipeline.RateLimited, other)
	if got := b.passes(b.chain("{rate_limit: {rate: 10/h"+adaptive, answer), 20, pipeline.RateLimited, other); got != 0 {
		t.Errorf("%d passed where the rate has nothing left", got)
	}
	if got := b.passes(b.chain("{rate_limit: {rate: 10/h, algorithm: sliding_window"+adaptive, answer), 20, pipeline.RateLimited, other); got != 5 {
		t.Errorf("%d passed under the ceiling, of which what was refused has taken nothing", got)
	}
}

// TestAdaptiveRateEase tightens as guards say, never under the floor.
func TestAdaptiveRateEase(t *testing.T) {
	for _, c := range []struct {
		options, tier string
		ease          resilience.Ease
		want          int
	}{
		{"rate: 10/h, adaptive: {}", "", resilience.Ease{Share: 0.5}, 5},
		{"rate: 10/h, adaptive: {floor: 8/h}", "", resilience.Ease{Share: 0.5}, 8},
		{"rate: 10/h, burst: 40, adaptive: {ceiling: 5/h}", "", resilience.Ease{Share: 1, Room: 1}, 20},
		{"rate: 10/h, cost: 2, adaptive: {ceiling: 1/h}", "", resilience.Ease{Share: 1, Room: 1}, 1},
		{"rate: 10/h, adaptive: {ceiling: 5/h}, tier_by: \"header:T\", tiers: {gold: {rate: 100/h}}", "gold", resilience.Ease{Share: 1, Room: 1}, 50},
		{"rate: 10/h, adaptive: {ceiling: 5/h}, store: main, on_store_failure: allow", "", resilience.Ease{Share: 1, Room: 1}, 5},
	} {
		b := newBed(t)
		b.ease = c.ease
		h := b.chain("{rate_limit: {"+c.options+"}}", answer)
		if got := b.passes(h, 100, pipeline.RateLimited, func() *pipeline.Exchange { return request(t.Context(), "192.0.2.1", "T: "+c.tier) }); got != c.want {
			t.Errorf("%s: %d passed, want %d", c.options, got, c.want)
		}
	}
}

func TestAdaptiveRateShadow(t *testing.T) {
	b := newBed(t)
	h := b.chain("{rate_limit: {name: s, rate: 10/h, mode: shadow, adaptive: {ceiling: 5/h}}}", answer)
	if got := b.passes(h, 8, "", func() *pipeline.Exchange { return request(t.Context(), "192.0.2.1") }); got != 8 {
		t.Errorf("%d passed", got)
	}
	if allowed, shadowed := b.counted("s allow"), b.counted("s shadow_deny"); allowed != 5 || shadowed != 3 {
		t.Errorf("%d allowed and %d would be refused", allowed, shadowed)
	}
}

// TestAdaptiveRateReload keeps what is usual, whatever the numbers become.
func TestAdaptiveRateReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		of := func() *pipeline.Exchange { return request(t.Context(), "192.0.2.1") }
		first := b.chain("{rate_limit: {rate: 1000/s, adaptive: {floor: 1/s}}}", answer)
		for range 20 * 30 {
			if got := b.passes(first, 1, pipeline.RateLimited, of); got != 1 {
				t.Fatal("what is usual is refused")
			}
			time.Sleep(time.Second / 20)
		}
		next := b.chain("{rate_limit: {rate: 1000/s, adaptive: {floor: 1/s, alpha: 0.5, sigma_window: 2m, upper: 4}}}", answer)
		if got := b.passes(next, 500, pipeline.RateLimited, of); got < 20 || got > 60 {
			t.Errorf("%d passed at once, where 20 a second are usual", got)
		}
		want := []resilience.GuardSettings{{Alpha: 0.2, Window: time.Minute, Upper: 2}, {Alpha: 0.5, Window: 2 * time.Minute, Upper: 4}}
		if !slices.Equal(b.guards, want) {
			t.Errorf("guards by %+v, want %+v", b.guards, want)
		}
		if got := b.shown[1]().AdaptiveRate; got == nil || got.Floor != 1 || got.Ceiling != 1000 || got.Keys != 1 || got.Upstreams == nil {
			t.Errorf("shown as %+v", got)
		}
	})
}

func TestAdaptiveRateProblems(t *testing.T) {
	for options, want := range map[string]string{
		"":                             "",
		"alpha: 1, upper: 0":           "",
		"floor: 100/s, ceiling: 100/s": "",
		"floor: 6000/m":                "",
		"ceiling: 1/h":                 "",
		"alpha: 0":                     "alpha must be more than 0 and at most 1, not 0",
		"alpha: 1.5":                   "alpha must be more than 0 and at most 1, not 1.5",
		"upper: -1":                    "upper must not be negative",
		"sigma_window: 500ms":          "sigma_window must be from 1s to 24h, not 500ms",
		"sigma_window: 25h":            "sigma_window must be from 1s to 24h, not 25h",
		"ceiling: 101/s":               "the ceiling is 101/s, and rate lets no more than 100/s through",
		"floor: 101/s":                 "the floor is 101/s, and rate lets no more than 100/s through",
		"floor: 50/s, ceiling: 40/s":   "the floor is 50/s, above the ceiling of 40/s",
		"floor: 5":                     "floor must be a rate such as 100/s, 5000/m or 10/h, not the number 5",
		"beta: 1":                      "unknown key \"beta\"",
	} {
		wantProblem(t, "{rate_limit: {rate: 100/s, adaptive: {"+options+"}}}", want)
	}
}
