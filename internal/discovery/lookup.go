package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"

	"sluice/internal/model"
)

// resolver looks names up, one look-up at a time.
type resolver struct {
	system system
	known  map[question]reply // what the last look-up that found something knew
	turn   int                // look-ups so far
}

// lookup is one look-up of a name with all that it leads to.
type lookup struct {
	system *system
	at     servers
	begin  int // the server to ask first
	hosts  map[string][]netip.Addr
	known  map[question]reply // of the last one; only read

	mu      sync.Mutex
	asked   map[question]reply
	learned bool // whether anything is known from now
}

// errNone is for a name without records.
var errNone = errors.New("nothing found")

// lookup finds the addresses of m, and how long they hold. With an error there may be
// some all the same; then a part could not be learned, and what was known of
// that still counts. Where nothing could be learned there are none.
func (r *resolver) lookup(ctx context.Context, m *model.DNS) ([]Address, time.Duration, error) {
	l := &lookup{system: &r.system, known: r.known, asked: map[question]reply{}}
	if m.Resolver != "" {
		l.at = own(m.Resolver)
	} else {
		var err error
		if l.at, err = r.system.servers(); err != nil {
			return nil, 0, err
		}
		if l.hosts, err = r.system.table(); err != nil {
			return nil, 0, err
		}
	}
	if l.at.rotate {
		l.begin = r.turn
	}
	r.turn++

	weights, ttl, err := l.service(ctx, m)
	if !l.learned {
		return nil, 0, err
	}
	if len(weights) > 0 {
		r.known = l.asked
	}
	found := make([]Address, 0, len(weights))
	for at, weight := range weights {
		found = append(found, Address{Host: at.Addr().String(), Port: int(at.Port()), Weight: weight})
	}
	slices.SortFunc(found, func(a, b Address) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
	})
	return found, ttl, err
}

// service finds where a service is, with weights.
func (l *lookup) service(ctx context.Context, m *model.DNS) (map[netip.AddrPort]int, time.Duration, error) {
	if m.Port == 0 {
		return l.records(ctx, m.Name)
	}
	got, err := l.host(ctx, m.Name)
	weights := map[netip.AddrPort]int{}
	for _, address := range got.addresses {
		weights[netip.AddrPortFrom(address, uint16(m.Port))] = 1
	}
	return weights, got.ttl, err
}

// records finds where SRV records say that a service is: of the lowest priority
// of which a target has an address (RFC 2782).
func (l *lookup) records(ctx context.Context, name string) (map[netip.AddrPort]int, time.Duration, error) {
	got, err := l.search(ctx, name, dns.TypeSRV)
	if got.empty() {
		return nil, 0, err
	}
	priorities := map[uint16][]*dns.SRV{}
	for _, s := range got.services {
		if s.Target != "." {
			priorities[s.Priority] = append(priorities[s.Priority], s)
		}
	}
	if len(priorities) == 0 {
		return nil, 0, fmt.Errorf("the SRV record of %s says that there is no such service", name)
	}
	for _, priority := range slices.Sorted(maps.Keys(priorities)) {
		weights, ttl, failed := l.targets(ctx, priorities[priority])
		err = cmp.Or(err, failed)
		if len(weights) > 0 {
			return weights, min(ttl, got.ttl), err
		}
	}
	return nil, 0, cmp.Or(err, fmt.Errorf("%w: the SRV records of %s name hosts that have no address", errNone, name))
}

// targets finds the addresses of the targets of SRV records of one priority. That
// a target has none is no error.
func (l *lookup) targets(ctx context.Context, records []*dns.SRV) (weights map[netip.AddrPort]int, ttl time.Duration, err error) {
	hosts := map[string]*host{}
	for _, s := range records {
		hosts[s.Target] = &host{}
	}
	// Some at once: there can be hundreds, and one that fails takes seconds.
	places := make(chan struct{}, 8)
	var wg sync.WaitGroup
	for name, h := range hosts {
		places <- struct{}{}
		wg.Go(func() {
			defer func() { <-places }()
			h.reply, h.err = l.host(ctx, name)
		})
	}
	wg.Wait()

	weights, ttl = map[netip.AddrPort]int{}, forever
	for _, s := range records {
		h := hosts[s.Target]
		for _, address := range h.addresses {
			weights[netip.AddrPortFrom(address, s.Port)] += max(int(s.Weight), 1)
			ttl = min(ttl, h.ttl)
		}
		if !errors.Is(h.err, errNone) {
			err = cmp.Or(err, h.err)
		}
	}
	return weights, ttl, err
}

// host is what was found of a host.
type host struct {
	reply
	err error
}

// host finds the addresses of a host.
func (l *lookup) host(ctx context.Context, name string) (reply, error) {
	if address, err := netip.ParseAddr(name); err == nil {
		l.learn()
		return reply{addresses: []netip.Addr{address.Unmap()}, ttl: forever}, nil
	}
	var err error
	got := reply{ttl: forever}
	for _, address := range l.hosts[hostsName(name)] {
		got.add(address, true)
	}
	if !got.empty() {
		l.learn()
	} else {
		got, err = l.search(ctx, name, dns.TypeA, dns.TypeAAAA)
	}
	// An address that this machine has no way to, as one of IPv6 where there is
	// only IPv4, is left out if there is another.
	if routed := slices.DeleteFunc(slices.Clone(got.addresses), func(a netip.Addr) bool { return !l.system.routed(ctx, a) }); len(routed) > 0 {
		got.addresses = routed
	}
	return got, err
}

// search asks for a name as the search list has it, one full name after the
// other, until one has records.
func (l *lookup) search(ctx context.Context, name string, kinds ...uint16) (reply, error) {
	names := l.at.NameList(name)
	var failed error
	for _, full := range names {
		got, err := l.all(ctx, full, kinds)
		if !got.empty() {
			return got, err
		}
		if failed == nil {
			failed = err
		}
		if err != nil && !errors.Is(err, errServer) {
			break // who is silent now would be so about the others
		}
	}
	if failed != nil {
		return reply{}, failed
	}
	words := make([]string, 0, len(kinds))
	for _, kind := range kinds {
		words = append(words, dns.TypeToString[kind])
	}
	return reply{}, fmt.Errorf("%w: the name servers know no record (%s) of %s; check the name", errNone, strings.Join(words, ", "), strings.Join(names, ", "))
}

// all asks for the records of several kinds at once. What could not be learned
// is as it was last time, and an error; if nothing was known of it, it is one
// only where nothing else is found: many a server cannot tell of AAAA.
func (l *lookup) all(ctx context.Context, name string, kinds []uint16) (reply, error) {
	replies, errs := make([]reply, len(kinds)), make([]error, len(kinds))
	var wg sync.WaitGroup
	for i, kind := range kinds {
		wg.Go(func() { replies[i], errs[i] = l.question(ctx, question{name, kind}) })
	}
	wg.Wait()

	got := reply{ttl: forever}
	var stale, failed error
	for i := range kinds {
		if replies[i].empty() {
			failed = cmp.Or(failed, errs[i])
			continue
		}
		stale = cmp.Or(stale, errs[i])
		got.addresses = append(got.addresses, replies[i].addresses...)
		got.services = append(got.services, replies[i].services...)
		got.ttl = min(got.ttl, replies[i].ttl)
	}
	if got.empty() {
		return got, failed
	}
	return got, stale
}

// question asks for records of one kind.
func (l *lookup) question(ctx context.Context, q question) (reply, error) {
	got, err := l.system.ask(ctx, l.at, l.begin, q)
	if err == nil {
		l.learn()
	} else {
		got, err = l.known[q], fmt.Errorf("%s records of %s: %w", dns.TypeToString[q.kind], q.name, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked[q] = got
	return got, err
}

func (l *lookup) learn() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.learned = true
}
