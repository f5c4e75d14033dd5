package e2e

import (
	"slices"
	"testing"

	"sluice/internal/gatewaytest"
	"sluice/internal/upstream"
)

// statusOfUpstream is an upstream as the admin API tells it.
func statusOfUpstream(t *testing.T, gw *gatewaytest.Gateway, name string) (status upstream.Status) {
	t.Helper()
	var all []upstream.Status
	gw.Admin("/_gateway/upstreams", &all)
	if i := slices.IndexFunc(all, func(s upstream.Status) bool { return s.Name == name }); i >= 0 {
		return all[i]
	}
	t.Fatalf("the admin API tells nothing of upstream %s", name)
	return status
}

// endpointOf is an endpoint as the admin API tells it.
func endpointOf(t *testing.T, gw *gatewaytest.Gateway, name, url string) upstream.EndpointStatus {
	t.Helper()
	status := statusOfUpstream(t, gw, name)
	if i := slices.IndexFunc(status.Endpoints, func(s upstream.EndpointStatus) bool { return s.URL == url }); i >= 0 {
		return status.Endpoints[i]
	}
	t.Fatalf("the admin API tells nothing of endpoint %s", url)
	return upstream.EndpointStatus{}
}

// breakersOf are the circuit breakers of an upstream.
func breakersOf(t *testing.T, gw *gatewaytest.Gateway, name string) (some []upstream.BreakerStatus) {
	t.Helper()
	var all []upstream.BreakerStatus
	gw.Admin("/_gateway/breakers", &all)
	for _, b := range all {
		if b.Upstream == name {
			some = append(some, b)
		}
	}
	return some
}

// allWell tells whether every endpoint of an upstream is healthy and nothing keeps
// attempts from it.
func allWell(t *testing.T, gw *gatewaytest.Gateway, name string) bool {
	t.Helper()
	for _, e := range statusOfUpstream(t, gw, name).Endpoints {
		if e.Health != "healthy" || !e.Available || e.Ejected != nil || e.Drained {
			return false
		}
	}
	for _, b := range breakersOf(t, gw, name) {
		if b.State != "closed" {
			return false
		}
	}
	return true
}
