package snapshot_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/snapshot"
)

// TestExplainDestination tells where requests go where routes share them out, or
// where endpoints are looked up.
func TestExplainDestination(t *testing.T) {
	compiled := compile(t, listener+`
upstreams:
  old: {endpoints: ["http://127.0.0.1:1"]}
  new: {dns: {name: new.internal, port: 8080}, load_balancer: {policy: random}}
  guarded: {endpoints: ["http://127.0.0.1:2"], load_balancer: {policy: consistent_hash, hash_on: "cookie:user"}, circuit_breaker: {fallback: {upstream: old}}}
  each: {endpoints: ["http://127.0.0.1:3"], circuit_breaker: {scope: endpoint, consecutive_failures: 0, open_for: 5s, slow_call: {longer_than: 1s, rate: 12.5%}, fallback: {status: 200, body: later}}}
  slow: {endpoints: ["http://127.0.0.1:4"], circuit_breaker: {error_rate: 0%}}
  found: {dns: {name: _http._tcp.found.internal, scheme: https}}
routes:
  - {id: split, match: {path: /split}, split: [{upstream: old, weight: 95%, version: v1}, {upstream: new, weight: 5%, version: v2}], sticky: {by: "header:X-User"}}
  - {id: ip, match: {path: /ip}, split: [{upstream: old}, {upstream: new}], sticky: {by: client_ip}}
  - {id: chance, match: {path: /chance}, split: [{upstream: old, weight: 1, version: v1}, {upstream: new, weight: 999, version: v2}], force_header: X-Side}
  - {id: guarded, match: {path: /guarded}, upstream: guarded}
  - {id: sides, match: {path: /sides}, split: [{upstream: each, version: v1}, {upstream: each, version: v2}, {upstream: old, version: v3}, {upstream: slow, version: v4}], failover: true}
  - {id: found, match: {path: /found}, upstream: found}
`)
	const sticky = "header:X-User keeps a user on one side; without it by chance"
	for _, test := range []struct {
		path, header string
		want         snapshot.Destination
	}{
		{"/split", "X-User: a", snapshot.Destination{Kind: "split", Target: "95% old (v1), 5% new (v2)", Reason: sticky}},
		{"/split", "x-canary-version: v2", snapshot.Destination{
			Kind: "split", Upstream: "new", Version: "v2", Target: "http endpoints of the addresses of new.internal, port 8080",
			Reason: "X-Canary-Version names the version; random picks the endpoint",
		}},
		{"/split", "X-Canary-Version: v9", snapshot.Destination{Kind: "split", Target: "95% old (v1), 5% new (v2)", Reason: sticky}},
		{"/ip", "X-Canary-Version: ", snapshot.Destination{Kind: "split", Target: "50% old, 50% new", Reason: "client_ip keeps a user on one side; without it by chance"}},
		{"/chance", "X-Canary-Version: v2", snapshot.Destination{Kind: "split", Target: "0.1% old (v1), 99.9% new (v2)", Reason: "each exchange by chance"}},
		{"/chance", "X-Side: v1", snapshot.Destination{
			Kind: "split", Upstream: "old", Version: "v1", Target: "http://127.0.0.1:1", Reason: "X-Side names the version; round_robin picks the endpoint",
		}},
		{"/guarded", "X-A: b", snapshot.Destination{
			Kind: "upstream", Upstream: "guarded", Target: "http://127.0.0.1:2", Reason: "the route's upstream; consistent_hash on cookie:user picks the endpoint",
			Breaker: "opens after 5 failures in a row or 50% failures, for 30s; clients get upstream old",
		}},
		{"/sides", "X-A: b", snapshot.Destination{
			Kind: "split", Target: "25% each (v1), 25% each (v2), 25% old (v3), 25% slow (v4)", Reason: "each exchange by chance; a side without an available endpoint gives its share to the others",
			Breaker: "each opens for each endpoint alone after 50% failures or 12.5% slower than 1s, for 5s; clients get status 200; slow opens after 5 failures in a row, for 30s; clients get 503 circuit_open",
		}},
		{"/sides", "X-Canary-Version: v4", snapshot.Destination{
			Kind: "split", Upstream: "slow", Version: "v4", Target: "http://127.0.0.1:4", Reason: "X-Canary-Version names the version; round_robin picks the endpoint",
			Breaker: "opens after 5 failures in a row, for 30s; clients get 503 circuit_open",
		}},
		{"/found", "X-A: b", snapshot.Destination{
			Kind: "upstream", Upstream: "found", Target: "https endpoints of the SRV records of _http._tcp.found.internal", Reason: "the route's upstream; round_robin picks the endpoint",
		}},
	} {
		request, client, err := snapshot.Question("GET", test.path, []string{test.header}, "")
		if err != nil {
			t.Fatal(err)
		}
		explanation, err := compiled.Explain(request, "", client)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&test.want, explanation.Destination); diff != "" {
			t.Errorf("%s with %s: %s", test.path, test.header, diff)
		}
	}
}
