package login

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"sluice/internal/pipeline"
)

// TestDiscovery takes an issuer for none that is not who it should be, or tells of nothing
// that can be used: nobody logs in.
func TestDiscovery(t *testing.T) {
	for name, metadata := range map[string]map[string]any{
		"another issuer":             {"issuer": "https://evil.example"},
		"an issuer with a slash":     {"issuer": "SLASH"},
		"no issuer":                  {"issuer": nil},
		"no authorization endpoint":  {"authorization_endpoint": nil},
		"no token endpoint":          {"token_endpoint": nil},
		"no keys":                    {"jwks_uri": nil},
		"a relative endpoint":        {"token_endpoint": "/token"},
		"an endpoint with a user":    {"token_endpoint": "http://a:b@c/"},
		"an endpoint's fragment":     {"authorization_endpoint": "http://a/#b"}, // RFC 6749 3.1
		"another scheme":             {"authorization_endpoint": "javascript:alert(1)"},
		"an end that is none":        {"end_session_endpoint": "nowhere"},
		"members of other types":     {"token_endpoint": 1},
		"a body that is far too big": {"x": strings.Repeat("a", 1<<20)},
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			b := &bed{t: t, clock: clock, issuer: newIssuer(t, clock.now), registry: newRegistry()}
			if metadata["issuer"] == "SLASH" {
				metadata["issuer"] = b.issuer.URL + "/"
			}
			b.issuer.metadata = metadata
			b.load(usualOptions)
			if o := b.browser().visit("/"); o.status != 503 || o.err.Word != pipeline.AuthUnavailable {
				t.Errorf("%d", o.status)
			}
		})
	}
	secure := metadata{Issuer: "https://a", Authorization: "https://a/", Token: "http://a/", JWKS: "https://a/"}
	if err := secure.check("https://a"); err == nil {
		t.Error("an endpoint without TLS is taken of an issuer with TLS")
	}
}

// TestDiscoveryThatFails is asked again.
func TestDiscoveryThatFails(t *testing.T) {
	var mu sync.Mutex
	status, asked := 500, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		switch status {
		case 200:
			base := "http://" + r.Host
			reply(w, 200, map[string]any{"issuer": base + "/tenant/", "authorization_endpoint": base, "token_endpoint": base, "jwks_uri": base + "/keys"})
		case 302:
			http.Redirect(w, r, "https://evil.example/", status)
		default:
			w.WriteHeader(status)
		}
	}))
	defer server.Close()
	var log journal
	registry := newRegistry()
	p := newProvider(providerSettings{Issuer: server.URL + "/tenant/"}, registry, slog.New(slog.NewTextHandler(&log, nil)))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []int{500, 302} {
		mu.Lock()
		status = bad
		mu.Unlock()
		if m, err := p.current(t.Context()); m != nil || err == nil {
			t.Errorf("with %d there are %v", bad, m)
		}
	}
	mu.Lock()
	status = 200
	mu.Unlock()
	if m, err := p.current(t.Context()); err != nil || m.Issuer != server.URL+"/tenant/" {
		t.Errorf("when it is well: %v", err)
	}
	mu.Lock()
	before := asked
	mu.Unlock()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := p.current(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	mu.Lock()
	if asked > before+1 { // one for the keys
		t.Errorf("an issuer that has just answered is asked %d times", asked-before)
	}
	mu.Unlock()
	p.Release()
	<-p.ended
	if err := registry.Idle(); err != nil {
		waitUntil(t, "the keys are let go", func() bool { return registry.Idle() == nil })
	}
	if text := log.String(); strings.Count(text, "level=WARN") < 1 || !strings.Contains(text, "tells of itself again") {
		t.Error(text)
	}
	p.lost()
	if _, err := p.current(t.Context()); err == nil {
		t.Error("one that is asked no more answers")
	}
}
