package ratelimit

import (
	"container/heap"
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/keyed"
	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/resilience"
)

// The numbers of leases.
const (
	// handShare is the part of its share of a quota that an instance has in hand at most:
	// all instances together have a quarter of the quota, which bounds what passes too much.
	handShare = 4
	// ahead is the time for which a portion is meant to do.
	ahead = 100 * time.Millisecond
	// leaseLife is how long a portion may lie unused; of a window a tenth of it, if that
	// is less, since what lies unused counts there.
	leaseLife      = time.Second
	lifesInAWindow = 10
	leaseFetchers  = 4           // goroutines that ask the store
	leaseEnd       = time.Second // for giving back what is in hand at the end
	// mostOwed is how many keys something has to be given back of, at most: with a store
	// that is slow they would become more and more. What is more is lost.
	mostOwed = 10_000
)

// leases is what one instance has in hand of a limit that is kept in a store: of each key
// a portion that it took ahead of need. What a request takes of it costs no round trip.
// What is in hand counts as used up in the store, so nothing passes that was not counted
// before; what is not used goes back.
type leases struct {
	remote *remote
	began  time.Time
	table  *keyed.Table[leaseSlot]
	ended  atomic.Bool

	mu     sync.Mutex
	asked  []*holding // whose next portion somebody has to fetch
	owed   []refund
	expiry expiry

	wanted chan struct{} // something is in asked
	tidy   chan struct{} // something is in owed, or is due sooner
	cancel context.CancelFunc
	done   chan struct{}
}

// leaseSlot has the holding of a key; nil where it was never asked.
type leaseSlot struct{ holding atomic.Pointer[holding] }

// refund is what goes back to the store.
type refund struct {
	holding *holding
	n       int64
	stamp   int64 // the store's time when it was taken
}

func acquireLeases(set *lease.Set, s *Settings, r *remote) *leases {
	key := "rate limit leases\n" + s.Identity + "\n" + s.Name + "\n" + s.Strategy + "\n" + strconv.Itoa(s.MaxKeys) + "\n" + s.Store.Name + "\n" + model.Text(s.Store.Redis)
	return lease.Acquire(set, key, func() *leases {
		idle := func(p *leaseSlot, now time.Duration) bool {
			held := p.holding.Load()
			return held == nil || held.idle(now)
		}
		return &leases{
			remote: r, began: time.Now(), table: keyed.NewTable(s.MaxKeys, nil, idle),
			wanted: make(chan struct{}, leaseFetchers), tidy: make(chan struct{}, 1), done: make(chan struct{}),
		}
	})
}

// Start begins to fetch portions ahead of need.
func (l *leases) Start() error {
	var ctx context.Context
	ctx, l.cancel = context.WithCancel(context.Background())
	l.remote.store.Keep(l.done)
	var group sync.WaitGroup
	for range leaseFetchers {
		group.Go(func() { l.fetchPortions(ctx) })
	}
	go func() {
		defer close(l.done)
		l.clean(ctx)
		group.Wait()
		l.giveAllBack(context.WithoutCancel(ctx))
	}()
	return nil
}

// Release gives back what is in hand. Whoever still asks has each decision made by the
// store.
func (l *leases) Release() {
	l.ended.Store(true)
	l.cancel()
}

// take decides, by what is in hand if there is enough. It fails where the store has to
// be asked and does not answer. It may wait for the store by x.
func (l *leases) take(x Waiter, t *tierRule, key string, cost int64) (v resilience.Verdict, from taken, ok bool) {
	now := time.Since(l.began)
	p := l.holding(l.table.Get(l.table.Key(key)^t.salt, now), t, key)
	if v, ok := p.take(now, cost); ok {
		return v, taken{holding: p, at: now}, true
	}
	if l.remote.down.Load() {
		return v, from, false
	}
	return await(x, func() (resilience.Verdict, taken, bool) {
		if l.ended.Load() {
			return l.remote.take(t, key, cost)
		}
		v, ok := p.wait(cost)
		return v, taken{holding: p, at: time.Since(l.began)}, ok
	})
}

// holding returns that of a slot under a rule. One of another rule goes back to the
// store, which knows how to change numbers.
func (l *leases) holding(in *leaseSlot, t *tierRule, key string) *holding {
	for {
		held := in.holding.Load()
		if held != nil && held.rule == t {
			return held
		}
		made := &holding{leases: l, rule: t, name: l.remote.key(key, t.name), mark: time.Since(l.began)}
		if !in.holding.CompareAndSwap(held, made) {
			continue
		}
		if held != nil {
			held.retire()
		}
		return made
	}
}

// ask has the next portion of a holding fetched.
func (l *leases) ask(p *holding) {
	l.mu.Lock()
	l.asked = append(l.asked, p)
	l.mu.Unlock()
	select {
	case l.wanted <- struct{}{}:
	default: // all fetchers are told, and look again before they rest
	}
}

// owe has something given back.
func (l *leases) owe(what ...refund) {
	l.mu.Lock()
	for _, r := range what {
		if r.n > 0 && len(l.owed) < mostOwed {
			l.owed = append(l.owed, r)
		}
	}
	l.mu.Unlock()
	l.wake()
}

func (l *leases) wake() {
	select {
	case l.tidy <- struct{}{}:
	default:
	}
}

// watch has a holding looked at when what it holds becomes too old. It is called with the
// holding's mu held.
func (l *leases) watch(p *holding, due time.Duration) {
	l.mu.Lock()
	heap.Push(&l.expiry, expiring{p, due})
	first := l.expiry[0].holding == p
	l.mu.Unlock()
	if first {
		l.wake()
	}
}

// expiry is holdings that hold something, the one that is due first at the beginning.
type expiry []expiring

type expiring struct {
	holding *holding
	due     time.Duration
}

func (a expiry) Len() int           { return len(a) }
func (a expiry) Less(i, j int) bool { return a[i].due < a[j].due }
func (a expiry) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }

// Push and Pop are for the heap.
func (a *expiry) Push(x any) { *a = append(*a, x.(expiring)) } //nolint:forcetypeassert // watch alone calls it

// Pop is for the heap.
func (a *expiry) Pop() any {
	last := len(*a) - 1
	x := (*a)[last]
	(*a)[last] = expiring{}
	*a = (*a)[:last]
	return x
}
