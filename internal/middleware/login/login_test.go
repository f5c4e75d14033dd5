package login

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// TestLogIn goes all the way.
func TestLogIn(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.browser()
	to := br.begin("/a/b?c=d%20e&f")
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for name, want := range map[string]string{
		"client_id": "gateway", "response_type": "code", "redirect_uri": "https://app.example.com/oauth2/callback", "scope": "openid profile email",
		"code_challenge_method": "S256", "tenant": "1",
	} {
		if q.Get(name) != want {
			t.Errorf("%s is %q", name, q.Get(name))
		}
	}
	if len(q.Get("state")) != 43 || len(q.Get("nonce")) != 43 || len(q.Get("code_challenge")) != 43 || !strings.HasPrefix(to, b.issuer.URL+"/authorize?") {
		t.Errorf("sent to %s", to)
	}
	if len(br.cookies) != 1 {
		t.Errorf("an attempt has the cookies %v", br.cookies)
	}
	o := br.visit(b.issuer.authorize(to))
	if o.status != 302 || o.location() != "/a/b?c=d%20e&f" || o.fields.Get(message.CacheControl) != "no-store" || b.issuer.seen().user != "gateway" {
		t.Fatalf("the callback: %d to %q, %v", o.status, o.location(), o.err)
	}
	if len(br.cookies) != 1 || br.cookies["__Host-sluice_session"] == "" {
		t.Errorf("a session has the cookies %v", br.cookies)
	}
	br.cookies["other"] = "1"
	o = br.do("GET", "/a/b", "X-Email: forged", "x_email: forged")
	if !o.passed || o.Consumer != "ann" || strings.Join(o.Principal.Groups, ",") != "staff,ops" {
		t.Fatalf("with a session: %d as %q", o.status, o.Consumer)
	}
	email, _ := o.request.Fields.Find("X-Email")
	_, forged := o.request.Fields.Find("x_email")
	if email != "ann@example.com" || forged {
		t.Errorf("the destination is told %v", o.request.Fields)
	}
	for value := range o.request.Fields.Values("Cookie") {
		if value != "other=1" {
			t.Errorf("the destination gets the cookie %q", value)
		}
	}
	if o.fields.Has(message.SetCookie) || o.fields.Get(message.CacheControl) != "public, max-age=60" {
		t.Errorf("an answer without a need is changed: %v", o.fields)
	}
}

// TestNotLoggedIn tells who is redirected, and who is told.
func TestNotLoggedIn(t *testing.T) {
	b := newBed(t, usualOptions)
	for _, test := range []struct {
		name   string
		method string
		fields []string
		status int
	}{
		{"a browser", "GET", []string{"Accept: text/html", "Sec-Fetch-Mode: navigate"}, 302},
		{"an old browser", "GET", []string{"Accept: image/png, TEXT/HTML;q=0.5"}, 302},
		{"a browser's HEAD", "HEAD", []string{"Accept: text/html"}, 302},
		{"a script", "GET", []string{"Accept: text/html", "Sec-Fetch-Mode: cors"}, 401},
		{"an old script", "GET", []string{"Accept: text/html", "X-Requested-With: XMLHttpRequest"}, 401},
		{"a picture", "GET", []string{"Accept: image/png", "Sec-Fetch-Mode: no-cors"}, 401},
		{"curl", "GET", []string{"Accept: */*"}, 401},
		{"nothing told", "GET", nil, 401},
		{"a form", "POST", []string{"Accept: text/html", "Sec-Fetch-Mode: navigate"}, 401},
		{"a WebSocket", "GET", []string{"Accept: text/html", "Upgrade: websocket", "Connection: upgrade"}, 401},
		{"gRPC", "POST", []string{"Content-Type: application/grpc"}, 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := b.browser().do(test.method, "/", append(test.fields, "X-Email: forged")...)
			if o.status != test.status || o.passed {
				t.Fatalf("%d, %v", o.status, o.err)
			}
			if test.status == 302 {
				return
			}
			if o.err.Word != pipeline.Unauthenticated || o.fields.Get(message.WWWAuthenticate) != challenge || o.fields.Has(message.SetCookie) || o.fields.Get(message.CacheControl) != "no-store" {
				t.Errorf("%+v", o.err)
			}
		})
	}
}

// TestReturn is to the same host, whatever was asked for.
func TestReturn(t *testing.T) {
	b := newBed(t, usualOptions)
	manyParameters := "/?" + strings.Repeat("&", longestReturn-len("/?"))
	for target, want := range map[string]string{
		"/":                                      "/",
		"/a?next=https://evil.example":           "/a?next=https://evil.example",
		"//evil.example":                         "/",
		"///evil.example":                        "/",
		`/\evil.example`:                         "/",
		"/a\r\nX: y":                             "/",
		"/a?b\tc":                                "/",
		"/ä":                                     "/",
		"https://evil.example/x":                 "/x", // the browser's absolute form: the host is that of the request
		"/logout":                                "",   // which ends a session, and begins none
		"/" + strings.Repeat("a", longestReturn): "/",
		manyParameters:                           manyParameters, // in a cookie that browsers keep
	} {
		br := b.browser()
		r := br.request("GET", target, wantsHTML)
		if strings.HasPrefix(target, "//") { // as with merge_slashes off
			r.Path = target
		}
		o := br.serve(r)
		br.keep(o)
		if want == "" {
			if strings.Contains(o.location(), "/authorize") {
				t.Errorf("%q begins a log-in", target)
			}
			continue
		}
		if o.status != 302 {
			t.Fatalf("%q: %d", target, o.status)
		}
		if o = br.visit(b.issuer.authorize(o.location())); o.location() != want {
			t.Errorf("%q returns to %q, want %q", target, o.location(), want)
		}
	}
}

// TestPlain has cookies of other names where the client speaks no TLS, and neither counts
// for the other.
func TestPlain(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.browser()
	br.scheme = "http"
	if o := br.logIn("/"); o.status != 302 || br.cookies["sluice_session"] == "" || len(br.cookies) != 1 {
		t.Fatalf("%d, %v with %v", o.status, o.err, br.cookies)
	}
	br.passes("over HTTP")
	br.scheme = "https"
	if o := br.do("GET", "/"); o.status != 401 {
		t.Errorf("a cookie of HTTP is taken over TLS: %d", o.status)
	}
	// A trusted proxy tells how its client came; others' fields are gone by then.
	br = b.browser()
	br.scheme = "http"
	o := br.do("GET", "/", wantsHTML, "X-Forwarded-Proto: https", "X-Forwarded-Host: www.Example.com")
	if to, err := url.Parse(o.location()); err != nil || to.Query().Get("redirect_uri") != "https://www.example.com/oauth2/callback" {
		t.Errorf("behind a proxy: sent to %s", o.location())
	}
	for name := range br.cookies {
		if !strings.HasPrefix(name, "__Host-sluice_session.login.") {
			t.Errorf("behind a proxy: the cookie %s", name)
		}
	}
}

// TestTabs has several log-ins of one browser go on at once, and bounds how many.
func TestTabs(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.browser()
	one, two := br.begin("/one"), br.begin("/two")
	if o := br.visit(b.issuer.authorize(one)); o.location() != "/one" {
		t.Errorf("the first tab returns to %q, %v", o.location(), o.err)
	}
	if o := br.visit(b.issuer.authorize(two)); o.location() != "/two" {
		t.Errorf("the second tab returns to %q, %v", o.location(), o.err)
	}
	br = b.browser()
	br.cookies["__Host-sluice_session.login.0123456789abcdef"] = "x"
	first := br.begin("/0")
	if len(br.cookies) != 1 {
		t.Errorf("a forged attempt is kept: %v", br.cookies)
	}
	for range 2 * mostAttempts {
		b.clock.pass(time.Second)
		first, two = two, br.begin("/n")
	}
	if len(br.cookies) != mostAttempts {
		t.Errorf("%d attempts are open", len(br.cookies))
	}
	if o := br.visit(b.issuer.authorize(first)); o.status != 302 {
		t.Errorf("a younger attempt had to go: %v", o.err)
	}
}

// TestJunk: what a client has of attempts that were not given to it costs it some answers
// to lose, and no answer is large for it.
func TestJunk(t *testing.T) {
	b := newBed(t, usualOptions)
	const many = 100
	crowded := func() *browser {
		br := b.browser()
		for n := range many {
			br.cookies[fmt.Sprintf("__Host-sluice_session.login.%016x", n)] = "x"
			br.cookies[fmt.Sprintf("__Host-sluice_session.login.of-another-form-%d", n)] = "x"
		}
		return br
	}
	size := func(o *outcome) (fields, bytes int) {
		for value := range o.fields.Values("Set-Cookie") {
			fields++
			bytes += len(value)
		}
		return fields, bytes
	}
	for _, target := range []string{"/", "/logout"} {
		br := crowded()
		before := len(br.cookies)
		o := br.visit(target)
		if fields, bytes := size(o); o.status != 302 || fields > mostEndedAttempts+1 || bytes > 4<<10 || len(br.cookies) >= before {
			t.Errorf("%s: %d with %d cookies of %d bytes", target, o.status, fields, bytes)
		}
	}
	br := crowded()
	if o := br.logIn("/a"); o.location() != "/a" {
		t.Errorf("in between somebody logs in: %d, %v", o.status, o.err)
	}
	for range many/mostEndedAttempts + 1 {
		delete(br.cookies, sessionName)
		br.begin("/")
	}
	left := 0
	for name := range br.cookies {
		if strings.Contains(name, ".login.0") && br.cookies[name] == "x" {
			left++
		}
	}
	if left > 0 {
		t.Errorf("%d are left", left)
	}
}

// TestPort of the scheme itself is none in the redirect URI, as issuers know it.
func TestPort(t *testing.T) {
	b := newBed(t, usualOptions)
	for told, want := range map[string]string{
		"https app.example.com:443": "https://app.example.com", "https app.example.com:8443": "https://app.example.com:8443", "https app.example.com:80": "https://app.example.com:80",
		"http app.example.com:80": "http://app.example.com", "https [::1]:443": "https://[::1]",
	} {
		br := b.browser()
		scheme, host, _ := strings.Cut(told, " ")
		o := br.do("GET", "/", wantsHTML, "X-Forwarded-Proto: "+scheme, "X-Forwarded-Host: "+host)
		if to, err := url.Parse(o.location()); err != nil || to.Query().Get("redirect_uri") != want+"/oauth2/callback" {
			t.Errorf("%s: sent to %s", told, o.location())
		}
	}
}

// TestShadowedAttempt counts all the same: a cookie of the same name that is none does not
// keep anybody from logging in.
func TestShadowedAttempt(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.browser()
	back := b.issuer.authorize(br.begin("/a"))
	r := br.request("GET", back, wantsHTML)
	for name := range br.cookies {
		r.Fields = append(message.Fields{{ID: message.Cookie, Name: "Cookie", Value: name + "=junk"}}, r.Fields...)
	}
	if o := br.serve(r); o.location() != "/a" {
		t.Errorf("%d, %v", o.status, o.err)
	}
}
