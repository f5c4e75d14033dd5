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
				r.Fields.Add("Accept", "*/*")
				r.Fields.Add("X-Gray", "true")
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
				i := 0
				for b.Loop() {
					if compiled.Match(&list[i], "web", client).Index < 0 {
						b.Fatal("no route takes ", list[i].Path)
					}
					if i++; i == len(list) {
						i = 0
					}
				}
			})
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, t := range tables {
		b.Run(t.name, func(b *testing.B) {
			routes := table(10_000, t.route)
			for b.Loop() {
				router.Compile(routes)
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/op")
		})
	}
}
