package router_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/router"
)

var gray = message.Fields{{Name: "Accept", Value: "*/*"}, {Name: "X-Gray", Value: "true"}}

// tables are the shapes of large tables, each with a request for its nth route.
var tables = []struct {
	name    string
	params  bool
	route   func(n int) model.Match
	request func(n int) message.Request
}{
	{"exact", false,
		func(n int) model.Match { return model.Match{Path: exact(fmt.Sprintf("/api/v1/resource%d/list", n))} },
		func(n int) message.Request { return message.Request{Path: fmt.Sprintf("/api/v1/resource%d/list", n)} }},
	{"prefix", false,
		func(n int) model.Match { return model.Match{Path: prefix(fmt.Sprintf("/svc-%d/api", n))} },
		func(n int) message.Request { return message.Request{Path: fmt.Sprintf("/svc-%d/api/users/17", n)} }},
	{"params", true,
		func(n int) model.Match { return model.Match{Path: pattern(fmt.Sprintf("/api/resource%d/{id}", n))} },
		func(n int) message.Request { return message.Request{Path: fmt.Sprintf("/api/resource%d/4711", n)} }},
	{"hosts", false,
		func(n int) model.Match {
			return model.Match{Hosts: []string{fmt.Sprintf("tenant%d.example.com", n)}, Path: prefix("/")}
		},
		func(n int) message.Request {
			return message.Request{Host: fmt.Sprintf("tenant%d.example.com", n), Path: "/users/17"}
		}},
	{"wildcards", false,
		func(n int) model.Match {
			return model.Match{Hosts: []string{fmt.Sprintf("*.tenant%d.example.com", n)}, Path: prefix("/")}
		},
		func(n int) message.Request {
			return message.Request{Host: fmt.Sprintf("www.tenant%d.example.com", n), Path: "/users/17"}
		}},
	{"mixed", false,
		func(n int) model.Match {
			match := model.Match{Path: prefix(fmt.Sprintf("/svc-%d", n/4)), Methods: []string{"GET"}}
			switch n % 4 {
			case 0:
				match.Path = exact(fmt.Sprintf("/svc-%d/health", n/4))
			case 1:
				match.Headers = []model.Condition{equal("X-Gray", "true")}
			case 2:
				match.Methods = nil
			}
			return match
		},
		func(n int) message.Request {
			r := message.Request{Path: fmt.Sprintf("/svc-%d/orders", n/4)}
			switch n % 4 {
			case 0:
				r.Path = fmt.Sprintf("/svc-%d/health", n/4)
			case 1:
				r.Fields = gray
			case 2:
				r.Method = "POST"
			}
			return r
		}},
}

func table(size int, match func(int) model.Match) []*model.Route {
	routes := make([]*model.Route, size)
	for i := range routes {
		routes[i] = &model.Route{ID: fmt.Sprint("r", i), Priority: 100, Match: match(i), Position: model.Position{File: "f", Line: i + 1, Col: 1}}
	}
	return routes
}

// requests are one for each route, in random order, so that the processor
// cannot foresee where in the table the next look-up goes. They themselves
// stand one after the other, with their text: a request that was just parsed
// is in the cache.
func requests(size int, request func(int) message.Request) []message.Request {
	list := make([]message.Request, size)
	var text strings.Builder
	for i, n := range rand.New(rand.NewPCG(1, 2)).Perm(size) {
		list[i] = request(n)
		list[i].Method = cmp.Or(list[i].Method, "GET")
		text.WriteString(list[i].Host + list[i].Path)
	}
	rest := text.String()
	for i := range list {
		host, path := len(list[i].Host), len(list[i].Path)
		list[i].Host, list[i].Path, rest = rest[:host], rest[host:host+path], rest[host+path:]
	}
	return list
}

func BenchmarkMatch(b *testing.B) {
	client := netip.MustParseAddr("192.0.2.1")
	for _, t := range tables {
		for _, size := range []int{10, 1000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", t.name, size), func(b *testing.B) {
				compiled, problems := router.Compile(table(size, t.route))
				if len(problems) != 0 {
					b.Fatal(problems[0])
				}
				list := requests(size, t.request)
				b.ReportAllocs()
				// One request takes turns, so that look-ups do not share the
				// cache with thousands of requests.
				type turn struct {
					method, host, path string
					gray               bool
				}
				turns := make([]turn, size)
				for i, r := range list {
					turns[i] = turn{r.Method, r.Host, r.Path, r.Fields != nil}
				}
				var request message.Request
				i := 0
				for b.Loop() {
					next := &turns[i]
					request.Method, request.Host, request.Path, request.Fields = next.method, next.host, next.path, nil
					if next.gray {
						request.Fields = gray
					}
					if compiled.Match(&request, "web", client).Index < 0 {
						b.Fatal("no route takes ", request.Path)
					}
					if i++; i == len(turns) {
						i = 0
					}
				}
			})
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	bench := func(name string, route func(int) model.Match) {
		b.Run(name, func(b *testing.B) {
			routes := table(10_000, route)
			for b.Loop() {
				router.Compile(routes)
			}
			b.ReportMetric(b.Elapsed().Seconds()*1000/float64(b.N), "ms/op")
		})
	}
	for _, t := range tables {
		bench(t.name, t.route)
	}
	for _, t := range crowds {
		bench(t.name, t.route)
	}
}

// Without parameters a look-up allocates nothing, with parameters once.
func TestAllocations(t *testing.T) {
	client := netip.MustParseAddr("192.0.2.1")
	check := func(name string, want float64, r *router.Router, request *message.Request) {
		t.Helper()
		if r.Match(request, "web", client).Index < 0 {
			t.Fatal(name, ": no route takes the request")
		}
		if got := testing.AllocsPerRun(100, func() { r.Match(request, "web", client) }); got != want {
			t.Errorf("%s: %v allocations, want %v", name, got, want)
		}
	}
	for _, tab := range tables {
		r, _ := router.Compile(table(1000, tab.route))
		want := 0.0
		if tab.params {
			want = 1
		}
		for i, request := range requests(1000, tab.request)[:50] {
			check(fmt.Sprint(tab.name, " ", i), want, r, &request)
		}
	}
	// Regexes are left out: what they work with comes from a pool, which the race
	// detector empties at random.
	r, _ := router.Compile(lines(route("all", "/x*", hosts("*.a.com"), listeners("web"), clients("192.0.2.0/24"), methods("GET", "PURGE"),
		headers(equal("X-A", "1"), present("Accept-Encoding", true), equal("Host", "x.a.com:80")), query(equal("q r", "a b"), present("z", false)), cookies(equal("k", "v")))))
	check("all conditions but regexes", 0, r, ask("PURGE x.a.com:80/x?s=1&q%20r=%61+b", "X-A: 1", "Accept-Encoding: br", "Cookie: a=b; k=v"))
	missing, _ := router.Compile(table(1000, tables[0].route))
	unknown := ask("GET nowhere/api/v1/resource")
	if got := testing.AllocsPerRun(100, func() { missing.Match(unknown, "web", client) }); got != 0 {
		t.Errorf("no route: %v allocations", got)
	}
}

// crowds are tables whose routes share host and path: a comparison of each
// with each would show.
var crowds = []struct {
	name  string
	route func(n int) model.Match
}{
	{"header values", func(n int) model.Match {
		return model.Match{Path: prefix("/"), Headers: []model.Condition{equal("X-Tenant", fmt.Sprint(n))}}
	}},
	{"two conditions", func(n int) model.Match {
		return model.Match{Path: prefix("/"), Headers: []model.Condition{equal("X-Tenant", fmt.Sprint(n/10))}, Query: []model.Condition{equal("q", fmt.Sprint(n%10))}}
	}},
	{"clients", func(n int) model.Match {
		return model.Match{Path: prefix("/"), ClientIP: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}), 24)}}
	}},
	{"regexes", func(n int) model.Match { return model.Match{Path: regex(fmt.Sprintf("^/v%d/", n))} }},
	{"nested", func(n int) model.Match {
		return model.Match{Path: prefix(strings.Repeat("/a", n%100+1) + fmt.Sprint(n/100))}
	}},
	{"under parameters", func(n int) model.Match {
		return model.Match{Path: pattern(fmt.Sprintf("/{tenant}/{area}/resource%d/{id}", n))}
	}},
	{"three hosts", func(n int) model.Match {
		host := fmt.Sprint("t", n/10, ".example.com")
		return model.Match{Hosts: []string{host, "www." + host, "*." + host}, Path: prefix(fmt.Sprint("/", n%10))}
	}},
}
