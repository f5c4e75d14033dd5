package router_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/router"
)

func exact(text string) model.Path  { return model.Path{Kind: model.ExactPath, Text: text} }
func prefix(text string) model.Path { return model.Path{Kind: model.PrefixPath, Text: text} }
func regex(text string) model.Path {
	return model.Path{Kind: model.RegexPath, Text: text, Regex: regexp.MustCompile(text)}
}

// pattern reads a pattern as documents have it, in its one spelling.
func pattern(text string) model.Path {
	path := model.Path{Kind: model.PatternPath, Text: text}
	for part := range strings.SplitSeq(text[1:], "/") {
		segment := model.Segment{Literal: part}
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name, segment.Rest = strings.CutSuffix(strings.TrimSuffix(name, "}"), "...")
			segment.Literal, segment.Param = "", name
		}
		path.Segments = append(path.Segments, segment)
	}
	return path
}

// path reads a path condition: "/x" exact, "/x/{y}" pattern, "/x*" prefix, "~x"
// regex, "" any.
func path(text string) model.Path {
	switch {
	case text == "":
		return model.Path{Kind: model.AnyPath}
	case strings.HasPrefix(text, "~"):
		return regex(text[1:])
	case strings.HasSuffix(text, "*"):
		return prefix(strings.TrimSuffix(text, "*"))
	case strings.Contains(text, "{"):
		return pattern(text)
	}
	return exact(text)
}

func equal(name, value string) model.Condition { return model.Condition{Name: name, Value: &value} }
func matches(name, text string) model.Condition {
	return model.Condition{Name: name, Regex: regexp.MustCompile(text)}
}
func present(name string, there bool) model.Condition {
	return model.Condition{Name: name, Present: &there}
}

// option changes a route.
type option func(*model.Route)

func route(id, text string, options ...option) *model.Route {
	r := &model.Route{ID: id, Priority: 100, Match: model.Match{Path: path(text)}}
	for _, o := range options {
		o(r)
	}
	return r
}

func priority(p int) option            { return func(r *model.Route) { r.Priority = p } }
func listeners(names ...string) option { return func(r *model.Route) { r.Listeners = names } }
func hosts(names ...string) option     { return func(r *model.Route) { r.Match.Hosts = names } }
func methods(names ...string) option   { return func(r *model.Route) { r.Match.Methods = names } }
func headers(list ...model.Condition) option {
	return func(r *model.Route) { r.Match.Headers = list }
}
func query(list ...model.Condition) option   { return func(r *model.Route) { r.Match.Query = list } }
func cookies(list ...model.Condition) option { return func(r *model.Route) { r.Match.Cookies = list } }
func clients(list ...string) option {
	return func(r *model.Route) {
		for _, text := range list {
			r.Match.ClientIP = append(r.Match.ClientIP, netip.MustParsePrefix(text))
		}
	}
}

// lines gives each route its line, and returns them as a table.
func lines(routes ...*model.Route) []*model.Route {
	for i, r := range routes {
		r.Position = model.Position{File: "sluice.yaml", Line: i + 1, Col: 5}
	}
	return routes
}

// ask makes a request from a text: METHOD [HOST]PATH[?QUERY], then fields.
func ask(text string, fields ...string) *message.Request {
	method, target, _ := strings.Cut(text, " ")
	r := &message.Request{Method: method, Path: target}
	if at := strings.IndexByte(target, '/'); at > 0 {
		r.Host, r.Path = target[:at], target[at:]
	}
	if at := strings.IndexByte(r.Path, '?'); at >= 0 {
		r.Path, r.Query = r.Path[:at], r.Path[at:]
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Fields.Add(name, value)
	}
	return r
}

var someone = netip.MustParseAddr("192.0.2.1")

// answer is a result as a text: the route's id with parameters, what to allow
// where the method is wrong, or "" where no route knows the path.
func answer(r *router.Router, request *message.Request, listener string, client netip.Addr) string {
	result := r.Match(request, listener, client)
	if result.Index < 0 {
		if result.Allow == nil {
			return ""
		}
		return "405 " + strings.Join(result.Allow, ", ")
	}
	text := r.Routes()[result.Index].ID
	for _, p := range result.Params {
		text += fmt.Sprintf(" %s=%s", p.Name, p.Value)
	}
	return text
}

type asked struct {
	request *message.Request
	want    string
}

func TestMatch(t *testing.T) {
	for _, test := range []struct {
		name   string
		routes []*model.Route
		asked  []asked
	}{
		{"no routes", nil, []asked{{ask("GET a.com/"), ""}, {ask("OPTIONS *"), ""}}},
		{"exact", lines(route("x", "/a/b"), route("slash", "/a/b/"), route("root", "/")), []asked{
			{ask("GET /a/b"), "x"}, {ask("GET /a/b/"), "slash"}, {ask("GET /"), "root"}, {ask("GET /a"), ""}, {ask("GET /a/b/c"), ""}, {ask("GET /A/b"), ""}, {ask("GET "), ""},
		}},
		{"parameters are never empty", lines(route("one", "/u/{id}"), route("two", "/u/{id}/p/{pid}"), route("slash", "/s/{id}/")), []asked{
			{ask("GET /u/7"), "one id=7"}, {ask("GET /u/"), ""}, {ask("GET /u"), ""}, {ask("GET /u/7/"), ""}, {ask("GET /u/7/p/8"), "two id=7 pid=8"},
			{ask("GET /u//p/8"), ""}, {ask("GET /u/7/p/"), ""}, {ask("GET /s/7/"), "slash id=7"}, {ask("GET /s/7"), ""}, {ask("GET /s//"), ""},
		}},
		{"the rest may be empty", lines(route("f", "/f/{rest...}"), route("two", "/t/{id}/{rest...}")), []asked{
			{ask("GET /f/"), "f rest="}, {ask("GET /f/a"), "f rest=a"}, {ask("GET /f/a/b/"), "f rest=a/b/"}, {ask("GET /f"), ""}, {ask("GET /fa"), ""},
			{ask("GET /t/1/"), "two id=1 rest="}, {ask("GET /t/1/x/y"), "two id=1 rest=x/y"}, {ask("GET /t/1"), ""}, {ask("GET /t//x"), ""},
		}},
		{"an unnamed rest", lines(&model.Route{ID: "s", Match: model.Match{Path: model.Path{Kind: model.PatternPath, Text: "/s/*", Segments: []model.Segment{{Literal: "s"}, {Param: "*", Rest: true}}}}}), []asked{
			{ask("GET /s/a/b"), "s *=a/b"}, {ask("GET /s/"), "s *="}, {ask("GET /s"), ""},
		}},
		{"prefixes take whole segments", lines(route("api", "/api*")), []asked{
			{ask("GET /api"), "api"}, {ask("GET /api/"), "api"}, {ask("GET /api/x/y"), "api"}, {ask("GET /apix"), ""}, {ask("GET /ap"), ""}, {ask("GET /"), ""}, {ask("GET /api%2Fx"), ""},
		}},
		{"a prefix with a last slash leaves the bare path out", lines(route("api", "/api/*")), []asked{
			{ask("GET /api"), ""}, {ask("GET /api/"), "api"}, {ask("GET /api/x"), "api"}, {ask("GET /apix"), ""},
		}},
		{"the prefix / takes every path", lines(route("all", "/*")), []asked{
			{ask("GET /"), "all"}, {ask("GET /a"), "all"}, {ask("GET //"), "all"}, {ask("OPTIONS *"), ""},
		}},
		{"an encoded slash parts no segments", lines(route("id", "/u/{id}"), route("two", "/u/{id}/{x}"), route("lit", "/u/a%2Fb/c")), []asked{
			{ask("GET /u/a%2Fb"), "id id=a%2Fb"}, {ask("GET /u/a%2Fb/c"), "lit"}, {ask("GET /u/%2F/c"), "two id=%2F x=c"},
		}},
		{"regexes are anchored as written", lines(route("begin", "~^/v[0-9]+/"), route("inside", "~secret"), route("whole", "~^/x$")), []asked{
			{ask("GET /v12/a"), "begin"}, {ask("GET /a/v12/"), ""}, {ask("GET /a/secrets"), "inside"}, {ask("GET /x"), "whole"}, {ask("GET /x/"), ""},
		}},
		{"OPTIONS * has no path", lines(route("root", "/*"), route("rest", "/{rest...}"), route("regex", "~.*"), route("star", "", methods("OPTIONS"))), []asked{
			{ask("OPTIONS *"), "star"}, {ask("OPTIONS /"), "rest rest="},
		}},
		{"a literal branch that fails deeper", lines(route("lit", "/a/b/x"), route("par", "/a/{p}/y"), route("deep", "/{q}/b/z/{r}"), route("rest", "/a/{rest...}")), []asked{
			{ask("GET /a/b/x"), "lit"}, {ask("GET /a/b/y"), "par p=b"}, {ask("GET /a/b/z/1"), "deep q=a r=1"}, {ask("GET /a/b/z"), "rest rest=b/z"}, {ask("GET /c/b/z"), ""},
		}},
		{"hosts compare without port, last dot and case", lines(route("h", "", hosts("api.example.com")), route("six", "", hosts("2001:db8::1"))), []asked{
			{ask("GET api.example.com/"), "h"}, {ask("GET API.Example.COM:8443/"), "h"}, {ask("GET api.example.com./"), "h"}, {ask("GET api.example.com.:80/"), "h"},
			{ask("GET [2001:DB8::1]:80/"), "six"}, {ask("GET example.com/"), ""}, {ask("GET x.api.example.com/"), ""}, {ask("GET /"), ""},
		}},
		{"wildcards take any host below, the longer first", lines(route("com", "", hosts("*.example.com")), route("eu", "", hosts("*.eu.example.com")), route("any", "")), []asked{
			{ask("GET a.example.com/"), "com"}, {ask("GET a.b.example.com/"), "com"}, {ask("GET a.eu.example.com/"), "eu"}, {ask("GET eu.example.com/"), "com"},
			{ask("GET example.com/"), "any"}, {ask("GET .example.com/"), "any"}, {ask("GET aexample.com/"), "any"}, {ask("GET A.EXAMPLE.com.:1/"), "com"},
		}},
		{"hosts longer than any label", lines(route("long", "", hosts("*."+strings.Repeat("a.", 150)+"com"))), []asked{
			{ask("GET x." + strings.Repeat("a.", 150) + "com/"), "long"}, {ask("GET x." + strings.Repeat("a.", 149) + "com/"), ""},
			{ask("GET x.y." + strings.Repeat("a.", 150) + "com/"), "long"}, {ask("GET " + strings.Repeat("a.", 200) + "org/"), ""},
		}},
		{"HEAD follows GET", lines(route("get", "/g", methods("GET")), route("post", "/p", methods("POST")), route("head", "/h", methods("HEAD"))), []asked{
			{ask("HEAD /g"), "get"}, {ask("HEAD /p"), "405 POST"}, {ask("GET /h"), "405 HEAD"}, {ask("HEAD /h"), "head"},
		}},
		{"a preflight goes by the method it asks about", lines(route("get", "/x", methods("GET")), route("put", "/x", methods("PUT")), route("options", "/x", methods("OPTIONS"))), []asked{
			{ask("OPTIONS /x", "Origin: https://a", "Access-Control-Request-Method: PUT"), "put"},
			{ask("OPTIONS /x", "origin: https://a", "access-control-request-method: GET"), "get"},
			{ask("OPTIONS /x", "Origin: https://a", "Access-Control-Request-Method: HEAD"), "get"},
			{ask("OPTIONS /x", "Origin: https://a", "Access-Control-Request-Method: DELETE"), "405 GET, HEAD, OPTIONS, PUT"},
			{ask("OPTIONS /x", "Origin: https://a"), "options"},
			{ask("OPTIONS /x", "Origin: https://a", "Access-Control-Request-Method: "), "options"},
			{ask("OPTIONS /x", "Access-Control-Request-Method: PUT"), "options"},
			{ask("GET /x", "Origin: https://a", "Access-Control-Request-Method: PUT"), "get"},
		}},
		{"405 only where all else holds", lines(
			route("a", "/x", methods("POST", "PURGE"), headers(equal("X-A", "1"))), route("b", "/x*", methods("GET")),
			route("c", "/x", methods("DELETE"), listeners("other")), route("d", "/x", methods("PATCH"), clients("10.0.0.0/8")), route("e", "", hosts("e.com"), methods("LINK", "PURGE")),
			route("f", "~^/y", methods("TRACE", "CONNECT")),
		), []asked{
			{ask("PUT /x"), "405 GET, HEAD"}, {ask("PUT /x", "X-A: 1"), "405 GET, HEAD, POST, PURGE"}, {ask("PUT e.com/x", "X-A: 1"), "405 GET, HEAD, LINK, POST, PURGE"},
			{ask("PUT /nowhere"), ""}, {ask("GET /x", "X-A: 1"), "b"}, {ask("COPY e.com/q"), "405 LINK, PURGE"}, {ask("LINK e.com/q"), "e"}, {ask("GET /yy"), "405 CONNECT, TRACE"},
			{ask("OPTIONS *"), ""},
		}},
		{"methods that are not standard", lines(route("p", "/x", methods("PURGE")), route("all", "/y"), route("many", "/z", methods("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "LINK"))), []asked{
			{ask("PURGE /x"), "p"}, {ask("purge /x"), "405 PURGE"}, {ask("BAN /x"), "405 PURGE"}, {ask("BAN /y"), "all"}, {ask("LINK /z"), "many"},
			{ask("BAN /z"), "405 CONNECT, DELETE, GET, HEAD, LINK, OPTIONS, PATCH, POST, PUT, TRACE"}, {ask("get /z"), "405 CONNECT, DELETE, GET, HEAD, LINK, OPTIONS, PATCH, POST, PUT, TRACE"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) { checkAnswers(t, test.routes, test.asked) })
	}
}

func checkAnswers(t *testing.T, routes []*model.Route, list []asked) {
	t.Helper()
	r, _ := router.Compile(routes)
	for _, a := range list {
		if got := answer(r, a.request, "web", someone); got != a.want {
			t.Errorf("%s: got %q, want %q", show(a.request), got, a.want)
		}
	}
}

func TestConditions(t *testing.T) {
	other := route("else", "")
	for _, test := range []struct {
		name  string
		route *model.Route
		asked []asked
	}{
		{"a header's first line", route("x", "", headers(equal("x-gray", "true"))), []asked{
			{ask("GET /", "X-Gray: true"), "x"}, {ask("GET /", "X-Gray: true", "X-Gray: false"), "x"}, {ask("GET /", "X-Gray: false", "X-Gray: true"), "else"},
			{ask("GET /", "X-Gray: True"), "else"}, {ask("GET /"), "else"},
		}},
		{"a well-known header's first line", route("x", "", headers(equal("accept-encoding", "br"))), []asked{
			{ask("GET /", "Accept-Encoding: br"), "x"}, {ask("GET /", "ACCEPT-ENCODING: gzip", "Accept-Encoding: br"), "else"}, {ask("GET /"), "else"},
		}},
		{"a header by regex", route("x", "", headers(matches("X-Tenant", "^t[0-9]+$"))), []asked{
			{ask("GET /", "X-Tenant: t12"), "x"}, {ask("GET /", "X-Tenant: t"), "else"}, {ask("GET /"), "else"},
		}},
		{"an empty regex needs the header", route("x", "", headers(matches("X-Tenant", ""))), []asked{{ask("GET /", "X-Tenant: "), "x"}, {ask("GET /"), "else"}}},
		{"a header that is there", route("x", "", headers(present("X-Debug", true))), []asked{
			{ask("GET /", "X-Debug: "), "x"}, {ask("GET /", "x-debug: 1"), "x"}, {ask("GET /"), "else"},
		}},
		{"a header that is not", route("x", "", headers(present("Cookie", false))), []asked{{ask("GET /", "Cookie: a=b"), "else"}, {ask("GET /"), "x"}}},
		{"Host is the authority", route("x", "", headers(equal("host", "a.com:80"))), []asked{{ask("GET a.com:80/"), "x"}, {ask("GET a.com/"), "else"}, {ask("GET /"), "else"}}},
		{"Host that is not there", route("x", "", headers(present("Host", false))), []asked{{ask("GET a.com/"), "else"}, {ask("GET /"), "x"}}},
		{"several must all hold", route("x", "", headers(equal("A", "1"), equal("B", "2"))), []asked{
			{ask("GET /", "A: 1", "B: 2"), "x"}, {ask("GET /", "A: 1"), "else"}, {ask("GET /", "B: 2"), "else"},
		}},
		{"the first decoded query value", route("x", "", query(equal("a b", "1;2 3%zz%4"))), []asked{
			{ask("GET /?a+b=1;2+3%zz%4"), "x"}, {ask("GET /?a%20b=%31%3B2%203%25zz%254"), "x"}, {ask("GET /?c=1&a+b=1;2+3%zz%4&a+b=5"), "x"}, {ask("GET /?&&a%20b=1;2+3%zz%4"), "x"},
			{ask("GET /?a+b=5&a+b=1;2+3%zz%4"), "else"}, {ask("GET /?c;a+b=1;2+3%zz%4"), "else"}, {ask("GET /?a+b=1"), "else"}, {ask("GET /"), "else"},
			{ask("GET /?a+b=1;2+3%zz%4x"), "else"}, {ask("GET /?a+b"), "else"},
		}},
		{"an empty query value", route("x", "", query(equal("q", ""))), []asked{{ask("GET /?q"), "x"}, {ask("GET /?q="), "x"}, {ask("GET /?q=1"), "else"}, {ask("GET /?"), "else"}}},
		{"only one question mark is not the query's", route("x", "", query(equal("?q", "1"))), []asked{{ask("GET /??q=1"), "x"}, {ask("GET /?q=1"), "else"}}},
		{"a query value by regex", route("x", "", query(matches("q", "^a b$"))), []asked{{ask("GET /?q=a%20b"), "x"}, {ask("GET /?q=a+b"), "x"}, {ask("GET /?q=ab"), "else"}, {ask("GET /"), "else"}}},
		{"lower-case escapes", route("x", "", query(equal("q", "\xab"))), []asked{{ask("GET /?q=%ab"), "x"}, {ask("GET /?q=%AB"), "x"}, {ask("GET /?q=%aG"), "else"}}},
		{"a query name that is there", route("x", "", query(present("q", true))), []asked{{ask("GET /?q"), "x"}, {ask("GET /?qq=1"), "else"}, {ask("GET /?Q=1"), "else"}}},
		{"a query name that is not", route("x", "", query(present("q", false))), []asked{{ask("GET /?%71"), "else"}, {ask("GET /?qq=1"), "x"}}},
		{"the first cookie of a name", route("x", "", cookies(equal("beta", "yes"))), []asked{
			{ask("GET /", "Cookie: a=b; beta=yes; beta=no"), "x"}, {ask("GET /", "Cookie: a=b", "Cookie: beta=yes"), "x"}, {ask("GET /", "Cookie: beta=no; beta=yes"), "else"},
			{ask("GET /", "Cookie: Beta=yes"), "else"}, {ask("GET /"), "else"},
		}},
		{"a cookie by regex and one that is not there", route("x", "", cookies(matches("a", "^1"), present("b", false))), []asked{
			{ask("GET /", "Cookie: a=12"), "x"}, {ask("GET /", "Cookie: a=12; b=1"), "else"}, {ask("GET /", "Cookie: a=2"), "else"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) { checkAnswers(t, lines(test.route, other), test.asked) })
	}
}

func TestClientAndListener(t *testing.T) {
	r, _ := router.Compile(lines(route("ten", "", clients("10.0.0.0/8", "2001:db8::/32")), route("in", "", listeners("internal", "web")), route("secure", "/s", listeners("websecure"))))
	for _, test := range []struct{ listener, client, want string }{
		{"web", "10.1.2.3", "ten"}, {"web", "::ffff:10.1.2.3", "ten"}, {"web", "2001:db8::9%eth0", "ten"}, {"web", "11.0.0.1", "in"}, {"internal", "2001:db9::1", "in"},
		{"websecure", "11.0.0.1", "secure"}, {"", "11.0.0.1", ""}, {"other", "10.0.0.1", "ten"}, {"web", "", "in"}, {"other", "", ""},
	} {
		client, _ := netip.ParseAddr(test.client) // none: a Unix socket
		if got := answer(r, ask("GET /s"), test.listener, client); got != test.want {
			t.Errorf("%s from %q: got %q, want %q", test.listener, test.client, got, test.want)
		}
	}
}

func TestConditionWithoutCheckIsABug(t *testing.T) {
	for _, broken := range []*model.Route{route("x", "", headers(model.Condition{Name: "X"})), {Match: model.Match{Path: model.Path{Kind: "odd"}}}} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.HasPrefix(text, "BUG: ") {
					t.Errorf("Compile of %+v panics with %q", broken.Match, text)
				}
			}()
			router.Compile(lines(broken))
		}()
	}
}
