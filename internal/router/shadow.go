package router

import (
	"fmt"
	"math/bits"
	"net/netip"
	"slices"
	"strings"

	"sluice/internal/model"
)

// shadow looks for the first entry before a given one that takes every request
// which that one would: with all its hosts, paths, methods, clients and
// listeners, and without a condition on headers, query or cookies that the
// given one has not as well.
//
// What it reports is never wrong, but it does not see everything: entries
// that cover one only together, a regex that takes what another text says, a
// condition that follows from another (present from a value), conditions that
// exclude each other in one route, client addresses that together make up a
// larger block.
type shadow struct {
	plan *plan
	rank uint32
	by   *plan
}

// insert puts all entries, in order, into the sites of their hosts, and warns
// of routes each of whose entries is covered by one that was there before.
func (b *builder) insert() []found {
	var list []found
	covering := make([][]*plan, len(b.plans)) // for each entry of a route, as long as all are covered
	for rank, e := range b.ranked {
		p := e.plan
		host := p.hosts[e.host].host
		if by := b.cover(host, p); by != nil && !p.conflict {
			covering[p.document] = append(covering[p.document], by)
			if len(covering[p.document]) == len(p.hosts) {
				p.never = true
				list = append(list, found{plan: p, problem: p.neverMatches(covering[p.document])})
			}
		}
		b.site(host).add(uint32(rank), p)
	}
	return list
}

func (p *plan) neverMatches(covering []*plan) model.Problem {
	var names []string
	for _, by := range covering {
		if name := by.place(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	text := "route " + names[0] + " comes first and takes"
	if len(names) > 1 {
		text = "routes " + strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1] + " come first and take"
	}
	return model.Problem{
		Position: p.route.Position,
		Message:  fmt.Sprintf("route %q can never match: %s every request that it would", p.route.ID, text),
		Hint:     "give it a smaller priority, or remove it",
		Warning:  true,
	}
}

// cover returns the first route in the sites that takes every request of a
// route's entry with a host, or nil.
func (b *builder) cover(host string, p *plan) *plan {
	path := &p.route.Match.Path
	s := &shadow{plan: p, rank: none}
	look := func(at *site) {
		if at == nil || at.best >= s.rank {
			return
		}
		s.try(&at.any)
		if path.Kind == model.RegexPath {
			if same := at.regex[path.Regex.String()]; same != nil {
				s.try(same)
			}
		}
		if p.segments != nil && at.root != nil {
			s.walk(at.root, p.segments)
		}
	}
	look(b.any)
	if host != "" {
		look(b.exact[host])
		for i := 0; i < len(host) && len(b.wild) > 0; i++ {
			if host[i] == '.' && i > 0 {
				look(b.wild[host[i:]])
			}
		}
	}
	return s.by
}

// walk goes through the part of a tree whose entries take every path that
// begins at the branch with the given segments.
func (s *shadow) walk(br *branch, segments []model.Segment) {
	if br.best >= s.rank {
		return
	}
	s.try(&br.whole)
	if len(segments) == 0 {
		if !s.plan.open {
			s.try(&br.ends)
		}
		return
	}
	s.try(&br.below)
	segment := segments[0]
	if segment.Rest {
		return
	}
	if segment.Param == "" {
		if kid := br.kid(segment.Literal); kid != nil {
			s.walk(kid, segments[1:])
		}
	}
	if br.param != nil && (segment.Param != "" || segment.Literal != "") {
		s.walk(br.param, segments[1:])
	}
}

// try keeps the first of a bucket that covers the route, if it comes first of all.
func (s *shadow) try(list *bucket) {
	if len(list.ranks) == 0 || list.ranks[0] >= s.rank {
		return
	}
	if rank, by := list.covers(s.plan); by != nil && rank < s.rank {
		s.rank, s.by = rank, by
	}
}

// covers tells whether p takes, of the hosts and paths that both have, every
// request that q does.
func (p *plan) covers(q *plan) bool {
	for _, ask := range p.asks {
		if !slices.Contains(q.asks, ask) {
			return false
		}
	}
	if p.set != anyMethod {
		if q.set&^p.set != 0 { // any has bits that no list has
			return false
		}
		for _, other := range q.others {
			if !slices.Contains(p.others, other) {
				return false
			}
		}
	}
	if !p.everywhere {
		if q.everywhere {
			return false
		}
		for _, listener := range q.route.Listeners {
			if !slices.Contains(p.route.Listeners, listener) {
				return false
			}
		}
	}
	clients, outer := q.route.Match.ClientIP, p.route.Match.ClientIP
	return len(outer) == 0 || len(clients) != 0 && within(clients, outer)
}

// bucket is a list of entries with equal hosts and equal paths, in order. Once
// it is long an index by conditions and client addresses spares comparing each
// with each.
type bucket struct {
	ranks []uint32
	plans []*plan
	index map[bucketKey][]int32
	bits  [2][3]uint64 // lengths of client prefixes that occur, of IPv4 and of IPv6
}

// bucketKey is a set of conditions, as the sum of their hashes, and one of the
// client prefixes; the zero prefix for none.
type bucketKey struct {
	asks   uint64
	client netip.Prefix
}

// A bucket longer than this has an index, unless a route asks for more than
// maxAsks conditions: those are compared with each entry.
const (
	longBucket = 16
	maxAsks    = 8
)

func (list *bucket) add(rank uint32, p *plan) {
	list.ranks = append(list.ranks, rank)
	list.plans = append(list.plans, p)
	switch {
	case list.index != nil:
		list.note(len(list.plans) - 1)
	case len(list.plans) > longBucket:
		list.index = map[bucketKey][]int32{}
		for i := range list.plans {
			list.note(i)
		}
	}
}

func (list *bucket) note(i int) {
	p := list.plans[i]
	key := bucketKey{asks: sum(p.asks)}
	if len(p.route.Match.ClientIP) == 0 {
		list.index[key] = append(list.index[key], int32(i))
	}
	for _, prefix := range p.route.Match.ClientIP {
		key.client = prefix.Masked()
		list.index[key] = append(list.index[key], int32(i))
		list.bits[family(prefix)][prefix.Bits()/64] |= 1 << (prefix.Bits() % 64)
	}
}

func family(prefix netip.Prefix) int {
	if prefix.Addr().Is4() {
		return 0
	}
	return 1
}

// sum is a hash of a set of conditions that can be made of its members'.
func sum(asks []uint32) uint64 {
	var total uint64
	for _, ask := range asks {
		total += spread(ask)
	}
	return total
}

// spread is a hash of a number (the finalizer of MurmurHash3).
func spread(number uint32) uint64 {
	h := uint64(number) + 0x9e3779b97f4a7c15
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// covers returns the first entry that covers q in all but host and path.
func (list *bucket) covers(q *plan) (uint32, *plan) {
	if list.index == nil || len(q.asks) > maxAsks {
		for i, p := range list.plans {
			if p.covers(q) {
				return list.ranks[i], p
			}
		}
		return none, nil
	}
	best := int32(len(list.plans))
	for subset := range 1 << len(q.asks) {
		var key bucketKey
		for left := subset; left != 0; left &= left - 1 {
			key.asks += spread(q.asks[bits.TrailingZeros(uint(left))])
		}
		best = list.first(key, q, best)
		if len(q.route.Match.ClientIP) == 0 {
			continue
		}
		// Who covers q has a prefix around each of q's, so around its first.
		prefix := q.route.Match.ClientIP[0]
		for length := range prefix.Bits() + 1 {
			if list.bits[family(prefix)][length/64]&(1<<(length%64)) == 0 {
				continue
			}
			key.client = netip.PrefixFrom(prefix.Addr(), length).Masked()
			best = list.first(key, q, best)
		}
	}
	if int(best) == len(list.plans) {
		return none, nil
	}
	return list.ranks[best], list.plans[best]
}

// first returns the first entry under a key that covers q, if it comes before
// best, else best.
func (list *bucket) first(key bucketKey, q *plan, best int32) int32 {
	for _, i := range list.index[key] {
		if i >= best {
			return best
		}
		if list.plans[i].covers(q) {
			return i
		}
	}
	return best
}
