package router

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"sluice/internal/model"
)

// claim remembers which route was the first with one match: at each listener,
// at all of them, and anywhere.
type claim struct {
	at  map[string]*plan
	all *plan
	any *plan
}

// take claims the match for a route, and returns the route that holds it
// already at one of its listeners, or nil.
func (c *claim) take(p *plan) *plan {
	holder := c.all
	if p.route.Listeners == nil {
		holder = c.any
		c.all = cmp.Or(c.all, p)
	}
	for _, listener := range p.route.Listeners {
		if c.at == nil {
			c.at = map[string]*plan{}
		}
		if other := c.at[listener]; other == nil {
			c.at[listener] = p
		} else if holder == nil {
			holder = other
		}
	}
	c.any = cmp.Or(c.any, p)
	return holder
}

// take claims a match for a route among claims.
func take(claims map[string]*claim, match string, p *plan) *plan {
	c := claims[match]
	if c == nil {
		c = &claim{}
		claims[match] = c
	}
	return c.take(p)
}

// conflicts finds routes of equal priority and equal match whose listeners
// overlap: a problem. Where only some of the hosts are shared the later route
// gets nothing there, but lives on its other hosts: a warning.
func (b *builder) conflicts() []found {
	var list []found
	whole, shared := make(map[string]*claim, len(b.plans)), map[string]*claim{}
	for _, p := range b.plans {
		match := b.match(p)
		hosts := make([]string, len(p.hosts))
		for i, h := range p.hosts {
			hosts[i] = h.host
		}
		slices.Sort(hosts)
		if other := take(whole, strings.Join(hosts, " ")+"\n"+match, p); other != nil {
			p.conflict = true
			list = append(list, found{plan: p, problem: model.Problem{
				Position: p.route.Position,
				Message:  fmt.Sprintf("route %q has the same match and the same priority as route %s", p.route.ID, other.place()),
				Hint:     "give one of them another priority, or narrow the match of one",
			}})
			continue
		}
		if len(b.plans) == len(b.ranked) {
			continue // no route has several hosts
		}
		told := false
		for _, host := range hosts {
			if other := take(shared, host+"\n"+match, p); other != nil && !told {
				told = true
				list = append(list, found{plan: p, partly: true, problem: model.Problem{
					Position: p.route.Position,
					Message:  fmt.Sprintf("route %q has host %s with the same match and the same priority as route %s, which comes first in the documents and takes its requests there", p.route.ID, host, other.place()),
					Hint:     "leave the host out of one of them, or give one another priority",
					Warning:  true,
				}})
			}
		}
	}
	return list
}

// match is a text that is equal for routes of equal priority whose match is
// equal but for hosts.
func (b *builder) match(p *plan) string {
	path := &p.route.Match.Path
	text := strconv.AppendInt(nil, int64(p.route.Priority), 10)
	text = append(text, ' ')
	switch path.Kind {
	case model.PatternPath:
		text = append(text, "pattern"...)
		for _, segment := range path.Segments {
			text = append(text, '/', letter(segment))
			text = append(text, segment.Literal...)
		}
	case model.RegexPath:
		text = append(text, "regex"...)
		text = strconv.AppendQuote(text, path.Regex.String())
	case model.ExactPath, model.PrefixPath:
		text = append(text, path.Kind...)
		text = append(text, path.Text...)
	case model.AnyPath, "":
	}
	text = strconv.AppendUint(append(text, " methods "...), uint64(p.set), 10)
	return string(text) + p.rest
}

// rest is a text that is equal for routes with equal conditions but for hosts,
// path, listeners and standard methods, whatever their order. It is empty
// where there are none.
func rest(p *plan) string {
	var text []byte
	for _, method := range p.others {
		text = append(append(text, " method "...), method...)
	}
	for _, ask := range p.asks {
		text = strconv.AppendUint(append(text, " ask "...), uint64(ask), 10)
	}
	clients := make([]string, 0, len(p.route.Match.ClientIP))
	for _, prefix := range p.route.Match.ClientIP {
		clients = append(clients, prefix.Masked().String())
	}
	slices.Sort(clients)
	for _, client := range slices.Compact(clients) {
		text = append(append(text, " client "...), client...)
	}
	return string(text)
}

// found is a problem at a route.
type found struct {
	plan    *plan
	partly  bool // nothing new where the route can never match at all
	problem model.Problem
}

// sorted are the problems in the order of the documents.
func sorted(list []found) []model.Problem {
	slices.SortStableFunc(list, func(x, y found) int { return cmp.Compare(x.plan.document, y.plan.document) })
	var problems []model.Problem
	for _, f := range list {
		if !f.partly || !f.plan.never {
			problems = append(problems, f.problem)
		}
	}
	return problems
}

// place names a route and where it stands.
func (p *plan) place() string {
	return fmt.Sprintf("%q (%s)", p.route.ID, p.route.Position)
}

// within tells whether every address of prefixes is in one of outer. Each must
// be in one alone: a union is not seen.
func within(prefixes, outer []netip.Prefix) bool {
	for _, prefix := range prefixes {
		if !slices.ContainsFunc(outer, func(o netip.Prefix) bool { return o.Bits() <= prefix.Bits() && o.Contains(prefix.Addr()) }) {
			return false
		}
	}
	return true
}
