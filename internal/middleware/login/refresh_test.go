package login

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// due passes the time until a session of an hour is refreshed, and is good still.
func (b *bed) due() { b.clock.pass(time.Hour - 30*time.Second) }

// over passes the time until it is not good without that.
func (b *bed) over() { b.clock.pass(time.Hour + time.Second) }

// TestRefresh keeps somebody logged in, with new tokens and new claims.
func TestRefresh(t *testing.T) {
	b := newBed(t, usualOptions+", session: {ttl: 1000h}")
	br := b.loggedIn()
	first := br.cookies[sessionName]
	br.passes("before it is due")
	if b.issuer.seen().refreshed != 0 {
		t.Fatal("it is refreshed too early")
	}
	b.issuer.change(func() { b.issuer.claims = map[string]any{"email": "new@example.com"} })
	for range 3 {
		b.due()
		o := br.passes("refreshed")
		if email, _ := o.request.Fields.Find("X-Email"); email != "new@example.com" || !o.fields.Has(message.SetCookie) {
			t.Errorf("after a refresh: %q", email)
		}
		br.passes("after it")
	}
	if br.cookies[sessionName] == first || b.issuer.seen().refreshed != 3 || b.issuer.seen().user != "gateway" {
		t.Errorf("refreshed %d times", b.issuer.seen().refreshed)
	}
	b.over()
	br.passes("refreshed when it was over")
}

// TestRefreshWithoutIDToken leaves the claims as they were.
func TestRefreshWithoutIDToken(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.loggedIn()
	b.issuer.change(func() { b.issuer.answer = map[string]any{"id_token": nil, "expires_in": nil} })
	b.over()
	o := br.passes("refreshed")
	if email, _ := o.request.Fields.Find("X-Email"); email != "ann@example.com" {
		t.Errorf("after a refresh: %q", email)
	}
	b.clock.pass(untold - time.Second)
	br.passes("refreshed again")
	if b.issuer.seen().refreshed != 2 {
		t.Errorf("refreshed %d times", b.issuer.seen().refreshed)
	}
}

// TestNonceOfARefresh may be there or not, as the issuer likes, and is that of the log-in.
func TestNonceOfARefresh(t *testing.T) {
	b := newBed(t, usualOptions)
	to := b.browser()
	begun := to.begin("/")
	u, err := url.Parse(begun)
	if err != nil {
		t.Fatal(err)
	}
	if o := to.visit(b.issuer.authorize(begun)); o.status != 302 {
		t.Fatal(o.err)
	}
	for _, claims := range []map[string]any{nil, {"nonce": u.Query().Get("nonce")}, nil, {"nonce": u.Query().Get("nonce")}} {
		b.issuer.change(func() { b.issuer.claims = claims })
		b.over()
		to.passes(fmt.Sprintf("refreshed with the claims %v", claims))
	}
	b.issuer.change(func() { b.issuer.claims = map[string]any{"nonce": ""} })
	b.over()
	if o := to.do("GET", "/"); o.status != 401 {
		t.Errorf("with another nonce: %d", o.status)
	}
}

// TestSessionOfAnOlderVersion has its nonce in its ID token alone.
func TestSessionOfAnOlderVersion(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.loggedIn()
	s, err := b.gate.keeper.open("", strings.TrimPrefix(br.cookies[sessionName], "1."))
	if err != nil {
		t.Fatal(err)
	}
	claims, err := claimsOf(s.IDToken)
	if err != nil {
		t.Fatal(err)
	}
	s.Nonce = ""
	text, err := b.gate.keeper.save(t.Context(), s, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	br.cookies[sessionName] = "1." + text
	b.issuer.change(func() { b.issuer.claims = map[string]any{"nonce": claims["nonce"]} })
	b.over()
	br.passes("refreshed with the nonce of its log-in")
}

// TestParallel requests with one session share one refresh, and all get what comes of it;
// so do those that come a little later.
func TestParallel(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.loggedIn()
	old := br.request("GET", "/", wantsHTML).Fields
	const many = 20
	var arrived sync.WaitGroup
	arrived.Add(1)
	b.issuer.change(func() { b.issuer.meanwhile = arrived.Wait })
	b.over()
	var texts sync.Map
	var clients sync.WaitGroup
	for range many {
		clients.Go(func() {
			r := br.request("GET", "/")
			r.Fields = old.Clone()
			o := br.serve(r)
			if !o.passed {
				t.Errorf("%d, %v", o.status, o.err)
			}
			texts.Store(o.fields.Get(message.SetCookie), true)
		})
	}
	waitUntil(t, "somebody refreshes", func() bool {
		return b.issuer.seen().asked == 2
	})
	arrived.Done()
	clients.Wait()
	r := br.request("GET", "/")
	r.Fields = old.Clone()
	late := br.serve(r)
	texts.Store(late.fields.Get(message.SetCookie), true)
	n := 0
	texts.Range(func(any, any) bool { n++; return true })
	if !late.passed || n != 1 || b.issuer.seen().refreshed != 1 {
		t.Errorf("%d refreshes came to %d sessions; late: %d", b.issuer.seen().refreshed, n, late.status)
	}
}

func waitUntil(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// TestReuse of a refresh token ends the session: whoever comes with it after the grace has
// it from somewhere else, and the issuer does not bear it.
func TestReuse(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.loggedIn()
	thief := b.browser()
	thief.cookies[sessionName] = br.cookies[sessionName]
	b.due()
	br.passes("refreshed")
	b.clock.pass(grace + time.Second)
	if o := thief.do("GET", "/"); o.status != 401 || len(thief.cookies) != 0 {
		t.Errorf("with a spent refresh token: %d with %v", o.status, thief.cookies)
	}
	b.due()
	if o := br.do("GET", "/"); o.status != 401 || len(br.cookies) != 0 {
		t.Errorf("after somebody has used its refresh token: %d", o.status)
	}
	if o := br.visit("/"); o.status != 302 {
		t.Errorf("a browser is not sent to log in again: %d", o.status)
	}
}

// TestRefreshRefused ends the session; one that cannot be told goes on for as long as it
// is good by itself.
func TestRefreshRefused(t *testing.T) {
	failing := func(status int, code string) func(i *issuer) {
		return func(i *issuer) {
			i.refuse = func(w http.ResponseWriter) bool {
				reply(w, status, map[string]any{"error": code})
				return true
			}
		}
	}
	for name, c := range map[string]struct {
		change func(i *issuer)
		due    int // the answer while the session is good by itself
		over   int
	}{
		"invalid_grant":   {failing(400, "invalid_grant"), 401, 401},
		"invalid_client":  {failing(401, "invalid_client"), 200, 503},
		"500":             {failing(500, ""), 200, 503},
		"another subject": {func(i *issuer) { i.claims = map[string]any{"sub": "eve"} }, 401, 401},
		"another nonce":   {func(i *issuer) { i.claims = map[string]any{"nonce": "x"} }, 401, 401},
		"expired":         {func(i *issuer) { i.claims = map[string]any{"exp": 1} }, 401, 401},
		"bad signature":   {func(i *issuer) { i.forge = func(text string) string { return text[:len(text)-4] + "AAAA" } }, 401, 401},
		"bad claims":      {func(i *issuer) { i.claims = map[string]any{"email": "a\nb"} }, 401, 401},
		"a huge session":  {func(i *issuer) { i.claims = map[string]any{"roles": strings.Repeat("a", 11000)} }, 401, 401},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, usualOptions)
			one, two := b.loggedIn(), b.loggedIn()
			b.issuer.change(func() { c.change(b.issuer) })
			b.due()
			if o := one.do("GET", "/"); o.status != c.due || o.fields.Has(message.SetCookie) != (c.due == 401) {
				t.Errorf("while it is good: %d, %v", o.status, o.err)
			}
			b.clock.pass(time.Minute)
			o := two.do("GET", "/")
			if o.status != c.over || o.fields.Has(message.SetCookie) != (c.over == 401) || o.status == 503 && o.fields.Get(message.RetryAfter) != "1" {
				t.Errorf("when it is over: %d, %v", o.status, o.err)
			}
			if c.over != 503 {
				return
			}
			asked := b.issuer.seen().asked
			if o := two.do("GET", "/"); o.status != 503 || b.issuer.seen().asked != asked {
				t.Errorf("at once after a failure: %d, asked again: %v", o.status, b.issuer.seen().asked != asked)
			}
			b.issuer.change(func() { b.issuer.refuse = nil })
			b.clock.pass(respite)
			one.passes("when the issuer is well again")
			two.passes("when the issuer is well again")
		})
	}
}

// TestIssuerGone lets sessions go on that are good, and nobody log in; when it is back all
// is well.
func TestIssuerGone(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.loggedIn()
	fresh := b.browser()
	back := b.issuer.authorize(fresh.begin("/"))
	var gone atomic.Bool
	gone.Store(true)
	b.issuer.change(func() {
		b.issuer.hold = func(string) {
			if gone.Load() {
				panic(http.ErrAbortHandler)
			}
		}
	})
	br.passes("a session that is good")
	if o := fresh.visit(back); o.status != 503 || o.err.Word != pipeline.AuthUnavailable {
		t.Errorf("the end of a log-in: %d", o.status)
	}
	if o := b.browser().visit("/"); o.status != 503 || o.err.Word != pipeline.AuthUnavailable || o.fields.Get(message.RetryAfter) != "1" {
		t.Errorf("the beginning of a log-in: %d", o.status)
	}
	if o := b.browser().do("GET", "/"); o.status != 401 {
		t.Errorf("a script that is not logged in: %d", o.status)
	}
	b.due()
	br.passes("a session that is due")
	b.clock.pass(time.Minute)
	if o := br.visit("/"); o.status != 503 {
		t.Errorf("a session that is over: %d", o.status)
	}
	gone.Store(false)
	b.clock.pass(respite)
	br.passes("a session, when it is back")
	waitUntil(t, "somebody can log in", func() bool { return b.browser().logIn("/").status == 302 })
}

// TestClientLeaves cancels only its own waiting.
func TestClientLeaves(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.loggedIn()
	begun, proceed := b.holdUp()
	b.over()
	ctx, leave := context.WithCancelCause(t.Context())
	left := make(chan error)
	go func() {
		x := pipeline.NewExchange(ctx, br.request("GET", "/"), &model.Listener{}, peer, time.Now())
		left <- b.handler.Serve(x)
	}()
	<-begun
	leave(pipeline.ErrClientGone)
	if err := pipeline.AsError(<-left); err == nil || err.Word != pipeline.ClientClosed {
		t.Errorf("a client that has left is told %v", err)
	}
	close(proceed)
	br.passes("another one")
	if b.issuer.seen().refreshed != 1 {
		t.Errorf("refreshed %d times", b.issuer.seen().refreshed)
	}
}

// TestSlowRefresh does not hold up a session that is good without it; what comes of it is
// told later.
func TestSlowRefresh(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.loggedIn()
	proceed := make(chan struct{})
	b.issuer.change(func() { b.issuer.meanwhile = func() { <-proceed } })
	b.due()
	if o := br.passes("while the issuer takes its time"); o.fields.Has(message.SetCookie) {
		t.Error("it is told of something")
	}
	close(proceed)
	waitUntil(t, "the refresh is told", func() bool { return br.passes("then").fields.Has(message.SetCookie) })
	if b.issuer.seen().refreshed != 1 {
		t.Errorf("refreshed %d times", b.issuer.seen().refreshed)
	}
}

// TestErrorTellsSession has a client learn its new session although the destination
// failed: the refresh token of before is spent.
func TestErrorTellsSession(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.loggedIn()
	shared := pipeline.NewError(pipeline.UpstreamConnect, nil)
	b.handler = b.gate.middleware(pipeline.HandlerFunc(func(*pipeline.Exchange) error { return shared }))
	b.due()
	if o := br.do("GET", "/"); o.status != 502 || !o.fields.Has(message.SetCookie) || shared.Fields != nil {
		t.Errorf("%d with %v", o.status, o.fields)
	}
	if o := br.do("GET", "/"); o.status != 502 || o.fields.Has(message.SetCookie) {
		t.Errorf("then: %d with %v", o.status, o.fields)
	}
}

// TestFlightsAreBounded: past it a session that is good goes on, and others wait.
func TestFlightsAreBounded(t *testing.T) {
	s := newSessions()
	now := time.Now()
	clock := func() time.Time { return now }
	stay := make(chan struct{})
	for i := range mostFlights {
		f := s.join(mark{byte(i), byte(i >> 8)}, clock, func() (*held, error) {
			if i%2 == 0 {
				<-stay
			}
			return nil, nil //nolint:nilnil // nothing looks at it
		})
		if f == nil {
			t.Fatalf("%d are too many", i)
		}
		if i%2 == 1 {
			<-f.over
		}
	}
	if s.join(mark{1, 255}, clock, func() (*held, error) { return nil, nil }) == nil { //nolint:nilnil // alike
		t.Error("one that is over does not make room")
	}
	close(stay)
	s.Release()
	<-s.idle
	if s.join(mark{2, 255}, clock, nil) != nil {
		t.Error("there are new ones after the end")
	}
	if len(s.flights) > mostFlights {
		t.Errorf("%d are remembered", len(s.flights))
	}
}

// TestClockBehind is of an issuer whose tokens have ended when they come, by the clock of
// the gateway: a session goes on for what is left of the leeway, and is not refreshed by
// each request.
func TestClockBehind(t *testing.T) {
	for name, offline := range map[string]bool{"refreshed": false, "without a refresh": true} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, usualOptions)
			b.issuer.change(func() {
				b.issuer.offline = offline
				b.issuer.claims = map[string]any{"exp": b.clock.now().Add(-10 * time.Second).Unix()}
			})
			br := b.loggedIn()
			br.passes("a token that ended ten seconds ago")
			if n := b.issuer.seen().refreshed; n != 0 {
				t.Errorf("%d refreshes", n)
			}
			b.clock.pass(25 * time.Second) // the leeway is 30s
			if o := br.visit("/"); o.passed {
				t.Errorf("a session goes on beyond the leeway: %d", o.status)
			}
		})
	}
}

// TestSharedRefresh: two oidc that take the same sessions, and tell other things of people,
// refresh them together, and a log-out at one is one at both.
func TestSharedRefresh(t *testing.T) {
	b := newBed(t, usualOptions)
	first := b.handler
	second := b.beside(strings.Replace(usualOptions, "X-Email: email", "X-Mail: email", 1))
	br := b.loggedIn()
	b.over()
	old := br.request("GET", "/").Fields
	ask := func(handler pipeline.Handler, name string) *outcome {
		r := br.request("GET", "/")
		r.Fields = old.Clone()
		b.handler = handler
		o := br.serve(r)
		if told, _ := o.request.Fields.Find(name); !o.passed || told != "ann@example.com" {
			t.Errorf("%d, the destination is told %v", o.status, o.request.Fields)
		}
		return o
	}
	br.keep(ask(first, "X-Email"))
	ask(second, "X-Mail")
	if n := b.issuer.seen().refreshed; n != 1 {
		t.Errorf("refreshed %d times", n)
	}
	late := br.request("GET", "/")
	if b.handler = first; br.visit("/logout").status != 302 {
		t.Error("no log-out")
	}
	b.handler = second
	if o := br.serve(late); o.status != 401 {
		t.Errorf("after a log-out at the other one: %d", o.status)
	}
}

// TestReloadKeepsLogOuts and refreshes, whatever it changes of what is told of people.
func TestReloadKeepsLogOuts(t *testing.T) {
	b := newBed(t, usualOptions)
	br, out := b.loggedIn(), b.loggedIn()
	copied := out.request("GET", "/")
	out.visit("/logout")
	b.due()
	old := br.request("GET", "/")
	br.passes("refreshed")
	b.load(strings.Replace(usualOptions, "X-Email: email", "X-Mail: email", 1))
	if o := br.serve(old); !o.passed || b.issuer.seen().refreshed != 1 {
		t.Errorf("with a session of before the refresh: %d, refreshed %d times", o.status, b.issuer.seen().refreshed)
	}
	if o := br.serve(copied); o.status != 401 {
		t.Errorf("with a session that was logged out: %d", o.status)
	}
	b.load(usualOptions + ", session: {secret: [" + strings.Repeat("a", 32) + ", 0123456789abcdef0123456789abcdef]}")
	if o := br.serve(copied); o.status != 401 {
		t.Errorf("with another secret as well: %d", o.status)
	}
}

// TestSlowAnswer does not give a browser back a session that others have had refreshed
// meanwhile: its refresh token is spent.
func TestSlowAnswer(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.loggedIn()
	quick := b.handler
	begun, proceed := make(chan struct{}), make(chan struct{})
	slow := b.gate.middleware(pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		close(begun)
		<-proceed
		x.Response = &message.Response{Status: 200}
		return nil
	}))
	b.due()
	b.handler = slow
	answered := make(chan *outcome)
	r := br.request("GET", "/slow")
	go func() { answered <- br.serve(r) }()
	<-begun
	b.handler = quick
	br.passes("refreshed")
	b.due()
	br.passes("refreshed again")
	b.clock.pass(grace + time.Second)
	close(proceed)
	o := <-answered
	if !o.passed {
		t.Fatalf("the slow answer: %d", o.status)
	}
	br.keep(o)
	b.due()
	br.passes("after the slow answer")
}

// TestRefreshAtTheStart waits until the issuer is known, which it is soon.
func TestRefreshAtTheStart(t *testing.T) {
	b := newBed(t, usualOptions)
	br := b.loggedIn()
	b.over()
	proceed := make(chan struct{})
	b.issuer.change(func() {
		b.issuer.hold = func(path string) {
			if strings.HasPrefix(path, "/.well-known/") {
				<-proceed
			}
		}
	})
	br.b = b.another(usualOptions)
	answered := make(chan *outcome)
	go func() { answered <- br.serve(br.request("GET", "/")) }()
	p := br.b.gate.provider
	waitUntil(t, "the refresh waits", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.waiting == 1
	})
	close(proceed)
	if o := <-answered; !o.passed {
		t.Errorf("%d, %v", o.status, o.err)
	}
}
