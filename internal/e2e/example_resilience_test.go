package e2e

import (
	"fmt"
	"testing"

	"sluice/internal/gatewaytest"
)

func exampleResilience(t *testing.T, gw *exampleGateway) {
	t.Helper()
	t.Setenv("ORDERS_3_URL", gatewaytest.Refused(t))
	t.Setenv("RECOMMENDATIONS_URL", gatewaytest.Refused(t))
	gw.start(t, "ORDERS_1_URL", "ORDERS_2_URL")
	reached := map[string]int{}
	for i := range 30 {
		method := []string{"GET", "POST"}[i%2] // nothing of either was sent where nobody listens
		reached[gw.ask(t, ask{method: method, target: "/orders/1"}).echo(t).Endpoint]++
	}
	if len(reached) != 2 {
		t.Errorf("the orders were served by %v", reached)
	}
	for range 5 {
		gw.refuses(t, ask{target: "/recommendations"}, 502, "upstream_connect")
	}
	if r := gw.ask(t, ask{target: "/recommendations"}); r.StatusCode != 200 || r.body != "[]\n" || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("while the breaker is open clients get %d %q", r.StatusCode, r.body)
	}
}

func exampleCanary(t *testing.T, gw *exampleGateway) {
	t.Helper()
	gw.start(t, "SHOP_URL", "SHOP_NEXT_URL")
	endpoints := map[string]string{"v1": "SHOP_URL", "v2": "SHOP_NEXT_URL"}
	side := func(header map[string]string) string {
		t.Helper()
		r := gw.ask(t, ask{target: "/cart", header: header})
		version := r.Header.Get("X-Backend-Version")
		if e := r.echo(t); e.Endpoint != endpoints[version] || e.Target != "/cart" {
			t.Errorf("%v: %s served %s as version %q", header, e.Endpoint, e.Target, version)
		}
		return version
	}
	for version := range endpoints {
		if got := side(map[string]string{"X-Canary-Version": version, "X-User-Id": "ann"}); got != version {
			t.Errorf("who asks for %s gets %s", version, got)
		}
	}
	sides := map[string]int{}
	for i := range 200 {
		user := map[string]string{"X-User-Id": fmt.Sprint("user-", i)}
		version := side(user)
		sides[version]++
		if i%20 == 0 && side(user) != version {
			t.Errorf("user %d does not stay on %s", i, version)
		}
	}
	if sides["v2"] < 1 || sides["v2"] > 30 {
		t.Errorf("of 200 users %v are on each side", sides)
	}
	// Without an endpoint of v2 its users get v1, and only who asks for it is told.
	t.Setenv("SHOP_NEXT_URL", gatewaytest.Refused(t))
	gw.start(t, "SHOP_URL")
	for i := range 200 {
		if version := side(map[string]string{"X-User-Id": fmt.Sprint("user-", i)}); version != "v1" {
			t.Errorf("user %d is on %s, which has no endpoint", i, version)
		}
	}
	gw.refuses(t, ask{target: "/cart", header: map[string]string{"X-Canary-Version": "v2"}}, 502, "upstream_connect")
}
