package config

import (
	"fmt"
	"strings"
	"time"

	"sluice/internal/canonical"
	"sluice/internal/model"
)

type healthCheck struct {
	Type           string    `config:"type" enum:"http|tcp|grpc" doc:"what is asked: a path by GET, whether a connection can be made, or grpc.health.v1"`
	Path           *string   `config:"path" doc:"of http: the path, a query included; an endpoint's base path is not put in front" default:"/health"`
	Host           *string   `config:"host" doc:"of http and grpc: the Host that is asked" default:"the endpoint's"`
	Service        *string   `config:"service" doc:"of grpc: the service that is asked about" default:"the whole server"`
	Interval       Duration  `config:"interval" doc:"from one check of an endpoint to the next, give or take a tenth"`
	Timeout        *Duration `config:"timeout" doc:"how long a check may take" default:"2s, or interval if that is shorter"`
	HealthyAfter   int       `config:"healthy_after" doc:"so many good checks in a row make an endpoint healthy"`
	UnhealthyAfter int       `config:"unhealthy_after" doc:"so many bad checks in a row make it unhealthy"`
	ExpectStatus   statuses  `config:"expect_status" doc:"of http: the good statuses" default:"200-399"`
	ExpectBody     *string   `config:"expect_body" doc:"of http: a regular expression (RE2) that the body matches" default:"any"`
}

// SetDefaults sets the defaults of SPEC 3.
func (h *healthCheck) SetDefaults() {
	h.Type, h.Interval, h.HealthyAfter, h.UnhealthyAfter = checkHTTP, Duration(10*time.Second), 2, 3
}

// The types of check.
const (
	checkHTTP = "http"
	checkTCP  = "tcp"
	checkGRPC = "grpc"
)

const defaultCheckTimeout = 2 * time.Second

// shortestInterval is the shortest time between two checks of an endpoint.
const shortestInterval = Duration(10 * time.Millisecond)

// healthCheck builds how endpoints are asked for their health; nil: they are not.
func (r *resolver) healthCheck(name string, u *upstream, protocol string) *model.HealthCheck {
	in := u.HealthCheck
	if in == nil {
		return nil
	}
	report := func(key, message, hint string) { r.out.add(u.below("health_check."+key), message, hint) }
	built := &model.HealthCheck{
		Type: in.Type, Interval: time.Duration(in.Interval), Timeout: min(defaultCheckTimeout, time.Duration(in.Interval)),
		HealthyAfter: in.HealthyAfter, UnhealthyAfter: in.UnhealthyAfter,
	}
	if in.Timeout != nil {
		built.Timeout = time.Duration(*in.Timeout)
	}
	switch {
	case in.Interval < shortestInterval:
		report("interval", fmt.Sprintf("interval must be at least %v, not %v", shortestInterval, in.Interval), "")
	case built.Timeout == 0:
		report("timeout", "timeout must be more than 0, so that a check ends", "")
	case built.Timeout > built.Interval:
		report("timeout", fmt.Sprintf("timeout is %v, longer than the interval of %v: checks would pile up", *in.Timeout, in.Interval), fmt.Sprintf("write timeout: %v, or a longer interval", in.Interval))
	}
	for _, count := range []struct {
		key   string
		value int
	}{{"healthy_after", in.HealthyAfter}, {"unhealthy_after", in.UnhealthyAfter}} {
		if count.value < 1 {
			report(count.key, fmt.Sprintf("%s must be at least 1, not %d", count.key, count.value), "")
		}
	}
	if in.Type == checkGRPC && protocol == model.UpstreamHTTP1 {
		report("type", fmt.Sprintf("gRPC is spoken over HTTP/2, and the upstream %s has the protocol http1", name), "write protocol: h2c for the upstream, or type: http")
	}
	r.asked(in, built, report)
	return built
}

// asked takes what only some types of check have.
func (r *resolver) asked(in *healthCheck, built *model.HealthCheck, report func(key, message, hint string)) {
	http := in.Type == checkHTTP
	for _, option := range []struct {
		key     string
		written bool
		fits    bool
		types   string
	}{
		{"path", in.Path != nil, http, "http"},
		{"host", in.Host != nil, in.Type != checkTCP, "http and grpc"},
		{"service", in.Service != nil, in.Type == checkGRPC, "grpc"},
		{"expect_status", in.ExpectStatus != nil, http, "http"},
		{"expect_body", in.ExpectBody != nil, http, "http"},
	} {
		if option.written && !option.fits {
			report(option.key, fmt.Sprintf("%s is for checks of the type %s, and the type is %s", option.key, option.types, in.Type), "remove it, or write another type")
		}
	}
	if in.Host != nil {
		built.Host = *in.Host
		if !canonical.ValidAuthority(built.Host) {
			report("host", fmt.Sprintf("host must be a host, maybe with a port, not %s", short(built.Host)), "")
		}
	}
	if in.Service != nil {
		built.Service = *in.Service
	}
	if !http {
		return
	}
	built.Path, built.ExpectStatus = "/health", []model.StatusRange{{First: 200, Last: 399}}
	if in.Path != nil {
		built.Path = *in.Path
		if f := checkedPath(built.Path); f != nil {
			report("path", "path "+f.message, f.hint)
		}
	}
	if in.ExpectStatus != nil {
		built.ExpectStatus = nil
		if len(in.ExpectStatus) == 0 {
			report("expect_status", "expect_status is an empty list, so that no check could be good", "leave the key out for 200-399")
		}
		for _, one := range in.ExpectStatus {
			built.ExpectStatus = append(built.ExpectStatus, model.StatusRange(one))
		}
	}
	if in.ExpectBody != nil {
		expression, f := compile(*in.ExpectBody)
		if f != nil {
			report("expect_body", "expect_body "+f.message, f.hint)
		}
		built.ExpectBody = expression
	}
}

// checkedPath tells what is wrong with the target of a check.
func checkedPath(path string) *fault {
	switch {
	case !strings.HasPrefix(path, "/"):
		return faulty(fmt.Sprintf("must begin with a slash: %s", short(path)), "write /"+path)
	case strings.ContainsFunc(path, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '#' }):
		return faulty(fmt.Sprintf("must be a path as it is sent, without white space, # and what is not ASCII: %s", short(path)), "write %20 for a space")
	}
	return nil
}
