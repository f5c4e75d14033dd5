package access_test

import (
	"errors"
	"strings"
	"testing"

	"sluice/internal/message"
	"sluice/internal/middleware/access"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// corsOf is the middleware with options, which are sound.
func corsOf(t testing.TB, options string) pipeline.Middleware {
	t.Helper()
	m, role, problems := built(access.CORS(), options)
	if problems != nil || role != model.Outermost {
		t.Fatal(options, problems, role)
	}
	return m
}

func TestOrigins(t *testing.T) {
	for _, test := range []struct{ origins, pass, refuse string }{
		{
			`[https://app.test]`, "https://app.test",
			"http://app.test https://app.test.evil https://evil-app.test https://app.test:8443 https://APP.test https://app.test/ https://app.test. null https://x.app.test app.test *",
		},
		{`[https://app.test:8443]`, "https://app.test:8443", "https://app.test https://app.test:84430"},
		{`["HTTPS://App.Test"]`, "https://app.test", "https://App.Test"}, // browsers write lower case
		{`[https://a.test, http://b.test]`, "https://a.test http://b.test", "http://a.test https://b.test"},
		{
			`["https://*.example.com"]`, "https://a.example.com https://a.b.example.com https://a-b_c.example.com",
			"https://example.com https://.example.com https://a..example.com https://a.example.com.evil https://aexample.com http://a.example.com https://a.example.com:8443 " +
				"https://evil.test/.example.com https://evil.test?.example.com https://evil.test#.example.com https://evil.test:1.example.com https://user@a.example.com https://.a.example.com https://A.example.com null https://",
		},
		{`["https://*.example.com:8443"]`, "https://a.example.com:8443", "https://a.example.com https://a.example.com:84430"},
		{`["http://*.localhost:3000"]`, "http://a.localhost:3000", "http://localhost:3000"},
		{`[{regex: 'https://app[0-9]+\.test'}]`, "https://app1.test https://app22.test", "https://app.test https://app1.test.evil xhttps://app1.test https://app1xtest"},
		{`[{regex: 'https://a\.test|https://b\.test'}]`, "https://a.test https://b.test", "https://a.test.evil https://evil/https://b.test"}, // anchored as a whole
		{`["null"]`, "null", "https://a.test"},
		{`[app://desk, "https://[::1]:3000", "http://127.0.0.1:3000"]`, "app://desk https://[::1]:3000 http://127.0.0.1:3000", "https://[::1]"},
	} {
		m := corsOf(t, "{origins: "+test.origins+"}")
		for list, want := range map[string]bool{test.pass: true, test.refuse: false} {
			for origin := range strings.FieldsSeq(list) {
				x := asked(t, "GET /1", "Origin: "+origin)
				if err := m(answered()).Serve(x); err != nil {
					t.Fatal(err)
				}
				got, there := x.Response.Fields.Find("Access-Control-Allow-Origin")
				if there != want || want && got != origin || x.Response.Fields.Get(message.Vary) != "Origin" {
					t.Errorf("%s and %s: %s", test.origins, origin, lines(x.Response.Fields))
				}
			}
		}
	}
}

func TestAnyOrigin(t *testing.T) {
	m := corsOf(t, `{origins: ["*"], expose: ["*"]}`)
	for _, field := range []string{"Origin: https://a.test", "Origin: null", "X-A: no origin"} {
		x := asked(t, "GET /1", field)
		if err := m(answered("Vary: Accept")).Serve(x); err != nil {
			t.Fatal(err)
		}
		if got := lines(x.Response.Fields); got != "Vary: Accept\nAccess-Control-Allow-Origin: *\nAccess-Control-Expose-Headers: *" {
			t.Errorf("%s: %s", field, got)
		}
	}
}

func TestPreflight(t *testing.T) {
	const vary = "Vary: Origin, Access-Control-Request-Method, Access-Control-Request-Headers"
	ask := func(origin, method, headers string) []string {
		fields := []string{"Origin: " + origin, "Access-Control-Request-Method: " + method}
		if headers != "" {
			fields = append(fields, "Access-Control-Request-Headers: "+headers)
		}
		return fields
	}
	for _, test := range []struct {
		options string
		ask     []string
		want    string
	}{
		{
			`{origins: [https://app.test], methods: [GET, PUT], headers: [X-A], credentials: true, max_age: 10m}`, ask("https://app.test", "PUT", "x-a"),
			vary + "|Access-Control-Allow-Origin: https://app.test|Access-Control-Allow-Credentials: true|Access-Control-Allow-Methods: GET, PUT|Access-Control-Allow-Headers: X-A|Access-Control-Max-Age: 600",
		},
		{`{origins: [https://app.test], methods: [GET, PUT], credentials: true}`, ask("https://app.test.evil", "PUT", ""), vary},
		{`{origins: [https://app.test]}`, ask("https://app.test", "DELETE", "x-secret"), vary + "|Access-Control-Allow-Origin: https://app.test|Access-Control-Allow-Methods: GET, HEAD, POST"},
		{`{origins: ["*"], max_age: 0}`, ask("https://any.test", "GET", ""), vary + "|Access-Control-Allow-Origin: *|Access-Control-Allow-Methods: GET, HEAD, POST|Access-Control-Max-Age: 0"},
		{
			`{origins: [https://app.test], methods: ["*"], headers: ["*"], credentials: true}`, ask("https://app.test", "PATCH", "authorization,x-b"),
			vary + "|Access-Control-Allow-Origin: https://app.test|Access-Control-Allow-Credentials: true|Access-Control-Allow-Methods: PATCH|Access-Control-Allow-Headers: authorization,x-b",
		},
		{`{origins: ["*"], methods: ["*"], headers: ["*"]}`, ask("https://app.test", "A B", "x\x01"), vary + "|Access-Control-Allow-Origin: *"},
		{`{origins: ["*"], headers: ["*"]}`, ask("https://app.test", "GET", strings.Repeat("x", 5000)), vary + "|Access-Control-Allow-Origin: *|Access-Control-Allow-Methods: GET, HEAD, POST"},
		{`{origins: [https://app.test]}`, append(ask("https://app.test", "GET", ""), "Origin: https://evil.test"), vary},
		{`{origins: [https://app.test]}`, append(ask("https://app.test", "GET", ""), "Origin: https://app.test"), vary},
		{`{origins: ["null"]}`, ask("null", "GET", ""), vary + "|Access-Control-Allow-Origin: null|Access-Control-Allow-Methods: GET, HEAD, POST"},
		{`{origins: [{regex: 'https://.*\.test'}], max_age: 90s}`, ask("https://x.test", "GET", ""), vary + "|Access-Control-Allow-Origin: https://x.test|Access-Control-Allow-Methods: GET, HEAD, POST|Access-Control-Max-Age: 90"},
	} {
		x := asked(t, "OPTIONS /1", test.ask...)
		err := corsOf(t, test.options)(pipeline.HandlerFunc(func(*pipeline.Exchange) error {
			t.Error("a preflight goes on")
			return nil
		})).Serve(x)
		if err != nil || x.Response.Status != 204 || x.Response.Body != nil {
			t.Fatal(err, x.Response)
		}
		if got := strings.ReplaceAll(lines(x.Response.Fields), "\n", "|"); got != test.want {
			t.Errorf("%s with %q:\n got %s\nwant %s", test.options, test.ask, got, test.want)
		}
	}
}

// TestNoPreflight goes on with what only looks like one.
func TestNoPreflight(t *testing.T) {
	m := corsOf(t, `{origins: [https://app.test]}`)
	for _, test := range []struct {
		line   string
		fields []string
	}{
		{"OPTIONS /1", nil},
		{"OPTIONS /1", []string{"Origin: https://app.test"}},
		{"OPTIONS /1", []string{"Access-Control-Request-Method: GET"}},
		{"OPTIONS /1", []string{"Origin: https://app.test", "Access-Control-Request-Method: "}},
		{"GET /1", []string{"Origin: https://app.test", "Access-Control-Request-Method: GET"}},
		{"options /1", []string{"Origin: https://app.test", "Access-Control-Request-Method: GET"}},
	} {
		x := asked(t, test.line, test.fields...)
		if err := m(answered("X-Reached: yes")).Serve(x); err != nil || x.Response.Status != 200 {
			t.Errorf("%s %q: %v, %v", test.line, test.fields, x.Response, err)
		}
	}
}

func TestResponses(t *testing.T) {
	const allowed = "\nAccess-Control-Allow-Origin: https://app.test\nAccess-Control-Allow-Credentials: true\nAccess-Control-Expose-Headers: X-Total, X-Page"
	m := corsOf(t, `{origins: [https://app.test], credentials: true, expose: [X-Total, X-Page], max_age: 1h}`)
	for _, test := range []struct{ origin, upstream, want string }{
		{"https://app.test", "X-A: 1", "X-A: 1\nVary: Origin" + allowed},
		{"https://app.test", "Vary: Accept", "Vary: Accept\nVary: Origin" + allowed},
		{"https://app.test", "Vary: Accept, origin", "Vary: Accept, origin" + allowed},
		{"https://app.test", "Vary: *", "Vary: *" + allowed},
		{"https://app.test", "access-control-allow-origin: *|ACCESS-CONTROL-ALLOW-METHODS: X|Access-Control-Expose-Headers: Y|X-A: 1", "X-A: 1\nVary: Origin" + allowed},
		{"https://evil.test", "Access-Control-Allow-Origin: https://evil.test|Access-Control-Allow-Credentials: true", "Vary: Origin"},
		{"", "Access-Control-Allow-Origin: *", "Vary: Origin"},
	} {
		x := asked(t, "GET /1")
		if test.origin != "" {
			x.Request.Fields.Add("Origin", test.origin)
		}
		if err := m(answered(strings.Split(test.upstream, "|")...)).Serve(x); err != nil {
			t.Fatal(err)
		}
		if got := lines(x.Response.Fields); got != test.want {
			t.Errorf("%s, upstream %s:\n got %s\nwant %s", test.origin, test.upstream, got, test.want)
		}
	}
}

// TestErrorsOfTheGateway can be read by pages, too.
func TestErrorsOfTheGateway(t *testing.T) {
	m := corsOf(t, `{origins: [https://app.test]}`)
	for _, cause := range []error{pipeline.NewError(pipeline.Unauthenticated, nil), errors.New("broken")} {
		x := asked(t, "GET /1", "Origin: https://app.test")
		err := m(pipeline.HandlerFunc(func(*pipeline.Exchange) error { return cause })).Serve(x)
		e := pipeline.AsError(err)
		if got := lines(e.Fields); got != "Vary: Origin\nAccess-Control-Allow-Origin: https://app.test" {
			t.Errorf("%v: %s", err, got)
		}
		if want := pipeline.AsError(cause).Word; e.Word != want {
			t.Errorf("%s became %s", want, e.Word)
		}
	}
}

func TestCORSProblems(t *testing.T) {
	expectProblems(t, access.CORS(), map[string]string{
		`{}`:                                          "cors needs the key origins",
		`{origins: []}`:                               "origins is an empty list, so that no page may ask",
		`{origins: [null]}`:                           "origins[0] must be a text or {regex: …}, not nothing",
		`{origins: [{}]}`:                             "origins[0] is neither a text nor a regex",
		`{origins: ['']}`:                             "origins[0] is empty",
		`{origins: [app.test]}`:                       `origins[0] must be an origin, not "app.test"`,
		`{origins: [https://app.test/]}`:              `origins[0] must be a scheme, a host and a port at most, not "https://app.test/" (write https://app.test)`,
		`{origins: ["https://*.app.test/x"]}`:         `(write https://*.app.test)`,
		`{origins: ["https://a:b@app.test"]}`:         `origins[0] must be a scheme, a host and a port at most`,
		`{origins: ["https://"]}`:                     `origins[0] must be an origin`,
		`{origins: ["https://*"]}`:                    `origins[0] must be an origin`,
		`{origins: ["https://a.*.test"]}`:             `origins[0] must be an origin`,
		`{origins: ["https://x*.test"]}`:              `origins[0] must be an origin`,
		`{origins: ["*.test"]}`:                       `origins[0] must be an origin`,
		`{origins: ["https://app.test:443"]}`:         "origins[0] has the port that browsers leave out (remove :443)",
		`{origins: ["http://app.test:80"]}`:           "origins[0] has the port that browsers leave out (remove :80)",
		`{origins: ["https://app.test:"]}`:            `origins[0] is not written as browsers write it: "https://app.test:" (write https://app.test)`,
		`{origins: ["https://app.test:08443"]}`:       `(write https://app.test:8443)`,
		`{origins: ["https://app.test:65536"]}`:       `no host has the name or the port of "https://app.test:65536"`,
		`{origins: ["https://Bücher.test:8443"]}`:     `(write https://xn--bcher-kva.test:8443)`,
		`{origins: ["https://*.bücher.test"]}`:        `(write https://*.xn--bcher-kva.test)`,
		`{origins: ["https://[2001:DB8:0::1]:8443"]}`: `(write https://[2001:db8::1]:8443)`,
		`{origins: ["https://[fe80::1%25eth0]"]}`:     "origins[0] must be a scheme, a host and a port at most",
		`{origins: ["https://*.10.0.0.1"]}`:           `no host has the name or the port of "https://*.10.0.0.1"`,
		`{origins: ["https://[2001:db8::1]:8443", "http://10.0.0.1", "capacitor://localhost", "chrome-extension://abcdef", "https://my_app.test"]}`: "",
		`{origins: ["https://*.com."], credentials: true}`:                 "origins[0] is all of com., where anybody may have a name",
		`{origins: ["http://app.test:443"]}`:                               "",
		`{origins: ["*"], credentials: true}`:                              "it.yaml:3:97: origins[0] is *: pages of anybody may ask, and with credentials that gives them whatever users may see (name the origins, or leave credentials out)",
		`{origins: ["null"], credentials: true}`:                           "origins[0] is null, which every page can make itself by a sandboxed frame, and with credentials",
		`{origins: [{regex: '.*'}], credentials: true}`:                    "origins[0] matches the origin of anybody, as https://any.invalid, and with credentials",
		`{origins: [{regex: 'https://.+'}], credentials: true}`:            "origins[0] matches the origin of anybody",
		`{origins: [{regex: 'https://.*example'}], credentials: true}`:     "origins[0] matches the origin of anybody",
		`{origins: [{regex: '.*'}]}`:                                       "",
		`{origins: [{regex: 'https://.*\.app\.test'}], credentials: true}`: "",
		`{origins: ["https://*.com"], credentials: true}`:                  "origins[0] is all of com, where anybody may have a name, and with credentials",
		`{origins: ["https://*.co.uk:8443"], credentials: true}`:           "origins[0] is all of co.uk",
		`{origins: ["https://*.github.io"], credentials: true}`:            "origins[0] is all of github.io",
		`{origins: ["https://*.com"]}`:                                     "",
		`{origins: ["http://*.localhost:3000"], credentials: true}`:        "",
		`{origins: ["https://*.example.co.uk"], credentials: true}`:        "",
		`{origins: [{regex: '('}]}`:                                        "regex is no regular expression (RE2): missing closing )",
		`{origins: [{regex: 'a)|(b'}]}`:                                    "regex is no regular expression",
		`{origins: [{regex: ''}]}`:                                         "regex is empty",
		`{origins: ["*", https://a.test]}`:                                 "origins has *, which covers all others",
		`{origins: [https://a.test, "*"]}`:                                 "origins has *, which covers all others",
		`{origins: [https://a.test], methods: [get]}`:                      "methods[0] must be in upper case",
		`{origins: [https://a.test], methods: []}`:                         "methods is an empty list",
		`{origins: [https://a.test], methods: ["A B"]}`:                    "methods[0] must be a method",
		`{origins: [https://a.test], methods: [GET, GET]}`:                 "methods[1] is GET once more",
		`{origins: [https://a.test], headers: ["X A"]}`:                    "headers[0] must be the name of a header field",
		`{origins: [https://a.test], headers: [X-A, x-a]}`:                 "headers[1] is x-a once more",
		`{origins: [https://a.test], headers: ["*", X-A]}`:                 "headers[0] is *, which covers all others",
		`{origins: [https://a.test], expose: ["*"], credentials: true}`:    "with credentials, * is no wildcard but the name of a field",
		`{origins: [https://a.test], max_age: -1s}`:                        "max_age must not be negative",
	})
}

func BenchmarkCORS(b *testing.B) {
	h := corsOf(b, `{origins: [https://a.test, "https://*.b.test"], credentials: true}`)(pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		x.Response.Fields = x.Response.Fields[:0]
		return nil
	}))
	x := asked(b, "GET /1", "Accept: */*", "Origin: https://x.b.test")
	x.Response = &message.Response{Status: 200, Fields: make(message.Fields, 0, 8)}
	b.ReportAllocs()
	for b.Loop() {
		if err := h.Serve(x); err != nil {
			b.Fatal(err)
		}
	}
}

// TestRegexOfStrangers: with credentials no regex is taken that pages of others match,
// too.
func TestRegexOfStrangers(t *testing.T) {
	for regex, origin := range map[string]string{
		`.*example\.com`:                           "https://evilexample.com",
		`https://.*example\.com`:                   "https://evilexample.com",
		`https?://.*\.com`:                         "http://evil.com",
		`https://[^.]+\.co\.uk`:                    "https://evil.co.uk",
		`https://[a-z0-9-]*example\.com`:           "https://evilexample.com",
		`https://(\w+|[0-9])example\.com`:          "https://evilexample.com",
		`https://(.*)?example\.com`:                "https://evilexample.com",
		`https://app.example\.com`:                 "https://appeexample.com",
		`https://a\.example\.com|https://b.+\.com`: "https://bevil.com",
		`https://example\.com.*`:                   "https://example.comevil",
		`https://(?:.*)example\.com(:[0-9]+)?`:     "https://evilexample.com",
		`(?i)HTTPS://.{3,9}EXAMPLE\.COM`:           "https://evilexample.com",
	} {
		_, _, problems := built(access.CORS(), "{origins: [{regex: '"+regex+"'}], credentials: true}")
		if len(problems) != 1 || !strings.Contains(problems[0], "matches the origin of anybody, as "+origin+", ") {
			t.Errorf("%s: %q", regex, problems)
		}
		if _, _, problems = built(access.CORS(), "{origins: [{regex: '"+regex+"'}]}"); problems != nil {
			t.Errorf("%s without credentials: %q", regex, problems)
		}
	}
	for _, regex := range []string{
		`https://.*\.example\.com`, `https://([a-z0-9-]+\.)*example\.com`, `https://([a-z]+\.)?example\.co\.uk(:[0-9]+)?`, `https://app[0-9]+\.example\.com`,
		`https://a\.test|https://b\.test`, `https?://(shop|blog)\.example\.(com|org)`, `http://localhost(:[0-9]{1,5})?`, `app://[a-z]+`, `https://[^.]+\.intern`,
	} {
		if _, _, problems := built(access.CORS(), "{origins: [{regex: '"+regex+"'}], credentials: true}"); problems != nil {
			t.Errorf("%s: %q", regex, problems)
		}
	}
}
