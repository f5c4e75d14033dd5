package external_test

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/config"
	"sluice/internal/lease"
	"sluice/internal/logtest"
	"sluice/internal/message"
	"sluice/internal/middleware/external"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bed builds external_auth over reloads.
type bed struct {
	t        testing.TB
	registry lease.Registry
	log      logtest.Buffer
}

func newBed(t testing.TB) *bed {
	t.Helper()
	b := &bed{t: t}
	t.Cleanup(func() {
		if err := b.registry.Idle(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// resolved is the configuration with options, or what is wrong with it.
func resolved(dir, options string) (*model.Gateway, []string) {
	kind := external.Auth()
	kinds := []config.Kind{{Name: kind.Name, Options: kind.Options, Validate: kind.Validate, Role: kind.Role, Warn: kind.Warn}}
	result := config.Resolve([]config.Document{{Name: "it.yaml", Dir: dir, Data: []byte(`
listeners: {web: {address: ":0"}}
routes: [{id: r, match: {path: /}, respond: {status: 200}, middleware: [{external_auth: ` + options + `}]}]
`)}}, kinds, config.Environment{})
	var problems []string
	for _, p := range result.Problems {
		problems = append(problems, p.Error())
	}
	return result.Gateway, problems
}

// build builds the middleware with options, which are sound, whatever is warned of. It ends with release.
func (b *bed) build(options string) (m pipeline.Middleware, release func()) {
	b.t.Helper()
	gateway, problems := resolved(b.t.TempDir(), options)
	if gateway == nil {
		b.t.Fatal(problems)
	}
	set := b.registry.NewSet()
	route := gateway.Routes[0]
	site := pipeline.Site{Leases: set, Gateway: gateway, Route: route, Step: &route.Chain[0], Log: slog.New(slog.NewTextHandler(&b.log, nil))}
	m = external.Auth().Build(&site, route.Chain[0].Settings)
	if err := set.Commit(); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(set.Release)
	return m, set.Release
}

// asked is an exchange of a request, as "METHOD /path?query", with fields as "Name: value".
func asked(ctx context.Context, line string, fields ...string) *pipeline.Exchange {
	method, target, _ := strings.Cut(line, " ")
	path, query, found := strings.Cut(target, "?")
	if found {
		query = "?" + query
	}
	r := &message.Request{Protocol: message.HTTP11, Method: method, Scheme: "https", Host: "api.example.com", Path: path, Query: query}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Fields.Add(name, value)
	}
	x := pipeline.NewExchange(ctx, r, &model.Listener{}, netip.MustParseAddrPort("10.1.2.3:4567"), time.Now())
	x.Route, x.ID = &model.Route{ID: "r"}, "id-1"
	x.Local = func() netip.AddrPort { return netip.MustParseAddrPort("10.9.9.9:443") }
	return x
}

// passed is what reached the destination; nil: nothing did.
type passed struct {
	fields message.Fields
	query  string
}

// serve serves an exchange with a middleware in front of a destination that answers.
func serve(m pipeline.Middleware, x *pipeline.Exchange, answer ...string) (reached *passed, err error) {
	err = m(pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		reached = &passed{x.Request.Fields.Clone(), x.Request.Query}
		x.Response = &message.Response{Status: 200}
		for _, field := range answer {
			name, value, _ := strings.Cut(field, ": ")
			x.Response.Fields.Add(name, value)
		}
		return nil
	})).Serve(x)
	return reached, err
}

// all are the values of a name, with | between them; "none" for none.
func all(fields message.Fields, name string) string {
	var values []string
	for value := range fields.Values(name) {
		values = append(values, value)
	}
	if values == nil {
		return "none"
	}
	return strings.Join(values, "|")
}

// body reads the body of an exchange's response.
func body(t testing.TB, x *pipeline.Exchange) string {
	t.Helper()
	if x.Response.Body == nil {
		return ""
	}
	text, err := io.ReadAll(x.Response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// word is the word of an error; empty for none.
func word(err error) pipeline.Word {
	if e := pipeline.AsError(err); e != nil {
		return e.Word
	}
	return ""
}
