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
  found: {dns: {name: _http._tcp.found.internal, scheme: https}}
routes:
  - {id: split, match: {path: /split}, split: [{upstream: old, weight: 95%, version: v1}, {upstream: new, weight: 5%, version: v2}], sticky: {by: "header:X-User"}}
  - {id: ip, match: {path: /ip}, split: [{upstream: old}, {upstream: new}], sticky: {by: client_ip}}
  - {id: chance, match: {path: /chance}, split: [{upstream: old, weight: 1, version: v1}, {upstream: new, weight: 999, version: v2}], force_header: X-Side}
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
