package ratelimit

import (
	"sync/atomic"
	"time"

	"sluice/internal/model"
	"sluice/internal/resilience"
)

// plan is the rules of a limit. It is immutable.
type plan struct {
	text  string // equal texts are equal rules
	base  tierRule
	tiers map[string]*tierRule
}

// tierRule is the rule of a tier, or of those who have none.
type tierRule struct {
	name     string
	quota    resilience.Quota
	strategy Strategy
	cost     int64         // at most
	most     int64         // that there ever is
	life     time.Duration // of what an instance has in hand and does not use
	rule     Rule
	salt     uint64 // tells its states from those of other tiers
	shares   atomic.Pointer[shareRule]
}

// shareRule is the rule of one of some instances.
type shareRule struct {
	instances int64
	rule      Rule
}

func newPlan(s *Settings, key func(string) uint64) *plan {
	p := &plan{text: model.Text([]any{s.Quota, s.Tiers, s.Cost}), tiers: map[string]*tierRule{}}
	p.base.init(s, "", s.Quota, 0)
	for _, t := range s.Tiers {
		p.tiers[t.Name] = new(tierRule)
		p.tiers[t.Name].init(s, t.Name, t.Quota, key("tier "+t.Name))
	}
	return p
}

func (t *tierRule) init(s *Settings, name string, q resilience.Quota, salt uint64) {
	t.name, t.quota, t.strategy, t.cost, t.salt = name, q, StrategyNamed(s.Strategy), s.Cost, salt
	t.rule = t.strategy.NewRule(q)
	t.most, t.life = q.Burst, leaseLife
	if t.strategy.Windowed {
		t.most, t.life = q.Count, min(leaseLife, q.Per/lifesInAWindow)
	}
}

// share is the rule of one of n instances.
func (t *tierRule) share(n int64) Rule {
	for {
		known := t.shares.Load()
		if known != nil && known.instances == n {
			return known.rule
		}
		made := &shareRule{n, t.strategy.NewRule(share(t.quota, n, t.cost, t.strategy.Windowed))}
		if t.shares.CompareAndSwap(known, made) {
			return made.rule
		}
	}
}
