// Package ratelimit holds rate limits: what they know of each key, and by which
// algorithm they decide. A limit outlives snapshots by its identity, with all it knows;
// a snapshot that changes its numbers changes no share of what is used up. It knows
// nothing of HTTP, nor where keys come from.
package ratelimit

import (
	"strconv"
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
	Strategy string // a name of Strategies
	Quota    resilience.Quota
	Tiers    []Tier // other quotas for some, each with states of its own
	MaxKeys  int    // past it those make room that were not asked for lately
}

// Tier is a quota with a name.
type Tier struct {
	Name  string
	Quota resilience.Quota
}

// Limit is a limit as one snapshot has it. It is safe for concurrent use.
type Limit struct {
	shared   *shared
	plan     *plan
	settled  atomic.Bool // the plan, or a later one, rules
	sequence uint64
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

// plan is the rules of a limit. It is immutable.
type plan struct {
	text  string // equal texts are equal rules
	rule  Rule
	tiers map[string]tier
}

type tier struct {
	rule Rule
	salt uint64 // tells its states from those of other tiers
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
	key := "rate limit\n" + s.Identity + "\n" + s.Strategy + "\n" + strconv.Itoa(s.MaxKeys)
	common := lease.Acquire(set, key, func() *shared {
		idle := func(s *slot, now time.Duration) bool {
			c := s.cell.Load()
			return c == nil || c.Idle(now)
		}
		return &shared{began: time.Now(), states: keyed.NewTable(s.MaxKeys, nil, idle)}
	})
	common.mu.Lock()
	defer common.mu.Unlock()
	common.acquired++
	l := &Limit{shared: common, sequence: common.acquired}
	strategy := StrategyNamed(s.Strategy)
	l.plan = &plan{text: model.Text([]any{s.Quota, s.Tiers}), rule: strategy.NewRule(s.Quota), tiers: map[string]tier{}}
	for _, t := range s.Tiers {
		l.plan.tiers[t.Name] = tier{strategy.NewRule(t.Quota), common.states.Key("tier " + t.Name)}
	}
	return l
}

// Take lets cost, which is at least 1, through for a key, or takes nothing. A tier
// that the limit does not have is none.
func (l *Limit) Take(key, tier string, cost int64) resilience.Verdict {
	s := l.shared
	if !l.settled.Load() {
		l.settle()
	}
	p, now := s.ruling.Load(), time.Since(s.began)
	rule, id := p.rule, s.states.Key(key)
	if tier != "" {
		if t, ok := p.tiers[tier]; ok {
			rule = t.rule
			id ^= t.salt
		}
	}
	return s.states.Get(id, now).under(rule, now).Take(now, cost)
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
		next := &cell{rule: rule}
		if c == nil {
			next.State = rule.New()
		} else {
			next.State = rule.Adopt(c.State, now)
		}
		if s.cell.CompareAndSwap(c, next) {
			return next.State
		}
	}
}

// Keys returns how many keys the limit knows something of, and how many it has
// forgotten because there were too many.
func (l *Limit) Keys() (held int, evicted int64) {
	return l.shared.states.Len(), l.shared.states.Evicted()
}
