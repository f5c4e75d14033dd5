package router_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/router"
)

// A million random requests to random tables go where the reference says.
func TestMatchAgreesWithReference(t *testing.T) {
	const shards, tables, requests = 4, 500, 500
	for shard := range uint64(shards) {
		t.Run(fmt.Sprint(shard), func(t *testing.T) {
			t.Parallel()
			var taken, denied int
			for seed := shard * tables; seed < (shard+1)*tables; seed++ {
				g := newGenerator(seed)
				p := newPair(t, g.routes(14))
				for range requests {
					request, listener, client := g.request()
					switch result := p.check(t, request, listener, client); {
					case result.Index >= 0:
						taken++
					case result.Allow != nil:
						denied++
					}
				}
				if t.Failed() {
					t.Fatal("seed ", seed)
				}
			}
			t.Logf("%d requests: %d taken, %d refused for their method", tables*requests, taken, denied)
			if taken < tables*requests/4 || denied < tables*requests/50 {
				t.Error("the random requests hardly ever meet the tables")
			}
		})
	}
}

// Tables with hundreds of routes have forks, long lists and deep trees.
func TestMatchAgreesWithReferenceOnLargeTables(t *testing.T) {
	for seed := range uint64(8) {
		g := newGenerator(1_000_000 + seed).wide()
		p := newPair(t, g.routes(400))
		for range 500 {
			request, listener, client := g.request()
			p.check(t, request, listener, client)
		}
		if t.Failed() {
			t.Fatal("seed ", seed)
		}
	}
}

// Explain ends with the route that Match finds and gives a reason for each
// other one, in the order of the reference.
func TestExplainAgreesWithReference(t *testing.T) {
	for seed := range uint64(300) {
		g := newGenerator(seed)
		p := newPair(t, g.routes(14))
		for range 30 {
			request, listener, client := g.request()
			p.checkExplain(t, request, listener, client)
		}
		if t.Failed() {
			t.Fatal("seed ", seed)
		}
	}
}

func FuzzMatch(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed, "GET", "a.com", "/a/b/c", "?q=1", "X-A", "1")
	}
	f.Add(uint64(1), "OPTIONS", "b.a.com", "*", "", "Cookie", "k=1")
	f.Fuzz(func(t *testing.T, seed uint64, method, host, path, query, name, value string) {
		p := newPair(t, newGenerator(seed).routes(14))
		request := &message.Request{Method: method, Host: host, Path: path, Query: query}
		request.Fields.Add(name, value)
		q := newRefRequest(request, "web", netip.MustParseAddr("10.1.2.3"))
		if q.host != canonicalHost(host) {
			t.Skip("the reference reads plain hosts only")
		}
		p.check(t, request, "web", q.client)
		p.checkExplain(t, request, "web", q.client)
	})
}

// pair is a table in the router and in the reference.
type pair struct {
	routes    []*model.Route
	router    *router.Router
	reference *reference
	problems  []model.Problem
	never     map[string]bool // ids of routes that are said never to match
}

func newPair(t testing.TB, routes []*model.Route) *pair {
	t.Helper()
	p := &pair{routes: routes, reference: newReference(routes)}
	p.router, p.problems = router.Compile(routes)
	p.never = neverMatch(p.problems, routes)
	var order []*model.Route
	for _, e := range p.reference.entries {
		if !slices.Contains(order, e.route) {
			order = append(order, e.route)
		}
	}
	if !slices.Equal(order, p.router.Routes()) {
		t.Fatalf("Routes in order %v, want %v", ids(p.router.Routes()), ids(order))
	}
	return p
}

func (p *pair) check(t testing.TB, request *message.Request, listener string, client netip.Addr) router.Result {
	t.Helper()
	result := p.router.Match(request, listener, client)
	route, params, allow := p.reference.match(newRefRequest(request, listener, client))
	want := router.Result{Index: slices.Index(p.router.Routes(), route), Params: params, Allow: allow}
	if result.Index != want.Index || !slices.Equal(result.Params, want.Params) || !slices.Equal(result.Allow, want.Allow) {
		t.Errorf("%s at %s from %s\ngot  %+v\nwant %+v\nroutes in order:\n%s", show(request), listener, client, result, want, showRoutes(p.router.Routes()))
	}
	if route != nil && p.never[route.ID] {
		t.Errorf("%s goes to %s, of which Compile says that it can never match: %v", show(request), route.ID, p.problems)
	}
	return result
}

func (p *pair) checkExplain(t testing.TB, request *message.Request, listener string, client netip.Addr) {
	t.Helper()
	candidates := p.router.Explain(request, listener, client)
	var got []string
	for i, c := range candidates {
		got = append(got, c.Route.ID)
		if last := i == len(candidates)-1; c.Failed == "" && !last {
			t.Errorf("candidate %d matched and is not the last: %v", i, candidates)
		}
	}
	// Each route stands where the first of its hosts that fits puts it, or, if
	// none fits, its first host.
	q := newRefRequest(request, listener, client)
	chosen, _, _ := p.reference.match(q)
	var want []string
	for _, e := range p.reference.entries {
		fitting := refEntryFor(p.reference, e.route, q.host)
		if e != fitting {
			continue
		}
		want = append(want, e.route.ID)
		if e.route == chosen {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s at %s from %s: candidates (- want + got)\n%s%s", show(request), listener, client, diff, showRoutes(p.router.Routes()))
	}
	if len(candidates) > 0 {
		if matched := candidates[len(candidates)-1].Failed == ""; matched != (chosen != nil) {
			t.Errorf("%s: the last candidate is %+v, but the reference has %v", show(request), candidates[len(candidates)-1], chosen)
		}
	}
}

// refEntryFor returns the entry by which a route counts for a host.
func refEntryFor(ref *reference, route *model.Route, host string) refEntry {
	only := reference{}
	var first *refEntry
	for i, e := range ref.entries {
		if e.route != route {
			continue
		}
		if first == nil {
			first = &ref.entries[i]
		}
		bare := &model.Route{Match: model.Match{Path: model.Path{Kind: model.AnyPath}}}
		only.entries = []refEntry{{route: bare, host: e.host}}
		if fits, _, _ := only.match(&refRequest{Request: &message.Request{}, host: host}); fits != nil {
			return e
		}
	}
	return *first
}

func ids(routes []*model.Route) []string {
	var list []string
	for _, r := range routes {
		list = append(list, r.ID)
	}
	return list
}

func show(r *message.Request) string {
	return fmt.Sprintf("%s %q host %q query %q fields %v", r.Method, r.Path, r.Host, r.Query, r.Fields)
}

func showRoutes(routes []*model.Route) string {
	var text string
	for _, r := range routes {
		m := r.Match
		text += fmt.Sprintf("%s priority %d listeners %v hosts %v %s %q methods %v headers %s query %s cookies %s clients %v\n", r.ID, r.Priority, r.Listeners, m.Hosts,
			m.Path.Kind, m.Path.Text, m.Methods, showConditions(m.Headers), showConditions(m.Query), showConditions(m.Cookies), m.ClientIP)
	}
	return text
}

func showConditions(list []model.Condition) string {
	var text string
	for _, c := range list {
		switch {
		case c.Value != nil:
			text += fmt.Sprintf("[%s = %q]", c.Name, *c.Value)
		case c.Regex != nil:
			text += fmt.Sprintf("[%s ~ %s]", c.Name, c.Regex)
		default:
			text += fmt.Sprintf("[%s %t]", c.Name, *c.Present)
		}
	}
	return text
}
