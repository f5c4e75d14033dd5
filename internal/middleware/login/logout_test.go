package login

import (
	"net/url"
	"strings"
	"testing"
)

// TestLogOut ends a session, and sends to the issuer, which ends its own.
func TestLogOut(t *testing.T) {
	b := newBed(t, usualOptions+", post_logout_path: /bye")
	for _, method := range []string{"GET", "POST"} {
		br := b.loggedIn()
		br.begin2("/logout-is-elsewhere")
		br.cookies["other"] = "1"
		o := br.do(method, "/logout", "Sec-Fetch-Site: same-origin")
		u, err := url.Parse(o.location())
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		if want := map[string]int{"GET": 302, "POST": 303}[method]; o.status != want || !strings.HasPrefix(o.location(), b.issuer.URL+"/end?") {
			t.Errorf("%s: %d to %s", method, o.status, o.location())
		}
		if q.Get("tenant") != "1" || q.Get("client_id") != "gateway" || strings.Count(q.Get("id_token_hint"), ".") != 2 || q.Get("post_logout_redirect_uri") != "https://app.example.com/bye" {
			t.Errorf("the issuer is told %v", q)
		}
		if len(br.cookies) != 1 || br.cookies["other"] == "" {
			t.Errorf("after a log-out: %v", br.cookies)
		}
	}
}

// begin2 leaves an attempt open beside the session.
func (br *browser) begin2(target string) {
	br.b.t.Helper()
	other := br.b.browser()
	other.begin(target)
	for name, value := range other.cookies {
		br.cookies[name] = value
	}
}

// TestLogOutOfNothing goes to the issuer as well: it may have a session of its own.
func TestLogOutOfNothing(t *testing.T) {
	b := newBed(t, usualOptions)
	waitUntil(t, "the issuer is known", func() bool { return b.gate.provider.last() != nil })
	for name, cookie := range map[string]string{"no session": "", "a forged session": "1.forged"} {
		br := b.browser()
		if cookie != "" {
			br.cookies[sessionName] = cookie
		}
		o := br.do("GET", "/logout")
		if o.status != 302 || strings.Contains(o.location(), "id_token_hint") || len(br.cookies) != 0 {
			t.Errorf("%s: %d to %s with %v", name, o.status, o.location(), br.cookies)
		}
	}
}

// TestLogOutByAnotherSite is none.
func TestLogOutByAnotherSite(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.loggedIn()
	if o := br.do("GET", "/logout", "Sec-Fetch-Site: cross-site"); o.status != 403 {
		t.Errorf("%d", o.status)
	}
	br.passes("after another site's link")
}

// TestLogOutWithoutEndSession comes back at once.
func TestLogOutWithoutEndSession(t *testing.T) {
	clock := newClock()
	b := &bed{t: t, clock: clock, issuer: newIssuer(t, clock.now), registry: newRegistry()}
	b.issuer.metadata = map[string]any{"end_session_endpoint": nil}
	b.load(usualOptions + ", post_logout_path: /bye")
	br := b.loggedIn()
	if o := br.do("GET", "/logout"); o.status != 302 || o.location() != "/bye" || len(br.cookies) != 0 {
		t.Errorf("%d to %q with %v", o.status, o.location(), br.cookies)
	}
}

// TestLogOutWithALargeToken leaves it out of the URL.
func TestLogOutWithALargeToken(t *testing.T) {
	b := newBed(t, usualOptions)
	b.issuer.change(func() { b.issuer.claims = map[string]any{"roles": strings.Repeat("a", longestHint)} })
	o := b.loggedIn().do("GET", "/logout")
	if o.status != 302 || strings.Contains(o.location(), "id_token_hint") || !strings.Contains(o.location(), "client_id=gateway") {
		t.Errorf("%d to %s", o.status, o.location())
	}
}
