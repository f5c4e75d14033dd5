package config_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
)

var expressions = cmp.Comparer(func(a, b *regexp.Regexp) bool {
	return a == b || a != nil && b != nil && a.String() == b.String()
})

// only resolves one upstream, which a route uses.
func only(t *testing.T, options string) *model.Upstream {
	t.Helper()
	return resolve(t, listen+"upstreams: {users: {"+options+"}}\nroutes: [{match: {path: /x}, upstream: users}]\n").Upstreams[0]
}

// A block that is there has the numbers of SPEC 3, one that is not is off.
func TestResilienceDefaults(t *testing.T) {
	u := only(t, "endpoints: [http://a], health_check: {}, outlier_detection: {}, circuit_breaker: {slow_call: {}}")
	failures := []int{500, 502, 503, 504}
	want := &model.Upstream{
		Health: &model.HealthCheck{
			Type: "http", Path: "/health", Interval: 10 * time.Second, Timeout: 2 * time.Second, HealthyAfter: 2, UnhealthyAfter: 3,
			ExpectStatus: []model.StatusRange{{First: 200, Last: 399}},
		},
		Outlier: &model.OutlierDetection{
			Consecutive: 5, ErrorRate: 0.5, MinRequests: 20, BaseEjection: 30 * time.Second, MaxEjected: 0.5, FailureStatus: failures,
		},
		PanicThreshold: 0.3,
		Breaker: &model.CircuitBreaker{
			Scope: "upstream", Window: 10 * time.Second, MinRequests: 20, ErrorRate: 0.5, Consecutive: 5,
			SlowCall: &model.SlowCall{LongerThan: 2 * time.Second, Rate: 0.8}, FailureStatus: failures,
			OpenFor: 30 * time.Second, MaxConcurrent: 3, Successes: 3,
		},
	}
	got := &model.Upstream{Health: u.Health, Outlier: u.Outlier, PanicThreshold: u.PanicThreshold, SlowStart: u.SlowStart, Breaker: u.Breaker}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if u := only(t, "endpoints: [http://a], circuit_breaker: {}"); u.Breaker.SlowCall != nil || u.Breaker.Fallback != nil || u.PanicThreshold != 0 {
		t.Errorf("what is not written is on: %+v", u.Breaker)
	}
	if u := only(t, "endpoints: [http://a], outlier_detection: {}"); u.PanicThreshold != 0 {
		t.Errorf("the panic threshold without health checks is %v", u.PanicThreshold)
	}
	if u := only(t, "endpoints: [http://a], health_check: {interval: 500ms}"); u.Health.Timeout != 500*time.Millisecond {
		t.Errorf("a check takes %v, longer than its interval", u.Health.Timeout)
	}
	if u := only(t, "dns: {name: Users.internal}"); *u.DNS != (model.DNS{Name: "users.internal", Scheme: "http", Refresh: 30 * time.Second}) || u.Protocol != "http1" {
		t.Errorf("got %+v, %s", u.DNS, u.Protocol)
	}
	if u := only(t, "endpoints: [http://a], load_balancer: {policy: sticky_cookie}"); u.Balancer != (model.Balancer{Policy: "sticky_cookie", Cookie: "sluice"}) {
		t.Errorf("got %+v", u.Balancer)
	}
}

func TestResilienceWritten(t *testing.T) {
	u := only(t, `
    dns: {name: "_http._tcp.Users.Internal.", scheme: https, refresh: 1m, resolver: 10.0.0.2},
    load_balancer: {policy: consistent_hash, hash_on: header:X-User-Id},
    health_check: {type: http, path: "/ready?deep=1", host: users.internal, interval: 1s, timeout: 1s, healthy_after: 1, unhealthy_after: 4, expect_status: [200, "204", 300-304], expect_body: "^ok"},
    outlier_detection: {consecutive_failures: 0, error_rate: 25%, min_requests: 7, base_ejection: 1s, max_ejected: 10%},
    panic_threshold: 0%,
    slow_start: 5s,
    circuit_breaker:
      {scope: endpoint, window: 5s, min_requests: 3, error_rate: 0%, consecutive_failures: 2, slow_call: {longer_than: 1s, rate: 1%}, failure_status: [599, 500-502, 501],
      open_for: 2s, half_open: {max_concurrent: 1, successes: 2}, fallback: {status: 200, body: "sorry {client_ip}", headers: {Content-Type: text/plain}}}`)
	want := &model.Upstream{
		Name: "users", Protocol: "auto",
		DNS:      &model.DNS{Name: "_http._tcp.users.internal.", Scheme: "https", Refresh: time.Minute, Resolver: "10.0.0.2:53"},
		Balancer: model.Balancer{Policy: "consistent_hash", HashOn: &model.Key{Source: model.KeyHeader, Name: "X-User-Id"}},
		Pool:     u.Pool, Timeouts: u.Timeouts,
		Health: &model.HealthCheck{
			Type: "http", Path: "/ready?deep=1", Host: "users.internal", Interval: time.Second, Timeout: time.Second, HealthyAfter: 1, UnhealthyAfter: 4,
			ExpectStatus: []model.StatusRange{{First: 200, Last: 200}, {First: 204, Last: 204}, {First: 300, Last: 304}}, ExpectBody: regexp.MustCompile("^ok"),
		},
		Outlier:   &model.OutlierDetection{ErrorRate: 0.25, MinRequests: 7, BaseEjection: time.Second, MaxEjected: 0.1, FailureStatus: []int{500, 501, 502, 599}},
		SlowStart: 5 * time.Second,
		Breaker: &model.CircuitBreaker{
			Scope: "endpoint", Window: 5 * time.Second, MinRequests: 3, Consecutive: 2, SlowCall: &model.SlowCall{LongerThan: time.Second, Rate: 0.01},
			FailureStatus: []int{500, 501, 502, 599}, OpenFor: 2 * time.Second, MaxConcurrent: 1, Successes: 2,
			Fallback: &model.Fallback{Respond: &model.Respond{
				Status: 200, Body: &model.Template{Parts: []model.TemplatePart{{Literal: "sorry "}, {Source: model.FromClientIP}}},
				Fields: []model.FieldTemplate{{Name: "Content-Type", Value: model.Literal("text/plain")}},
			}},
		},
	}
	if diff := cmp.Diff(want, u, expressions); diff != "" {
		t.Error(diff)
	}
	for options, want := range map[string]model.Balancer{
		"policy: least_connections":                           {Policy: model.LeastConnections},
		"policy: p2c_ewma":                                    {Policy: model.PowerOfTwo},
		"policy: random":                                      {Policy: model.RandomChoice},
		"policy: sticky_cookie, name: stick, ttl: 1h":         {Policy: model.StickyCookie, Cookie: "stick", TTL: time.Hour},
		"policy: consistent_hash, hash_on: client_ip":         {Policy: model.ConsistentHash, HashOn: &model.Key{Source: model.KeyClientIP}},
		"policy: consistent_hash, hash_on: cookie:id":         {Policy: model.ConsistentHash, HashOn: &model.Key{Source: model.KeyCookie, Name: "id"}},
		"policy: consistent_hash, hash_on: query:user":        {Policy: model.ConsistentHash, HashOn: &model.Key{Source: model.KeyQuery, Name: "user"}},
		`policy: consistent_hash, hash_on: "jwt:https://x/y"`: {Policy: model.ConsistentHash, HashOn: &model.Key{Source: model.KeyClaim, Name: "https://x/y"}},
	} {
		if diff := cmp.Diff(want, only(t, "endpoints: [http://a], load_balancer: {"+options+"}").Balancer); diff != "" {
			t.Errorf("%s: %s", options, diff)
		}
	}
	grpc := only(t, "protocol: h2c, endpoints: [http://a], health_check: {type: grpc, service: users.Users, host: users}")
	if diff := cmp.Diff(&model.HealthCheck{Type: "grpc", Service: "users.Users", Host: "users", Interval: 10 * time.Second, Timeout: 2 * time.Second, HealthyAfter: 2, UnhealthyAfter: 3}, grpc.Health); diff != "" {
		t.Error(diff)
	}
	none := only(t, "endpoints: [http://a], circuit_breaker: {failure_status: []}")
	if len(none.Breaker.FailureStatus) != 0 {
		t.Errorf("an empty list is %v", none.Breaker.FailureStatus)
	}
}

func TestFallbackUpstreams(t *testing.T) {
	g := resolve(t, listen+`
upstreams:
  a: {endpoints: [http://a], circuit_breaker: {fallback: {upstream: z}}}
  z: {endpoints: [http://z], circuit_breaker: {fallback: {upstream: "http://last"}}}
routes: [{match: {path: /x}, upstream: a}]
`)
	z := g.Upstreams[0].Breaker.Fallback.Upstream
	if z != g.Upstreams[1] || z.Breaker.Fallback.Upstream != g.Upstreams[2] || g.Upstreams[2].Name != "http://last" {
		t.Errorf("got %s", model.Text(g.Upstreams))
	}
}

func TestSplits(t *testing.T) {
	g := resolve(t, listen+`
upstreams: {old: {endpoints: [http://a]}, new: {endpoints: [http://b], circuit_breaker: {}}}
routes:
  - {id: percent, match: {path_prefix: /1}, split: [{upstream: old, weight: 95%, version: v1}, {upstream: new, weight: 5%, version: v2}], sticky: {by: "header:X-User-Id"}, force_header: X-Side, failover: true, strip_prefix: true, rewrite: {host: upstream}}
  - {id: plain, match: {path_prefix: /2}, split: [{upstream: old}, {upstream: "http://c/base", weight: 2}]}
  - {id: one, match: {path_prefix: /3}, split: [{upstream: new}], retry: {}}
`)
	old, next := g.Upstreams[0], g.Upstreams[1]
	want := &model.Split{
		Sides:  []model.Side{{Upstream: old, Weight: 19, Version: "v1"}, {Upstream: next, Weight: 1, Version: "v2"}},
		Sticky: &model.Key{Source: model.KeyHeader, Name: "X-User-Id"}, ForceHeader: "X-Side", Failover: true,
	}
	if diff := cmp.Diff(want, g.Routes[0].Split); diff != "" {
		t.Error(diff)
	}
	if r := g.Routes[0]; !r.StripPrefix || r.Rewrite.Host != "upstream" || r.Upstream != nil || r.Retry != nil {
		t.Errorf("got %+v", r)
	}
	want = &model.Split{Sides: []model.Side{{Upstream: old, Weight: 1}, {Upstream: g.Upstreams[2], Weight: 2}}, ForceHeader: "X-Canary-Version"}
	if diff := cmp.Diff(want, g.Routes[1].Split); diff != "" {
		t.Error(diff)
	}
	if one := g.Routes[2]; len(one.Split.Sides) != 1 || one.Split.Sides[0].Upstream != next || one.Retry == nil {
		t.Errorf("got %+v", one)
	}
}

func TestRetries(t *testing.T) {
	g := resolve(t, listen+`
routes:
  - {id: default, match: {path: /1}, upstream: "http://a", retry: {}, timeout: 1s}
  - {id: written, match: {path: /2}, upstream: "http://a", retry: {attempts: 10, on: [timeout, "503", reset, 429, refused, connect_failure], per_try_timeout: 0, budget: 0%, methods: [GET, POST], max_body: 1MiB}}
  - {id: never, match: {path: /3}, upstream: "http://a", retry: {methods: [], max_body: 0, attempts: 1}}
`)
	for i, want := range []*model.Retry{
		{
			Attempts: 2, On: model.RetryOn{ConnectFailure: true, Refused: true, Status: []int{502, 503}}, PerTry: 5 * time.Second, Budget: 0.2,
			Methods: []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE"}, Body: 65536,
		},
		{
			Attempts: 10, On: model.RetryOn{ConnectFailure: true, Refused: true, Reset: true, Timeout: true, Status: []int{429, 503}},
			Methods: []string{"GET", "POST"}, Body: 1 << 20,
		},
		{
			Attempts: 1, On: model.RetryOn{ConnectFailure: true, Refused: true, Status: []int{502, 503}}, PerTry: 5 * time.Second, Budget: 0.2, Methods: []string{},
		},
	} {
		if diff := cmp.Diff(want, g.Routes[i].Retry); diff != "" {
			t.Errorf("%s: %s", g.Routes[i].ID, diff)
		}
	}
}
