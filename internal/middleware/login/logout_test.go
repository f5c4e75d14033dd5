package login

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
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

// TestLateAnswer does not undo a log-out: a request of before it is answered after it, and
// gives the browser a session that was refreshed meanwhile.
func TestLateAnswer(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.loggedIn()
	b.clock.pass(b.issuer.life - 30*time.Second) // due, and still good
	late := br.serve(br.request("GET", "/x", wantsHTML))
	if !late.passed || !late.fields.Has(message.SetCookie) {
		t.Fatalf("no session that was refreshed: %d, %v", late.status, late.err)
	}
	if o := br.visit("/logout"); o.status != 302 || len(br.cookies) != 0 {
		t.Fatalf("the log-out: %d, %v", o.status, br.cookies)
	}
	br.keep(late)
	if len(br.cookies) == 0 {
		t.Fatal("the late answer gave no session back")
	}
	if o := br.visit("/x"); o.passed || o.status != 302 {
		t.Errorf("a late answer undoes a log-out: %d, %v", o.status, o.err)
	}
	b.loggedIn().passes("another log-in of the same person")
}
