package limit

import (
	"fmt"
	"time"

	"sluice/internal/config"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/ratelimit"
	"sluice/internal/resilience"
)

// AdaptiveRateOptions are how a rate_limit follows what is usual.
type AdaptiveRateOptions struct {
	Alpha   config.Number   `config:"alpha" doc:"how much the last sixtieth of sigma_window counts in what is usual, more than 0 to 1"`
	Window  config.Duration `config:"sigma_window" doc:"the time of which the standard deviation is"`
	Upper   config.Number   `config:"upper" doc:"standard deviations above the usual that are let through"`
	Floor   *config.Rate    `config:"floor" doc:"so much is let through in any case" default:"a tenth of rate"`
	Ceiling *config.Rate    `config:"ceiling" doc:"never more is" default:"rate"`
}

// SetDefaults fills in what is not written.
func (o *AdaptiveRateOptions) SetDefaults() {
	o.Alpha, o.Window, o.Upper = 0.2, config.Duration(time.Minute), 2
}

// What an adaptive rate may be.
const (
	leastSigmaWindow = time.Second
	mostSigmaWindow  = 24 * time.Hour
	usualFloor       = 0.1 // of the rate
)

// validateAdaptive returns how a rate is followed under a quota; nil: it is not.
func validateAdaptive(o *AdaptiveRateOptions, q resilience.Quota, report model.Report) *ratelimit.AdaptiveSettings {
	if o == nil {
		return nil
	}
	a := &ratelimit.AdaptiveSettings{Alpha: float64(o.Alpha), Window: time.Duration(o.Window), Upper: float64(o.Upper), Floor: usualFloor, Ceiling: 1}
	rate := config.Rate{Count: q.Count, Per: q.Per}
	if o.Floor != nil {
		a.Floor = shareOf(*o.Floor, q)
	}
	if o.Ceiling != nil {
		a.Ceiling = shareOf(*o.Ceiling, q)
		if o.Floor == nil {
			a.Floor = min(a.Floor, a.Ceiling)
		}
	}
	switch {
	case a.Alpha <= 0 || a.Alpha > 1:
		report("adaptive.alpha", fmt.Sprintf("alpha must be more than 0 and at most 1, not %v", o.Alpha), "")
	case a.Window < leastSigmaWindow || a.Window > mostSigmaWindow:
		report("adaptive.sigma_window", fmt.Sprintf("sigma_window must be from %v to %v, not %v", config.Duration(leastSigmaWindow), config.Duration(mostSigmaWindow), o.Window), "")
	case a.Ceiling > 1:
		report("adaptive.ceiling", fmt.Sprintf("the ceiling is %v, and rate lets no more than %v through", o.Ceiling, rate), "lower it, or raise rate")
	case a.Floor > a.Ceiling && o.Ceiling == nil:
		report("adaptive.floor", fmt.Sprintf("the floor is %v, and rate lets no more than %v through", o.Floor, rate), "lower it, or raise rate")
	case a.Floor > a.Ceiling:
		report("adaptive.floor", fmt.Sprintf("the floor is %v, above the ceiling of %v", o.Floor, o.Ceiling), "")
	}
	return a
}

// shareOf is a rate as a share of that of a quota. Equal ones are the whole.
func shareOf(rate config.Rate, q resilience.Quota) float64 {
	return float64(rate.Count) * float64(q.Per) / (float64(q.Count) * float64(rate.Per))
}

// adaptiveRate is an adaptive rate in its place in a chain.
type adaptiveRate struct {
	rate *ratelimit.AdaptiveRate
	ease func(now time.Time) resilience.Ease
}

// newAdaptiveRate acquires what an adaptive limit needs; nil: the limit is none.
func newAdaptiveRate(site *pipeline.Site, s *ratelimit.Settings, a *ratelimit.AdaptiveSettings) *adaptiveRate {
	if a == nil {
		return nil
	}
	guard := resilience.GuardSettings{Alpha: a.Alpha, Window: a.Window, Upper: a.Upper}
	return &adaptiveRate{ratelimit.AcquireAdaptiveRate(site.Leases, s, a), site.Guard(s.Identity, guard)}
}

// status tells people how it is, but for the upstreams.
func (a *adaptiveRate) status() *pipeline.AdaptiveRateStatus {
	if a == nil {
		return nil
	}
	s := &pipeline.AdaptiveRateStatus{Upstreams: []pipeline.StanceStatus{}}
	s.Floor, s.Ceiling = a.rate.Bounds()
	s.Keys, s.Evicted = a.rate.Keys()
	return s
}

// take asks an adaptive rate and then the limit. Where one of them refuses, the other
// gives nothing; of two that allow it the tighter one is told.
func (l *limiter) take(x *pipeline.Exchange, key, tier string, cost int64) (verdict resilience.Verdict, p passed) {
	if l.adaptive == nil {
		p.decision = l.limit.Take(x, key, tier, cost)
		return p.decision.Verdict, p
	}
	_, instances, ok := l.limit.Store()
	if !ok {
		instances = 1
	}
	p.adaptive = l.adaptive.rate.Take(key, tier, l.adaptive.ease(time.Now()), instances, cost)
	if !p.adaptive.Allowed {
		return p.adaptive.Verdict, p
	}
	p.decision = l.limit.Take(x, key, tier, cost)
	if !p.decision.Allowed {
		p.adaptive.Return()
	}
	verdict = p.tighter(p.decision.Verdict, p.adaptive.Verdict)
	return verdict, p
}

// tighter is what clients are told of what a limit says, and an adaptive rate that has
// allowed it.
func (p *passed) tighter(limit, adaptive resilience.Verdict) resilience.Verdict {
	if limit.Allowed && !p.decision.Unknown && adaptive.Remaining < limit.Remaining {
		return adaptive
	}
	return limit
}
