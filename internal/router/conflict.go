package router

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
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

// conflicts finds routes of equal priority and equal match whose listeners
// overlap: a problem. Where only some of the hosts are shared the later route
// gets nothing there, but lives on its other hosts: a warning.
func (b *builder) conflicts() []found {
	var list []found
	whole, shared := map[string]*claim{}, map[string]*claim{}
	claims := func(claims map[string]*claim, key string, p *plan) *plan {
		c := claims[key]
		if c == nil {
			c = &claim{}
			claims[key] = c
		}
		return c.take(p)
	}
	for _, p := range b.plans {
		key := b.matchKey(p)
		hosts := make([]string, len(p.hosts))
		for i, h := range p.hosts {
			hosts[i] = h.host
		}
		slices.Sort(hosts)
		if other := claims(whole, strings.Join(hosts, " ")+"\n"+key, p); other != nil {
			p.conflict = true
			list = append(list, found{p.document, model.Problem{
				Position: p.route.Position,
				Message:  fmt.Sprintf("route %q has the same match and the same priority as route %s", p.route.ID, other.place()),
				Hint:     "give one of them another priority, or narrow the match of one",
			}})
			continue
		}
		if len(hosts) == 1 && len(b.plans) == len(b.ranked) {
			continue // no route has several hosts
		}
		for _, host := range hosts {
			if other := claims(shared, host+"\n"+key, p); other != nil {
				list = append(list, found{p.document, model.Problem{
					Position: p.route.Position,
					Message:  fmt.Sprintf("route %q has %s with the same match and the same priority as route %s, which comes first in the documents and takes its requests", p.route.ID, hostText(host), other.place()),
					Hint:     "leave the host out of one of them, or give one another priority",
					Warning:  true,
				}})
				break
			}
		}
	}
	return list
}

// matchKey is a text that is equal for routes of equal priority whose match is
// equal but for hosts.
func (b *builder) matchKey(p *plan) string {
	var out strings.Builder
	path := &p.route.Match.Path
	kind, text := path.Kind, path.Text
	switch kind {
	case model.PatternPath:
		text = ""
		for _, segment := range path.Segments {
			text += "/" + shapeOf([]model.Segment{segment}) + segment.Literal
		}
	case model.RegexPath:
		text = path.Regex.String()
	case model.AnyPath, "":
		kind, text = model.AnyPath, ""
	case model.ExactPath, model.PrefixPath:
	}
	clients := make([]string, 0, len(p.route.Match.ClientIP))
	for _, prefix := range p.route.Match.ClientIP {
		clients = append(clients, prefix.Masked().String())
	}
	slices.Sort(clients)
	fmt.Fprintf(&out, "%d %s %q %d %q %v %v", p.route.Priority, kind, text, p.set, p.others, p.asks, slices.Compact(clients))
	return out.String()
}

// found is a problem at a route, the nth of the documents.
type found struct {
	document int
	problem  model.Problem
}

// sorted are the problems in the order of the documents.
func sorted(list []found) []model.Problem {
	slices.SortStableFunc(list, func(x, y found) int { return cmp.Compare(x.document, y.document) })
	var problems []model.Problem
	for _, f := range list {
		problems = append(problems, f.problem)
	}
	return problems
}

// place names a route and where it stands.
func (p *plan) place() string {
	return fmt.Sprintf("%q (%s)", p.route.ID, p.route.Position)
}

func hostText(host string) string {
	if host == "" {
		return "any host"
	}
	return "host " + host
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
