package snapshot_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/snapshot"
)

func TestQuestion(t *testing.T) {
	for _, test := range []struct {
		method, target string
		headers        []string
		ip             string
		want           string // method, scheme, host, path, query, fields, address
	}{
		{"", "/", nil, "", "GET http localhost / [] 127.0.0.1"},
		{"post", "/a/b?c=d?e", nil, "192.0.2.1", "POST http localhost /a/b ?c=d?e [] 192.0.2.1"},
		{"GET", "/a#b", nil, "::1", "GET http localhost /a [] ::1"},
		{"GET", "/a?b#c?d", nil, "fe80::1%eth0", "GET http localhost /a ?b [] fe80::1"},
		{"GET", "/?", nil, "::ffff:192.0.2.1", "GET http localhost / ? [] 192.0.2.1"},
		{"GET", "//a//../%zz", nil, "", "GET http localhost //a//../%zz [] 127.0.0.1"},
		{"GET", "http://a.example.com", nil, "", "GET http a.example.com / [] 127.0.0.1"},
		{"GET", "https://A.example.com:8443/x?y", nil, "", "GET https A.example.com:8443 /x ?y [] 127.0.0.1"},
		{"GET", "HTTP://a?b", nil, "", "GET http a / ?b [] 127.0.0.1"},
		{"GET", "http://a?b=http://c/d", nil, "", "GET http a / ?b=http://c/d [] 127.0.0.1"},
		{"GET", "/login?to=http://c/d", nil, "", "GET http localhost /login ?to=http://c/d [] 127.0.0.1"},
		{"GET", "http://[::1]:80/x", nil, "", "GET http [::1]:80 /x [] 127.0.0.1"},
		{"GET", "/", []string{"X-A: 1", "x-a:2", "X-B:", "Host: h.example.com"}, "", "GET http h.example.com / [{X-A 1} {x-a 2} {X-B }] 127.0.0.1"},
		{"OPTIONS", "*", nil, "", "OPTIONS http localhost * [] 127.0.0.1"},
	} {
		request, client, err := snapshot.Question(test.method, test.target, test.headers, test.ip)
		if err != nil {
			t.Errorf("%+v: %v", test, err)
			continue
		}
		type field struct{ Name, Value string }
		fields := []field{}
		for _, f := range request.Fields {
			fields = append(fields, field{f.Name, f.Value})
		}
		got := fmt.Sprint(request.Method, " ", request.Scheme, " ", request.Host, " ", request.Path, " ")
		if request.Query != "" {
			got += request.Query + " "
		}
		got += fmt.Sprint(fields, " ", client)
		if diff := cmp.Diff(test.want, got); diff != "" || request.Target != test.target {
			t.Errorf("%+v:\n%s", test, diff)
		}
	}
	for _, test := range []struct {
		target, header, ip, want string
	}{
		{"", "", "", "url is missing; give an absolute URL or a path"},
		{"a", "", "", `neither a URL, such as http://api.example.com/users, nor a path, such as /users: "a"`},
		{"?a", "", "", `neither a URL, such as http://api.example.com/users, nor a path, such as /users: "?a"`},
		{"#", "", "", `neither a URL, such as http://api.example.com/users, nor a path, such as /users: ""`},
		{"*", "", "", `neither a URL, such as http://api.example.com/users, nor a path, such as /users: "*"`},
		{"http://", "", "", `the URL has no valid host: "http://"`},
		{"http:///x", "", "", `the URL has no valid host: "http:///x"`},
		{"http://u:p@h/", "", "", `the URL has no valid host: "http://u:p@h/"`},
		{"http://h:port/", "", "", `the URL has no valid host: "http://h:port/"`},
		{"ws://h/", "", "", `the URL is neither http nor https: "ws://h/"`},
		{"/a b", "", "", `the URL has a space or a control character, which a request cannot have: "/a b"`},
		{"/a\r\nb", "", "", `the URL has a space or a control character, which a request cannot have: "/a\r\nb"`},
		{"/", "X-A", "", `a header is not of the form Name: value: "X-A"`},
		{"/", ": x", "", `a header is not of the form Name: value: ": x"`},
		{"/", "X A: x", "", `a header is not of the form Name: value: "X A: x"`},
		{"/", "X-A: x\ny", "", `a header is not of the form Name: value: "X-A: x\ny"`},
		{"/", "", "10.0.0", `ip is no address: "10.0.0"`},
		{"/", "", "10.0.0.1:80", `ip is no address: "10.0.0.1:80"`},
	} {
		var headers []string
		if test.header != "" {
			headers = []string{test.header}
		}
		_, _, err := snapshot.Question("GET", test.target, headers, test.ip)
		var question *snapshot.QuestionError
		if !errors.As(err, &question) || err.Error() != test.want {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

func TestQuestionsWithAWrongMethod(t *testing.T) {
	for _, method := range []string{"G T", "G{T", "GET\n", "ü"} {
		_, _, err := snapshot.Question(method, "/", nil, "")
		var question *snapshot.QuestionError
		if !errors.As(err, &question) || !strings.HasPrefix(err.Error(), "the method is none such as GET") {
			t.Errorf("%q: %v", method, err)
		}
	}
}

func TestExplain(t *testing.T) {
	compiled := compile(t, `
listeners:
  web: {address: ":0", trusted_proxies: [10.0.0.0/8]}
  strict: {address: "127.0.0.1:0", limits: {uri_bytes: 10}}
admin: {address: "127.0.0.1:0"}
middleware: {tag: {headers: {response: {set: {X-A: "1"}}}}, small: {body_limit: {max: 1}}}
global: [tag]
upstreams: {users: {endpoints: ["http://127.0.0.1:1"]}, none: {endpoints: [{url: "http://127.0.0.1:1", weight: 2}, "http://127.0.0.1:2"]}}
routes:
  - {id: first, priority: 1, match: {path_prefix: /a, headers: {X-A: "1"}}, upstream: users, middleware: [small, {headers: {request: {remove: [X-B]}}}]}
  - {id: second, match: {path_prefix: /a, client_ip: [192.0.2.0/24]}, upstream: none}
  - {id: third, priority: 200, match: {path_prefix: /a, methods: [PUT]}, respond: {status: 201}, skip: [headers]}
`)
	explain := func(listener, ip, method, target string, headers ...string) *snapshot.Explanation {
		t.Helper()
		request, client, err := snapshot.Question(method, target, headers, ip)
		if err != nil {
			t.Fatal(err)
		}
		explanation, err := compiled.Explain(request, listener, client)
		if err != nil {
			t.Fatal(err)
		}
		return explanation
	}
	none := []snapshot.Step{}
	noHeader := snapshot.Candidate{Route: "first", Failed: `header X-A is not "1"`}
	for name, test := range map[string]struct{ got, want *snapshot.Explanation }{
		"the first": {explain("", "", "GET", "/a/../a/x", "X-A: 1"), &snapshot.Explanation{
			Route: "first", Path: "/a/x", Candidates: []snapshot.Candidate{{Route: "first"}},
			Middleware:  []snapshot.Step{{Kind: "headers", From: "global tag"}, {Kind: "body_limit", From: "route small"}, {Kind: "headers", From: "route"}},
			Destination: &snapshot.Destination{Kind: "upstream", Upstream: "users", Target: "http://127.0.0.1:1", Reason: "the route's upstream; round_robin picks the endpoint"},
		}},
		"behind a trusted proxy": {explain("web", "10.0.0.1", "GET", "/a", "X-Forwarded-For: 192.0.2.7"), &snapshot.Explanation{
			Route: "second", Path: "/a", Candidates: []snapshot.Candidate{noHeader, {Route: "second"}}, Middleware: []snapshot.Step{{Kind: "headers", From: "global tag"}},
			Destination: &snapshot.Destination{Kind: "upstream", Upstream: "none", Target: "http://127.0.0.1:1 (weight 2), http://127.0.0.1:2 (weight 1)", Reason: "the route's upstream; round_robin picks the endpoint"},
		}},
		"an untrusted X-Forwarded-For": {explain("strict", "10.0.0.1", "PUT", "/a", "X-Forwarded-For: 192.0.2.7"), &snapshot.Explanation{
			Route: "third", Path: "/a", Candidates: []snapshot.Candidate{noHeader, {Route: "second", Failed: "client_ip 10.0.0.1 is not in 192.0.2.0/24"}, {Route: "third"}}, Middleware: none, Skipped: []snapshot.Step{{Kind: "headers", From: "global tag"}},
			Destination: &snapshot.Destination{Kind: "respond", Target: "status 201", Reason: "the route answers by itself"},
		}},
		"another method": {explain("", "10.0.0.1", "GET", "/a"), &snapshot.Explanation{
			Path: "/a", Candidates: []snapshot.Candidate{noHeader, {Route: "second", Failed: "client_ip 10.0.0.1 is not in 192.0.2.0/24"}, {Route: "third", Failed: "method GET is not PUT"}}, Middleware: none,
			Refused: "405 method_not_allowed: The path is known, but not with this method. Allowed: PUT.",
		}},
		"refused by the listener": {explain("strict", "", "GET", "/aaaaaaaaaa"), &snapshot.Explanation{
			Path: "/aaaaaaaaaa", Candidates: []snapshot.Candidate{}, Middleware: none, Refused: "414 uri_too_long: The target of the request is too long.",
		}},
		"a path that is refused": {explain("", "", "GET", "/%00"), &snapshot.Explanation{
			Path: "/%00", Candidates: []snapshot.Candidate{}, Middleware: none, Refused: "400 bad_path: The path has a NUL.",
		}},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	request, client, err := snapshot.Question("GET", "/", nil, "")
	if err != nil {
		t.Fatal(err)
	}
	var question *snapshot.QuestionError
	if _, err := compiled.Explain(request, "wob", client); !errors.As(err, &question) || err.Error() != `no listener is called "wob"; there are web, strict` {
		t.Errorf("got %v", err)
	}
	if _, err := compiled.Explain(request, "", netip.Addr{}); err != nil {
		t.Errorf("without an address: %v", err)
	}
}

// TestExplainPort: without a listener's name the port of the URL tells.
func TestExplainPort(t *testing.T) {
	compiled := compile(t, `
listeners: {web: {address: "127.0.0.1:8080"}, inner: {address: "127.0.0.1:9090"}}
routes:
  - {id: web, listeners: [web], match: {path: /}, respond: {}}
  - {id: inner, listeners: [inner], match: {path: /}, respond: {}}
`)
	for target, want := range map[string]string{"http://x:8080/": "web", "http://x:9090/": "inner", "http://x/": "web", "http://x:80/": "web", "/": "web"} {
		request, client, err := snapshot.Question("GET", target, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if explanation, err := compiled.Explain(request, "", client); err != nil || explanation.Route != want {
			t.Errorf("%s: %+v, %v; want %s", target, explanation, err, want)
		}
	}
}
