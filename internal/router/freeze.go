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
	text    strings.Builder
	spans   [][2]int // of each node's text in text
	shaped  map[string]int32
}

// freeze makes the router.
func (b *builder) freeze() *Router {
	seed := maphash.MakeSeed()
	r := &Router{
		nodes: make([]node, 1, 2*len(b.ranked)+1), entries: make([]entry, 0, len(b.ranked)), shapes: make([]shape, 1),
		tables: make([]table, 0, 1+len(b.exact)+len(b.wild)),
		forks:  index{seed: seed}, exact: index{seed: seed}, wild: index{seed: seed}, wildBest: none,
	}
	r.routes, r.plans = b.list()
	f := &freezer{Router: r, builder: b, spans: make([][2]int, 1, 2*len(b.ranked)+1), shaped: map[string]int32{}}
	f.table("", b.any)
	for _, host := range slices.Sorted(maps.Keys(b.exact)) {
		f.table(host, b.exact[host])
	}
	for _, suffix := range slices.Sorted(maps.Keys(b.wild)) {
		f.table(suffix, b.wild[suffix])
		r.wildLengths.add(len(suffix))
		r.wildBest = min(r.wildBest, b.wild[suffix].best)
	}
	r.exact.name(r.tables, 1, 1+len(b.exact))
	r.wild.name(r.tables, 1+len(b.exact), len(r.tables))
	text := f.text.String()
	for i, span := range f.spans {
		r.nodes[i].text = text[span[0]:span[1]]
	}
	return r
}

// name makes an index of the tables of a range, if there are any.
func (x *index) name(tables []table, from, to int) {
	if from == to {
		return
	}
	x.fork = x.grow(to - from)
	for i := from; i < to; i++ {
		x.put(x.fork, tables[i].name, int32(i))
	}
}

func (f *freezer) table(name string, s *site) {
	t := table{name: name, best: s.best}
	if s.root != nil {
		t.root = f.node(s.root, f.text.Len())
	}
	t.loose, t.stop = f.list(s.loose)
	f.tables = append(f.tables, t)
}

// node lays out a branch and all behind it, and returns its place. Its text
// has been written from a place on.
func (f *freezer) node(br *branch, from int) int32 {
	at := int32(len(f.nodes))
	n := node{best: br.best, param: br.param != nil}
	n.ends, n.whole = f.list(br.ends.ranks)
	_, n.below = f.list(br.whole.ranks)
	_, n.stop = f.list(br.below.ranks)
	f.nodes = append(f.nodes, n)
	f.spans = append(f.spans, [2]int{from, f.text.Len()})
	if br.param != nil {
		f.node(br.param, f.text.Len())
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
	f.nodes[at].kids, f.nodes[at].fork = n.kids, n.fork
	return at
}

// literal lays out a literal child as one node with what follows it without a
// choice.
func (f *freezer) literal(br *branch) int32 {
	from := f.text.Len()
	f.write(br)
	for len(br.kids) == 1 && br.param == nil && len(br.ends.ranks)+len(br.whole.ranks)+len(br.below.ranks) == 0 {
		br = br.kids[0]
		f.write(br)
	}
	return f.node(br, from)
}

func (f *freezer) write(br *branch) {
	f.text.WriteByte('/')
	f.text.WriteString(br.text)
}

// list lays out a list of entries and returns its bounds.
func (f *freezer) list(ranks []uint32) (from, to uint32) {
	from = uint32(len(f.entries))
	for _, rank := range ranks {
		p := f.builder.ranked[rank].plan
		e := entry{rank: rank, index: int32(p.index), methods: p.set}
		if !p.more.empty() {
			e.more = p.more
		}
		if path := &p.route.Match.Path; path.Kind == model.PatternPath {
			e.shape = f.shape(path.Segments)
		}
		f.entries = append(f.entries, e)
	}
	return from, uint32(len(f.entries))
}

// shape returns the number of a pattern's shape. Routes share shapes, so that
// those in use stay in the processor's cache.
func (f *freezer) shape(segments []model.Segment) int32 {
	sh := newShape(segments)
	if len(sh) == 0 {
		return 0
	}
	key := fmt.Sprint(sh)
	at, ok := f.shaped[key]
	if !ok {
		at = int32(len(f.shapes))
		f.shapes = append(f.shapes, sh)
		f.shaped[key] = at
	}
	return at
}
