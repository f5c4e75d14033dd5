// Package discovery keeps the addresses of a name up to date as DNS tells them:
// A and AAAA records, or SRV records with the addresses of their targets. It
// looks a name up again when its records have had their time, which
// net.Resolver does not tell.
//
// It knows nothing of upstreams and endpoints, opens no connection to what it
// finds, and does no validation of DNSSEC: it is a stub resolver (RFC 1035,
// 2181, 2782, 6891) that trusts the name servers it was told.
//
// Without a resolver of its own a name is looked up as other programs of the
// machine do: first in /etc/hosts, then at the servers of /etc/resolv.conf, with
// its search list and options. Both files are read at each look-up. With a
// resolver, that one is asked for the name as it is written, and neither file
// counts.
package discovery

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
)

// Address is where something can be reached.
type Address struct {
	Host   string // an IP address, without brackets
	Port   int
	Weight int // of the SRV record, at least 1; 1 without
}

// Answer is what is known of a name. It is immutable.
type Answer struct {
	// Addresses are those of the last look-up that found any, sorted by address
	// and port, each once. A look-up that fails or finds none changes nothing.
	// Of SRV records they are of the lowest priority that has an address.
	Addresses []Address
	At        time.Time // of that look-up; zero: none has found any yet
	Next      time.Time // when the name is looked up again
	// Err is what the last look-up came to, nil if all went well. With an error the
	// addresses may be new ones all the same, where only a part could not be learned.
	Err    error
	Failed time.Time // the first of the failures in a row that Err is the last of
}

// Observer is told of look-ups, for the log. The zero value and every nil
// function are fine. The functions are called by the goroutine that looks the
// name up, and must not block it.
type Observer struct {
	// Failed is told once of each row of failures.
	Failed func(m *model.DNS, err error)
	// Recovered is told of the success that ends such a row.
	Recovered func(m *model.DNS)
}

const (
	leastWait = time.Second     // between two look-ups
	failWait  = 5 * time.Second // after one that failed, at most
)

// Names looks a name up, again and again, from the commit of the first set that
// holds it to the release of the last. Safe for concurrent use.
type Names struct {
	model    *model.DNS
	told     Observer
	resolver *resolver

	answer atomic.Pointer[Answer]
	first  chan struct{}
	stop   context.CancelFunc

	mu          sync.Mutex
	subscribers []*subscriber
}

type subscriber struct{ call func(*Answer) }

// Acquire returns what looks up the names of m, the live one if there is one;
// then that one's observer goes on. m.Refresh bounds the time between two
// look-ups, at least a second.
func Acquire(set *lease.Set, m *model.DNS, told Observer) *Names {
	return lease.Acquire(set, "dns\n"+model.Text(m), func() *Names { return newNames(m, told, machine()) })
}

func newNames(m *model.DNS, told Observer, s system) *Names {
	return &Names{model: m, told: told, resolver: &resolver{system: s}, first: make(chan struct{})}
}

// Start begins to look up. It is for the registry of leases.
func (n *Names) Start() error {
	ctx, stop := context.WithCancel(context.Background())
	n.stop = stop
	go n.run(ctx)
	return nil
}

// Release ends that; the answer stays as it is then.
func (n *Names) Release() { n.stop() }

// Answer returns what is known now; nil before the first look-up is over.
func (n *Names) Answer() *Answer { return n.answer.Load() }

// First is closed when the first look-up is over, whatever it came to, and by
// the release.
func (n *Names) First() <-chan struct{} { return n.first }

// Subscribe has f called with each answer whose addresses are others than those
// before, in order, by the goroutine that looks up; f must not block. What is
// known already is Answer's to tell: who subscribes first and asks then misses
// nothing. After cancel no call begins, but one may be under way.
func (n *Names) Subscribe(f func(*Answer)) (cancel func()) {
	s := &subscriber{f}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.subscribers = append(n.subscribers, s)
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		// A new list, since the old one may be gone through now.
		n.subscribers = slices.DeleteFunc(slices.Clone(n.subscribers), func(other *subscriber) bool { return other == s })
	}
}

func (n *Names) subscribed(s *subscriber) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Contains(n.subscribers, s)
}

func (n *Names) run(ctx context.Context) {
	first := sync.OnceFunc(func() { close(n.first) })
	defer first()
	for {
		found, ttl, err := n.resolver.lookup(ctx, n.model)
		if ctx.Err() != nil {
			return // the failure is the release's
		}
		wait := n.wait(ttl, err)
		n.take(found, err, time.Now(), wait)
		first()
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// wait is how long a look-up holds that came to so much.
func (n *Names) wait(ttl time.Duration, err error) time.Duration {
	wait := min(ttl, n.model.Refresh)
	if err != nil {
		// Instances that lost a server together come back to it one by one.
		most := min(n.model.Refresh, failWait)
		wait = most*3/4 + time.Duration(n.resolver.system.random()*float64(most)/2)
	}
	return max(wait, leastWait)
}

// take makes an answer of a look-up, and tells of it.
func (n *Names) take(found []Address, err error, now time.Time, wait time.Duration) {
	last := n.answer.Load()
	if last == nil {
		last = &Answer{}
	}
	next := &Answer{Addresses: last.Addresses, At: last.At, Next: now.Add(wait), Err: err}
	if len(found) > 0 {
		next.Addresses, next.At = found, now
	}
	switch {
	case err == nil:
	case last.Err == nil:
		next.Failed = now
	default:
		next.Failed = last.Failed
	}
	n.answer.Store(next)

	if err != nil && last.Err == nil && n.told.Failed != nil {
		n.told.Failed(n.model, err)
	}
	if err == nil && last.Err != nil && n.told.Recovered != nil {
		n.told.Recovered(n.model)
	}
	if slices.Equal(last.Addresses, next.Addresses) {
		return
	}
	n.mu.Lock()
	subscribers := n.subscribers
	n.mu.Unlock()
	for _, s := range subscribers {
		if n.subscribed(s) { // none before it has cancelled this one
			s.call(next)
		}
	}
}
