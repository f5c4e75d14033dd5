package router

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sluice/internal/canonical"
	"sluice/internal/message"
	"sluice/internal/model"
)

// Candidate is a route that a request could have gone to.
type Candidate struct {
	Route *model.Route
	// Failed says which of its conditions does not hold, the first in the
	// order listener, host, path, method, header, query, cookie, client_ip;
	// empty for the route that takes the request.
	Failed string
}

// Explain returns every route in matching order up to and including the one
// that takes the request, or all where none does. A route with several hosts
// stands where the first of its hosts that fits puts it. It goes through the
// routes one by one, for people: Match is for traffic.
func (r *Router) Explain(request *message.Request, listener string, client netip.Addr) []Candidate {
	s := search{router: r, request: request, listener: listener, client: client}
	s.method, s.bit = asked(request)
	host := canonical.Host(request.Host)
	type ranked struct {
		plan *plan
		rank uint32
	}
	order := make([]ranked, len(r.plans))
	for i, p := range r.plans {
		rank, fits := p.rank(host)
		if !fits {
			rank = p.first()
		}
		order[i] = ranked{p, rank}
	}
	slices.SortFunc(order, func(x, y ranked) int { return cmp.Compare(x.rank, y.rank) })
	var list []Candidate
	for _, at := range order {
		failed := at.plan.failed(&s, host)
		list = append(list, Candidate{Route: at.plan.route, Failed: failed})
		if failed == "" {
			break
		}
	}
	return list
}

// first is the rank of the route's first entry.
func (p *plan) first() uint32 {
	return slices.MinFunc(p.hosts, func(x, y hostRank) int { return cmp.Compare(x.rank, y.rank) }).rank
}

// rank is the rank of the first entry whose host fits.
func (p *plan) rank(host string) (rank uint32, fits bool) {
	rank = none
	for _, h := range p.hosts {
		if hostFits(h.host, host) {
			rank = min(rank, h.rank)
		}
	}
	return rank, rank != none
}

func hostFits(pattern, host string) bool {
	if strings.HasPrefix(pattern, "*.") {
		return len(host) >= len(pattern) && strings.HasSuffix(host, pattern[1:])
	}
	return pattern == "" || pattern == host
}

// failed says in words what the request lacks, or "" where all holds.
func (p *plan) failed(s *search, host string) string {
	m := &p.route.Match
	if p.route.Listeners != nil && !slices.Contains(p.route.Listeners, s.listener) {
		return fmt.Sprintf("listener %s is not %s", s.listener, either(p.route.Listeners))
	}
	if _, fits := p.rank(host); !fits {
		return fmt.Sprintf("host %s is not %s", host, either(m.Hosts))
	}
	if text := p.pathFailed(s.request.Path); text != "" {
		return text
	}
	if p.set&s.bit == 0 || s.bit == otherMethod && p.set != anyMethod && !slices.Contains(p.others, s.method) {
		which := "method " + s.method
		if s.method != s.request.Method {
			which += ", about which the preflight asks,"
		}
		return which + " is not " + either(p.set.names(p.others))
	}
	for i := range p.more.headers {
		if c := &p.more.headers[i]; !c.header(s.request) {
			return c.unmet("header")
		}
	}
	for i := range p.more.query {
		if c := &p.more.query[i]; !c.parameter(s.request) {
			return c.unmet("query")
		}
	}
	for i := range p.more.cookies {
		if c := &p.more.cookies[i]; !c.cookie(s.request) {
			return c.unmet("cookie")
		}
	}
	if len(m.ClientIP) != 0 && !contains(m.ClientIP, s.client) {
		prefixes := make([]string, len(m.ClientIP))
		for i, prefix := range m.ClientIP {
			prefixes[i] = prefix.String()
		}
		client := "no address"
		if s.client.IsValid() {
			client = s.client.String()
		}
		return fmt.Sprintf("client_ip %s is not in %s", client, either(prefixes))
	}
	return ""
}

func (p *plan) pathFailed(path string) string {
	condition := &p.route.Match.Path
	switch condition.Kind {
	case model.ExactPath, model.PatternPath, model.PrefixPath:
		if pathFits(p.segments, p.open, path) {
			return ""
		}
		if condition.Kind == model.PrefixPath {
			return fmt.Sprintf("path %s is not under %s", path, condition.Text)
		}
		return fmt.Sprintf("path %s is not %s", path, condition.Text)
	case model.RegexPath:
		if rooted(path) && condition.Regex.MatchString(path) {
			return ""
		}
		return fmt.Sprintf("path %s does not match %s", path, condition.Regex)
	case model.AnyPath:
	}
	return ""
}

// pathFits tells whether a path has the segments of a condition.
func pathFits(segments []model.Segment, open bool, path string) bool {
	if !rooted(path) {
		return false
	}
	for _, segment := range segments {
		switch {
		case path == "":
			return false
		case segment.Rest:
			return true
		}
		end := segmentEnd(path)
		text := path[1:end]
		if segment.Param != "" && text == "" || segment.Param == "" && text != segment.Literal {
			return false
		}
		path = path[end:]
	}
	return path == "" || open
}

// either joins alternatives as people do.
func either(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " or " + list[last]
}
