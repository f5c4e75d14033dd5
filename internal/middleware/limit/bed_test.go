package limit_test

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/config"
	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/middleware/limit"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/resilience"
)

// bed builds chains of limits over reloads, and counts their decisions.
type bed struct {
	t        *testing.T
	registry lease.Registry
	serving  *lease.Set // of the last reload

	mu     sync.Mutex
	counts map[string]int
	shown  []func() pipeline.LimitStatus
	ease   resilience.Ease // what guards leave; zero: all
	guards []resilience.GuardSettings
}

func (b *bed) show(_ string, status func() pipeline.LimitStatus) { b.shown = append(b.shown, status) }

func (b *bed) guard(_ string, s resilience.GuardSettings) func(time.Time) resilience.Ease {
	b.guards = append(b.guards, s)
	return func(time.Time) resilience.Ease {
		if b.ease == (resilience.Ease{}) {
			return resilience.Ease{Share: 1, Room: 1}
		}
		return b.ease
	}
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, counts: map[string]int{}}
	t.Cleanup(func() {
		if err := b.registry.Idle(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func kinds() []pipeline.Kind { return []pipeline.Kind{limit.Rate(), limit.Concurrency()} }

// problemsOf are what is wrong with a chain.
func problemsOf(chain string) (*model.Gateway, []string) {
	var half []config.Kind
	for _, kind := range kinds() {
		half = append(half, config.Kind{Name: kind.Name, Options: kind.Options, Validate: kind.Validate})
	}
	result := config.Resolve([]config.Document{{Name: "it.yaml", Data: []byte(`
listeners: {web: {address: ":0"}}
stores: {main: {redis: {address: "127.0.0.1:1"}}}
routes: [{id: r, match: {path: /}, respond: {status: 200}, middleware: [` + chain + `]}]
`)}}, half, config.Environment{})
	var problems []string
	for _, p := range result.Problems {
		problems = append(problems, p.Error())
	}
	return result.Gateway, problems
}

// wantProblem wants a chain to be refused with a message, or to be well if that is empty.
func wantProblem(t *testing.T, chain, want string) {
	t.Helper()
	gateway, problems := problemsOf(chain)
	got := strings.Join(problems, "|")
	if want == "" && (gateway == nil || got != "") || want != "" && !strings.Contains(got, ": "+want) {
		t.Errorf("%s:\n got %s\nwant %s", chain, got, want)
	}
}

// reload has a chain in front of next serve instead of the one that did.
func (b *bed) reload(chain string, next pipeline.Handler) pipeline.Handler {
	b.t.Helper()
	set := b.registry.NewSet()
	b.t.Cleanup(set.Release)
	h := b.build(set, chain, next)
	if err := set.Commit(); err != nil {
		b.t.Fatal(err)
	}
	if b.serving != nil {
		b.serving.Release()
	}
	b.serving = set
	return h
}

// chain builds a chain in front of next. It ends with the test.
func (b *bed) chain(chain string, next pipeline.Handler) pipeline.Handler {
	b.t.Helper()
	set := b.registry.NewSet()
	b.t.Cleanup(set.Release)
	return b.build(set, chain, next)
}

func (b *bed) build(set *lease.Set, chain string, next pipeline.Handler) pipeline.Handler {
	b.t.Helper()
	gateway, problems := problemsOf(chain)
	if problems != nil {
		b.t.Fatal(problems)
	}
	var steps []pipeline.Middleware
	route := gateway.Routes[0]
	for i := range route.Chain {
		for _, kind := range kinds() {
			if kind.Name == route.Chain[i].Kind {
				site := pipeline.Site{Leases: set, Gateway: gateway, Route: route, Step: &route.Chain[i], Log: slog.New(slog.DiscardHandler), Decisions: b.decisions, Show: b.show, Guard: b.guard}
				steps = append(steps, kind.Build(&site, route.Chain[i].Settings))
			}
		}
	}
	return pipeline.Chain(next, steps...)
}

func (b *bed) decisions(limit, decision string) func() {
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.counts[limit+" "+decision]++
	}
}

func (b *bed) counted(what string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.counts[what]
}

// request is an exchange of a client with header fields, as "Name: value".
func request(ctx context.Context, client string, fields ...string) *pipeline.Exchange {
	r := &message.Request{Protocol: message.HTTP11, Method: "GET", Path: "/"}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Fields.Add(name, value)
	}
	x := pipeline.NewExchange(ctx, r, &model.Listener{}, netip.AddrPortFrom(netip.MustParseAddr(client), 1), time.Now())
	x.Route = &model.Route{ID: "r"}
	return x
}

// answer is a destination.
var answer = pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
	x.Response = &message.Response{Status: 200}
	return nil
})

// passes is how many of n exchanges pass; all others are to be refused by a word.
func (b *bed) passes(h pipeline.Handler, n int, word pipeline.Word, of func() *pipeline.Exchange) (passed int) {
	b.t.Helper()
	for range n {
		x := of()
		err := h.Serve(x)
		x.End()
		if err == nil {
			passed++
		} else if e := pipeline.AsError(err); e.Word != word || e.Fields.Get(message.RetryAfter) == "" {
			b.t.Errorf("refused by %v, with %v", e, e.Fields)
		}
	}
	return passed
}
