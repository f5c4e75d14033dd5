// Package ratelimit holds rate limits: what they know of each key, and by which
// algorithm they decide, alone or together with other instances in a store. A limit
// outlives snapshots by its identity, with all it knows; a snapshot that changes its
// numbers changes no share of what is used up. It knows nothing of HTTP, nor where keys
// come from.
package ratelimit

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/keyed"
	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/resilience"
)

// Settings are what a limit is. Quotas have no Problem.
type Settings struct {
	// Identity names the limit over reloads. Two with the same one are one.
	Identity string
	Name     string // for people
	Strategy string // a name of Strategies
	Quota    resilience.Quota
	Tiers    []Tier // other quotas for some, each with states of its own
	Cost     int64  // of a request at most
	MaxKeys  int    // past it those make room that were not asked for lately

	Store     *model.Store // where instances share it; nil: nowhere
	Lease     bool         // instances take portions ahead of need, so few decisions ask the store
	OnFailure string       // of the store
	Log       *slog.Logger // of outages of the store
}

// What a limit does while its store does not answer.
const (
	FailLocal = "local" // decides alone, with this instance's share
	FailAllow = "allow"
	FailDeny  = "deny"
)

// Tier is a quota with a name.
type Tier struct {
	Name  string
	Quota resilience.Quota
}

// Waiter lets something wait that is not its own.
type Waiter interface{ Wait(block func()) }

// linger is how long a key stays known of which nothing is used up any more: most clients
// have a full bucket again before they come back.
const linger = 10 * time.Second

// Decision is what a limit says to a request.
type Decision struct {
	resilience.Verdict
	StoreFailed bool // the store did not decide
	Unknown     bool // nobody did: Allowed is what OnFailure says, and all else is nothing

	taken taken
}

// Limit is a limit as one snapshot has it. It is safe for concurrent use.
type Limit struct {
	shared    *shared
	remote    *remote // nil: it is kept in memory alone
	leases    *leases // nil: the store makes each decision
	onFailure string
	plan      *plan
	settled   atomic.Bool // the plan, or a later one, rules
	sequence  uint64
}

// shared is what a limit is over reloads.
type shared struct {
	began  time.Time
	states *keyed.Table[slot]
	ruling atomic.Pointer[plan]

	mu       sync.Mutex
	acquired uint64 // the sequence of the limit that was acquired last
	settled  uint64 // of the one whose plan rules
}

// slot has the state of a key; nil where it was never asked.
type slot struct{ cell atomic.Pointer[cell] }

// cell is a state with the rule that it is of.
type cell struct {
	rule Rule
	State
}

// Acquire returns the limit with these settings, with what the live one of its
// identity knows if there is one; set holds it. The numbers rule from the first Take
// on: a snapshot that never serves changes nothing. Those of a snapshot that is on its
// way out are over then.
func Acquire(set *lease.Set, s *Settings) *Limit {
	key := "rate limit\n" + s.Identity + "\n" + s.Strategy
	l := &Limit{onFailure: s.OnFailure}
	if s.Store != nil {
		key += "\n" + s.Store.Name
		l.remote = newRemote(set, s)
		if s.Lease {
			l.leases = acquireLeases(set, s, l.remote)
		}
	}
	l.shared = lease.Acquire(set, key, func() *shared {
		idle := func(s *slot, now time.Duration) bool {
			c := s.cell.Load()
			return c == nil || c.Idle(now)
		}
		return &shared{began: time.Now(), states: keyed.NewTable(s.MaxKeys, nil, idle).Linger(linger)}
	})
	hold(set, key, s.MaxKeys, l.shared.states.Resize)
	l.shared.mu.Lock()
	defer l.shared.mu.Unlock()
	l.shared.acquired++
	l.sequence = l.shared.acquired
	l.plan = newPlan(s, l.shared.states.Key)
	return l
}

// Take lets cost, which is at least 1, through for a key, or takes nothing. A tier
// that the limit does not have is none. What may wait for a store does so by x. Once the
// store is released, for exchanges that a reload overtakes, this instance's share decides: that
// is no outage.
func (l *Limit) Take(x Waiter, key, tier string, cost int64) Decision {
	if !l.settled.Load() {
		l.settle()
	}
	p := l.shared.ruling.Load()
	t := &p.base
	if tier != "" {
		if own, ok := p.tiers[tier]; ok {
			t = own
		}
	}
	if l.remote == nil {
		return l.shared.take(t, t.rule, key, cost)
	}
	if v, from, ok := l.ask(x, t, key, cost); ok {
		from.rule, from.cost = t, cost
		return Decision{Verdict: v, taken: from}
	}
	if l.onFailure != FailLocal && !l.remote.released.Load() {
		return Decision{Verdict: resilience.Verdict{Allowed: l.onFailure == FailAllow}, StoreFailed: true, Unknown: true}
	}
	d := l.shared.take(t, t.share(l.remote.instances.Load()), key, cost)
	d.StoreFailed = true
	return d
}

// ask lets the store decide, now or by what it has granted before.
func (l *Limit) ask(x Waiter, t *tierRule, key string, cost int64) (v resilience.Verdict, from taken, ok bool) {
	switch {
	case l.remote.released.Load():
		return v, from, false
	case l.leases != nil:
		return l.leases.take(x, t, key, cost)
	case l.remote.down.Load():
		return v, from, false
	}
	return await(x, func() (resilience.Verdict, taken, bool) { return l.remote.take(t, key, cost) })
}

// await lets a decision wait for the store.
func await(x Waiter, decide func() (resilience.Verdict, taken, bool)) (v resilience.Verdict, from taken, ok bool) {
	x.Wait(func() { v, from, ok = decide() })
	return v, from, ok
}

// take decides in memory, by a rule of a tier.
func (s *shared) take(t *tierRule, by Rule, key string, cost int64) Decision {
	now := time.Since(s.began)
	state := s.states.Get(s.states.Key(key)^t.salt, now).under(by, now)
	return Decision{Verdict: state.Take(now, cost), taken: taken{rule: t, cost: cost, state: state, at: now}}
}

// settle makes the plan the one that rules, unless a later one does. One that says the
// same leaves it, so that no state has to change.
func (l *Limit) settle() {
	s := l.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if ruling := s.ruling.Load(); l.sequence > s.settled {
		s.settled = l.sequence
		if ruling == nil || ruling.text != l.plan.text {
			s.ruling.Store(l.plan)
		}
	}
	l.settled.Store(true)
}

// under returns the state of the slot under a rule. Whoever is late with another rule
// takes from what is left over; that is lost, once.
func (s *slot) under(rule Rule, now time.Duration) State {
	for {
		c := s.cell.Load()
		if c != nil && c.rule == rule {
			return c.State
		}
		var next State
		if c == nil {
			next = rule.New()
		} else {
			next = rule.Adopt(c.State, now)
		}
		home := next.home()
		home.rule, home.State = rule, next
		if s.cell.CompareAndSwap(c, home) {
			return next
		}
	}
}

// Store tells of the store: whether it answers, and how many instances share it as
// last known. ok is false where the limit is kept in memory alone.
func (l *Limit) Store() (answers bool, instances int64, ok bool) {
	if l.remote == nil {
		return false, 0, false
	}
	return l.remote.answers(), l.remote.instances.Load(), true
}

// Keys returns how many keys the limit knows something of by itself, and how many it
// has forgotten because there were too many.
func (l *Limit) Keys() (held int, evicted int64) {
	held, evicted = l.shared.states.Len(), l.shared.states.Evicted()
	if l.leases != nil {
		held, evicted = max(held, l.leases.table.Len()), evicted+l.leases.table.Evicted()
	}
	return held, evicted
}
