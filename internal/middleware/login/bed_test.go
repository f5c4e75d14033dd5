package login

import (
	"cmp"
	"log/slog"
	"maps"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/lease"
	"sluice/internal/logtest"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// clock is the time of a test and of its issuer.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Now()} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// bed is oidc in front of a destination, with an issuer.
type bed struct {
	t        *testing.T
	clock    *clock
	issuer   *issuer
	store    string // the address of the store main; empty: nothing is there
	registry *lease.Registry
	set      *lease.Set
	gate     *gate
	handler  pipeline.Handler
	told     logtest.Buffer // the log of the process
	keys     func() pipeline.KeysStatus
}

const usualOptions = `client_id: gateway, client_secret: 0123456789abcdef0123456789abcdef, logout_path: /logout, claims_to_headers: {X-Email: email}`

func newBed(t *testing.T, options string) *bed {
	t.Helper()
	c := newClock()
	b := &bed{t: t, clock: c, issuer: newIssuer(t, c.now), registry: newRegistry()}
	b.load(options)
	return b
}

// another is a second instance of the gateway, with the same options.
func (b *bed) another(options string) *bed {
	other := &bed{t: b.t, clock: b.clock, issuer: b.issuer, store: b.store, registry: newRegistry()}
	other.load(options)
	return other
}

// resolve returns what options come to.
func resolve(t testing.TB, store, options string) (*model.Gateway, []string) {
	t.Helper()
	kind := Kind()
	dir := t.TempDir()
	result := config.Resolve([]config.Document{{Name: "it.yaml", Dir: dir, Data: []byte(`
listeners: {web: {address: ":0"}}
stores: {main: {redis: {address: "` + cmp.Or(store, "unix:"+filepath.Join(dir, "none")) + `"}}}
routes: [{id: r, match: {path_prefix: /}, respond: {status: 200}, middleware: [{oidc: ` + options + `}]}]
`)}}, []config.Kind{{Name: kind.Name, Options: kind.Options, Validate: kind.Validate, Role: kind.Role}}, config.Environment{})
	var problems []string
	for _, p := range result.Problems {
		if p.File = ""; !p.Warning {
			problems = append(problems, p.Error())
		}
	}
	return result.Gateway, problems
}

// load takes up options, as a reload does.
func (b *bed) load(options string) {
	b.t.Helper()
	set := b.registry.NewSet()
	b.gate = b.build(set, options)
	if b.set != nil {
		b.set.Release()
	} else {
		b.t.Cleanup(b.close) // before the issuer closes, which waits for connections
	}
	b.set = set
	b.handler = b.inFront(b.gate)
}

// beside is another oidc of the same gateway.
func (b *bed) beside(options string) pipeline.Handler {
	b.t.Helper()
	set := b.registry.NewSet()
	b.t.Cleanup(set.Release)
	return b.inFront(b.build(set, options))
}

func (b *bed) build(set *lease.Set, options string) *gate {
	b.t.Helper()
	gateway, problems := resolve(b.t, b.store, "{issuer: \""+b.issuer.URL+"\", "+options+"}")
	if problems != nil {
		b.t.Fatal(problems)
	}
	route := gateway.Routes[0]
	s, ok := route.Chain[0].Settings.(*settings)
	if !ok {
		b.t.Fatalf("the settings are %T", route.Chain[0].Settings)
	}
	g := newGate(&pipeline.Site{
		Leases: set, Gateway: gateway, Route: route, Step: &route.Chain[0], Log: slog.New(slog.NewTextHandler(&b.told, nil)),
		ShowKeys: func(status func() pipeline.KeysStatus) { b.keys = status },
	}, s, b.clock.now)
	if err := set.Commit(); err != nil {
		b.t.Fatal(err)
	}
	return g
}

// inFront is a gate in front of a destination.
func (b *bed) inFront(g *gate) pipeline.Handler {
	return pipeline.Chain(pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		x.Response = &message.Response{Status: 200, Fields: message.Fields{}}
		x.Response.Fields.Put(message.CacheControl, "public, max-age=60")
		return nil
	}), g.middleware)
}

// browser is a client with cookies.
type browser struct {
	b       *bed
	scheme  string
	cookies map[string]string
}

func (b *bed) browser() *browser { return &browser{b, "https", map[string]string{}} }

// outcome is what comes of a request.
type outcome struct {
	*pipeline.Exchange

	err     *pipeline.Error
	status  int
	fields  message.Fields // of the answer
	passed  bool
	request *message.Request
}

func (o *outcome) location() string { return o.fields.Get(message.Location) }

func (br *browser) request(method, target string, fields ...string) *message.Request {
	if scheme, rest, ok := strings.Cut(target, "://"); ok && !strings.HasPrefix(scheme, "/") {
		br.scheme = scheme
		_, path, _ := strings.Cut(rest, "/")
		target = "/" + path
	}
	path, query, asked := strings.Cut(target, "?")
	if asked {
		query = "?" + query
	}
	r := &message.Request{Protocol: message.HTTP11, Method: method, Scheme: br.scheme, Host: "app.example.com", Target: target, Path: path, Query: query}
	for _, name := range slices.Sorted(maps.Keys(br.cookies)) {
		r.Fields.Add("Cookie", name+"="+br.cookies[name])
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Fields.Add(name, value)
	}
	return r
}

// serve sends a request, and does not keep cookies.
func (br *browser) serve(r *message.Request) *outcome {
	x := pipeline.NewExchange(br.b.t.Context(), r, &model.Listener{}, peer, time.Now())
	o := &outcome{Exchange: x, request: r}
	if o.err = pipeline.AsError(br.b.handler.Serve(x)); o.err != nil {
		o.status, o.fields = o.err.Status, o.err.Fields
	} else {
		o.status, o.fields, o.passed = x.Response.Status, x.Response.Fields, x.Response.Status == 200
	}
	return o
}

// keep keeps the cookies of an answer, as browsers do.
func (br *browser) keep(o *outcome) {
	br.b.t.Helper()
	for value := range o.fields.Values("Set-Cookie") {
		pair, attributes, _ := strings.Cut(value, ";")
		name, text, _ := strings.Cut(pair, "=")
		if len(pair) > 4096 {
			br.b.t.Errorf("a cookie has %d bytes", len(pair))
		}
		if strings.HasPrefix(name, "__Host-") != strings.Contains(attributes, "; Secure") || !strings.Contains(attributes, "HttpOnly") || !strings.Contains(attributes, "SameSite=Lax") || !strings.Contains(attributes, "Path=/") {
			br.b.t.Errorf("the cookie %s has the attributes %s", name, attributes)
		}
		if strings.Contains(attributes, "Max-Age=0") {
			delete(br.cookies, name)
		} else {
			br.cookies[name] = text
		}
	}
	if o.fields.Has(message.SetCookie) && o.fields.Get(message.CacheControl) != "no-store" {
		br.b.t.Error("an answer with cookies may be kept by others")
	}
}

func (br *browser) do(method, target string, fields ...string) *outcome {
	br.b.t.Helper()
	o := br.serve(br.request(method, target, fields...))
	br.keep(o)
	return o
}

const wantsHTML = "Accept: text/html,*/*;q=0.8"

func (br *browser) visit(target string) *outcome {
	br.b.t.Helper()
	return br.do("GET", target, wantsHTML)
}

// begin asks for a page, and returns where at the issuer the browser is sent to.
func (br *browser) begin(target string) string {
	br.b.t.Helper()
	o := br.visit(target)
	if o.status != 302 {
		br.b.t.Fatalf("a browser that is not logged in: %d, %v", o.status, o.err)
	}
	return o.location()
}

// logIn logs in, and returns the last answer of that.
func (br *browser) logIn(target string) *outcome {
	br.b.t.Helper()
	return br.visit(br.b.issuer.authorize(br.begin(target)))
}

// loggedIn is a browser that has logged in.
func (b *bed) loggedIn() *browser {
	b.t.Helper()
	br := b.browser()
	if o := br.logIn("/"); o.status != 302 || o.location() != "/" {
		b.t.Fatalf("the log-in: %d to %q, %v", o.status, o.location(), o.err)
	}
	return br
}

// passes says that a request comes through as somebody.
func (br *browser) passes(what string) *outcome {
	br.b.t.Helper()
	o := br.visit("/x")
	if !o.passed || o.Consumer != "ann" {
		br.b.t.Fatalf("%s: %d as %q, %v", what, o.status, o.Consumer, o.err)
	}
	return o
}

// peer is a client.
var peer = netip.MustParseAddrPort("192.0.2.1:1")

func (b *bed) close() {
	b.set.Release()
	<-b.gate.provider.ended
	<-b.gate.sessions.idle
}

func newRegistry() *lease.Registry { return &lease.Registry{} }

// holdUp has the issuer be asked for the next token, which closes begun, and answer once
// proceed is closed.
func (b *bed) holdUp() (begun, proceed chan struct{}) {
	begun, proceed = make(chan struct{}), make(chan struct{})
	b.issuer.change(func() {
		b.issuer.meanwhile = func() {
			close(begun)
			<-proceed
		}
	})
	return begun, proceed
}
