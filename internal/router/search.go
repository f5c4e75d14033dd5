package router

import (
	"math"
	"net/netip"
	"slices"
	"strings"

	"sluice/internal/canonical"
	"sluice/internal/message"
	"sluice/internal/model"
)

// none is the rank of no entry: after all others.
const none = math.MaxUint32

// node is a place in a path tree. It is 64 bytes long, a cache line, and has no
// pointers, so that the collector passes large tables by.
type node struct {
	text span   // the literal segments that lead here, each with its slash; empty after a parameter
	best uint32 // rank of the first entry in the subtree
	// Bounds in entries: [ends, whole) take the path that ends here, [whole,
	// below) that and whatever follows with a slash, [below, stop) only what
	// follows with a slash.
	ends, whole, below, stop uint32
	only                     entry     // the entry where there is one only
	kids                     [2]uint32 // literal children; 0: no more. If forked, from and mask of their fork
	forked                   bool      // there are more than two literal children
	param                    bool      // the next node is reached by any segment that is not empty
	_                        uint32    // no node spans two cache lines
}

// span is a part of the router's text.
type span struct{ from, to uint32 }

// entry is a route with one of its hosts.
type entry struct {
	rank    uint32 // place in the order of all entries
	index   uint32 // of the route
	more    uint32 // number of its conditions; 0: none
	shape   uint32 // number of its shape
	methods methods
}

// table holds the entries of one host.
type table struct {
	root uint32 // of the path tree; 0: there is none
	best uint32 // rank of the first entry
	// Bounds in entries of those with a regex or without a path condition.
	loose, stop uint32
}

// search is one look-up.
type search struct {
	router   *Router
	request  *message.Request
	listener string
	client   netip.Addr
	method   string
	bit      methods

	denied  bool     // some entry was left out for its method
	best    uint32   // rank of the best entry so far
	found   *entry   // that entry
	visited int      // nodes, to show that their number is bounded
	allowed *allowed // set: gather methods instead of looking for the best
}

// allowed are methods with which some entry would take a request.
type allowed struct {
	set    methods
	others []string
}

func rooted(path string) bool { return path != "" && path[0] == '/' }

// run looks through the tables of all hosts that fit.
func (s *search) run() {
	r := s.router
	if r.exact.fork.used() || r.wild.fork.used() {
		host := canonical.Host(s.request.Host)
		if at := r.exact.table(r.text, host); at != 0 {
			s.look(&r.tables[at])
		}
		if r.wildBest < s.best {
			s.wildcards(host)
		}
	}
	s.look(&r.tables[0])
}

// wildcards looks through the tables of wildcard hosts, longest suffix first.
func (s *search) wildcards(host string) {
	r := s.router
	for i := 1; i < len(host); i++ {
		if host[i] != '.' || !r.wildLengths.has(len(host)-i) {
			continue
		}
		if at := r.wild.table(r.text, host[i:]); at != 0 {
			s.look(&r.tables[at])
		}
	}
}

func (s *search) look(t *table) {
	if t.best >= s.best {
		return
	}
	if t.root != 0 && rooted(s.request.Path) && s.router.nodes[t.root].best < s.best {
		s.walk(t.root, s.request.Path)
	}
	list := s.router.entries[t.loose:t.stop]
	for i := range list {
		if list[i].rank >= s.best {
			return
		}
		s.try(&list[i])
	}
}

// walk goes through the part of a path tree that fits rest, which is what
// follows the node: empty, or begins with a slash. Deeper entries come first,
// as they mostly win, and spare the conditions of those above.
func (s *search) walk(at uint32, rest string) {
	s.visited++
	n := &s.router.nodes[at]
	if rest == "" {
		s.offer(n, n.ends, n.below)
		return
	}
	if n.forked {
		if kid, length := s.router.forks.kid(s.router.text, fork{n.kids[0], n.kids[1]}, rest); kid != 0 && s.router.nodes[kid].best < s.best {
			s.walk(kid, rest[length:])
		}
	} else if n.kids[0] != 0 && !s.enter(n.kids[0], rest) && n.kids[1] != 0 {
		s.enter(n.kids[1], rest)
	}
	if n.param && len(rest) > 1 && rest[1] != '/' && s.router.nodes[at+1].best < s.best {
		s.walk(at+1, rest[segmentEnd(rest):])
	}
	if n.whole != n.stop {
		s.offer(n, n.whole, n.stop)
	}
}

// offer takes the best of a node's entries within bounds.
func (s *search) offer(n *node, from, to uint32) {
	if n.stop-n.ends == 1 {
		if from != to {
			s.try(&n.only)
		}
		return
	}
	list := s.router.entries[from:to]
	for i := range list {
		s.try(&list[i])
	}
}

// enter walks a literal child if rest fits it, and tells whether it does.
func (s *search) enter(kid uint32, rest string) bool {
	n := &s.router.nodes[kid]
	text := s.router.text[n.text.from:n.text.to]
	if !leads(text, rest) {
		return false
	}
	if n.best < s.best {
		s.walk(kid, rest[len(text):])
	}
	return true
}

// leads tells whether a path begins with whole segments.
func leads(segments, path string) bool {
	return strings.HasPrefix(path, segments) && (len(path) == len(segments) || path[len(segments)] == '/')
}

// segmentEnd returns where the first segment of a path ends.
func segmentEnd(path string) int {
	for i := 1; i < len(path); i++ {
		if path[i] == '/' {
			return i
		}
	}
	return len(path)
}

// try takes an entry if it fits and comes before the best so far.
func (s *search) try(e *entry) {
	switch {
	case e.rank >= s.best:
	case s.allowed != nil:
		s.collect(e)
	case !e.allows(s):
		s.denied = true
	case e.more == 0 || s.router.more[e.more].hold(s):
		s.best, s.found = e.rank, e
	}
}

func (e *entry) allows(s *search) bool {
	if s.bit == otherMethod && e.methods&s.bit != 0 && e.methods != anyMethod {
		return slices.Contains(s.router.more[e.more].others, s.method)
	}
	return e.methods&s.bit != 0
}

func (s *search) collect(e *entry) {
	if c := s.router.more[e.more]; e.more == 0 || c.hold(s) {
		s.allowed.set |= e.methods
		s.allowed.others = append(s.allowed.others, c.others...)
	}
}

// allow returns the methods with which some entry would take the request. It
// is asked only when none does with its own.
func (s *search) allow() []string {
	s.allowed = &allowed{}
	s.run()
	if s.allowed.set == 0 {
		return nil
	}
	return s.allowed.set.names(s.allowed.others)
}

// shape says which segments of a pattern are parameters.
type shape []slot

type slot struct {
	name    string
	segment int
	rest    bool
}

func newShape(segments []model.Segment) shape {
	var list shape
	for i, segment := range segments {
		if segment.Param != "" {
			list = append(list, slot{name: segment.Param, segment: i, rest: segment.Rest})
		}
	}
	return list
}

// params takes the parameters out of a path that fits.
func (sh shape) params(path string) []model.Param {
	if len(sh) == 0 {
		return nil
	}
	list := make([]model.Param, len(sh))
	at := 0
	for i, slot := range sh {
		for ; at < slot.segment; at++ {
			path = path[segmentEnd(path):]
		}
		value := path[1:]
		if !slot.rest {
			value = path[1:segmentEnd(path)]
		}
		list[i] = model.Param{Name: slot.name, Value: value}
	}
	return list
}
