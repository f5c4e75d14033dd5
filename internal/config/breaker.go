package config

import (
	"fmt"
	"time"

	"sluice/internal/model"
)

type circuitBreaker struct {
	Scope         string    `config:"scope" enum:"upstream|endpoint" doc:"what one breaker is for"`
	Window        Duration  `config:"window" doc:"the time that rates are of"`
	MinRequests   int       `config:"min_requests" doc:"fewer exchanges within window tell no rate"`
	ErrorRate     Percent   `config:"error_rate" doc:"this share of failures opens it; 0%: it does not matter"`
	Consecutive   int       `config:"consecutive_failures" doc:"so many failures in a row open it; 0: they do not matter"`
	SlowCall      *slowCall `config:"slow_call" doc:"when slow answers open it" default:"never"`
	FailureStatus statuses  `config:"failure_status" doc:"the statuses that are failures, as those to connect and to answer are" default:"[500, 502, 503, 504]"`
	OpenFor       Duration  `config:"open_for" doc:"how long it lets nothing through, before it is half open"`
	HalfOpen      halfOpen  `config:"half_open" doc:"how it is tried whether all is well again"`
	Fallback      *fallback `config:"fallback" doc:"what clients get while it is open" default:"503 circuit_open"`
}

// SetDefaults sets the defaults of SPEC 3.
func (b *circuitBreaker) SetDefaults() {
	*b = circuitBreaker{
		Scope: model.ScopeUpstream, Window: Duration(10 * time.Second), MinRequests: 20, ErrorRate: 0.5, Consecutive: 5,
		OpenFor: Duration(30 * time.Second), HalfOpen: halfOpen{MaxConcurrent: 3, Successes: 3},
	}
}

type slowCall struct {
	LongerThan Duration `config:"longer_than" doc:"answers that take longer are slow"`
	Rate       Percent  `config:"rate" doc:"this share of them opens it"`
}

// SetDefaults sets the defaults of SPEC 3.
func (s *slowCall) SetDefaults() { s.LongerThan, s.Rate = Duration(2*time.Second), 0.8 }

type halfOpen struct {
	MaxConcurrent int `config:"max_concurrent" doc:"exchanges that are let through at once"`
	Successes     int `config:"successes" doc:"so many good ones close it; one failure opens it again"`
}

// breaker builds when an upstream gets nothing; nil: it always does. Another
// upstream as its fallback is for fallbacks.
func (r *resolver) breaker(u *upstream) *model.CircuitBreaker {
	in := u.CircuitBreaker
	if in == nil {
		return nil
	}
	built := &model.CircuitBreaker{
		Scope: in.Scope, Window: time.Duration(in.Window), MinRequests: in.MinRequests, ErrorRate: float64(in.ErrorRate), Consecutive: in.Consecutive,
		OpenFor: time.Duration(in.OpenFor), MaxConcurrent: in.HalfOpen.MaxConcurrent, Successes: in.HalfOpen.Successes,
	}
	report := func(key, message, hint string) { r.out.add(u.below("circuit_breaker."+key), message, hint) }
	failures := in.FailureStatus
	if failures == nil {
		failures = failureStatus
	}
	built.FailureStatus = r.failures(failures, func(i int) place { return u.below(item("circuit_breaker.failure_status", i)) })
	r.counts(report, in.Consecutive, in.MinRequests)
	if slow := in.SlowCall; slow != nil {
		built.SlowCall = &model.SlowCall{LongerThan: time.Duration(slow.LongerThan), Rate: float64(slow.Rate)}
		if slow.LongerThan == 0 {
			report("slow_call.longer_than", "longer_than must be more than 0", "remove slow_call where no answer is too slow")
		}
		if slow.Rate == 0 {
			report("slow_call.rate", "rate must be more than 0%", "remove slow_call where no answer is too slow")
		}
	}
	if in.Consecutive == 0 && in.ErrorRate == 0 && in.SlowCall == nil {
		report("", "with consecutive_failures and error_rate 0 and no slow_call the circuit breaker could never open", "set one of them, or remove the block")
	}
	if in.Window == 0 {
		report("window", "window must be more than 0", "")
	}
	if in.OpenFor == 0 {
		report("open_for", "open_for must be more than 0", "")
	}
	for _, count := range []struct {
		key   string
		value int
	}{{"max_concurrent", in.HalfOpen.MaxConcurrent}, {"successes", in.HalfOpen.Successes}} {
		if count.value < 1 {
			report("half_open."+count.key, fmt.Sprintf("%s must be at least 1, not %d", count.key, count.value), "")
		}
	}
	if in.Fallback != nil {
		built.Fallback = r.fallback(in.Fallback)
	}
	return built
}
