package snapshot_test

import (
	"slices"
	"strconv"
	"testing"

	"sluice/internal/message"
	"sluice/internal/telemetry"
)

// TestLimitFields tells clients how they stand, on what is allowed, refused, and failed
// further in; the tightest limit counts.
func TestLimitFields(t *testing.T) {
	e := newEngine(t)
	const routes = `
middleware: {wide: {rate_limit: {rate: 100/h, key: global}}}
global: [wide]
upstreams: {none: {endpoints: ["http://127.0.0.1:1"], rate_limit: {rate: 1/h}}}
routes:
  - {id: x, match: {path: /x}, respond: {status: 204}, middleware: [{rate_limit: {name: tight, rate: 2/h}}]}
  - {id: y, match: {path: /y}, upstream: none}
`
	e.load(listener + routes)
	stand := func(path string, status int, name string, remaining int) {
		t.Helper()
		x := e.exchange("GET", path)
		_ = e.run(x) // the response tells
		limit, _ := x.Response.Fields.Find("RateLimit")
		left, _ := x.Response.Fields.Find("X-RateLimit-Remaining")
		if x.Response.Status != status || left != strconv.Itoa(remaining) || limit == "" || limit[:len(name)+2] != strconv.Quote(name) {
			t.Errorf("%s: status %d, %s, %s left", path, x.Response.Status, limit, left)
		}
		if retry := x.Response.Fields.Has(message.RetryAfter); retry != (status == 429) {
			t.Errorf("%s: status %d, Retry-After is there: %v", path, status, retry)
		}
	}
	stand("/x", 204, "tight", 1)
	stand("/y", 502, "upstream none", 0)
	stand("/y", 429, "upstream none", 0)
	e.load(listener + routes + "  - {match: {path: /z}, respond: {status: 200}}\n")
	stand("/x", 204, "tight", 0)
	stand("/x", 429, "tight", 0)
	stand("/y", 429, "upstream none", 0)
	stand("/z", 200, "wide", 96) // what limits further in refused takes nothing
	var shown []string
	for _, l := range e.current.Load().Limits() {
		shown = append(shown, l.Limit)
	}
	if want := []string{"wide", "tight", "upstream none"}; !slices.Equal(shown, want) {
		t.Errorf("shown are %q", shown)
	}
	x := e.exchange("GET", "/nowhere")
	_ = e.run(x) // the response tells
	if limit, there := x.Response.Fields.Find("RateLimit"); there {
		t.Errorf("an exchange that met no limit has %q", limit)
	}
	if n := e.metric("gateway_rate_limit_decisions_total", "limit", "tight", "decision", "deny"); n != 1 {
		t.Errorf("%v denials were counted", n)
	}
	e.stop()
}

// TestLimitsInOrder shows limits as the configuration has them, whatever the order in which
// routes match.
func TestLimitsInOrder(t *testing.T) {
	e := newEngine(t)
	const one = "{rate_limit: {rate: 1/h}}"
	e.load(listener + `
global: [first, ` + one + `, both]
middleware: {both: ` + one + `, first: ` + one + `, shared: ` + one + `}
upstreams: {z: {endpoints: ["http://127.0.0.1:1"], rate_limit: {rate: 1/h}}, a: {endpoints: ["http://127.0.0.1:1"], rate_limit: {rate: 1/h}}}
routes:
  - {id: wide, match: {path_prefix: /}, upstream: z, middleware: [` + one + `, shared, both, {concurrency_limit: {max: 1}}]}
  - {id: exact, match: {path: /x}, upstream: a, middleware: [shared, ` + one + `], skip: [both]}
`)
	var shown []string
	for _, l := range e.current.Load().Limits() {
		shown = append(shown, l.Limit)
	}
	want := []string{
		"first", "rate_limit 1 of global", "both", "wide rate_limit 0", "shared", "wide concurrency_limit 3", "exact rate_limit 1", "upstream z", "upstream a",
	}
	if !slices.Equal(shown, want) {
		t.Errorf("shown are %q, want %q", shown, want)
	}
	e.stop()
}

// TestLimitsForMetrics reads what the metrics tell of limits.
func TestLimitsForMetrics(t *testing.T) {
	e := newEngine(t)
	e.load(listener + `
global: [{rate_limit: {name: few, rate: 1/h, key: "header:X-User", max_keys: 2}}, {concurrency_limit: {max: 1}}]
routes: [{match: {path: /x}, respond: {status: 200}}]
`)
	for user := range 5 {
		x := e.exchange("GET", "/x")
		x.Request.Fields.Set("X-User", strconv.Itoa(user))
		_ = e.run(x) // the response tells
	}
	want := []telemetry.LimitState{{Limit: "few", Keys: 2, Evicted: 3}, {Limit: "concurrency_limit 1 of global", Keys: 1, Concurrency: true}}
	if got := e.current.State().Limits; !slices.Equal(got, want) {
		t.Errorf("the limits are %+v, want %+v", got, want)
	}
	e.stop()
}

// TestLimitOfRouteGlobal has a limit of its own on a route that is called as the place of
// those in front of all.
func TestLimitOfRouteGlobal(t *testing.T) {
	e := newEngine(t)
	e.load(listener + `
global: [{rate_limit: {rate: 20/h}}]
upstreams: {up: {endpoints: ["http://127.0.0.1:1"]}}
routes: [{id: global, match: {path: /x}, upstream: up, middleware: [{rate_limit: {rate: 10/h, adaptive: {}}}]}]
`)
	var shown []string
	for _, l := range e.current.Load().Limits() {
		shown = append(shown, l.Limit+": "+l.Numbers())
	}
	want := []string{"rate_limit 0 of global: 20/h, burst 20, token_bucket", "global rate_limit 0: 10/h, burst 10, token_bucket, adaptive"}
	if !slices.Equal(shown, want) {
		t.Errorf("shown are %q, want %q", shown, want)
	}
	e.stop()
}

// TestPlacesAreFree after each exchange, whatever became of it.
func TestPlacesAreFree(t *testing.T) {
	e := newEngine(t)
	e.load(listener + `
global: [{concurrency_limit: {max: 1}}]
routes: [{match: {path: /x}, respond: {status: 200}}, {match: {path: /y}, upstream: "http://127.0.0.1:1"}]
`)
	for _, path := range []string{"/x", "/y", "/y", "/x"} {
		x := e.exchange("GET", path)
		if _ = e.run(x); x.Response.Status == 503 {
			t.Errorf("%s: the place is not free", path)
		}
	}
	e.stop()
}
