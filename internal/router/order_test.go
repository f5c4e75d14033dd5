package router_test

import (
	"slices"
	"testing"

	"sluice/internal/model"
	"sluice/internal/router"
)

// Each table is in matching order; any order of the documents leads to it,
// but where only that order decides.
func TestOrder(t *testing.T) {
	for _, test := range []struct {
		name   string
		routes []*model.Route
	}{
		{"priority before all", []*model.Route{
			route("low", "", priority(-1)), route("mid", "/*", priority(99)), route("high", "/a", hosts("a.com"), methods("GET")),
		}},
		{"hosts before paths", []*model.Route{
			route("exact", "", hosts("b.a.com")), route("longer", "~x", hosts("*.b.a.com")), route("shorter", "/x", hosts("*.a.com")), route("any", "/x", methods("GET")),
		}},
		{"paths", []*model.Route{
			route("exact", "/a"), route("pattern", "/{x}/b/c"), route("prefix", "/a/b/c/d/e*"), route("shorter", "/a*"), route("root", "/*"), route("regex", "~^/"), route("none", ""),
		}},
		{"patterns by literal segments", []*model.Route{
			route("three", "/{a}/b/c/d"), route("two", "/a/b/{c}/{d}"), route("two later", "/a/{b}/c/{d}"), route("two last", "/{a}/b/c/{d}"), route("one", "/a/{b}/{c}/{d}"), route("zero", "/{a}/{b}/{c}/{d}"),
		}},
		{"patterns with a rest", []*model.Route{
			route("lit", "/a/b/{rest...}"), route("slash", "/a/{b}/"), route("deep", "/a/{b}/c/{rest...}"), route("par", "/a/{b}"), route("par rest", "/a/{b}/{rest...}"), route("rest", "/a/{rest...}"), route("all", "/{rest...}"),
		}},
		{"methods before conditions", []*model.Route{
			route("method", "/a", methods("GET")), route("headers", "/a", headers(equal("A", "1"), equal("B", "1"))),
		}},
		{"conditions", []*model.Route{
			route("two headers", "/a", headers(equal("A", "1"), equal("B", "1"))), route("header and query", "/a", headers(equal("A", "2")), query(equal("q", "1"))),
			route("header", "/a", headers(equal("A", "3")), cookies(equal("k", "1"), equal("l", "1"))), route("two queries", "/a", query(equal("q", "1"), equal("r", "1"))),
			route("query", "/a", query(equal("q", "1")), cookies(equal("k", "2"))), route("two cookies", "/a", cookies(equal("k", "1"), equal("l", "1"))),
			route("cookie", "/a", cookies(equal("k", "1")), clients("10.0.0.0/8")), route("bare cookie", "/a", cookies(equal("k", "1"))),
			route("client", "/a", clients("10.0.0.0/8")), route("none", "/a"),
		}},
		{"several hosts: the best place counts", []*model.Route{
			route("one", "/b", hosts("*.a.com", "c.com")), route("two", "/*", hosts("x.a.com")), route("three", "/a", hosts("*.a.com")),
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := ids(test.routes)
			backwards := slices.Clone(test.routes)
			slices.Reverse(backwards)
			g := newGenerator(7)
			shuffled := slices.Clone(test.routes)
			g.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			for _, routes := range [][]*model.Route{test.routes, backwards, shuffled} {
				r, problems := router.Compile(lines(routes...))
				if got := ids(r.Routes()); !slices.Equal(got, want) {
					t.Errorf("written %v\ngot  %v\nwant %v", ids(routes), got, want)
				}
				if model.Refused(problems) {
					t.Error(problems)
				}
			}
		})
	}
}

func TestOrderOfDocuments(t *testing.T) {
	first, second := route("a", "/x", headers(equal("A", "1"))), route("b", "/x", headers(equal("B", "1")))
	both := ask("GET /x", "A: 1", "B: 1")
	for _, routes := range [][]*model.Route{lines(first, second), lines(second, first)} {
		r, _ := router.Compile(routes)
		if got := answer(r, both, "web", someone); got != routes[0].ID {
			t.Errorf("%v: got %s", ids(routes), got)
		}
	}
}

// A route's hosts each have their own place: the one route comes before
// another at one host and after it at the next.
func TestSeveralHosts(t *testing.T) {
	checkAnswers(t, lines(route("both", "/*", hosts("a.com", "*.b.com")), route("exact", "/*", hosts("x.b.com")), route("wild", "/p", hosts("*.com"))), []asked{
		{ask("GET a.com/p"), "both"}, {ask("GET x.b.com/p"), "exact"}, {ask("GET y.b.com/p"), "both"}, {ask("GET c.com/p"), "wild"}, {ask("GET c.com/"), ""},
	})
	checkAnswers(t, lines(route("twice", "/*", hosts("a.com", "a.com"))), []asked{{ask("GET a.com/"), "twice"}})
}

// Priorities reach across hosts and kinds of path.
func TestPriorityAcrossTables(t *testing.T) {
	checkAnswers(t, lines(
		route("exact", "/x", hosts("a.com")), route("wild", "~^/x$", hosts("*.com"), priority(50)), route("any", "/*", priority(60)),
		route("first", "", priority(1), headers(equal("A", "1"))), route("deep", "/x/{y}/z", priority(40)), route("deeper", "/x/y/z", priority(41)),
	), []asked{
		{ask("GET a.com/x"), "wild"}, {ask("GET a.com/q"), "any"}, {ask("GET a.com/x", "A: 1"), "first"}, {ask("GET org/x"), "any"},
		{ask("GET a.com/x/y/z"), "deep y=y"}, {ask("OPTIONS *", "A: 1"), "first"},
	})
}
