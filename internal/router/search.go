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

// node is a place in a path tree. It is 64 bytes long, a cache line.
type node struct {
	text string // the literal segments that lead here, each with its slash; empty after a parameter
	best uint32 // rank of the first entry in the subtree
	// Bounds in entries: [ends, whole) take the path that ends here, [whole,
	// below) that and whatever follows with a slash, [below, stop) only what
	// follows with a slash.
	ends, whole, below, stop uint32
	kids                     [4]int32 // literal children; 0: no more
	fork                     fork     // literal children where there are more
	param                    bool     // the next node is reached by any segment that is not empty
}

// entry is a route with one of its hosts.
type entry struct {
	rank    uint32 // place in the order of all entries
	index   int32  // of the route
	shape   int32
	methods methods
	more    *conditions // nil: none
}

// table holds the entries of one host.
type table struct {
	name string // the host, or the suffix with its dot
	root int32  // of the path tree; 0: there is none
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

	best    uint32 // rank of the best entry so far
	found   uint32 // its index
	denied  bool   // some entry was left out for its method
	visited int    // nodes, to show that their number is bounded

	collecting bool // gather methods instead of looking for the best
	allowed    methods
	others     []string
}

func rooted(path string) bool { return path != "" && path[0] == '/' }

// run looks through the tables of all hosts that fit.
func (s *search) run() {
	r := s.router
	if r.exact.used() || r.wild.used() {
		host := canonical.Host(s.request.Host)
		if at := r.exact.table(r.tables, host); at != 0 {
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
		if at := r.wild.table(r.tables, host[i:]); at != 0 {
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
	s.offer(t.loose, t.stop)
}

// walk goes through the part of a path tree that fits rest, which is what
// follows the node: empty, or begins with a slash. Deeper entries come first,
// as they mostly win, and spare the conditions of those above.
func (s *search) walk(at int32, rest string) {
	s.visited++
	n := &s.router.nodes[at]
	if rest == "" {
		s.offer(n.ends, n.whole)
		s.offer(n.whole, n.below)
		return
	}
	if n.fork.used() {
		if kid := s.router.forks.kid(s.router.nodes, n.fork, rest); kid != 0 {
			s.enter(kid, rest)
		}
	} else {
		for _, kid := range n.kids {
			if kid == 0 || s.enter(kid, rest) {
				break
			}
		}
	}
	if n.param && len(rest) > 1 && rest[1] != '/' && s.router.nodes[at+1].best < s.best {
		s.walk(at+1, rest[segmentEnd(rest):])
	}
	s.offer(n.whole, n.below)
	s.offer(n.below, n.stop)
}

// enter walks a literal child if rest fits it, and tells whether it does.
func (s *search) enter(kid int32, rest string) bool {
	n := &s.router.nodes[kid]
	if !n.leads(rest) {
		return false
	}
	if n.best < s.best {
		s.walk(kid, rest[len(n.text):])
	}
	return true
}

// leads tells whether rest begins with the node's whole segments.
func (n *node) leads(rest string) bool {
	return strings.HasPrefix(rest, n.text) && (len(rest) == len(n.text) || rest[len(n.text)] == '/')
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

// offer takes the first of a list of entries that fits and comes before the
// best so far.
func (s *search) offer(from, to uint32) {
	for i := from; i < to; i++ {
		e := &s.router.entries[i]
		if e.rank >= s.best {
			return
		}
		if s.collecting {
			s.collect(e)
			continue
		}
		if !e.allows(s) {
			s.denied = true
			continue
		}
		if e.more == nil || e.more.hold(s) {
			s.best, s.found = e.rank, i
			return
		}
	}
}

func (e *entry) allows(s *search) bool {
	if e.methods&s.bit == 0 {
		return false
	}
	if s.bit != otherMethod || e.methods == anyMethod {
		return true
	}
	return slices.Contains(e.more.others, s.method)
}

func (s *search) collect(e *entry) {
	if e.more != nil && !e.more.hold(s) {
		return
	}
	s.allowed |= e.methods
	if e.more != nil {
		s.others = append(s.others, e.more.others...)
	}
}

// allow returns the methods with which some entry would take the request. It
// is asked only when none does with its own.
func (s *search) allow() []string {
	s.collecting = true
	s.run()
	if s.allowed == 0 {
		return nil
	}
	return s.allowed.names(s.others)
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
