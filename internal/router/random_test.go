package router_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"sluice/internal/message"
	"sluice/internal/model"
)

// generator makes random tables and requests from few words, so that they meet.
type generator struct {
	*rand.Rand
	words []string // of paths
}

func newGenerator(seed uint64) generator {
	return generator{rand.New(rand.NewPCG(seed, 42)), []string{"a", "b", "ab", "c"}}
}

// wide returns a generator with many words for paths, so that nodes fork.
func (g generator) wide() generator {
	for i := range 30 {
		g.words = append(g.words, fmt.Sprint("w", i*7))
	}
	return g
}

func (g generator) one(list ...string) string { return list[g.IntN(len(list))] }
func (g generator) chance(percent int) bool   { return g.IntN(100) < percent }

// some returns up to most different members of a list.
func (g generator) some(most int, list ...string) []string {
	var picked []string
	for _, i := range g.Perm(len(list))[:1+g.IntN(most)] {
		picked = append(picked, list[i])
	}
	return picked
}

var (
	pathRegexes = []string{"^/a/", "b$", "^/[ab]+$", "c", "^/a/b/c$", "."}
	hostWords   = []string{"a.com", "b.a.com", "*.a.com", "*.com", "*.b.a.com", "other"}
	prefixes    = []string{"10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "192.168.0.0/16", "2001:db8::/32", "2001:db8::1/128", "0.0.0.0/0"}
	addresses   = []string{"10.1.2.3", "10.1.9.9", "10.9.9.9", "192.168.7.7", "2001:db8::1", "2001:db8::2", "172.16.0.1"}
)

func (g generator) routes(most int) []*model.Route {
	routes := make([]*model.Route, 1+g.IntN(most))
	for i := range routes {
		r := &model.Route{ID: fmt.Sprint("r", i), Priority: 100, Position: model.Position{File: "sluice.yaml", Line: i + 1, Col: 3}}
		if g.chance(15) {
			r.Priority = 99 + g.IntN(3)
		}
		if g.chance(10) {
			r.Listeners = g.some(2, "web", "websecure", "internal")
		}
		m := &r.Match
		if g.chance(35) {
			m.Hosts = g.some(3, hostWords...)
		}
		m.Path = g.path()
		if g.chance(30) {
			m.Methods = g.some(2, "GET", "POST", "HEAD", "OPTIONS", "PURGE", "LINK")
		}
		for g.chance(12) {
			m.Headers = append(m.Headers, g.condition("X-A", "x-b", "Host", "Accept-Encoding"))
		}
		for g.chance(8) {
			m.Query = append(m.Query, g.condition("q", "b c", "%zz"))
		}
		for g.chance(8) {
			m.Cookies = append(m.Cookies, g.condition("k", "K"))
		}
		if g.chance(8) {
			for _, text := range g.some(2, prefixes...) {
				m.ClientIP = append(m.ClientIP, netip.MustParsePrefix(text))
			}
		}
		routes[i] = r
	}
	return routes
}

func (g generator) path() model.Path {
	var text strings.Builder
	switch kind := g.IntN(20); {
	case kind < 6:
		for range 1 + g.IntN(3) {
			text.WriteString("/" + g.one(g.words...))
		}
		if g.chance(20) {
			return exact(g.one("/", text.String()+"/"))
		}
		return exact(text.String())
	case kind < 13:
		for i := range 1 + g.IntN(4) {
			if g.chance(50) {
				fmt.Fprintf(&text, "/{p%d}", i)
			} else {
				text.WriteString("/" + g.one(g.words...))
			}
		}
		switch {
		case g.chance(25):
			text.WriteString("/{rest...}")
		case g.chance(8):
			text.WriteString("/")
		}
		return pattern(text.String())
	case kind < 17:
		for range g.IntN(3) {
			text.WriteString("/" + g.one(g.words...))
		}
		if text.Len() == 0 || g.chance(25) {
			text.WriteByte('/')
		}
		return prefix(text.String())
	case kind < 19:
		return regex(g.one(pathRegexes...))
	}
	return model.Path{Kind: model.AnyPath}
}

func (g generator) condition(names ...string) model.Condition {
	name := g.one(names...)
	switch g.IntN(3) {
	case 0:
		return matches(name, g.one("^1", "2", "^$", "^a\\.com"))
	case 1:
		return present(name, g.chance(60))
	}
	return equal(name, g.one("1", "12", "", "a;b", "x y", "%zz", "a.com"))
}

func (g generator) request() (*message.Request, string, netip.Addr) {
	r := &message.Request{Method: g.one("GET", "GET", "GET", "HEAD", "POST", "OPTIONS", "PURGE", "DELETE", "LINK", "COPY")}
	r.Host = g.one("a.com", "A.com:8080", "b.a.com", "b.A.com.", "x.b.a.com:1", "y.x.b.a.com", "com", ".com", "q.com", "other", "otherother", "", "[::1]:80")
	if strings.HasPrefix(r.Host, "[") {
		r.Host = "nobody" // the reference reads no brackets; see the table tests
	}
	for range g.IntN(6) {
		if g.chance(6) {
			r.Path += "/"
			continue
		}
		r.Path += "/" + g.one("a%2Fb", "z", g.one(g.words...), g.one(g.words...), g.one(g.words[:2]...), g.one(g.words[:2]...))
	}
	if r.Path == "" || g.chance(10) {
		r.Path += "/"
	}
	if r.Method == "OPTIONS" {
		switch {
		case g.chance(20):
			r.Path = "*"
		case g.chance(60):
			r.Fields.Add("Origin", "https://a.com")
			r.Fields.Add("access-control-request-method", g.one("GET", "POST", "HEAD", "PURGE", "OPTIONS", ""))
		}
	}
	for g.chance(30) {
		r.Fields.Add(g.one("X-A", "x-a", "X-B", "Accept-Encoding"), g.one("1", "12", "", "2", "x y"))
	}
	for g.chance(30) {
		if r.Query == "" {
			r.Query = "?"
		} else {
			r.Query += g.one("&", "&", ";")
		}
		r.Query += g.one("q", "%71", "b+c", "b%20c", "%zz", "%", "qq") + g.one("=1", "=%31", "=12", "=a;b", "=x+y", "=%zz", "=%2", "=", "")
	}
	for g.chance(20) {
		r.Fields.Add("Cookie", g.one("k=1", "K=1; k=12", "k", " k=\"1\" ;K=", "kk=1", "k=2;k=1"))
	}
	return r, g.one("web", "web", "websecure", "internal", "unknown"), netip.MustParseAddr(g.one(addresses...))
}
