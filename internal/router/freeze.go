package router

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"sluice/internal/model"
)

// freezer lays the trees out for look-ups: literal segments without a choice
// between them are one step, a branch of one entry needs no node, and nodes and
// entries of a tree stand depth first in one array each, so that a look-up in
// a large table touches few lines of memory.
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
		forks: index{seed: seed}, exact: index{seed: seed}, wild: index{seed: seed}, wildBest: none,
	}
	r.routes, r.plans = b.list()
	f := &freezer{Router: r, builder: b, asked: map[string]uint32{}, shaped: map[string]uint32{}}
	r.any = f.site(b.any)
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
		text := span{from, f.at()}
		x.put(x.fork, name, kid{f.site(sites[name]), text})
	}
}

// site lays out what a host has, and returns its place.
func (f *freezer) site(s *site) uint32 {
	var root uint32
	if s.root != nil {
		root = f.node(s.root)
	}
	if len(s.loose) == 0 {
		return root
	}
	t := table{root: root, best: s.best}
	t.loose, t.stop = f.list(s.loose, 0)
	f.tables = append(f.tables, t)
	return uint32(len(f.tables)-1) | apart
}

// node lays out a branch and all behind it, and returns its place.
func (f *freezer) node(br *branch) uint32 {
	from, _ := f.list(br.ends.ranks, ending)
	f.list(br.whole.ranks, ending|deeper)
	_, to := f.list(br.below.ranks, deeper)
	if to-from == 1 && br.param == nil && len(br.kids) == 0 {
		return from | leaf
	}
	slices.SortFunc(f.entries[from:to], func(x, y entry) int { return cmp.Compare(x.rank, y.rank) })
	at := uint32(len(f.nodes))
	n := node{best: br.best, from: from, to: to}
	f.nodes = append(f.nodes, n)
	if br.param != nil {
		n.param = f.node(br.param)
	}
	if len(br.kids) <= len(n.kids) {
		for i, kid := range br.kids {
			n.kids[i] = f.literal(kid)
		}
	} else {
		n.fork = f.forks.grow(len(br.kids))
		for _, kid := range br.kids {
			f.forks.put(n.fork, kid.text, f.literal(kid))
		}
	}
	f.nodes[at] = n
	return at
}

// literal lays out a literal child as one with what follows it without a
// choice.
func (f *freezer) literal(br *branch) kid {
	from := f.at()
	f.write(br)
	for len(br.kids) == 1 && br.param == nil && len(br.ends.ranks)+len(br.whole.ranks)+len(br.below.ranks) == 0 {
		br = br.kids[0]
		f.write(br)
	}
	text := span{from, f.at()}
	return kid{f.node(br), text}
}

func (f *freezer) write(br *branch) {
	f.writer.WriteByte('/')
	f.writer.WriteString(br.text)
}

// list lays out a list of entries and returns its bounds.
func (f *freezer) list(ranks []uint32, takes takes) (from, to uint32) {
	from = uint32(len(f.entries))
	for _, rank := range ranks {
		p := f.builder.ranked[rank].plan
		e := entry{rank: rank, index: uint32(p.index), methods: p.set, takes: takes}
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
