package proxy_test

import (
	"strings"
	"testing"

	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// Every combination of prefix, path, stripping, rewrite, base path and query,
// as the endpoint's socket sees it.
func TestPathJoining(t *testing.T) {
	below := []struct {
		prefix, path string
		stripped     string // with strip_prefix; without it the path stays
	}{
		{"/", "/", "/"},
		{"/", "/x", "/x"},
		{"/", "/x/", "/x/"},
		{"/", "/x/y", "/x/y"},
		{"/", "/a%2Fb", "/a%2Fb"},
		{"/api", "/api", "/"},
		{"/api", "/api/", "/"},
		{"/api", "/api/x", "/x"},
		{"/api", "/api/x/", "/x/"},
		{"/api", "/api/x/y", "/x/y"},
		{"/api", "/api/api", "/api"},
		{"/api", "/api/a%2Fb", "/a%2Fb"},
		{"/api", "/api/%2Fx", "/%2Fx"},
		{"/api", "/api/a%20b%3Fc", "/a%20b%3Fc"},
		{"/api", "/api/%C3%A9", "/%C3%A9"},
		{"/api", "/api//x", "/x"}, // where a listener keeps repeated slashes
		{"/api", "/api///evil.test/x", "/evil.test/x"},
		{"/api", "/apix", "/apix"}, // not of its segments: no route would bring it here
		{"/api", "/other", "/other"},
		{"/api/", "/api/", "/"},
		{"/api/", "/api/x", "/x"},
		{"/api/v1", "/api/v1", "/"},
		{"/api/v1", "/api/v1/", "/"},
		{"/api/v1", "/api/v1/x", "/x"},
		{"/a%2Fb", "/a%2Fb/c", "/c"},
		{"/a%2Fb", "/a%2Fb", "/"},
	}
	rewrites := []struct {
		template string
		want     func(path string) string
	}{
		{"", func(path string) string { return path }},
		{"/v2/{id}", func(string) string { return "/v2/7%2F8" }},
		{"/v2{path}", func(path string) string { return strings.ReplaceAll("/v2"+path, "//", "/") }},
		{"{path}", func(path string) string {
			for strings.Contains(path, "//") {
				path = strings.ReplaceAll(path, "//", "/")
			}
			return path
		}},
		{"/fixed", func(string) string { return "/fixed" }},
		{"/", func(string) string { return "/" }},
		{"//fixed/", func(string) string { return "/fixed/" }},
	}
	endpoint, heads := recording(t, okay)
	n := 0
	for _, base := range []string{"", "/base", "/b/c%2Fd"} {
		endpoint.BasePath = base
		for _, strip := range []bool{false, true} {
			for _, test := range below {
				for _, rewrite := range rewrites {
					route := &model.Route{StripPrefix: strip, Match: model.Match{Path: model.Path{Kind: model.PrefixPath, Text: test.prefix}}}
					if rewrite.template != "" {
						route.Rewrite.Path = parse(t, rewrite.template)
					}
					g := forward(t, route, nil, endpoint)
					for _, query := range []string{"", "?", "?a=%zz&b=%2F;c=/x//y?z"} {
						path := test.path
						if strip {
							path = test.stripped
						}
						request := get(test.path)
						request.Query = query
						x := exchange(t.Context(), request)
						x.Params = []model.Param{{Name: "id", Value: "7%2F8"}}
						g.pass(x)
						line, _, _ := strings.Cut(within(t, "a request", heads), "\r\n")
						want := base + collapse(rewrite.template, rewrite.want(path))
						if line != "GET "+want+query+" HTTP/1.1" {
							t.Errorf("base %q, prefix %s, strip %v, rewrite %q, target %s%s: went out as %q, want %s%s", base, test.prefix, strip, rewrite.template, test.path, query, line, want, query)
						}
						if request.Path != test.path || request.Query != query {
							t.Fatalf("the client's request was changed to %s%s", request.Path, request.Query)
						}
						n++
					}
				}
			}
		}
	}
	t.Logf("%d combinations", n)
}

// collapse merges slashes where a rewrite makes a new canonical path.
func collapse(template, path string) string {
	for template != "" && strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

func TestStripPrefixOfOtherMatches(t *testing.T) {
	endpoint, heads := recording(t, okay)
	for _, kind := range []model.PathKind{model.AnyPath, model.ExactPath, model.PatternPath, model.RegexPath} {
		g := forward(t, &model.Route{StripPrefix: true, Match: model.Match{Path: model.Path{Kind: kind, Text: "/api"}}}, nil, endpoint)
		g.pass(exchange(t.Context(), get("/api/x")))
		if line, _, _ := strings.Cut(within(t, "a request", heads), "\r\n"); line != "GET /api/x HTTP/1.1" {
			t.Errorf("%s: went out as %q", kind, line)
		}
	}
}

func TestAsteriskForm(t *testing.T) {
	endpoint, heads := recording(t, okay)
	endpoint.BasePath = "/base"
	g := forward(t, &model.Route{StripPrefix: true, Match: model.Match{Path: model.Path{Kind: model.PrefixPath, Text: "/"}}}, nil, endpoint)
	request := get("*")
	request.Method = "OPTIONS"
	g.pass(exchange(t.Context(), request))
	if line, _, _ := strings.Cut(within(t, "a request", heads), "\r\n"); line != "OPTIONS * HTTP/1.1" {
		t.Errorf("went out as %q", line)
	}
}

func TestRewriteThatBreaksAPath(t *testing.T) {
	endpoint, _ := recording(t, okay)
	g := forward(t, &model.Route{Rewrite: model.Rewrite{Path: parse(t, "/a/{header.X-Up}/{id}")}}, nil, endpoint)
	x := exchange(t.Context(), get("/"))
	x.Params = []model.Param{{Name: "id", Value: "../../.."}}
	g.fail(x, pipeline.BadPath, 400)
	g.quiet(0)
}

func TestRewriteHost(t *testing.T) {
	endpoint, heads := recording(t, okay)
	for name, test := range map[string]struct {
		rewrite model.Rewrite
		host    string
		want    string
	}{
		"preserve":         {model.Rewrite{Host: "preserve"}, "shop.test:8080", "shop.test:8080"},
		"by default":       {model.Rewrite{}, "Shop.Test", "Shop.Test"},
		"none to preserve": {model.Rewrite{Host: "preserve"}, "", endpoint.Host},
		"upstream":         {model.Rewrite{Host: "upstream"}, "shop.test", endpoint.Host},
		"literal":          {model.Rewrite{Literal: parse(t, "other.test:81")}, "shop.test", "other.test:81"},
		"with a value":     {model.Rewrite{Literal: parse(t, "{header.X-Tenant}.{host}")}, "shop.test:1", "acme.shop.test"},
	} {
		g := forward(t, &model.Route{Rewrite: test.rewrite}, nil, endpoint)
		request := get("/", "X-Tenant: acme")
		request.Host = test.host
		g.pass(exchange(t.Context(), request))
		if head := within(t, "a request", heads); valueOf(head, "Host") != test.want || valueOf(head, "X-Forwarded-Host") != test.host {
			t.Errorf("%s: Host %q, X-Forwarded-Host %q", name, valueOf(head, "Host"), valueOf(head, "X-Forwarded-Host"))
		}
	}
	for _, tenant := range []string{"a b", "", "a/b", "a\x01"} {
		g := forward(t, &model.Route{Rewrite: model.Rewrite{Literal: parse(t, "{header.X-Tenant}")}}, nil, endpoint)
		request := get("/")
		request.Fields.Add("X-Tenant", tenant)
		g.fail(exchange(t.Context(), request), pipeline.BadRequest, 400)
	}
}
