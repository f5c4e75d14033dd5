package config

import (
	"fmt"
	"strings"
	"time"

	"sluice/internal/model"
)

type outlierDetection struct {
	Consecutive   int      `config:"consecutive_failures" doc:"so many failures in a row eject an endpoint; 0: they do not matter"`
	ErrorRate     Percent  `config:"error_rate" doc:"this share of failures within ten seconds ejects it; 0%: it does not matter"`
	MinRequests   int      `config:"min_requests" doc:"fewer exchanges tell no error_rate"`
	BaseEjection  Duration `config:"base_ejection" doc:"how long it is out for the first time; the second time in a row twice as long, and so on"`
	MaxEjected    Percent  `config:"max_ejected" doc:"the share of the endpoints that may be out at once"`
	FailureStatus statuses `config:"failure_status" doc:"the statuses that are failures, as those to connect and to answer are" default:"those of circuit_breaker, else [500, 502, 503, 504]"`
}

// SetDefaults sets the defaults of SPEC 3.
func (o *outlierDetection) SetDefaults() {
	*o = outlierDetection{Consecutive: 5, ErrorRate: 0.5, MinRequests: 20, BaseEjection: Duration(30 * time.Second), MaxEjected: 0.5}
}

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

type fallback struct {
	located
	Status   *int          `config:"status" doc:"of a fixed response: from 200 to 599" default:"503"`
	Body     *Template     `config:"body" doc:"its body, with placeholders" default:"none"`
	Headers  Map[Template] `config:"headers" doc:"its fields, with placeholders"`
	Upstream *string       `config:"upstream" doc:"instead of a fixed response: the name of another upstream, or a URL"`
}

// failureStatus are the failures of who names none.
var failureStatus = statuses{{500, 500}, {502, 502}, {503, 503}, {504, 504}}

// outlier builds when an endpoint is ejected; nil: never.
func (r *resolver) outlier(u *upstream) *model.OutlierDetection {
	in := u.OutlierDetection
	if in == nil {
		return nil
	}
	built := &model.OutlierDetection{
		Consecutive: in.Consecutive, ErrorRate: float64(in.ErrorRate), MinRequests: in.MinRequests,
		BaseEjection: time.Duration(in.BaseEjection), MaxEjected: float64(in.MaxEjected),
	}
	report := func(key, message, hint string) { r.out.add(u.below("outlier_detection."+key), message, hint) }
	failures, key := in.FailureStatus, "outlier_detection.failure_status"
	if failures == nil && u.CircuitBreaker != nil {
		failures, key = u.CircuitBreaker.FailureStatus, "circuit_breaker.failure_status"
	}
	if failures == nil {
		failures = failureStatus
	}
	built.FailureStatus = r.failures(failures, func(i int) place { return u.below(item(key, i)) })
	r.counts(report, in.Consecutive, in.MinRequests)
	switch {
	case in.Consecutive == 0 && in.ErrorRate == 0:
		report("", "with consecutive_failures and error_rate 0 outlier_detection could never eject an endpoint", "set one of them, or remove the block")
	case in.BaseEjection == 0:
		report("base_ejection", "base_ejection must be more than 0", "remove outlier_detection to eject nothing")
	case in.MaxEjected == 0:
		report("max_ejected", "max_ejected is 0%, so that no endpoint could be ejected", "write max_ejected: 50%, or remove outlier_detection")
	}
	return built
}

// counts checks what ejection and breakers have in common.
func (r *resolver) counts(report func(key, message, hint string), consecutive, minRequests int) {
	if consecutive < 0 {
		report("consecutive_failures", "consecutive_failures must not be negative", "0: failures in a row do not matter")
	}
	if minRequests < 1 {
		report("min_requests", fmt.Sprintf("min_requests must be at least 1, not %d", minRequests), "")
	}
}

// panicThreshold is the share of available endpoints under which health is
// ignored.
func (r *resolver) panicThreshold(u *upstream) float64 {
	switch in := u.PanicThreshold; {
	case in == nil && u.HealthCheck == nil:
		return 0
	case in == nil:
		return 0.3
	case u.HealthCheck == nil && u.OutlierDetection == nil && *in > 0:
		r.out.add(u.below("panic_threshold"), "panic_threshold says when health is ignored, and nothing tells the health of the endpoints", "add health_check or outlier_detection, or remove it")
		return 0
	default:
		return float64(*in)
	}
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

// fallback builds the fixed response that a fallback is, if it is one.
func (r *resolver) fallback(in *fallback) *model.Fallback {
	fixed := in.Status != nil || in.Body != nil || in.Headers != nil
	switch {
	case fixed && in.Upstream != nil:
		r.out.add(in.below("upstream"), "a fallback is another upstream or a fixed response, not both", "keep upstream, or status, body and headers")
		return nil
	case in.Upstream != nil:
		return &model.Fallback{}
	case !fixed:
		r.out.add(in.place, "the fallback says nothing", "write status and body, or upstream")
		return nil
	}
	written := respond{Status: 503, Body: in.Body, Headers: in.Headers}
	if in.Status != nil {
		written.Status = *in.Status
	}
	return &model.Fallback{Respond: r.fixed(&written, in.below, func(string, model.Template) {})}
}

// fallbacks finds the upstreams that others fall back to, once all are built.
func (r *resolver) fallbacks(d *document) {
	for i := range d.Upstreams {
		use := r.upstreams[d.Upstreams[i].Key]
		if use.key != d.Upstreams[i].key || use.fallback() == nil {
			continue
		}
		if in := use.in.CircuitBreaker.Fallback; in.Upstream != nil {
			use.fallback().Upstream = r.upstreamNamed(in.below("upstream"), in.src.Dir, *in.Upstream)
		}
	}
}

// fallback is where the upstream leads while its breaker is open; nil: nowhere.
func (u *upstreamUse) fallback() *model.Fallback {
	if u == nil || u.built == nil || u.built.Breaker == nil {
		return nil
	}
	return u.built.Breaker.Fallback
}

// fallbackCycles reports fallbacks that lead back to where they began, and cuts
// them, so that whoever follows one comes to an end.
func (r *resolver) fallbackCycles() {
	for _, name := range r.upstreamNames {
		way, seen := []string{name}, map[string]bool{name: true}
		for at := r.upstreams[name]; at.fallback() != nil && at.fallback().Upstream != nil; {
			next := at.fallback().Upstream.Name
			way = append(way, next)
			if next == name {
				first := r.upstreams[name]
				r.out.add(first.in.below("circuit_breaker.fallback.upstream"), "fallbacks lead in a circle: "+strings.Join(way, ", "), "let the last of them fall back to a fixed response, or to nothing")
				first.fallback().Upstream = nil
			}
			if seen[next] {
				break
			}
			seen[next] = true
			at = r.upstreams[next]
		}
	}
}

// checkFallbacks holds the placeholders of an upstream's fallback to the path of
// a route that may come to it.
func (r *resolver) checkFallbacks(route *model.Route, u *model.Upstream) {
	for u != nil {
		use := r.upstreams[u.Name]
		f := use.fallback()
		if f == nil {
			return
		}
		if f.Respond != nil {
			check := func(path string, t model.Template) {
				r.parameters(func() place { return use.in.below("circuit_breaker.fallback." + path) }, route, t)
			}
			if f.Respond.Body != nil {
				check("body", *f.Respond.Body)
			}
			for _, field := range f.Respond.Fields {
				check("headers."+field.Name, field.Value)
			}
		}
		u = f.Upstream
	}
}
