package router_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/model"
	"sluice/internal/router"
)

const (
	conflictHint = " (give one of them another priority, or narrow the match of one)"
	sharedHint   = " (leave the host out of one of them, or give one another priority)"
	shadowHint   = " (give it a smaller priority, or remove it)"
)

func conflict(at int, id, with string, line int) string {
	return fmt.Sprintf("sluice.yaml:%d:5: route %q has the same match and the same priority as route %q (sluice.yaml:%d:5)", at, id, with, line) + conflictHint
}

func shadowed(at int, id, by string, line int) string {
	return fmt.Sprintf("sluice.yaml:%d:5: warning: route %q can never match: route %q (sluice.yaml:%d:5) comes first and takes every request that it would", at, id, by, line) + shadowHint
}

func TestConflicts(t *testing.T) {
	ab := conflict(2, "b", "a", 1)
	for _, test := range []struct {
		name   string
		routes []*model.Route
		want   []string
	}{
		{"equal", lines(route("a", "/x"), route("b", "/x")), []string{ab}},
		{"three", lines(route("a", "/x"), route("b", "/x"), route("c", "/x")), []string{ab, conflict(3, "c", "a", 1)}},
		{"other priority", lines(route("a", "/x"), route("b", "/x", priority(101))), []string{shadowed(2, "b", "a", 1)}},
		{"other path", lines(route("a", "/x"), route("b", "/y"), route("c", "/x/")), nil},
		{"other kind", lines(route("a", "/x"), route("b", "/x*"), route("c", "~/x"), route("d", "/{x}")), nil},
		{"parameters by other names", lines(route("a", "/u/{id}/{rest...}"), route("b", "/u/{name}/{more...}")), []string{ab}},
		{"a parameter and a rest", lines(route("a", "/u/{id}"), route("b", "/u/{id...}")), nil},
		{"regexes", lines(route("a", "~^/x"), route("b", "~^/x"), route("c", "~^/y")), []string{ab}},
		{"without a path", lines(route("a", ""), route("b", ""), &model.Route{ID: "c", Priority: 100}), []string{ab, "sluice.yaml:3:5: route \"c\" has the same match and the same priority as route \"a\" (sluice.yaml:1:5)" + conflictHint}},
		{"hosts in another order", lines(route("a", "/x", hosts("a", "b")), route("b", "/x", hosts("b", "a", "b"))), []string{ab}},
		{"other hosts", lines(route("a", "/x", hosts("a")), route("b", "/x", hosts("b")), route("c", "/x")), nil},
		{"methods in another order", lines(route("a", "/x", methods("GET", "PUT", "LINK", "BAN")), route("b", "/x", methods("BAN", "PUT", "GET", "LINK"))), []string{ab}},
		{"GET lists HEAD", lines(route("a", "/x", methods("GET")), route("b", "/x", methods("HEAD", "GET"))), []string{ab}},
		{"other methods", lines(route("a", "/x", methods("GET")), route("b", "/x", methods("PUT")), route("c", "/x", methods("BAN"))), nil},
		{"header names in another case", lines(route("a", "/x", headers(equal("X-A", "1"), present("B", true))), route("b", "/x", headers(present("b", true), equal("x-a", "1")))), []string{ab}},
		{"other values", lines(route("a", "/x", headers(equal("A", "1"))), route("b", "/x", headers(equal("A", "2"))), route("c", "/x", headers(matches("A", "1"))), route("d", "/x", headers(present("A", true)))), nil},
		{"the same of another part", lines(route("a", "/x", query(equal("A", "1"))), route("b", "/x", cookies(equal("A", "1"))), route("c", "/x", query(equal("a", "1")))), nil},
		{"equal queries and cookies", lines(route("a", "/x", query(equal("q", "1")), cookies(matches("k", "x"))), route("b", "/x", query(equal("q", "1")), cookies(matches("k", "x")))), []string{ab}},
		{"client addresses", lines(route("a", "/x", clients("10.0.0.0/8", "11.0.0.0/8")), route("b", "/x", clients("11.0.0.0/8", "10.9.9.9/8")), route("c", "/x", clients("12.0.0.0/8"))), []string{ab}},
		{"listeners apart", lines(route("a", "/x", listeners("web")), route("b", "/x", listeners("internal"))), nil},
		{"listeners that overlap", lines(route("a", "/x", listeners("web", "other")), route("b", "/x", listeners("internal", "web"))), []string{ab}},
		{"all listeners after one", lines(route("a", "/x", listeners("web")), route("b", "/x")), []string{ab}},
		{"one listener after all", lines(route("a", "/x"), route("b", "/x", listeners("web"))), []string{ab}},
		{"a shared host", lines(route("a", "/x", hosts("a", "b")), route("b", "/x", hosts("b", "c")), route("c", "/x", hosts("c"))), []string{
			`sluice.yaml:2:5: warning: route "b" has host b with the same match and the same priority as route "a" (sluice.yaml:1:5), which comes first in the documents and takes its requests there` + sharedHint,
			shadowed(3, "c", "b", 2),
		}},
		{"a shared host at other listeners", lines(route("a", "/x", hosts("a", "b"), listeners("web")), route("b", "/x", hosts("b"), listeners("internal"))), nil},
	} {
		t.Run(test.name, func(t *testing.T) { checkProblems(t, test.routes, test.want) })
	}
}

func checkProblems(t *testing.T, routes []*model.Route, want []string) {
	t.Helper()
	r, problems := router.Compile(routes)
	var got []string
	for _, p := range problems {
		got = append(got, p.Error())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (- want + got)\n%s", diff)
	}
	if len(r.Routes()) != len(routes) {
		t.Errorf("Routes has %v", ids(r.Routes()))
	}
}

// In each pair the first route has the smaller priority. The second can never
// match in the first list, and can in the second.
func TestShadows(t *testing.T) {
	type pair struct{ over, under *model.Route }
	never := map[string]pair{
		"prefix / over a path":              {route("a", "/*"), route("b", "/x")},
		"prefix / over a regex":             {route("a", "/*"), route("b", "~^/x")},
		"rest over a prefix with a slash":   {route("a", "/f/{rest...}"), route("b", "/f/*")},
		"rest over all":                     {route("a", "/{rest...}"), route("b", "/*")},
		"any over all":                      {route("a", ""), route("b", "/*")},
		"any over any":                      {route("a", ""), route("b", "", hosts("a.com"))},
		"any over a regex":                  {route("a", ""), route("b", "~x")},
		"prefix over itself with a slash":   {route("a", "/x*"), route("b", "/x/*")},
		"prefix over a longer one":          {route("a", "/x*"), route("b", "/x/y*")},
		"prefix over its own path":          {route("a", "/x*"), route("b", "/x")},
		"prefix over a pattern":             {route("a", "/x*"), route("b", "/x/{y}/z")},
		"prefix over a pattern with a rest": {route("a", "/x*"), route("b", "/x/{y...}")},
		"parameter over a literal":          {route("a", "/x/{y}/z"), route("b", "/x/y/z")},
		"parameter over a parameter":        {route("a", "/{x}/{y}"), route("b", "/{x}/y")},
		"parameters over a prefix":          {route("a", "/{x}/{y}/{rest...}"), route("b", "/x/y/*")},
		"rest over a slash":                 {route("a", "/x/{y...}"), route("b", "/x/")},
		"the same regex":                    {route("a", "~^/x"), route("b", "~^/x", methods("GET"))},
		"wildcard over a host":              {route("a", "/x", hosts("*.a.com")), route("b", "/x", hosts("b.a.com"))},
		"wildcard over a wildcard":          {route("a", "/x", hosts("*.a.com")), route("b", "/x", hosts("*.b.a.com"))},
		"any host over a wildcard":          {route("a", "/x"), route("b", "/x", hosts("*.a.com"))},
		"all hosts of several":              {route("a", "/x", hosts("*.com", "org")), route("b", "/x", hosts("a.com", "org", "*.b.com"))},
		"more methods":                      {route("a", "/x", methods("GET", "PUT", "BAN")), route("b", "/x", methods("BAN", "GET"))},
		"GET over HEAD":                     {route("a", "/x", methods("GET")), route("b", "/x", methods("HEAD"))},
		"fewer conditions":                  {route("a", "/x", headers(equal("A", "1"))), route("b", "/x", headers(equal("B", "1"), equal("a", "1")), query(equal("q", "")))},
		"more client addresses":             {route("a", "/x", clients("10.0.0.0/8", "2001:db8::/32")), route("b", "/x", clients("2001:db8:1::/48", "10.2.0.0/16"))},
		"any client":                        {route("a", "/x"), route("b", "/x", clients("10.0.0.0/8"))},
		"more listeners":                    {route("a", "/x", listeners("web", "internal")), route("b", "/x", listeners("internal"))},
	}
	alive := map[string]pair{
		"exact under a prefix with a slash": {route("a", "/x/*"), route("b", "/x")},
		"prefix under its path":             {route("a", "/x"), route("b", "/x*")},
		"prefix under a rest":               {route("a", "/x/{rest...}"), route("b", "/x*")},
		"any under /":                       {route("a", "/*"), route("b", "")},
		"a prefix of no whole segment":      {route("a", "/x*"), route("b", "/xy*")},
		"literal over a parameter":          {route("a", "/x/y"), route("b", "/x/{y}")},
		"a parameter over an empty segment": {route("a", "/x/{y}"), route("b", "/x/")},
		"a parameter over a rest":           {route("a", "/x/{y}"), route("b", "/x/{y...}")},
		"regexes by their text only":        {route("a", "~^/x"), route("b", "~^/xy")},
		"a regex over a path":               {route("a", "~^/"), route("b", "/x")},
		"a host under another":              {route("a", "/x", hosts("a.com")), route("b", "/x", hosts("*.com"))},
		"a wildcard over its own suffix":    {route("a", "/x", hosts("*.a.com")), route("b", "/x", hosts("a.com"))},
		"one of several hosts":              {route("a", "/x", hosts("a.com")), route("b", "/x", hosts("a.com", "b.com"))},
		"HEAD over GET":                     {route("a", "/x", methods("HEAD")), route("b", "/x", methods("GET"))},
		"all standard methods are not any":  {route("a", "/x", methods("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BAN")), route("b", "/x")},
		"other methods by name":             {route("a", "/x", methods("BAN")), route("b", "/x", methods("LINK"))},
		"other conditions":                  {route("a", "/x", headers(equal("A", "1"))), route("b", "/x", headers(equal("A", "2"), equal("B", "1")))},
		"a header and a cookie":             {route("a", "/x", headers(equal("A", "1"))), route("b", "/x", cookies(equal("A", "1")))},
		"fewer client addresses":            {route("a", "/x", clients("10.0.0.0/8")), route("b", "/x", clients("10.0.0.0/7"))},
		"some clients over any":             {route("a", "/x", clients("0.0.0.0/0", "::/0")), route("b", "/x")},
		"fewer listeners":                   {route("a", "/x", listeners("web")), route("b", "/x")},
		"other listeners":                   {route("a", "/x", listeners("web")), route("b", "/x", listeners("web", "internal"))},
	}
	for name, p := range never {
		p.over.Priority = 1
		t.Run(name, func(t *testing.T) { checkProblems(t, lines(p.under, p.over), []string{shadowed(1, "b", "a", 2)}) })
	}
	for name, p := range alive {
		p.over.Priority = 1
		t.Run(name, func(t *testing.T) { checkProblems(t, lines(p.under, p.over), nil) })
	}
}

func TestShadowByOrder(t *testing.T) {
	// A more specific match comes first, whatever the order of the documents.
	checkProblems(t, lines(route("all", "/*"), route("x", "/x"), route("pattern", "/{y}"), route("host", "/*", hosts("a.com"))), nil)
	checkProblems(t, lines(route("head", "/x", methods("HEAD"), headers(equal("A", "1"))), route("get", "/x", methods("GET"), headers(equal("A", "1"))),
		route("late", "/x", methods("HEAD"), headers(equal("A", "1")), query(equal("q", "1")), priority(200))), []string{shadowed(3, "late", "head", 1)})
}

func TestShadowByTwo(t *testing.T) {
	checkProblems(t, lines(route("a", "/*", hosts("a.com"), priority(1)), route("b", "/*", hosts("b.com"), priority(2)), route("c", "/x", hosts("a.com", "b.com"))), []string{
		`sluice.yaml:3:5: warning: route "c" can never match: routes "a" (sluice.yaml:1:5) and "b" (sluice.yaml:2:5) come first and take every request that it would` + shadowHint,
	})
}

// A route with more conditions than the index looks into is compared with each.
func TestShadowWithManyConditions(t *testing.T) {
	var routes []*model.Route
	for i := range 40 {
		routes = append(routes, route(fmt.Sprint("r", i), "/x", query(equal("q", fmt.Sprint(i)))))
	}
	many := route("many", "/x", priority(200), query(equal("q", "17"), equal("a", "1"), equal("b", "1"), equal("c", "1"), equal("d", "1"), equal("e", "1"), equal("f", "1"), equal("g", "1"), equal("h", "1")))
	few := route("few", "/x", priority(200), query(equal("q", "17"), equal("a", "1")), clients("10.0.0.0/8"))
	free := route("free", "/x", priority(200), query(equal("q", "x"), equal("a", "1"), equal("b", "1"), equal("c", "1"), equal("d", "1"), equal("e", "1"), equal("f", "1"), equal("g", "1"), equal("h", "1")))
	checkProblems(t, lines(append(routes, many, few, free)...), []string{shadowed(41, "many", "r17", 18), shadowed(42, "few", "r17", 18)})
}

// A route that names every listener there is is at all of them.
func TestShadowByAllListeners(t *testing.T) {
	over, under := route("a", "/x", listeners("web", "internal"), priority(1)), route("b", "/x")
	for _, test := range []struct {
		all  []string
		want int
	}{{nil, 0}, {[]string{"web", "internal", "more"}, 0}, {[]string{"internal", "web"}, 1}, {[]string{"web"}, 1}} {
		if _, problems := router.Compile(lines(under, over), test.all...); len(problems) != test.want {
			t.Errorf("of %v: %v", test.all, problems)
		}
	}
}
