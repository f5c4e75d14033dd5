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

// node is a place in a path tree. It has no pointers, so that the collector
// passes large tables by.
type node struct {
	best     uint32 // rank of the first entry in the subtree
	from, to uint32 // bounds in entries
	param    uint32 // place behind any segment that is not empty; 0: none
	kids     [2]kid // literal children; without a place: no more
	fork     fork   // literal children where there are more
}

// kid is a literal child: its place, and the segments that lead there, each
// with its slash. It is not the child that has them, so that the processor
// fetches both at once.
type kid struct {
	at   uint32
	text span
}

// A place is the index of a node, or with one of these bits that of the only
// entry that is there, or that of a table.
const (
	leaf  = 1 << 31
	apart = 1 << 30
)

// span is a part of the router's text.
type span struct{ from, to uint32 }

// entry is a route with one of its hosts.
type entry struct {
	rank    uint32 // place in the order of all entries
	index   uint32 // of the route
	more    uint32 // number of its conditions; 0: none
	shape   uint32 // number of its shape
	methods methods
	takes   takes
}

// takes says which paths an entry of a path tree takes.
type takes uint8

const (
	ending takes = 1 << iota // the path that ends at the node
	deeper                   // those that follow with a slash
)

// table holds the entries of one host, where it has others than those of a
// path tree.
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

// run looks at what each host that fits has.
func (s *search) run() {
	r := s.router
	if r.exact.fork.used() || r.wild.fork.used() {
		host := canonical.Host(s.request.Host)
		s.look(r.exact.find(r.text, host))
		if r.wildBest < s.best {
			s.wildcards(host)
		}
	}
	s.look(r.any)
}

// wildcards looks at what wildcard hosts have, longest suffix first.
func (s *search) wildcards(host string) {
	r := s.router
	for i := 1; i < len(host); i++ {
		if host[i] == '.' && r.wildLengths.has(len(host)-i) {
			s.look(r.wild.find(r.text, host[i:]))
		}
	}
}

// look looks at what is at the place of a host; 0: nothing.
func (s *search) look(at uint32) {
	if at&apart == 0 {
		if at != 0 && rooted(s.request.Path) {
			s.visit(at, s.request.Path)
		}
		return
	}
	t := &s.router.tables[at&^apart]
	if t.best >= s.best {
		return
	}
	s.look(t.root)
	list := s.router.entries[t.loose:t.stop]
	for i := range list {
		if list[i].rank >= s.best {
			return
		}
		s.try(&list[i])
	}
}

// visit goes through the part of a path tree that fits rest, which is what
// follows the place: empty, or begins with a slash.
func (s *search) visit(at uint32, rest string) {
	if at&leaf == 0 {
		if s.router.nodes[at].best < s.best {
			s.walk(at, rest)
		}
		return
	}
	s.visited++
	if e := &s.router.entries[at&^leaf]; e.rank < s.best && e.takes.fit(rest) {
		s.try(e)
	}
}

func (t takes) fit(rest string) bool {
	if rest == "" {
		return t&ending != 0
	}
	return t&deeper != 0
}

// walk visits what is behind a node and then tries the node's own entries:
// deeper ones mostly win, and spare the conditions of those above.
func (s *search) walk(at uint32, rest string) {
	s.visited++
	n := &s.router.nodes[at]
	if rest != "" {
		if n.fork.used() {
			if to, length := s.router.forks.kid(s.router.text, n.fork, rest); to != 0 {
				s.visit(to, rest[length:])
			}
		} else {
			for i := range n.kids {
				k := &n.kids[i]
				if k.at == 0 {
					break
				}
				if text := s.router.text[k.text.from:k.text.to]; leads(text, rest) {
					s.visit(k.at, rest[len(text):])
					break
				}
			}
		}
		if n.param != 0 && len(rest) > 1 && rest[1] != '/' {
			s.visit(n.param, rest[segmentEnd(rest):])
		}
	}
	list := s.router.entries[n.from:n.to]
	for i := range list {
		if list[i].rank >= s.best {
			return
		}
		if list[i].takes.fit(rest) {
			s.try(&list[i])
		}
	}
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
