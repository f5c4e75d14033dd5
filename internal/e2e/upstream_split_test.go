package e2e

import (
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

// splitGateway is a gateway that shares out requests between two releases, by who
// asks on /sticky, and each anew on /random.
type splitGateway struct {
	*gatewaytest.Gateway
	client *http.Client
	urls   [2]string
}

func (g *splitGateway) config(weight int) string {
	sides := fmt.Sprintf("[{upstream: v1, weight: %d%%, version: v1}, {upstream: v2, weight: %d%%, version: v2}]", 100-weight, weight)
	return fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
upstreams:
  v1: {endpoints: [%q]}
  v2: {endpoints: [%q], health_check: {interval: 500ms, unhealthy_after: 2}, panic_threshold: 0%%}
routes:
  - {id: sticky, match: {path_prefix: /sticky}, split: %[3]s, sticky: {by: "header:X-User-Id"}}
  - {id: random, match: {path_prefix: /random}, split: %[3]s}
  - {id: safe, match: {path_prefix: /safe}, split: %[3]s, sticky: {by: "header:X-User-Id"}, failover: true}
`, g.urls[0], g.urls[1], sides)
}

// version asks, and returns which release has answered, by its own word and the
// gateway's.
func (g *splitGateway) version(t *testing.T, path string, fields ...string) string {
	t.Helper()
	r := fetch(t, g.client, http.MethodGet, g.URL("web")+path, 0, nil, fields...)
	version := r.Header.Get("X-Backend-Version")
	if r.StatusCode != http.StatusOK || version != r.Header.Get("X-Endpoint") {
		t.Fatalf("%s with %v: status %d %s from %s as version %q", path, fields, r.StatusCode, r.word(), r.Header.Get("X-Endpoint"), version)
	}
	return version
}

// TestSplit shares out requests, raises a release step by step by reloads, and
// takes its endpoint away.
func TestSplit(t *testing.T) {
	const users = 2_000
	v1, v2 := newFickle(t, "v1"), newFickle(t, "v2")
	g := &splitGateway{client: ownClient(t), urls: [2]string{v1.url, v2.url}}
	g.Gateway = gatewaytest.Start(t, g.config(5))
	gatewaytest.WaitFor(t, "the new release is healthy", func() bool { return allWell(t, g.Gateway, "v2") })
	user := func(n int) string { return fmt.Sprint("user-", n) }
	// Of a fair coin with this share a count is farther off once in a million.
	plausible := func(name string, got, all int, share float64) {
		t.Helper()
		if off := 5 * math.Sqrt(float64(all)*share*(1-share)); math.Abs(float64(got)-float64(all)*share) > off {
			t.Errorf("%s: %d of %d are on v2, not %.0f give or take %.0f", name, got, all, float64(all)*share, off)
		}
	}
	count := func(all int, on func(n int) bool) (sum int) {
		for n := range all {
			if on(n) {
				sum++
			}
		}
		return sum
	}
	plausible("at random", count(users, func(int) bool { return g.version(t, "/random") == "v2" }), users, 0.05)

	moved := map[int]bool{}
	for _, weight := range []int{5, 20, 50, 100} {
		if weight > 5 {
			g.Load(g.config(weight))
		}
		all := users
		if weight > 5 {
			all = users / 4
		}
		on := count(all, func(n int) bool {
			now := g.version(t, "/sticky", "X-User-Id", user(n)) == "v2"
			if moved[n] && !now {
				t.Errorf("at %d%% user %d goes back to v1", weight, n)
			}
			moved[n] = moved[n] || now
			return now
		})
		plausible(fmt.Sprintf("by users at %d%%", weight), on, all, float64(weight)/100)
		for version, n := range map[string]int{"v1": 1, "v2": 2} {
			for _, path := range []string{"/sticky", "/random"} {
				if got := g.version(t, path, "X-User-Id", user(n), "X-Canary-Version", version); got != version {
					t.Errorf("at %d%% who asks for %s gets %s", weight, version, got)
				}
			}
		}
	}

	g.Load(g.config(50))
	before := make([]string, 200)
	for n := range before {
		before[n] = g.version(t, "/safe", "X-User-Id", user(n))
	}
	v2.sick.Store(true)
	gatewaytest.WaitFor(t, "the new release is unhealthy", func() bool { return endpointOf(t, g.Gateway, "v2", v2.url).Health == "unhealthy" })
	for n := range before {
		if got := g.version(t, "/safe", "X-User-Id", user(n)); got != "v1" {
			t.Fatalf("user %d is on %s, which has no endpoint", n, got)
		}
	}
	for _, path := range []string{"/sticky", "/safe"} { // who asks for a version gets that or none
		r := fetch(t, g.client, http.MethodGet, g.URL("web")+path, 0, nil, "X-Canary-Version", "v2")
		if r.StatusCode != 503 || r.word() != "no_endpoint" {
			t.Errorf("%s: who asks for a release without an endpoint gets %d %s", path, r.StatusCode, r.word())
		}
	}
	v2.sick.Store(false)
	gatewaytest.WaitFor(t, "the new release is healthy again", func() bool { return allWell(t, g.Gateway, "v2") })
	for n := range before {
		if got := g.version(t, "/safe", "X-User-Id", user(n)); got != before[n] {
			t.Errorf("user %d is on %s, and was on %s", n, got, before[n])
		}
	}
}

// TestSplitUnderLoad raises a release under load; no request fails.
func TestSplitUnderLoad(t *testing.T) {
	g := &splitGateway{client: ownClient(t), urls: [2]string{newFickle(t, "v1").url, newFickle(t, "v2").url}}
	g.Gateway = gatewaytest.Start(t, g.config(5))
	gatewaytest.WaitFor(t, "the new release is healthy", func() bool { return allWell(t, g.Gateway, "v2") })
	load := startLoad(t, 100, func(n int) *http.Request {
		r := gets(t, g.URL("web")+"/sticky")(n)
		r.Header.Set("X-User-Id", fmt.Sprint("user-", n))
		return r
	})
	for _, weight := range []int{20, 50, 100} {
		_ = load.after(time.Now(), 20)
		g.Load(g.config(weight))
	}
	_ = load.after(time.Now(), 20)
	if by := shares(load.after(time.Now(), 40)); len(by) != 1 || by["v2"] == 0 {
		t.Errorf("when v2 has all of it answers come from %v", by)
	}
	load.none()
}
