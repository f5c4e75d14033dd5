package config_test

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/config"
	"sluice/internal/model"
)

// prefixes lets cmp compare address ranges.
var prefixes = cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })

const listen = "listeners: {web: {address: \":8080\"}}\n"

// resolve resolves one document, which must be sound.
func resolve(t *testing.T, text string, variables ...string) *model.Gateway {
	t.Helper()
	result := resolveAny(t, text, variables...)
	if result.Gateway == nil || len(result.Problems) > 0 {
		t.Fatalf("refused: %v\n%s", result.Problems, text)
	}
	return result.Gateway
}

func resolveAny(t *testing.T, text string, variables ...string) config.Result {
	t.Helper()
	set := map[string]string{}
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		set[name] = value
	}
	env := testEnvironment(set)
	env.ReadFile = func(path string) ([]byte, error) {
		if content, ok := set["file:"+path]; ok {
			return []byte(content), nil
		}
		return nil, os.ErrNotExist
	}
	return config.Resolve([]config.Document{{Name: "sluice.yaml", Dir: "/etc/sluice", Data: []byte(text)}}, testKinds(), env)
}

// A relative path of a socket is relative to the document that names it.
func TestSocketsOfTwoDirectories(t *testing.T) {
	documents := []config.Document{
		{Name: "a", Dir: "/a", Data: []byte(listen + "routes: [{match: {path: /a}, upstream: \"unix:s\"}]\n")},
		{Name: "b", Dir: "/b", Data: []byte("routes: [{match: {path: /b}, upstream: \"unix:s\"}, {match: {path: /again}, upstream: \"unix:/a/s\"}]\n")},
	}
	g := config.Resolve(documents, testKinds(), config.Environment{}).Gateway
	if g == nil || len(g.Upstreams) != 2 || g.Routes[2].Upstream != g.Routes[0].Upstream {
		t.Fatalf("got %v", model.Text(g))
	}
	if a, b := g.Routes[0].Upstream.Endpoints[0].Address, g.Routes[1].Upstream.Endpoints[0].Address; a != "unix:/a/s" || b != "unix:/b/s" {
		t.Errorf("got %s and %s", a, b)
	}
}

// Limits of 0 are none, but for the header, which always has one.
func TestLimitsOfZero(t *testing.T) {
	g := resolve(t, "listeners: {web: {address: \":8080\", limits: {header_bytes: 0, headers: 0, uri_bytes: 0, connections: 0, body: 0}}}\n")
	if got, want := g.Listeners[0].Limits, (model.ListenerLimits{HeaderBytes: 1 << 20}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestDefaults(t *testing.T) {
	g := resolve(t, listen+"upstreams: {users: {endpoints: [\"http://10.0.0.1:8080\"]}}\nroutes: [{match: {path: /x}, upstream: users}]\n")
	users := &model.Upstream{
		Name:      "users",
		Endpoints: []model.Endpoint{{URL: "http://10.0.0.1:8080", Scheme: "http", Address: "10.0.0.1:8080", Host: "10.0.0.1:8080", Weight: 1}},
		Balancer:  model.Balancer{Policy: model.RoundRobin},
		Protocol:  "http1",
		Pool:      model.Pool{MaxIdle: 256, IdleTimeout: 55 * time.Second, MaxConnections: 0, MaxPending: 1024, MaxStreams: 100},
		Timeouts:  model.AttemptTimeouts{Connect: 2 * time.Second, ResponseHeader: 0},
	}
	want := &model.Gateway{
		Listeners: []*model.Listener{{
			Name: "web", Address: ":8080", Protocols: []string{"h1", "h2"},
			Timeouts: model.ListenerTimeouts{ReadHeader: 10 * time.Second, Idle: 120 * time.Second, MinBodyRate: 240},
			Limits:   model.ListenerLimits{HeaderBytes: 65536, Headers: 100, URIBytes: 16384, Connections: 0, Body: 0},
			Paths:    model.Paths{MergeSlashes: true, EncodedSlash: "keep"},
			Position: model.Position{File: "sluice.yaml", Line: 1, Col: 28},
		}},
		Upstreams: []*model.Upstream{users},
		Routes: []*model.Route{{
			ID: "/x", Priority: 100, Match: model.Match{Path: model.Path{Kind: model.ExactPath, Text: "/x"}}, Upstream: users, Rewrite: model.Rewrite{Host: "preserve"},
			Timeouts: model.RouteTimeouts{Response: 30 * time.Second, Idle: 60 * time.Second, IdleStream: 5 * time.Minute, Total: 0},
			Position: model.Position{File: "sluice.yaml", Line: 3, Col: 10},
		}},
		Admin:        model.Admin{Address: "127.0.0.1:9901", Public: []string{"health", "ready"}, Position: model.Position{File: "sluice.yaml"}},
		AccessLog:    model.AccessLog{Output: "stdout", Format: "json", Sample: 1},
		Engine:       "auto",
		DrainTimeout: 20 * time.Second,
		MaxSeries:    5000,
	}
	if diff := cmp.Diff(want, g, prefixes); diff != "" {
		t.Error(diff)
	}
}

func TestEverythingWritten(t *testing.T) {
	g := resolve(t, `
listeners:
  web:
    address: "127.0.0.1:0"
    protocols: [h1]
    trusted_proxies: [10.0.0.0/8, 192.0.2.7, "::ffff:198.51.100.0/120"]
    timeouts: {read_header: 1s, idle: 2m, min_body_rate: 1KiB/s}
    limits: {header_bytes: 8KiB, headers: 7, uri_bytes: 1024, connections: 3, body: 1.5MB}
    paths: {merge_slashes: false, encoded_slash: refuse, mode: report}
    half_close: serve
  sock: {address: "unix:run/../s.sock"}
engine: goroutine
drain_timeout: 0
response_time_header: true
admin: {address: "[::1]:9", token: "${TOKEN}", public: [metrics], hosts: [Gateway.Example.], name: edge-1}
access_log: {output: logs/access.log, format: json, sample: 12.5%, fields: [time, status], skip: [/health%7A, /a b]}
metrics: {max_series_per_family: 10}
upstreams:
  users:
    endpoints:
      - {url: "http://A.internal/base/%7Euser/", weight: 3, version: v1}
      - {url: "http://[2001:DB8::1]:80", weight: 0}
      - unix:run/users.sock
    protocol: http1
    load_balancer: {policy: round_robin}
    pool: {max_idle_per_endpoint: 1, idle_timeout: 2s, max_connections_per_endpoint: 3, max_pending: 4}
    timeouts: {connect: 1s, response_header: 3s}
routes: [{match: {path: /}, upstream: users}]
`, "TOKEN=secret")
	g.Routes = nil
	want := &model.Gateway{
		Listeners: []*model.Listener{
			{
				Name: "web", Address: "127.0.0.1:0", Protocols: []string{"h1"}, HalfClose: true,
				TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("198.51.100.0/24")},
				Timeouts:       model.ListenerTimeouts{ReadHeader: time.Second, Idle: 2 * time.Minute, MinBodyRate: 1024},
				Limits:         model.ListenerLimits{HeaderBytes: 8192, Headers: 7, URIBytes: 1024, Connections: 3, Body: 1_500_000},
				Paths:          model.Paths{EncodedSlash: "refuse", Report: true},
				Position:       model.Position{File: "sluice.yaml", Line: 4, Col: 14},
			},
			{
				Name: "sock", Address: "unix:/etc/sluice/s.sock", Protocols: []string{"h1", "h2"},
				Timeouts: model.ListenerTimeouts{ReadHeader: 10 * time.Second, Idle: 120 * time.Second, MinBodyRate: 240},
				Limits:   model.ListenerLimits{HeaderBytes: 65536, Headers: 100, URIBytes: 16384},
				Paths:    model.Paths{MergeSlashes: true, EncodedSlash: "keep"},
				Position: model.Position{File: "sluice.yaml", Line: 11, Col: 19},
			},
		},
		Upstreams: []*model.Upstream{{
			Name: "users",
			Endpoints: []model.Endpoint{
				{URL: "http://A.internal/base/%7Euser/", Scheme: "http", Address: "a.internal:80", Host: "a.internal", BasePath: "/base/~user", Weight: 3, Version: "v1"},
				{URL: "http://[2001:DB8::1]:80", Scheme: "http", Address: "[2001:db8::1]:80", Host: "[2001:db8::1]", Weight: 0},
				{URL: "unix:run/users.sock", Scheme: "http", Address: "unix:/etc/sluice/run/users.sock", Host: "localhost", Weight: 1},
			},
			Balancer: model.Balancer{Policy: model.RoundRobin},
			Protocol: "http1",
			Pool:     model.Pool{MaxIdle: 1, IdleTimeout: 2 * time.Second, MaxConnections: 3, MaxPending: 4, MaxStreams: 100},
			Timeouts: model.AttemptTimeouts{Connect: time.Second, ResponseHeader: 3 * time.Second},
		}},
		Admin:              model.Admin{Address: "[::1]:9", Token: "secret", Public: []string{"metrics"}, Hosts: []string{"gateway.example"}, Name: "edge-1", Position: model.Position{File: "sluice.yaml", Line: 15, Col: 18}},
		AccessLog:          model.AccessLog{Output: "/etc/sluice/logs/access.log", Format: "json", Sample: 0.125, Fields: []string{"time", "status"}, Skip: []string{"/healthz", "/a%20b"}},
		Engine:             "goroutine",
		MaxSeries:          10,
		ResponseTimeHeader: true,
	}
	result := resolveAny(t, "")
	if result.Gateway != nil {
		t.Error("an empty document is accepted")
	}
	if diff := cmp.Diff(want, g, prefixes); diff != "" {
		t.Error(diff)
	}
}

// paths reads the paths of routes that have nothing else.
func TestPaths(t *testing.T) {
	for _, test := range []struct {
		match string
		want  string // kind and text
		parts []model.Segment
	}{
		{"{}", "any ", nil},
		{"{path: /users}", "exact /users", nil},
		{"{path: /}", "exact /", nil},
		{"{path: /users/}", "exact /users/", nil},
		{`{path: "/a/./b//%7Ec/../d%2fe"}`, "exact /a/b/d%2Fe", nil},
		{`{path: "/caf\u00e9 x"}`, "exact /caf%C3%A9%20x", nil},
		{`{path: "/a{{b}}c"}`, "exact /a%7Bb%7Dc", nil},
		{`{path: "/users/{id}"}`, "pattern /users/{id}", []model.Segment{{Literal: "users"}, {Param: "id"}}},
		{`{path: "/users/:id/"}`, "pattern /users/{id}/", []model.Segment{{Literal: "users"}, {Param: "id"}, {}}},
		{`{path: "/f/{rest...}"}`, "pattern /f/{rest...}", []model.Segment{{Literal: "f"}, {Param: "rest", Rest: true}}},
		{`{path: "/s/*"}`, "pattern /s/*", []model.Segment{{Literal: "s"}, {Param: "*", Rest: true}}},
		{`{path: "/*"}`, "pattern /*", []model.Segment{{Param: "*", Rest: true}}},
		{`{path: "/models/x:predict/{a_b-1}"}`, "pattern /models/x:predict/{a_b-1}", []model.Segment{{Literal: "models"}, {Literal: "x:predict"}, {Param: "a_b-1"}}},
		{`{path: "/%7eu/{id}/{{x}}"}`, "pattern /~u/{id}/%7Bx%7D", []model.Segment{{Literal: "~u"}, {Param: "id"}, {Literal: "%7Bx%7D"}}},
		{"{path_prefix: /api}", "prefix /api", nil},
		{"{path_prefix: /api/}", "prefix /api", nil},
		{"{path_prefix: /}", "prefix /", nil},
		{"{path_prefix: //}", "prefix /", nil},
		{`{path_prefix: "/:a"}`, "", nil},
		{`{path_regex: "^/v[0-9]+/"}`, "regex ^/v[0-9]+/", nil},
		{`{path: "/a/${BRACES}/{id}"}`, "pattern /a/%7Bx%7D/{id}", []model.Segment{{Literal: "a"}, {Literal: "%7Bx%7D"}, {Param: "id"}}},
		{`{path: "/a/${STAR}"}`, "exact /a/*", nil},
		{`{path: "/a/${COLON}"}`, "exact /a/:x", nil},
		{`{path: "/a/$${x}"}`, "exact /a/$%7Bx%7D", nil},
	} {
		result := resolveAny(t, listen+"routes: [{id: r, match: "+test.match+", respond: {}}]\n", "BRACES={x}", "STAR=*", "COLON=:x")
		if result.Gateway == nil {
			if test.want != "" {
				t.Errorf("%s: %v", test.match, result.Problems)
			}
			continue
		}
		path := result.Gateway.Routes[0].Match.Path
		if got := string(path.Kind) + " " + path.Text; got != test.want {
			t.Errorf("%s: got %s, want %s", test.match, got, test.want)
		}
		if diff := cmp.Diff(test.parts, path.Segments); diff != "" {
			t.Errorf("%s: %s", test.match, diff)
		}
		if (path.Regex != nil) != (path.Kind == model.RegexPath) {
			t.Errorf("%s: regex %v", test.match, path.Regex)
		}
	}
}

func TestMatch(t *testing.T) {
	m := resolve(t, listen+`
routes:
  - match:
      hosts: [API.Example.com., "*.Example.org", "[2001:DB8::1]", 10.0.0.1]
      path_prefix: /x
      methods: [GET, PURGE]
      headers: {X-Gray: "true", X-Tenant: {regex: "^t[0-9]+$"}, X-Debug: {present: true}}
      query: {debug: yes, "a b": {present: false}}
      cookies: {beta: "yes"}
      client_ip: [10.0.0.0/8, "::1"]
    respond: {}
`).Routes[0].Match
	yes, no, text, enabled := true, false, "true", "yes"
	if diff := cmp.Diff([]string{"api.example.com", "*.example.org", "2001:db8::1", "10.0.0.1"}, m.Hosts); diff != "" {
		t.Error(diff)
	}
	if m.Headers[1].Regex.String() != "^t[0-9]+$" {
		t.Error(m.Headers[1].Regex)
	}
	m.Headers[1].Regex = nil
	if diff := cmp.Diff([]model.Condition{{Name: "X-Gray", Value: &text}, {Name: "X-Tenant"}, {Name: "X-Debug", Present: &yes}}, m.Headers); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]model.Condition{{Name: "debug", Value: &enabled}, {Name: "a b", Present: &no}}, m.Query); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]model.Condition{{Name: "beta", Value: &enabled}}, m.Cookies); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"GET", "PURGE"}, m.Methods); diff != "" {
		t.Error(diff)
	}
	if got := fmt.Sprint(m.ClientIP); got != "[10.0.0.0/8 ::1/128]" {
		t.Error(got)
	}
}

func TestRouteIDs(t *testing.T) {
	g := resolve(t, listen+`
routes:
  - {match: {hosts: [api.example.com], path: "/users/{id}", methods: [GET]}, respond: {}}
  - {match: {path: /a}, respond: {}}
  - {match: {path_prefix: /a}, respond: {}}
  - {id: "/a #2", match: {path: /b}, respond: {}}
  - {match: {}, respond: {}}
  - {match: {hosts: [a, b], methods: [GET, POST]}, respond: {}}
  - {respond: {}}
`)
	var ids []string
	for _, r := range g.Routes {
		ids = append(ids, r.ID)
	}
	if diff := cmp.Diff([]string{"GET api.example.com/users/{id}", "/a", "/a #3", "/a #2", "any", "GET,POST a,b", "any #2"}, ids); diff != "" {
		t.Error(diff)
	}
}

func TestDestinations(t *testing.T) {
	g := resolve(t, listen+`
upstreams: {named: {endpoints: [{url: http://b, weight: 75%}, {url: http://c, weight: 25%}]}}
routes:
  - {id: url, match: {path: /1}, upstream: "http://127.0.0.1:1/base/"}
  - {id: named, match: {path: "/2/{id}"}, upstream: named, rewrite: {path: "/v2/{id}/x y", host: upstream}}
  - {id: same, match: {path: /3}, upstream: "http://127.0.0.1:1/base/", rewrite: {host: api.example.com}, idle_timeout: 90s, timeout: 0, total_timeout: 1m}
  - {id: moved, match: {path: /4}, redirect: {to: "https://{host}/{path}?{query}{{}}", status: 308}}
  - {id: found, match: {path: /5}, redirect: {to: /caf\u00e9}}
  - {id: fixed, match: {path: /6}, respond: {status: 418, body: "hello {client_ip}", headers: {Content-Type: text/plain, X-B: "{header.X-A}{cookie.c}{claim.https://x/y}"}}}
  - {id: bare, match: {path_prefix: /7}, upstream: named, strip_prefix: true, rewrite: {host: "{header.X-Host}"}}
`)
	byID := map[string]*model.Route{}
	for _, r := range g.Routes {
		byID[r.ID] = r
	}
	var names []string
	for _, u := range g.Upstreams {
		names = append(names, u.Name)
	}
	if diff := cmp.Diff([]string{"named", "http://127.0.0.1:1/base/"}, names); diff != "" {
		t.Error(diff)
	}
	if weights := []int{g.Upstreams[0].Endpoints[0].Weight, g.Upstreams[0].Endpoints[1].Weight}; !slices.Equal(weights, []int{3, 1}) {
		t.Error(weights)
	}
	if byID["url"].Upstream != byID["same"].Upstream || byID["url"].Upstream.Endpoints[0].BasePath != "/base" || byID["url"].Upstream.Pool.MaxIdle != 256 {
		t.Error("equal URLs are not one upstream")
	}
	if got := byID["same"].Timeouts; got != (model.RouteTimeouts{Idle: 90 * time.Second, IdleStream: 90 * time.Second, Total: time.Minute}) {
		t.Error(got)
	}
	if got := byID["same"].Rewrite; got.Host != "" || got.Literal.String() != "api.example.com" || got.Path != nil {
		t.Error(got)
	}
	if got := byID["named"].Rewrite; got.Host != "upstream" || got.Literal != nil || got.Path.String() != "/v2/{id}/x%20y" {
		t.Error(got, got.Path)
	}
	if got := byID["bare"].Rewrite; got.Host != "" || got.Literal.String() != "{header.X-Host}" || !byID["bare"].StripPrefix {
		t.Error(got)
	}
	if got := byID["moved"].Redirect; got.Status != 308 || got.To.String() != "https://{host}/{path}?{query}{{}}" {
		t.Error(got)
	}
	if got := byID["found"].Redirect; got.Status != 302 {
		t.Error(got)
	}
	fixed := byID["fixed"].Respond
	want := &model.Respond{
		Status: 418,
		Body:   &model.Template{Parts: []model.TemplatePart{{Literal: "hello "}, {Source: model.FromClientIP}}},
		Fields: []model.FieldTemplate{
			{Name: "Content-Type", Value: model.Literal("text/plain")},
			{Name: "X-B", Value: model.Template{Parts: []model.TemplatePart{
				{Source: model.FromHeader, Name: "X-A"}, {Source: model.FromCookie, Name: "c"}, {Source: model.FromClaim, Name: "https://x/y"},
			}}},
		},
	}
	if diff := cmp.Diff(want, fixed); diff != "" {
		t.Error(diff)
	}
}

func TestChains(t *testing.T) {
	g := resolve(t, listen+`
middleware:
  small: {limit: {max: 1KiB}}
  tag: {edit: {request: {set: {X-Id: "{id}"}}}}
global: [small, {edit: {}}]
routes:
  - {id: plain, match: {path: /1}, respond: {}}
  - {id: own, match: {path: "/2/{id}"}, middleware: [tag, {limit: {max: 2}}], respond: {}}
  - {id: by-kind, match: {path: /3}, skip: [limit], respond: {}}
  - {id: by-name, match: {path: /4}, skip: [small], middleware: [small], respond: {}}
  - {id: none, match: {path: /5}, skip: [limit, edit], respond: {}}
`)
	got := map[string][]string{}
	for _, r := range g.Routes {
		got[r.ID] = []string{}
		for _, m := range r.Chain {
			got[r.ID] = append(got[r.ID], fmt.Sprintf("%s %s (%s) %d", m.Kind, m.Name, m.From, m.Position.Line))
			if m.Settings == nil {
				t.Errorf("%s: %s has no settings", r.ID, m.Kind)
			}
		}
	}
	want := map[string][]string{
		"plain":   {"limit small (global small) 6", "edit  (global) 6"},
		"own":     {"limit small (global small) 6", "edit  (global) 6", "edit tag (route tag) 9", "limit  (route) 9"},
		"by-kind": {"edit  (global) 6"},
		"by-name": {"edit  (global) 6", "limit small (route small) 11"},
		"none":    {},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if small := g.Routes[0].Chain[0].Settings; small != int64(1024) {
		t.Error(small)
	}
	options, ok := g.Routes[0].Chain[1].Settings.(*editOptions)
	if !ok || options.Mode != "enforce" {
		t.Error("a kind's defaults are lost")
	}
}

func TestTwoDocuments(t *testing.T) {
	documents := []config.Document{
		{Name: "b.yaml", Data: []byte("upstreams: {users: {endpoints: [http://a]}}\nroutes: [{id: first, match: {path: /x}, upstream: users, middleware: [small]}]\nengine: goroutine\n")},
		{Name: "a.yaml", Data: []byte(listen + "middleware: {small: {limit: {max: 1}}}\nroutes: [{id: second, match: {path: /y}, upstream: users}]\ndrain_timeout: 1s\n")},
		{Name: "c.yaml", Data: []byte("# nothing but a comment\n")},
	}
	result := config.Resolve(documents, testKinds(), testEnvironment(nil))
	if result.Gateway == nil {
		t.Fatal(result.Problems)
	}
	g := result.Gateway
	if g.Engine != "goroutine" || g.DrainTimeout != time.Second || len(g.Routes) != 2 || g.Routes[0].ID != "first" || len(g.Routes[0].Chain) != 1 {
		t.Errorf("%+v", g)
	}
	for _, documents := range [][]config.Document{nil, {}} {
		if result := config.Resolve(documents, nil, config.Environment{}); result.Gateway != nil || len(result.Problems) != 1 {
			t.Errorf("%+v", result)
		}
	}
}

func TestProblemsOfSeveralDocuments(t *testing.T) {
	documents := []config.Document{
		{Name: "z.yaml", Data: []byte(listen + "rutes: []\nengine: steam\n")},
		{Name: "broken.yaml", Data: []byte("a: [\n")},
		{Name: "a.yaml", Data: []byte("routes: [{match: {path: x}, upstream: maybe-in-broken, middleware: [too]}]\n")},
	}
	result := config.Resolve(documents, testKinds(), testEnvironment(nil))
	var got []string
	for _, p := range result.Problems {
		got = append(got, p.Position.String())
	}
	if diff := cmp.Diff([]string{"z.yaml:2:1", "z.yaml:3:9", "broken.yaml:1:4", "a.yaml:1:25"}, got); diff != "" {
		t.Error(diff, result.Problems)
	}
	if result.Gateway != nil {
		t.Error("it is refused whole")
	}
}

func TestProblemsAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString(listen)
	for i := range 3000 {
		fmt.Fprintf(&text, "key%d: 1\n", i)
	}
	result := resolveAny(t, text.String())
	if len(result.Problems) != 1001 || result.Problems[1000].Line != 0 {
		t.Error(len(result.Problems))
	}
}

func TestFilesAreRecorded(t *testing.T) {
	result := resolveAny(t, listen+"admin: {token: \"${file:secrets/token}\", name: \"${file:/abs/name}\"}\n",
		"file:/etc/sluice/secrets/token=abc\r\n", "file:/abs/name=edge")
	if result.Gateway == nil || result.Gateway.Admin.Token != "abc" || result.Gateway.Admin.Name != "edge" {
		t.Fatal(result)
	}
	if diff := cmp.Diff([]string{"/etc/sluice/secrets/token", "/abs/name"}, result.Files); diff != "" {
		t.Error(diff)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("sluice.yaml", "include: [conf.d/*.yaml, more.yaml, none.d/*.yaml]\n"+listen)
	write("conf.d/b.yaml", "# b\n")
	write("conf.d/a.yaml", "include: [deep/x.yaml]\n")
	write("conf.d/deep/x.yaml", "# x\n")
	write("conf.d/ignored.txt", "# no\n")
	write("more.yaml", "include: [conf.d/b.yaml]\n") // a second way to a file is no cycle
	t.Chdir(dir)
	documents, watch, problems := config.Load("sluice.yaml")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var names []string
	for _, d := range documents {
		names = append(names, d.Name)
		if !filepath.IsAbs(d.Dir) || d.Provider != "file" {
			t.Errorf("%+v", d)
		}
	}
	if diff := cmp.Diff([]string{"sluice.yaml", "conf.d/a.yaml", "conf.d/deep/x.yaml", "conf.d/b.yaml", "more.yaml"}, names); diff != "" {
		t.Error(diff)
	}
	slices.Sort(watch)
	if diff := cmp.Diff([]string{"conf.d/*.yaml", "conf.d/a.yaml", "conf.d/b.yaml", "conf.d/deep/x.yaml", "more.yaml", "none.d/*.yaml", "sluice.yaml"}, watch); diff != "" {
		t.Error(diff)
	}
}

func TestLoadOfWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"empty.yaml": 0o600, "locked.yaml": 0} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat("a: 1\n", int(mode&1))), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	want := map[string]string{
		"none.yaml":   "none.yaml: the file does not exist",
		".":           ".: this is a directory, not a file",
		"empty.yaml":  "empty.yaml: the file is empty",
		"locked.yaml": "locked.yaml: the file may not be read by this user",
	}
	if os.Geteuid() == 0 {
		delete(want, "locked.yaml") // root may read anything
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		documents, watch, problems := config.Load(name)
		if len(documents) != 0 || len(problems) != 1 || problems[0].Error() != want[name] {
			t.Errorf("%s: %v, %v", name, documents, problems)
		}
		if !slices.Equal(watch, []string{name}) {
			t.Errorf("%s: a file that comes later is not watched: %v", name, watch)
		}
	}
}

func TestManyListeners(t *testing.T) {
	var text strings.Builder
	text.WriteString("listeners:\n")
	for i := range 1001 {
		fmt.Fprintf(&text, "  l%d: {address: \"unix:s%d\"}\n", i, i)
	}
	if problems := resolveAny(t, text.String()).Problems; len(problems) != 1 || problems[0].Line != 1002 {
		t.Error(problems)
	}
}

// TestLoopback holds which admin addresses need no token.
func TestLoopback(t *testing.T) {
	for address, needsToken := range map[string]bool{
		"127.0.0.1:1": false, "127.8.8.8:1": false, "[::1]:1": false, "localhost:1": false, "unix:admin.sock": false, "[::ffff:127.0.0.1]:1": false,
		":1": true, "0.0.0.0:1": true, "[::]:1": true, "10.0.0.1:1": true, "gateway:1": true,
	} {
		result := resolveAny(t, fmt.Sprintf("%sadmin: {address: %q}\n", listen, address))
		if refused := result.Gateway == nil; refused != needsToken || refused && !strings.Contains(result.Problems[0].Message, "token") {
			t.Errorf("%s: %v", address, result.Problems)
		}
		if result := resolveAny(t, fmt.Sprintf("%sadmin: {address: %q, token: t}\n", listen, address)); result.Gateway == nil {
			t.Errorf("%s with a token: %v", address, result.Problems)
		}
	}
}

// TestSecretsStayOut holds that no problem tells what came from outside.
func TestSecretsStayOut(t *testing.T) {
	for _, line := range []string{
		"admin: {token: '${S} x'}", "drain_timeout: ${S}", "engine: ${S}", "response_time_header: ${S}", "metrics: {max_series_per_family: '${S}'}", "access_log: {sample: '${S}', format: '${S}'}",
		"admin: {public: ['${S}']}", "routes: [{match: {path: '${S}'}, respond: {status: '${S}'}}]", "routes: [{match: {path: '/${S}{'}, respond: {}}]",
	} {
		for _, p := range resolveAny(t, listen+line+"\n", "S=hunter2").Problems {
			if strings.Contains(p.Error(), "hunter2") {
				t.Errorf("%s: %v", line, p)
			}
		}
	}
}
