package auth

import (
	"cmp"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// bed builds one middleware of a kind, in front of a destination that notes what comes.
type bed struct {
	t        *testing.T
	kind     pipeline.Kind
	dir      string // where files are that options name
	id       string // of the route; empty: r
	store    string // the address of the store main; empty: nothing is there
	registry lease.Registry
	sets     []*lease.Set // of what was loaded
	handler  pipeline.Handler
	came     *pipeline.Exchange // nil: nothing came through
}

// newBed returns a bed of a kind with options. Files are names and contents in turn.
func newBed(t *testing.T, kind pipeline.Kind, options string, files ...string) *bed {
	t.Helper()
	b := &bed{t: t, kind: kind, dir: t.TempDir()}
	b.write(files...)
	b.load(options)
	return b
}

func (b *bed) write(files ...string) {
	b.t.Helper()
	for i := 0; i < len(files); i += 2 {
		if err := os.WriteFile(filepath.Join(b.dir, files[i]), []byte(files[i+1]), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
}

// resolve returns what the options come to.
func (b *bed) resolve(options string) (*model.Gateway, []string) {
	half := config.Kind{Name: b.kind.Name, Options: b.kind.Options, Validate: b.kind.Validate, Role: b.kind.Role}
	result := config.Resolve([]config.Document{{Name: "it.yaml", Dir: b.dir, Data: []byte(`
listeners: {web: {address: ":0"}}
stores: {main: {redis: {address: "` + cmp.Or(b.store, "unix:"+filepath.Join(b.dir, "none")) + `"}}}
routes: [{id: ` + cmp.Or(b.id, "r") + `, match: {path: /}, respond: {status: 200}, middleware: [{` + b.kind.Name + ": " + options + `}]}]
`)}}, []config.Kind{half}, config.Environment{})
	var problems []string
	for _, p := range result.Problems {
		if p.File = filepath.Base(p.File); !p.Warning {
			problems = append(problems, p.Error())
		}
	}
	return result.Gateway, problems
}

// load takes up options, as a reload does: what is on lease goes on.
func (b *bed) load(options string) {
	b.t.Helper()
	gateway, problems := b.resolve(options)
	if problems != nil {
		b.t.Fatal(problems)
	}
	set := b.registry.NewSet()
	b.sets = append(b.sets, set)
	b.t.Cleanup(set.Release)
	route := gateway.Routes[0]
	site := &pipeline.Site{Leases: set, Gateway: gateway, Route: route, Step: &route.Chain[0], Log: slog.New(slog.DiscardHandler), ShowKeys: func(func() pipeline.KeysStatus) {}}
	step := b.kind.Build(site, route.Chain[0].Settings)
	if err := set.Commit(); err != nil {
		b.t.Fatal(err)
	}
	b.handler = pipeline.Chain(pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		b.came = x
		return nil
	}), step)
}

// request is one with header fields, as "Name: value".
func request(target string, fields ...string) *message.Request {
	r := &message.Request{Protocol: message.HTTP11, Method: "GET", Scheme: "http", Host: "example.com", Target: target, Path: target}
	if path, query, ok := strings.Cut(target, "?"); ok {
		r.Path, r.Query = path, "?"+query
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Fields.Add(name, value)
	}
	return r
}

// serve returns who the client is, nil where it is refused, and the error.
func (b *bed) serve(r *message.Request) (*pipeline.Principal, *pipeline.Error) {
	return b.serveExchange(exchange(b.t, r))
}

func exchange(t *testing.T, r *message.Request) *pipeline.Exchange {
	t.Helper()
	return pipeline.NewExchange(t.Context(), r, &model.Listener{}, netip.MustParseAddrPort("192.0.2.1:1"), time.Now())
}

func (b *bed) serveExchange(x *pipeline.Exchange) (*pipeline.Principal, *pipeline.Error) {
	b.came = nil
	err := pipeline.AsError(b.handler.Serve(x))
	if (err == nil) != (b.came != nil) {
		b.t.Errorf("came through: %v, error %v", b.came != nil, err)
	}
	if b.came == nil {
		return nil, err
	}
	return x.Principal, err
}

// refused holds an error to 401 with a challenge, and to nothing else that a client
// could learn from.
func (b *bed) refused(what string, err *pipeline.Error, challenge string) {
	b.t.Helper()
	bare := pipeline.NewError(pipeline.Unauthenticated, nil)
	if err == nil || err.Word != pipeline.Unauthenticated || err.Detail != bare.Detail || err.Status != 401 {
		b.t.Errorf("%s: %+v", what, err)
		return
	}
	if got := err.Fields.Get(message.WWWAuthenticate); got != challenge {
		b.t.Errorf("%s: the challenge is %q, want %q", what, got, challenge)
	}
	if err.Err == nil {
		b.t.Errorf("%s: there is no cause for the log", what)
	}
}
