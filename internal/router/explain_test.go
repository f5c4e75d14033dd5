package router_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/router"
)

func TestExplain(t *testing.T) {
	for _, test := range []struct {
		name    string
		route   *model.Route
		request *message.Request
		want    string
	}{
		{"listener", route("x", "/y", listeners("secure", "internal")), ask("GET /x"), "listener web is not secure or internal"},
		{"host", route("x", "/y", hosts("a.com", "*.b.com", "c.com")), ask("GET B.com:80/x"), "host b.com is not a.com, *.b.com or c.com"},
		{"exact path", route("x", "/y", methods("PUT")), ask("GET /x"), "path /x is not /y"},
		{"pattern", route("x", "/y/{id}"), ask("GET /y/"), "path /y/ is not /y/{id}"},
		{"prefix", route("x", "/y*"), ask("GET /yx"), "path /yx is not under /y"},
		{"regex", route("x", "~^/y$"), ask("GET /yx"), "path /yx does not match ^/y$"},
		{"no path", route("x", "/*"), ask("OPTIONS *"), "path * is not under /"},
		{"no path for a regex", route("x", "~.*"), ask("OPTIONS *"), "path * does not match .*"},
		{"method", route("x", "/x", methods("PUT", "GET", "BAN"), headers(equal("A", "1"))), ask("POST /x"), "method POST is not BAN, GET, HEAD or PUT"},
		{"other method", route("x", "/x", methods("BAN")), ask("LINK /x"), "method LINK is not BAN"},
		{"preflight", route("x", "/x", methods("PUT")), ask("OPTIONS /x", "Origin: https://a", "Access-Control-Request-Method: POST"), "method POST, about which the preflight asks, is not PUT"},
		{"header", route("x", "/x", headers(equal("A", "1"), equal("X-Gray", "true")), query(equal("q", "1"))), ask("GET /x", "A: 1", "X-Gray: 1"), `header X-Gray is not "true"`},
		{"header by regex", route("x", "/x", headers(matches("X-Tenant", "^t[0-9]+$"))), ask("GET /x"), "header X-Tenant does not match ^t[0-9]+$"},
		{"header not there", route("x", "/x", headers(present("X-Debug", true))), ask("GET /x"), "header X-Debug is not there"},
		{"header there", route("x", "/x", headers(present("X-Debug", false))), ask("GET /x", "X-Debug: 1"), "header X-Debug is there"},
		{"query", route("x", "/x", query(equal("q", "a b")), cookies(equal("k", "1"))), ask("GET /x?q=a"), `query q is not "a b"`},
		{"cookie", route("x", "/x", cookies(equal("k", "1")), clients("10.0.0.0/8")), ask("GET /x"), `cookie k is not "1"`},
		{"client address", route("x", "/x", clients("10.0.0.0/8", "2001:db8::/32")), ask("GET /x"), "client_ip 192.0.2.1 is not in 10.0.0.0/8 or 2001:db8::/32"},
		{"all holds", route("x", "/x/{y}", hosts("a.com", "b.com"), methods("GET"), headers(equal("A", "1")), clients("192.0.2.0/24")), ask("HEAD b.com/x/y", "A: 1"), ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, _ := router.Compile(lines(test.route))
			want := []router.Candidate{{Route: test.route, Failed: test.want}}
			if diff := cmp.Diff(want[0].Failed, r.Explain(test.request, "web", someone)[0].Failed); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExplainWithoutClientAddress(t *testing.T) {
	r, _ := router.Compile(lines(route("x", "/x", clients("10.0.0.0/8"))))
	if got, want := r.Explain(ask("GET /x"), "web", netip.Addr{})[0].Failed, "client_ip no address is not in 10.0.0.0/8"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A route with several hosts stands where the host of the request puts it, so
// that the chosen one is the first without a failure.
func TestExplainOrder(t *testing.T) {
	r, _ := router.Compile(lines(
		route("last", "/*"), route("both", "/*", hosts("a.com", "*.b.com")), route("exact", "/*", hosts("x.b.com")), route("gray", "/*", hosts("x.b.com"), headers(equal("X-Gray", "true"))),
	))
	for _, test := range []struct {
		request *message.Request
		want    [][2]string
	}{
		{ask("GET a.com/"), [][2]string{{"gray", "host a.com is not x.b.com"}, {"both", ""}}},
		{ask("GET x.b.com/"), [][2]string{{"gray", `header X-Gray is not "true"`}, {"exact", ""}}},
		{ask("GET y.b.com/"), [][2]string{{"gray", "host y.b.com is not x.b.com"}, {"exact", "host y.b.com is not x.b.com"}, {"both", ""}}},
		{ask("OPTIONS *"), [][2]string{{"gray", "host  is not x.b.com"}, {"both", "host  is not a.com or *.b.com"}, {"exact", "host  is not x.b.com"}, {"last", "path * is not under /"}}},
	} {
		var got [][2]string
		for _, c := range r.Explain(test.request, "web", someone) {
			got = append(got, [2]string{c.Route.ID, c.Failed})
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (- want + got)\n%s", show(test.request), diff)
		}
	}
}
