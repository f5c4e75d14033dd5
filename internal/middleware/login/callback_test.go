package login

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// with returns a URL with parameters set, or removed where a value is empty.
func with(t *testing.T, target string, pairs ...string) string {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for i := 0; i < len(pairs); i += 2 {
		if q.Del(pairs[i]); pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// TestCallback refuses whatever is not the end of a log-in that this browser has begun.
func TestCallback(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(b *bed, br *browser, back string) string // of where the browser is sent back to
		status int
		kept   bool // the attempt is still good
	}{
		{"another state", func(b *bed, _ *browser, back string) string { return with(b.t, back, "state", random()) }, 401, true},
		{"no state", func(b *bed, _ *browser, back string) string { return with(b.t, back, "state", "") }, 401, true},
		{"no code", func(b *bed, _ *browser, back string) string { return with(b.t, back, "code", "") }, 401, true},
		{"nothing", func(*bed, *browser, string) string { return "/oauth2/callback" }, 401, true},
		{"two codes", func(b *bed, _ *browser, back string) string { return back + "&code=x" }, 401, true},
		{"two states", func(b *bed, _ *browser, back string) string { return back + "&st%61te=x" }, 401, true},
		{"a code and an error", func(b *bed, _ *browser, back string) string { return back + "&error=access_denied" }, 401, true},
		{"a huge code", func(b *bed, _ *browser, back string) string {
			return with(b.t, back, "code", strings.Repeat("a", longestCode+1))
		}, 401, true},
		{"another code", func(b *bed, _ *browser, back string) string { return with(b.t, back, "code", "x") }, 401, false},
		{"another browser", func(b *bed, br *browser, back string) string {
			clear(br.cookies)
			return back
		}, 401, false},
		{"another browser's code", func(b *bed, br *browser, back string) string {
			u, err := url.Parse(b.issuer.authorize(b.browser().begin("/")))
			if err != nil {
				b.t.Fatal(err)
			}
			return with(b.t, back, "code", u.Query().Get("code"))
		}, 401, false},
		{"a changed attempt", func(b *bed, br *browser, back string) string {
			for name, value := range br.cookies {
				br.cookies[name] = value[:len(value)-2] + "xx"
			}
			return back
		}, 401, false},
		{"another attempt's cookie", func(b *bed, br *browser, back string) string {
			other := b.browser()
			other.begin("/")
			for name := range br.cookies {
				for _, value := range other.cookies {
					br.cookies[name] = value
				}
			}
			return back
		}, 401, false},
		{"a huge attempt", func(b *bed, br *browser, back string) string {
			for name := range br.cookies {
				br.cookies[name] = strings.Repeat("a", 2*chunkSize+1)
			}
			return back
		}, 401, false},
		{"too late", func(b *bed, _ *browser, back string) string {
			b.clock.pass(attemptTime)
			return back
		}, 401, false},
		{"from the future", func(b *bed, _ *browser, back string) string {
			b.clock.pass(-2 * time.Minute)
			return back
		}, 401, false},
		{"at another host", func(b *bed, br *browser, back string) string {
			b.handler = pipeline.Chain(b.handler, func(next pipeline.Handler) pipeline.Handler {
				return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
					x.Request.Host = "other.example.com"
					return next.Serve(x)
				})
			})
			return back
		}, 401, false},
		{"of another issuer", func(b *bed, _ *browser, back string) string {
			return with(b.t, back, "iss", "https://evil.example")
		}, 401, false},
		{"denied", func(b *bed, _ *browser, back string) string {
			return with(b.t, back, "code", "", "error", "access_denied", "error_description", "<script>alert(1)</script>")
		}, 403, false},
		{"interaction", func(b *bed, _ *browser, back string) string {
			return with(b.t, back, "code", "", "error", "login_required")
		}, 401, false},
		{"its failure", func(b *bed, _ *browser, back string) string {
			return with(b.t, back, "code", "", "error", "server_error")
		}, 503, false},
		{"no code is known", func(b *bed, _ *browser, back string) string {
			b.issuer.change(func() { clear(b.issuer.codes) })
			return back
		}, 401, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBed(t, usualOptions)
			br := b.browser()
			back := b.issuer.authorize(br.begin("/"))
			o := br.visit(test.change(b, br, back))
			if o.status != test.status || o.err == nil || o.err.Err == nil {
				t.Fatalf("%d, %v", o.status, o.err)
			}
			if test.status == 401 && (o.fields.Get(message.WWWAuthenticate) != challenge || o.err.Detail != pipeline.NewError(pipeline.Unauthenticated, nil).Detail) {
				t.Errorf("%+v", o.err)
			}
			if o.fields.Get(message.CacheControl) != "no-store" || strings.Contains(o.err.Detail, "script") || (len(br.cookies) > 0) != test.kept {
				t.Errorf("%+v with %v", o.err, br.cookies)
			}
			if test.kept {
				if o := br.visit(back); o.status != 302 {
					t.Errorf("then, in earnest: %v", o.err)
				}
			}
		})
	}
}

// TestMethods of the callback and of the log-out.
func TestMethods(t *testing.T) {
	b := newBed(t, usualOptions)
	for target, allow := range map[string]string{"/oauth2/callback?code=a&state=b": "GET", "/logout": "GET, POST"} {
		o := b.browser().do("PUT", target)
		if o.status != 405 || o.fields.Get(message.Allow) != allow {
			t.Errorf("PUT %s: %d, %v", target, o.status, o.fields)
		}
	}
}

// TestReplay of a log-in that is over begins no session.
func TestReplay(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.browser()
	back := b.issuer.authorize(br.begin("/"))
	old := br.request("GET", back, wantsHTML)
	if o := br.visit(back); o.status != 302 {
		t.Fatal(o.err)
	}
	if o := br.visit(back); o.status != 401 {
		t.Errorf("by the browser, whose attempt is over: %d", o.status)
	}
	if o := br.serve(old); o.status != 401 || b.issuer.seen().asked != 2 {
		t.Errorf("with the attempt, whose code is spent: %d", o.status)
	}
	br.passes("after all that")
}

// TestProofKey is needed by the issuer, which got its challenge; without pkce there is
// none.
func TestProofKey(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.browser()
	back := b.issuer.authorize(br.begin("/"))
	b.issuer.change(func() {
		for _, g := range b.issuer.codes {
			g.challenge = "of another verifier"
		}
	})
	if o := br.visit(back); o.status != 401 {
		t.Errorf("the issuer takes another verifier: %d", o.status)
	}
	b.load(usualOptions + ", pkce: false")
	to := b.browser().begin("/")
	if strings.Contains(to, "code_challenge") {
		t.Errorf("without pkce: %s", to)
	}
	b.loggedIn()
	if b.issuer.seen().last.Has("code_verifier") {
		t.Error("without pkce there is a verifier")
	}
}

// TestIDToken takes none that is not exactly right.
func TestIDToken(t *testing.T) {
	for name, change := range map[string]func(i *issuer){
		"another issuer":            func(i *issuer) { i.claims = map[string]any{"iss": "https://evil.example"} },
		"no issuer":                 func(i *issuer) { i.claims = map[string]any{"iss": nil} },
		"another audience":          func(i *issuer) { i.claims = map[string]any{"aud": "other"} },
		"no audience":               func(i *issuer) { i.claims = map[string]any{"aud": nil} },
		"audiences without a party": func(i *issuer) { i.claims = map[string]any{"aud": []string{"gateway", "other"}} },
		"another party":             func(i *issuer) { i.claims = map[string]any{"azp": "other"} },
		"a party that is no text":   func(i *issuer) { i.claims = map[string]any{"azp": []string{"gateway"}} },
		"expired":                   func(i *issuer) { i.claims = map[string]any{"exp": i.now().Add(-time.Minute).Unix()} },
		"without an end":            func(i *issuer) { i.claims = map[string]any{"exp": nil} },
		"from the future":           func(i *issuer) { i.claims = map[string]any{"iat": i.now().Add(time.Hour).Unix()} },
		"without a beginning":       func(i *issuer) { i.claims = map[string]any{"iat": nil} },
		"another nonce":             func(i *issuer) { i.claims = map[string]any{"nonce": random()} },
		"no nonce":                  func(i *issuer) { i.claims = map[string]any{"nonce": nil} },
		"another access token":      func(i *issuer) { i.claims = map[string]any{"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"} },
		"a hash that is no text":    func(i *issuer) { i.claims = map[string]any{"at_hash": 1} },
		"no subject":                func(i *issuer) { i.claims = map[string]any{"sub": nil} },
		"a huge subject":            func(i *issuer) { i.claims = map[string]any{"sub": strings.Repeat("a", 256)} },
		"a name with a line's end":  func(i *issuer) { i.claims = map[string]any{"sub": "a\nb"} },
		"a claim that is no field":  func(i *issuer) { i.claims = map[string]any{"email": "a\r\nb"} },
		"none":                      func(i *issuer) { i.answer = map[string]any{"id_token": nil} },
		"an empty one":              func(i *issuer) { i.answer = map[string]any{"id_token": ""} },
		"a number":                  func(i *issuer) { i.answer = map[string]any{"id_token": 1} },
		"no token":                  func(i *issuer) { i.answer = map[string]any{"id_token": "a.b.c"} },
		"a huge one":                func(i *issuer) { i.claims = map[string]any{"x": strings.Repeat("a", longestToken)} },
		"a huge refresh token":      func(i *issuer) { i.answer = map[string]any{"refresh_token": strings.Repeat("a", longestRefresh+1)} },
		"another signature":         func(i *issuer) { i.forge = func(text string) string { return text[:len(text)-4] + "AAAA" } },
		"no algorithm": func(i *issuer) {
			i.forge = func(text string) string {
				_, rest, _ := strings.Cut(text, ".")
				payload, _, _ := strings.Cut(rest, ".")
				return "eyJhbGciOiJub25lIn0." + payload + "."
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, usualOptions)
			b.issuer.change(func() { change(b.issuer) })
			br := b.browser()
			if o := br.logIn("/"); o.status != 401 || o.err.Err == nil || len(br.cookies) != 0 {
				t.Errorf("%d, %v with %v", o.status, o.err, br.cookies)
			}
		})
	}
	for name, change := range map[string]func(i *issuer){
		"audiences with a party": func(i *issuer) { i.claims = map[string]any{"aud": []string{"other", "gateway"}, "azp": "gateway"} },
		"no hash":                func(i *issuer) { i.claims = map[string]any{"at_hash": nil} },
		"a newer key":            func(i *issuer) { i.mu.Unlock(); i.rotate(); i.mu.Lock() },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, usualOptions)
			b.loggedIn() // it has the keys
			b.issuer.change(func() { change(b.issuer) })
			b.loggedIn().passes(name)
		})
	}
}

// TestTokenEndpoint that does not answer as it should says nothing of the client, but
// where it says so.
func TestTokenEndpoint(t *testing.T) {
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		status int
	}{
		{"500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, 503},
		{"429", func(w http.ResponseWriter, _ *http.Request) { reply(w, 429, map[string]any{"error": "slow_down"}) }, 503},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) }, 503},
		{"no access token", func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, map[string]any{"id_token": "a"}) }, 503},
		{"the gateway is unknown", func(w http.ResponseWriter, _ *http.Request) { reply(w, 401, map[string]any{"error": "invalid_client"}) }, 503},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, 503},
		{"broken off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, 503},
		{"invalid_grant", func(w http.ResponseWriter, _ *http.Request) { reply(w, 400, map[string]any{"error": "invalid_grant"}) }, 401},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBed(t, usualOptions)
			b.issuer.change(func() {
				b.issuer.refuse = func(w http.ResponseWriter) bool {
					test.answer(w, &http.Request{Method: "POST", URL: &url.URL{Path: "/token"}})
					return true
				}
			})
			br := b.browser()
			o := br.logIn("/")
			if o.status != test.status || len(br.cookies) != 0 || o.err == nil {
				t.Fatalf("%d, %v with %v", o.status, o.err, br.cookies)
			}
			if text := o.err.Error(); strings.Contains(text, "0123456789abcdef") || strings.Contains(text, b.issuer.seen().last.Get("code")) {
				t.Errorf("the log is told %s", text)
			}
		})
	}
}

// TestClientAuthentication is by what the issuer takes.
func TestClientAuthentication(t *testing.T) {
	for name, c := range map[string]struct {
		methods []string
		options string
		basic   bool
		secret  bool
	}{
		"both":   {[]string{"client_secret_post", "client_secret_basic"}, usualOptions, true, false},
		"post":   {[]string{"client_secret_post"}, usualOptions, false, true},
		"others": {[]string{"private_key_jwt"}, usualOptions, true, false},
		"public": {nil, "client_id: gateway, session: {secret: 0123456789abcdef0123456789abcdef}", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			b := &bed{t: t, clock: clock, issuer: newIssuer(t, clock.now), registry: newRegistry()}
			if c.methods != nil {
				b.issuer.metadata = map[string]any{"token_endpoint_auth_methods_supported": c.methods}
			}
			b.load(c.options)
			b.loggedIn()
			if (b.issuer.seen().user == "gateway") != c.basic || b.issuer.seen().last.Has("client_secret") != c.secret {
				t.Errorf("user %q, form %v", b.issuer.seen().user, b.issuer.seen().last)
			}
		})
	}
}
