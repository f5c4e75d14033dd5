package config

import (
	"fmt"
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
