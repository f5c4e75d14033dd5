package router

import (
	"cmp"
	"slices"
	"strings"

	"sluice/internal/model"
)

// place is where an entry stands in the order; the package comment tells how.
type place struct {
	first [5]int // priority, host kind, -host length, path kind, -path length
	// shape has a letter for each segment of a pattern: a literal, a
	// parameter, a rest, in alphabetical order.
	shape string
	last  [7]int // no methods, -headers, -query, -cookies, no clients, document order, host
}

func (p *place) compare(q *place) int {
	if c := slices.Compare(p.first[:], q.first[:]); c != 0 {
		return c
	}
	if c := strings.Compare(p.shape, q.shape); c != 0 {
		return c
	}
	return slices.Compare(p.last[:], q.last[:])
}

// placeOf is the place of a route, the nth of the documents, but for its hosts.
func placeOf(route *model.Route, n int) place {
	m := &route.Match
	var p place
	p.first[0] = route.Priority
	switch m.Path.Kind {
	case model.ExactPath:
		p.first[3] = 0
	case model.PatternPath:
		p.first[3] = 1
		p.shape = shapeOf(m.Path.Segments)
		p.first[4] = -strings.Count(p.shape, "a")
	case model.PrefixPath:
		p.first[3] = 2
		p.first[4] = -len(m.Path.Text)
	case model.RegexPath:
		p.first[3] = 3
	case model.AnyPath, "":
		p.first[3] = 4
	default:
		panic("BUG: no path condition is of kind " + string(m.Path.Kind))
	}
	p.last = [7]int{without(len(m.Methods)), -len(m.Headers), -len(m.Query), -len(m.Cookies), without(len(m.ClientIP)), n}
	return p
}

// at is the place with the nth host of the route.
func (p place) at(host string, n int) place {
	p.first[1], p.first[2] = hostPlace(host)
	p.last[6] = n
	return p
}

// hostPlace is the kind and the length, by which hosts are ordered. "" is any.
func hostPlace(host string) (kind, length int) {
	switch {
	case host == "":
		return 2, 0
	case strings.HasPrefix(host, "*."):
		return 1, -len(host)
	}
	return 0, 0
}

func without(count int) int { return 1 - cmp.Compare(count, 0) }

func shapeOf(segments []model.Segment) string {
	letters := make([]byte, len(segments))
	for i, segment := range segments {
		letters[i] = letter(segment)
	}
	return string(letters)
}

func letter(segment model.Segment) byte {
	switch {
	case segment.Rest:
		return 'c'
	case segment.Param != "":
		return 'b'
	}
	return 'a'
}
