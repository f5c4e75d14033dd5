package login

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestRevocation: a log-out has the issuer forget the refresh token, also one that was got
// since the session was told of last, so that a copy of the session comes to nothing.
func TestRevocation(t *testing.T) {
	for name, c := range map[string]struct {
		metadata map[string]any
		secret   string // where the gateway says who it is
	}{
		"by Basic":             {nil, "basic"},
		"by the form":          {map[string]any{"revocation_endpoint_auth_methods_supported": []string{"client_secret_post"}}, "client_secret"},
		"as for tokens":        {map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_post"}}, "client_secret"},
		"not as for tokens":    {map[string]any{"token_endpoint_auth_methods_supported": []string{"client_secret_post"}, "revocation_endpoint_auth_methods_supported": []string{"client_secret_basic"}}, "basic"},
		"it gives none at all": {map[string]any{"revocation_endpoint": nil}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			b := &bed{t: t, clock: clock, issuer: newIssuer(t, clock.now), registry: newRegistry()}
			b.issuer.metadata = c.metadata
			b.load(usualOptions)
			br := b.loggedIn()
			thief := b.another(usualOptions).browser()
			b.due()
			stale := br.request("GET", "/logout") // it was sent before the browser knew of the refresh
			br.passes("refreshed")
			thief.cookies[sessionName] = br.cookies[sessionName]
			if o := br.serve(stale); o.status != 302 {
				t.Fatalf("the log-out: %d", o.status)
			}
			b.idle()
			asked := b.issuer.seen().revoked
			if c.secret == "" {
				if len(asked) > 0 {
					t.Errorf("an issuer that has no place for it is asked %v", asked)
				}
				return
			}
			if len(asked) != 1 || asked[0].Get("token") == "" || asked[0].Get("token_type_hint") != "refresh_token" || !asked[0].Has(c.secret) || len(asked[0]) != map[string]int{"basic": 3, "client_secret": 4}[c.secret] {
				t.Errorf("the issuer is asked %v", asked)
			}
			if n := b.issuer.good(); n != 0 {
				t.Errorf("%d refresh tokens are good", n)
			}
			b.over()
			if o := thief.do("GET", "/"); o.status != 401 {
				t.Errorf("a copy of the session at another instance: %d", o.status)
			}
		})
	}
}

// idle waits until nothing goes on beside requests.
func (b *bed) idle() {
	b.t.Helper()
	waitUntil(b.t, "nothing goes on aside", func() bool {
		b.gate.sessions.mu.Lock()
		defer b.gate.sessions.mu.Unlock()
		return b.gate.sessions.running == 0
	})
}

// TestRevocationThatFails holds nobody up, and is told once in a while, without the token.
func TestRevocationThatFails(t *testing.T) {
	proceed := make(chan struct{})
	for name, c := range map[string]struct {
		metadata map[string]any
		revoking http.HandlerFunc
		cause    string
	}{
		"503": {nil, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, "the status is 503"},
		"a redirect": {nil, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, "the status is 307"},
		"broken off":  {nil, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"late":        {nil, func(w http.ResponseWriter, _ *http.Request) { <-proceed; w.WriteHeader(500) }, "the status is 500"},
		"no URL":      {map[string]any{"revocation_endpoint": "/revoke"}, nil, errRevocation.Error()},
		"endless":     {nil, func(w http.ResponseWriter, _ *http.Request) { endless(w) }, ""},
		"a huge head": {nil, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("a", 1<<20)) }, "exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			b := &bed{t: t, clock: clock, issuer: newIssuer(t, clock.now), registry: newRegistry()}
			b.issuer.metadata, b.issuer.revoking = c.metadata, c.revoking
			b.load(usualOptions)
			const people = 3
			for range people {
				br := b.loggedIn()
				if o := br.do("GET", "/logout"); o.status != 302 || len(br.cookies) != 0 {
					t.Errorf("a log-out: %d with %v", o.status, br.cookies)
				}
			}
			if name == "late" {
				close(proceed)
			}
			b.idle()
			told := b.told.String()
			if want := min(1, len(c.cause)); strings.Count(told, "stay good at the issuer") != want || !strings.Contains(told, c.cause) || strings.Contains(told, "token=") || strings.Contains(told, b.issuer.URL+"/revoke") {
				t.Fatalf("the log has %s", told)
			}
			if c.cause == "" {
				return
			}
			b.clock.pass(quiet)
			b.loggedIn().do("GET", "/logout")
			b.idle()
			if told = b.told.String(); !strings.Contains(told, fmt.Sprint("times=", people)) {
				t.Errorf("then the log has %s", told)
			}
		})
	}
}

// endless is a body without an end, of which nobody reads much.
func endless(w http.ResponseWriter) {
	for range 1 << 14 {
		if _, err := w.Write(make([]byte, 1<<10)); err != nil {
			return
		}
	}
}

// TestRevocationsAreBounded: past it the log-out is one all the same, and it is told.
func TestRevocationsAreBounded(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.loggedIn()
	proceed := make(chan struct{})
	for range mostErrands {
		if !b.gate.sessions.aside(func() { <-proceed }) {
			t.Fatal("there is no room")
		}
	}
	if o := br.do("GET", "/logout"); o.status != 302 || len(br.cookies) != 0 {
		t.Errorf("a log-out: %d with %v", o.status, br.cookies)
	}
	close(proceed)
	b.idle()
	if told := b.told.String(); !strings.Contains(told, errErrands.Error()) || len(b.issuer.seen().revoked) > 0 {
		t.Errorf("the log has %s", told)
	}
}

// TestRevocationWaits for a refresh that is under way: what comes of it is what has to be
// revoked.
func TestRevocationWaits(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.loggedIn()
	begun, proceed := b.holdUp()
	b.due()
	answered := make(chan *outcome)
	go func() { answered <- br.serve(br.request("GET", "/")) }()
	<-begun
	if o := br.serve(br.request("GET", "/logout")); o.status != 302 {
		t.Errorf("a log-out: %d", o.status)
	}
	close(proceed)
	<-answered
	b.idle()
	if n := b.issuer.good(); n != 0 || len(b.issuer.seen().revoked) != 1 {
		t.Errorf("%d refresh tokens are good, revoked %v", n, b.issuer.seen().revoked)
	}
}

// TestRevocationOfWhatIsNotKept: a refresh that the session does not outlive leaves no
// refresh token behind.
func TestRevocationOfWhatIsNotKept(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.loggedIn()
	b.issuer.change(func() { b.issuer.claims = map[string]any{"roles": strings.Repeat("a", 11000)} })
	b.over()
	if o := br.do("GET", "/"); o.status != 401 {
		t.Fatalf("a session that has become too large: %d", o.status)
	}
	b.idle()
	if n := b.issuer.good(); n != 0 {
		t.Errorf("%d refresh tokens are good", n)
	}
}

// TestErrandsAfterTheEnd: those that are under way go on, and there are no new ones.
func TestErrandsAfterTheEnd(t *testing.T) {
	s := newSessions()
	begun, proceed := make(chan struct{}), make(chan struct{})
	if !s.aside(func() { close(begun); <-proceed }) {
		t.Fatal("nothing is run aside")
	}
	<-begun
	s.Release()
	if s.aside(func() {}) {
		t.Error("there are new errands after the end")
	}
	select {
	case <-s.idle:
		t.Error("it is idle while an errand is under way")
	default:
	}
	close(proceed)
	<-s.idle
}
