package login

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/logtest"
	"sluice/internal/model"
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
		"a huge endpoint":            {"authorization_endpoint": "http://a/" + strings.Repeat("a", longestURL)},
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
	var log logtest.Buffer
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

// TestKnownIssuer: who knows what the issuer tells of itself waits for no question, however
// long that takes, until one had no answer; then only so many wait.
func TestKnownIssuer(t *testing.T) {
	var asked atomic.Int64
	proceed := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		base := "http://" + r.Host
		if r.URL.Path != "/keys" && asked.Add(1) > 1 {
			<-proceed
		}
		reply(w, 200, map[string]any{"issuer": base, "authorization_endpoint": base, "token_endpoint": base, "jwks_uri": base + "/keys", "keys": []any{}})
	}))
	defer server.Close()
	registry := newRegistry()
	p := newProvider(providerSettings{Issuer: server.URL}, registry, slog.New(slog.DiscardHandler))
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		p.Release()
		<-p.ended
		waitUntil(t, "the keys are let go", func() bool { return registry.Idle() == nil })
	}()
	answer := sync.OnceFunc(func() { close(proceed) })
	defer answer()
	if _, err := p.current(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.heard = p.heard.Add(-fresh)
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // nobody needs it
	defer cancel()
	for range maxWaiters + 1 {
		if m, err := p.current(ctx); err != nil || m == nil {
			t.Fatal(err)
		}
	}
	waitUntil(t, "it is asked again", func() bool { return asked.Load() == 2 })
	if m, err := p.current(t.Context()); err != nil || m == nil {
		t.Error("while it is asked: ", err)
	}
	p.lost()
	var waiting sync.WaitGroup
	for range maxWaiters {
		waiting.Go(func() {
			if _, err := p.current(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	waitUntil(t, "as many wait as may", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.waiting == maxWaiters
	})
	if _, err := p.current(t.Context()); !errors.Is(err, errAway) {
		t.Errorf("one more is told %v", err)
	}
	answer()
	waiting.Wait()
	if n := asked.Load(); n != 2 {
		t.Errorf("it is asked %d times", n)
	}
}

// TestConnectionsAreBounded: when all sessions are due at once the issuer and the gateway's
// descriptors survive that, and it is known all the same whether the issuer is there.
func TestConnectionsAreBounded(t *testing.T) {
	const most, all = 2, 20
	var mu sync.Mutex
	var peak int64
	var here, begun atomic.Int64
	proceed := make(chan struct{})
	answer := sync.OnceFunc(func() { close(proceed) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/token" {
			reply(w, 200, map[string]any{"issuer": "http://" + r.Host, "authorization_endpoint": "http://a", "token_endpoint": "http://a", "jwks_uri": "http://a"})
			return
		}
		n := here.Add(1)
		defer here.Add(-1)
		mu.Lock()
		peak = max(peak, n)
		mu.Unlock()
		select {
		case <-proceed:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer answer()
	s := providerSettings{Issuer: server.URL}
	p := newProvider(s, newRegistry(), slog.New(slog.DiscardHandler))
	p.http = newClient(s, most)
	defer p.http.CloseIdleConnections()
	defer p.asking.CloseIdleConnections()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GetConn: func(string) { begun.Add(1) }})
	var clients sync.WaitGroup
	for range all {
		clients.Go(func() {
			request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/token", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			if response, err := p.http.Do(request); err == nil { // on a busy machine some may have waited too long
				_ = response.Body.Close()
			}
		})
	}
	waitUntil(t, "all ask, and some are heard", func() bool { return begun.Load() >= all && here.Load() > 0 })
	if _, err := p.ask(t.Context()); err != nil {
		t.Errorf("meanwhile the issuer is asked for what it tells: %v", err)
	}
	answer()
	clients.Wait()
	if peak > most {
		t.Errorf("%d ask at once", peak)
	}
}

// TestImpatientClient says nothing of the issuer: nobody else waits for it.
func TestImpatientClient(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.browser()
	back := b.issuer.authorize(br.begin("/"))
	begun, proceed := make(chan struct{}), make(chan struct{})
	b.issuer.change(func() {
		b.issuer.hold = func(path string) {
			if path == "/token" {
				close(begun)
				<-proceed
			}
		}
	})
	ctx, leave := context.WithCancelCause(t.Context())
	left := make(chan error)
	go func() {
		left <- b.handler.Serve(pipeline.NewExchange(ctx, br.request("GET", back), &model.Listener{}, peer, time.Now()))
	}()
	<-begun
	leave(pipeline.ErrClientGone)
	if err := pipeline.AsError(<-left); err == nil || err.Word != pipeline.ClientClosed {
		t.Errorf("a client that has left is told %v", err)
	}
	close(proceed)
	b.gate.provider.mu.Lock()
	defer b.gate.provider.mu.Unlock()
	if b.gate.provider.away {
		t.Error("the issuer is taken to be away")
	}
}

// TestKeysAreShown once they are there.
func TestKeysAreShown(t *testing.T) {
	clock := newClock()
	b := &bed{t: t, clock: clock, issuer: newIssuer(t, clock.now), registry: newRegistry()}
	b.issuer.metadata = map[string]any{"issuer": nil}
	b.load(usualOptions)
	if status := b.keys(); status.URL != "" {
		t.Errorf("of an issuer that tells nothing: %+v", status)
	}
	b.issuer.change(func() { b.issuer.metadata = nil })
	waitUntil(t, "somebody can log in", func() bool { return b.browser().logIn("/").status == 302 })
	if status := b.keys(); status.URL != b.issuer.URL+"/keys" || status.Keys != 1 || status.Fetched < 1 || status.Last.IsZero() {
		t.Errorf("%+v", status)
	}
}

// TestFailuresAreToldOnce in a while, with how many there were.
func TestFailuresAreToldOnce(t *testing.T) {
	b := newBed(t, usualOptions)
	people := []*browser{b.loggedIn(), b.loggedIn(), b.loggedIn()}
	b.issuer.change(func() {
		b.issuer.refuse = func(w http.ResponseWriter) bool {
			reply(w, 401, map[string]any{"error": "invalid_client"})
			return true
		}
	})
	fail := func() {
		b.over()
		for _, br := range people {
			if o := br.serve(br.request("GET", "/")); o.status != 503 {
				t.Errorf("a refresh: %d", o.status)
			}
			if o := b.browser().logIn("/"); o.status != 503 {
				t.Errorf("a log-in: %d", o.status)
			}
		}
	}
	fail()
	told := b.told.String()
	for _, what := range []string{"sessions cannot be refreshed for now", "people cannot log in for now"} {
		if strings.Count(told, what) != 1 {
			t.Errorf("%q is told %d times", what, strings.Count(told, what))
		}
	}
	fail()
	if told = b.told.String(); strings.Count(told, "times=1\n") != 2 || strings.Count(told, "times=3\n") != 2 || !strings.Contains(told, "invalid_client") {
		t.Errorf("the log has %s", told)
	}
}
