package router

import (
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"sluice/internal/model"
)

// freezer lays the trees out for look-ups: literal segments without a choice
// between them are one node, the nodes of a tree stand depth first in one
// array, the branch behind a parameter right after its parent, and so do the
// entries, so that a look-up in a large table touches few lines of memory.
type freezer struct {
	*Router
	builder *builder
	writer  strings.Builder   // of the text
	asked   map[string]uint32 // numbers of conditions
	shaped  map[string]uint32 // numbers of shapes
}

// freeze makes the router.
func (b *builder) freeze() *Router {
	seed := maphash.MakeSeed()
	r := &Router{
		nodes: make([]node, 1, 2*len(b.ranked)+1), entries: make([]entry, 0, len(b.ranked)), shapes: make([]shape, 1), more: []*conditions{{}},
		tables: make([]table, 0, 1+len(b.exact)+len(b.wild)),
		forks:  index{seed: seed}, exact: index{seed: seed}, wild: index{seed: seed}, wildBest: none,
	}
	r.routes, r.plans = b.list()
	f := &freezer{Router: r, builder: b, asked: map[string]uint32{}, shaped: map[string]uint32{}}
	f.table(b.any)
	f.index(&r.exact, b.exact)
	f.index(&r.wild, b.wild)
	for suffix, site := range b.wild {
		r.wildLengths.add(len(suffix))
		r.wildBest = min(r.wildBest, site.best)
	}
	r.text = f.writer.String()
	return r
}

// index lays out sites and indexes them by name.
func (f *freezer) index(x *index, sites map[string]*site) {
	if len(sites) == 0 {
		return
	}
	x.fork = x.grow(len(sites))
	for _, name := range slices.Sorted(maps.Keys(sites)) {
		from := f.at()
		f.writer.WriteString(name)
		x.put(x.fork, name, span{from, f.at()}, f.table(sites[name]))
	}
}

func (f *freezer) table(s *site) uint32 {
	t := table{best: s.best}
	if s.root != nil {
		t.root = f.node(s.root, f.at())
	}
	t.loose, t.stop = f.list(s.loose)
	f.tables = append(f.tables, t)
	return uint32(len(f.tables) - 1)
}

// node lays out a branch and all behind it, and returns its place. Its text
// has been written from a place on.
func (f *freezer) node(br *branch, from uint32) uint32 {
	at := uint32(len(f.nodes))
	n := node{text: span{from, f.at()}, best: br.best, param: br.param != nil}
	n.ends, n.whole = f.list(br.ends.ranks)
	_, n.below = f.list(br.whole.ranks)
	_, n.stop = f.list(br.below.ranks)
	if n.stop-n.ends == 1 {
		n.only = f.entries[n.ends]
	}
	f.nodes = append(f.nodes, n)
	if br.param != nil {
		f.node(br.param, f.at())
	}
	if len(br.kids) <= len(n.kids) {
		for i, kid := range br.kids {
			n.kids[i] = f.literal(kid)
		}
	} else {
		kids := f.forks.grow(len(br.kids))
		for _, kid := range br.kids {
			at := f.literal(kid)
			f.forks.put(kids, kid.text, f.nodes[at].text, at)
		}
		n.kids, n.forked = [2]uint32{kids.from, kids.mask}, true
	}
	f.nodes[at].kids, f.nodes[at].forked = n.kids, n.forked
	return at
}

// literal lays out a literal child as one node with what follows it without a
// choice.
func (f *freezer) literal(br *branch) uint32 {
	from := f.at()
	f.write(br)
	for len(br.kids) == 1 && br.param == nil && len(br.ends.ranks)+len(br.whole.ranks)+len(br.below.ranks) == 0 {
		br = br.kids[0]
		f.write(br)
	}
	return f.node(br, from)
}

func (f *freezer) write(br *branch) {
	f.writer.WriteByte('/')
	f.writer.WriteString(br.text)
}

// list lays out a list of entries and returns its bounds.
func (f *freezer) list(ranks []uint32) (from, to uint32) {
	from = uint32(len(f.entries))
	for _, rank := range ranks {
		p := f.builder.ranked[rank].plan
		e := entry{rank: rank, index: uint32(p.index), methods: p.set}
		if !p.more.empty() {
			e.more = f.conditions(p)
		}
		if path := &p.route.Match.Path; path.Kind == model.PatternPath {
			e.shape = f.shape(path.Segments)
		}
		f.entries = append(f.entries, e)
	}
	return from, uint32(len(f.entries))
}

// conditions returns the number of a route's conditions. Routes share equal
// ones, so that those in use stay in the processor's cache.
func (f *freezer) conditions(p *plan) uint32 {
	key := strings.Join(p.more.listeners, " ") + "\n" + p.rest + "\n"
	if p.more.path != nil {
		key += p.more.path.String()
	}
	number, ok := f.asked[key]
	if !ok {
		number = uint32(len(f.more))
		f.more = append(f.more, p.more)
		f.asked[key] = number
	}
	return number
}

// shape returns the number of a pattern's shape, shared alike.
func (f *freezer) shape(segments []model.Segment) uint32 {
	sh := newShape(segments)
	if len(sh) == 0 {
		return 0
	}
	key := fmt.Sprint(sh)
	at, ok := f.shaped[key]
	if !ok {
		at = uint32(len(f.shapes))
		f.shapes = append(f.shapes, sh)
		f.shaped[key] = at
	}
	return at
}

// at is where the text ends so far.
func (f *freezer) at() uint32 { return uint32(f.writer.Len()) }
