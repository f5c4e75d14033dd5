package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
	"sluice/internal/pipeline"
)

// stateOfLimit is what the gateway tells of an adaptive rate, as "upstream: state".
func stateOfLimit(t *testing.T, gw *gatewaytest.Gateway, name string) (states []string, upstreams []pipeline.StanceStatus) {
	t.Helper()
	var limits []pipeline.LimitStatus
	gw.Admin("/_gateway/limits", &limits)
	for _, l := range limits {
		if l.Limit != name {
			continue
		}
		if l.AdaptiveRate == nil {
			t.Fatalf("limit %s is not adaptive", name)
		}
		for _, u := range l.AdaptiveRate.Upstreams {
			states = append(states, u.Upstream+": "+u.State)
		}
		upstreams = append(upstreams, l.AdaptiveRate.Upstreams...)
	}
	return states, upstreams
}

// limitStateConfig has a limit in front of an upstream that fails, of another, of a split
// of both, and of a route without any. The field only makes configurations differ.
func limitStateConfig(failing, fine, field string) string {
	return fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
middleware:
  paced: {rate_limit: {rate: 20/h, key: "header:K", adaptive: {floor: 1/h, sigma_window: 5s}}}
upstreams:
  failing: {endpoints: [%q], circuit_breaker: {open_for: 20ms}}
  fine: {endpoints: [%q]}
routes:
  - {id: drive, match: {path: /drive}, upstream: failing}
  - {id: failing, match: {path: /failing}, upstream: failing, middleware: [paced]}
  - {id: fine, match: {path: /fine}, upstream: fine, middleware: [paced]}
  - {id: split, match: {path: /split}, split: [{upstream: failing, weight: 1}, {upstream: fine, weight: 1}], middleware: [paced]}
  - {id: none, match: {path: /none}, respond: {status: 200, body: %q}, middleware: [paced]}
`, failing, fine, field)
}

// TestLimitState has limit and circuit breaker act together: while that is not closed the
// limit in front of the upstream lets half through, before that upstream alone, over a
// reload too; when it is closed again the limit recovers. People see it.
func TestLimitState(t *testing.T) {
	once(t)
	failing, fine := newFickle(t, "failing"), newFickle(t, "fine")
	gw := gatewaytest.Start(t, limitStateConfig(failing.url, fine.url, "one"))
	conn := gw.Dial("web")
	drive := func() { _ = (ask{target: "/drive"}).on(t, conn) }
	admitted := func(path, key string) (n int) {
		for range 25 {
			r := (ask{target: path, header: map[string]string{"K": key}}).on(t, conn)
			if r.StatusCode != 429 {
				n++
			} else if r.Header.Get("Retry-After") == "" || r.Header.Get("X-RateLimit-Remaining") != "0" {
				t.Fatalf("%s is refused with %v", path, r.Header)
			}
		}
		return n
	}
	want := func(states ...string) (upstreams []pipeline.StanceStatus) {
		t.Helper()
		got, upstreams := stateOfLimit(t, gw, "paced")
		if !slices.Equal(got, states) {
			t.Fatalf("the limit is %q, want %q", got, states)
		}
		return upstreams
	}
	if got := want("failing: normal", "fine: normal"); got[0].Since != nil || got[0].Reason != "" {
		t.Errorf("at first it is %+v", got[0])
	}
	if n := admitted("/failing", "first"); n != 20 {
		t.Errorf("%d were admitted when all was well", n)
	}

	failing.fails.Store(true)
	gatewaytest.WaitFor(t, "the breaker opens", func() bool { drive(); return breakersOf(t, gw, "failing")[0].State != "closed" })
	before := want("failing: shedding", "fine: normal")[0]
	if before.Since == nil || !strings.Contains(before.Reason, "circuit breaker is not closed") {
		t.Errorf("it is %+v", before)
	}
	for _, c := range []struct {
		path string
		want int
	}{{"/failing", 10}, {"/fine", 20}, {"/split", 10}, {"/none", 20}} {
		if n := admitted(c.path, c.path); n != c.want {
			t.Errorf("%s: %d were admitted, want %d", c.path, n, c.want)
		}
	}
	metric := func(upstream string, want float64) {
		t.Helper()
		if got := gw.Metric("gateway_rate_limit_state", "limit", "paced", "upstream", upstream); got != want {
			t.Errorf("the metric of %s is %v, want %v", upstream, got, want)
		}
	}
	metric("failing", 2)
	metric("fine", 0)

	gw.Load(limitStateConfig(failing.url, fine.url, "two"))
	if after := want("failing: shedding", "fine: normal")[0]; !after.Since.Equal(*before.Since) {
		t.Errorf("shedding since %v, after a reload since %v", before.Since, after.Since)
	}
	if n := admitted("/failing", "/failing"); n != 0 {
		t.Errorf("%d more were admitted after a reload", n)
	}

	failing.fails.Store(false)
	gatewaytest.WaitFor(t, "the limit has recovered", func() bool {
		drive()
		states, _ := stateOfLimit(t, gw, "paced")
		return states[0] == "failing: normal"
	})
	metric("failing", 0)
	if n := admitted("/failing", "last"); n != 20 {
		t.Errorf("%d were admitted when all was well again", n)
	}
	var told []string
	for line := range strings.Lines(gw.ProcessLog()) {
		if _, turn, found := strings.Cut(line, "adaptive limits let "); found {
			told = append(told, turn)
		}
	}
	for i, part := range []string{"from=normal to=shedding", "from=shedding to=recovering", "from=recovering to=normal"} {
		if i >= len(told) || !strings.Contains(told[i], "upstream=failing "+part) {
			t.Fatalf("the log tells %q", told)
		}
	}
	if len(told) != 3 {
		t.Errorf("the log tells %q", told)
	}
	if lasted := time.Since(*before.Since); lasted < 2500*time.Millisecond {
		t.Errorf("it took %v to recover", lasted)
	}
}
