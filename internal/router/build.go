package router

import (
	"slices"
	"strings"

	"sluice/internal/model"
)

// plan is a route as the builder sees it.
type plan struct {
	route    *model.Route
	document int // place in the documents
	// everywhere: it takes requests from all listeners, named or not.
	everywhere bool
	index      int // place in matching order
	set        methods
	others     []string // methods that are not standard, sorted
	more       *conditions
	segments   []model.Segment // of its path, if that stands in a tree or is a regex, which is within any path
	open       bool            // more may follow the last segment
	asks       []uint32        // numbers of its conditions on headers, query and cookies, sorted
	rest       string          // a text for these, its other methods and clients
	hosts      []hostRank
	conflict   bool // with an earlier route
	never      bool // matches, for the routes before it
}

// hostRank is one host of a route and the rank of their entry. "" is any host.
type hostRank struct {
	host string
	rank uint32
}

// builder compiles routes.
type builder struct {
	plans  []*plan // as in the documents
	ranked []ranked
	texts  map[string]uint32 // of conditions
	any    *site
	exact  map[string]*site
	wild   map[string]*site // by suffix with its dot
}

// ranked is an entry in the order.
type ranked struct {
	plan *plan
	host int // of the plan
}

// site is what one host has: a tree of paths, and the routes outside it.
type site struct {
	root  *branch
	any   bucket             // without a path condition
	regex map[string]*bucket // by the text of the regex
	loose []uint32           // ranks of both
	best  uint32
}

// branch is a place in a path tree that grows: one segment a step.
type branch struct {
	text   string
	kids   []*branch
	byText map[string]*branch // of many kids
	param  *branch
	best   uint32
	// What takes the path that ends here, that and what follows with a slash,
	// and only what follows with a slash.
	ends, whole, below bucket
}

func newBuilder(routes []*model.Route, all []string) *builder {
	b := &builder{plans: make([]*plan, len(routes)), texts: map[string]uint32{}, exact: map[string]*site{}, wild: map[string]*site{}, any: newSite()}
	for i, route := range routes {
		p := &plan{route: route, document: i, everywhere: route.Listeners == nil || names(route.Listeners, all)}
		p.set, p.others = methodSet(route.Match.Methods)
		p.more = newConditions(route, p.others)
		p.asks = b.numbers(p.more)
		p.rest = rest(p)
		p.segments, p.open = steps(&route.Match.Path)
		b.plans[i] = p
	}
	return b
}

// names tells whether a list names all listeners, and there are any.
func names(list, all []string) bool {
	for _, listener := range all {
		if !slices.Contains(list, listener) {
			return false
		}
	}
	return len(all) > 0
}

// numbers gives each condition on headers, query and cookies its number: equal
// for equal ones.
func (b *builder) numbers(c *conditions) []uint32 {
	var list []uint32
	note := func(where string, conditions []condition) {
		for i := range conditions {
			text := conditions[i].same(where)
			number, ok := b.texts[text]
			if !ok {
				number = uint32(len(b.texts))
				b.texts[text] = number
			}
			list = append(list, number)
		}
	}
	note("header", c.headers)
	note("query", c.query)
	note("cookie", c.cookies)
	slices.Sort(list)
	return slices.Compact(list)
}

// place ranks the entries of all routes.
func (b *builder) place() {
	type placed struct {
		place
		ranked
	}
	list := make([]placed, 0, len(b.plans))
	for i, p := range b.plans {
		at := placeOf(p.route, i)
		for _, host := range p.route.Match.Hosts {
			if !slices.ContainsFunc(p.hosts, func(h hostRank) bool { return h.host == host }) {
				p.hosts = append(p.hosts, hostRank{host: host})
			}
		}
		if len(p.hosts) == 0 {
			p.hosts = []hostRank{{}}
		}
		for n, h := range p.hosts {
			list = append(list, placed{at.at(h.host, n), ranked{p, n}})
		}
	}
	order := make([]*placed, len(list))
	for i := range list {
		order[i] = &list[i]
	}
	slices.SortFunc(order, func(x, y *placed) int { return x.compare(&y.place) })
	b.ranked = make([]ranked, len(order))
	for i, p := range order {
		b.ranked[i] = p.ranked
		p.plan.hosts[p.host].rank = uint32(i)
	}
}

func newSite() *site { return &site{best: none} }

func (b *builder) site(host string) *site {
	sites := b.exact
	switch {
	case host == "":
		return b.any
	case strings.HasPrefix(host, "*."):
		sites, host = b.wild, host[1:]
	}
	s := sites[host]
	if s == nil {
		s = newSite()
		sites[host] = s
	}
	return s
}

// add puts an entry into a site. Entries come in order, so the first is the
// best of every branch that it makes.
func (s *site) add(rank uint32, p *plan) {
	s.best = min(s.best, rank)
	path := &p.route.Match.Path
	switch path.Kind {
	case model.RegexPath:
		if s.regex == nil {
			s.regex = map[string]*bucket{}
		}
		list := s.regex[path.Regex.String()]
		if list == nil {
			list = &bucket{}
			s.regex[path.Regex.String()] = list
		}
		list.add(rank, p)
		s.loose = append(s.loose, rank)
		return
	case model.AnyPath, "":
		s.any.add(rank, p)
		s.loose = append(s.loose, rank)
		return
	case model.ExactPath, model.PatternPath, model.PrefixPath:
	}
	if s.root == nil {
		s.root = &branch{best: rank}
	}
	at := s.root
	for _, segment := range p.segments {
		if segment.Rest {
			at.below.add(rank, p)
			return
		}
		at = at.step(segment, rank)
	}
	if p.open {
		at.whole.add(rank, p)
	} else {
		at.ends.add(rank, p)
	}
}

// steps returns the segments of a path condition. open tells that more may
// follow the last one; a prefix with a last slash ends with a rest instead.
func steps(path *model.Path) (segments []model.Segment, open bool) {
	switch path.Kind {
	case model.PatternPath:
		return path.Segments, false
	case model.RegexPath: // within any path
		return []model.Segment{{Param: "*", Rest: true}}, false
	case model.AnyPath, "":
		return nil, false
	case model.ExactPath, model.PrefixPath:
	}
	text := strings.TrimPrefix(path.Text, "/")
	segments = make([]model.Segment, 0, 1+strings.Count(text, "/"))
	for part := range strings.SplitSeq(text, "/") {
		segments = append(segments, model.Segment{Literal: part})
	}
	if path.Kind == model.ExactPath {
		return segments, false
	}
	last := len(segments) - 1
	if segments[last].Literal == "" {
		segments[last] = model.Segment{Param: "*", Rest: true}
		return segments, false
	}
	return segments, true
}

// step returns the branch behind a segment, made if it is not there.
func (br *branch) step(segment model.Segment, rank uint32) *branch {
	if segment.Param != "" {
		if br.param == nil {
			br.param = &branch{best: rank}
		}
		return br.param
	}
	kid := br.kid(segment.Literal)
	if kid == nil {
		kid = &branch{text: segment.Literal, best: rank}
		br.kids = append(br.kids, kid)
		switch {
		case br.byText != nil:
			br.byText[kid.text] = kid
		case len(br.kids) > 8:
			br.byText = make(map[string]*branch, 32)
			for _, k := range br.kids {
				br.byText[k.text] = k
			}
		}
	}
	return kid
}

// kid returns a literal child, or nil.
func (br *branch) kid(text string) *branch {
	if br.byText != nil {
		return br.byText[text]
	}
	for _, kid := range br.kids {
		if kid.text == text {
			return kid
		}
	}
	return nil
}

// list puts the routes into the order of their first entries.
func (b *builder) list() ([]*model.Route, []*plan) {
	plans := make([]*plan, 0, len(b.plans))
	seen := make([]bool, len(b.plans))
	for _, e := range b.ranked {
		if !seen[e.plan.document] {
			seen[e.plan.document] = true
			e.plan.index = len(plans)
			plans = append(plans, e.plan)
		}
	}
	routes := make([]*model.Route, len(plans))
	for i, p := range plans {
		routes[i] = p.route
	}
	return routes, plans
}
