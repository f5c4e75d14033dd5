package router_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/canonical"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/router"
)

func canonicalHost(host string) string { return canonical.Host(host) }

// neverMatch returns the ids of routes that problems say can never match.
func neverMatch(problems []model.Problem, routes []*model.Route) map[string]bool {
	never := map[string]bool{}
	for _, p := range problems {
		if p.Warning && strings.Contains(p.Message, "can never match") {
			never[routes[p.Line-1].ID] = true
		}
	}
	return never
}

// What Compile finds is, table by table, what a search over every pair of
// entries finds by definition. Paths, hosts and methods are compared by trying
// all of a small world.
func TestProblemsAgreeWithSearchOverPairs(t *testing.T) {
	world := newWorld()
	var conflicts, shadows int
	for seed := range uint64(400) {
		g := newGenerator(2_000_000 + seed)
		routes := g.routes(40)
		if seed%4 == 0 { // long lists of equal hosts and paths, which are indexed
			routes = g.routes(150)
			for _, route := range routes {
				route.Match.Hosts = nil
				route.Match.Path = []model.Path{exact("/a"), prefix("/a")}[g.IntN(2)]
			}
		}
		_, problems := router.Compile(routes)
		gotConflicts, gotShadows := map[string]bool{}, neverMatch(problems, routes)
		for _, p := range problems {
			if !p.Warning {
				gotConflicts[routes[p.Line-1].ID] = true
			}
		}
		wantConflicts, wantShadows := world.problems(routes)
		conflicts += len(wantConflicts)
		shadows += len(wantShadows)
		if diff := cmp.Diff(wantConflicts, gotConflicts); diff != "" {
			t.Fatalf("seed %d: conflicts (- want + got)\n%s%s", seed, diff, showRoutes(routes))
		}
		if diff := cmp.Diff(wantShadows, gotShadows); diff != "" {
			t.Fatalf("seed %d: shadows (- want + got)\n%s%s%v", seed, diff, showRoutes(newReferenceRoutes(routes)), problems)
		}
	}
	t.Logf("%d conflicts, %d shadows", conflicts, shadows)
	if conflicts < 20 || shadows < 500 {
		t.Error("the random tables hardly have any problem")
	}
}

func newReferenceRoutes(routes []*model.Route) []*model.Route {
	var list []*model.Route
	for _, e := range newReference(routes).entries {
		if !slices.Contains(list, e.route) {
			list = append(list, e.route)
		}
	}
	return list
}

// world is every path of up to five segments and every host of a few words,
// with one that no route knows. One condition within another shows in it.
type world struct {
	paths []*refRequest
	hosts []string
	taken map[string][]uint64 // by condition: which of the paths, a bit each
}

func newWorld() *world {
	w := &world{hosts: []string{"a.com", "b.a.com", "x.b.a.com", "x.a.com", "x.com", "other", "x"}, taken: map[string][]uint64{}}
	paths, last := []string{"*", "/"}, []string{""}
	for range 5 {
		var longer []string
		for _, path := range last {
			for _, word := range []string{"a", "b", "ab", "c", "x", ""} {
				if word == "" && strings.HasSuffix(path, "/") {
					continue
				}
				longer = append(longer, path+"/"+word)
			}
		}
		paths, last = append(paths, longer...), longer
	}
	slices.Sort(paths)
	for _, path := range slices.Compact(paths) {
		w.paths = append(w.paths, newRefRequest(&message.Request{Path: path}, "", netip.Addr{}))
	}
	return w
}

func (w *world) pathWithin(inner, outer *model.Path) bool {
	if inner.Kind == model.RegexPath && outer.Kind == model.RegexPath {
		return inner.Text == outer.Text
	}
	if outer.Kind == model.RegexPath {
		return false // not looked into
	}
	if inner.Kind == model.RegexPath {
		inner = &model.Path{Kind: model.PrefixPath, Text: "/"}
	}
	in, out := w.takes(inner), w.takes(outer)
	for i := range in {
		if in[i]&^out[i] != 0 {
			return false
		}
	}
	return true
}

func (w *world) takes(path *model.Path) []uint64 {
	key := string(path.Kind) + path.Text
	list, ok := w.taken[key]
	if !ok {
		list = make([]uint64, len(w.paths)/64+1)
		for i, q := range w.paths {
			if _, fits := refPath(path, q); fits {
				list[i/64] |= 1 << (i % 64)
			}
		}
		w.taken[key] = list
	}
	return list
}

func (w *world) hostWithin(inner, outer string) bool {
	fits := func(pattern, host string) bool {
		return pattern == "" || pattern == host || pattern[0] == '*' && strings.HasSuffix(host, pattern[1:]) && len(host) >= len(pattern)
	}
	for _, host := range append(w.hosts, "never.heard.of") {
		if fits(inner, host) && !fits(outer, host) {
			return false
		}
	}
	return true
}

func methodsWithin(inner, outer []string) bool {
	takes := func(list []string, method string) bool {
		return len(list) == 0 || slices.Contains(list, method) || method == "HEAD" && slices.Contains(list, "GET")
	}
	for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "PURGE", "LINK", "X"} {
		if takes(inner, method) && !takes(outer, method) {
			return false
		}
	}
	return true
}

func clientsWithin(inner, outer []netip.Prefix) bool {
	if len(outer) == 0 || len(inner) == 0 {
		return len(outer) == 0
	}
	for _, in := range inner {
		inOne := false
		for _, out := range outer {
			last := in.Addr().As16()
			for bit := in.Bits() + 128 - in.Addr().BitLen(); bit < 128; bit++ {
				last[bit/8] |= 1 << (7 - bit%8)
			}
			inOne = inOne || out.Contains(in.Addr()) && out.Contains(netip.AddrFrom16(last).Unmap())
		}
		if !inOne {
			return false
		}
	}
	return true
}

func listenersWithin(inner, outer []string) bool {
	if outer == nil || inner == nil {
		return outer == nil
	}
	return !slices.ContainsFunc(inner, func(l string) bool { return !slices.Contains(outer, l) })
}

// asks are a route's conditions on headers, query and cookies as texts.
func asks(m *model.Match) []string {
	var list []string
	for _, c := range m.Headers {
		c.Name = strings.ToLower(c.Name)
		list = append(list, "header"+showConditions([]model.Condition{c}))
	}
	for _, c := range m.Query {
		list = append(list, "query"+showConditions([]model.Condition{c}))
	}
	for _, c := range m.Cookies {
		list = append(list, "cookie"+showConditions([]model.Condition{c}))
	}
	return list
}

func asksWithin(inner, outer []string) bool {
	return !slices.ContainsFunc(outer, func(a string) bool { return !slices.Contains(inner, a) })
}

// problems are the ids of routes that conflict with an earlier one, and of the
// others that can never match.
func (w *world) problems(routes []*model.Route) (conflicts, shadows map[string]bool) {
	conflicts, shadows = map[string]bool{}, map[string]bool{}
	same := func(x, y *model.Route) bool {
		a, b := &x.Match, &y.Match
		hosts := func(m *model.Match) []string { return slices.Sorted(slices.Values(m.Hosts)) }
		prefixes := func(m *model.Match) (list []string) {
			for _, p := range m.ClientIP {
				list = append(list, p.String())
			}
			return slices.Compact(slices.Sorted(slices.Values(list)))
		}
		return x.Priority == y.Priority && slices.Equal(hosts(a), hosts(b)) && a.Path.Kind == b.Path.Kind &&
			w.pathWithin(&a.Path, &b.Path) && w.pathWithin(&b.Path, &a.Path) && methodsWithin(a.Methods, b.Methods) && methodsWithin(b.Methods, a.Methods) &&
			asksWithin(asks(a), asks(b)) && asksWithin(asks(b), asks(a)) && slices.Equal(prefixes(a), prefixes(b)) &&
			(x.Listeners == nil || y.Listeners == nil || slices.ContainsFunc(x.Listeners, func(l string) bool { return slices.Contains(y.Listeners, l) }))
	}
	for i, later := range routes {
		for _, earlier := range routes[:i] {
			if same(later, earlier) {
				conflicts[later.ID] = true
			}
		}
	}
	entries := newReference(routes).entries
	alive := map[string]bool{}
	for i, later := range entries {
		b := &later.route.Match
		covered := slices.ContainsFunc(entries[:i], func(earlier refEntry) bool {
			a := &earlier.route.Match
			return w.hostWithin(later.host, earlier.host) && listenersWithin(later.route.Listeners, earlier.route.Listeners) && methodsWithin(b.Methods, a.Methods) &&
				clientsWithin(b.ClientIP, a.ClientIP) && asksWithin(asks(b), asks(a)) && w.pathWithin(&b.Path, &a.Path)
		})
		if !covered {
			alive[later.route.ID] = true
		}
	}
	for _, route := range routes {
		if !alive[route.ID] && !conflicts[route.ID] {
			shadows[route.ID] = true
		}
	}
	return conflicts, shadows
}
