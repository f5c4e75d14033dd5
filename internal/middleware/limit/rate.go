package limit

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"sluice/internal/config"
	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/ratelimit"
	"sluice/internal/resilience"
)

// RateOptions are the options of rate_limit.
type RateOptions struct {
	Name       string                  `config:"name" doc:"what clients and metrics call it" default:"the name of the middleware, or its place"`
	Rate       config.Rate             `config:"rate,required" doc:"how much is let through"`
	Burst      *int64                  `config:"burst" doc:"how much of it at once, with token_bucket" default:"the number of rate"`
	Algorithm  string                  `config:"algorithm" enum:"token_bucket|sliding_window" doc:"token_bucket lets burst through at once and rate on and on; sliding_window never more than rate in any time of its unit"`
	Key        config.LimitKeys        `config:"key" doc:"what it counts by: one, or a list that is one key together; a value that is missing counts as an empty one" default:"client_ip"`
	IPv6Prefix *int                    `config:"ipv6_prefix" doc:"how many bits of a client's address of IPv6 count, from the first, so that all of a network are one; with the key client_ip" default:"128, the whole address"`
	Cost       int64                   `config:"cost" doc:"how much a request takes"`
	Tiers      config.Map[TierOptions] `config:"tiers" doc:"other numbers for some, by name"`
	TierBy     *config.LimitKey        `config:"tier_by" doc:"what names the tier of a request; one that is not among tiers has the numbers above" default:"the tier of the consumer"`
	Store      config.StoreName        `config:"store" doc:"where what is used up is kept: memory, or a store that all instances share" default:"memory"`
	Sync       string                  `config:"sync" enum:"exact|lease" doc:"with a store: exact, each decision is the store's; lease, each instance takes portions of what is there ahead of need, so that most decisions ask nobody"`
	OnFailure  string                  `config:"on_store_failure" enum:"local|allow|deny" doc:"while the store cannot be used: local, each instance enforces its share by itself; allow, all pass; deny, all are 503" default:"local"`
	Mode       string                  `config:"mode" enum:"enforce|shadow" doc:"whether what is too much is refused, or only counted"`
	MaxKeys    int                     `config:"max_keys" doc:"how many keys are remembered; past it those that were not seen lately are forgotten"`
	Adaptive   *AdaptiveRateOptions    `config:"adaptive" doc:"lets what is usual through, not all that rate would" default:"it does not"`
}

// TierOptions are the numbers of a tier.
type TierOptions struct {
	Rate  config.Rate `config:"rate,required" doc:"how much is let through"`
	Burst *int64      `config:"burst" doc:"how much of it at once, with token_bucket" default:"the number of rate"`
}

// Whether what is too much is refused.
const (
	modeEnforce = "enforce"
	modeShadow  = "shadow"
)

// How a limit with a store keeps to it.
const (
	syncExact = "exact"
	syncLease = "lease"
)

// maxKeys is how many keys a limit remembers where nothing is said.
const maxKeys = 100_000

// rateLimit is the settings of rate_limit.
type rateLimit struct {
	Name     string // may be empty
	Strategy string
	Quota    resilience.Quota
	Keys     []model.Key
	Cost     int64
	Tiers    []ratelimit.Tier
	TierBy   *model.Key // nil: the consumer's
	Shadow   bool
	MaxKeys  int

	Store     string // a name of Gateway.Stores; empty: memory
	Lease     bool
	OnFailure string
	Adaptive  *ratelimit.AdaptiveSettings // nil: it is not
}

// Rate is the kind rate_limit: what comes too fast is 429 rate_limited. What is known
// of each key outlives reloads.
func Rate() pipeline.Kind {
	return pipeline.RoleOf(pipeline.NewKind("rate_limit", func() *RateOptions {
		return &RateOptions{Algorithm: ratelimit.TokenBucket, Cost: 1, Store: config.Memory, Sync: syncExact, Mode: modeEnforce, MaxKeys: maxKeys}
	}, validateRate, buildRate), rateLimit.role)
}

func validateRate(o *RateOptions, report model.Report) rateLimit {
	l := rateLimit{
		Name: o.Name, Strategy: o.Algorithm, Cost: o.Cost, Shadow: o.Mode == modeShadow, MaxKeys: o.MaxKeys,
		Keys: []model.Key{{Source: model.KeyClientIP}},
	}
	if o.Key != nil {
		l.Keys = o.Key.Keys()
	}
	validatePrefix(l.Keys, o.IPv6Prefix, report)
	if o.TierBy != nil {
		l.TierBy = &o.TierBy.Key
	}
	if o.Cost < 1 {
		report("cost", fmt.Sprintf("cost must be at least 1, not %d", o.Cost), "")
	}
	if o.TierBy != nil && len(o.Tiers) == 0 {
		report("tier_by", "tier_by names a tier, and there are no tiers", "define them under tiers, or remove it")
	}
	l.store(o, report)
	validateMaxKeys(o.MaxKeys, report)
	validateName(o.Name, report)
	faulty := false
	l.Quota = l.quota("", o.Rate, o.Burst, func(key, message, hint string) {
		faulty = true
		report(key, message, hint)
	})
	if !faulty { // else there is no rate that floor and ceiling could be held to
		l.Adaptive = validateAdaptive(o.Adaptive, l.Quota, report)
	}
	for _, t := range o.Tiers {
		if t.Key == "" {
			report("tiers", "a tier has an empty name, as who has none", "give it a name, or write its numbers as those of the limit")
		}
		l.Tiers = append(l.Tiers, ratelimit.Tier{Name: t.Key, Quota: l.quota("tiers."+t.Key+".", t.Value.Rate, t.Value.Burst, report)})
	}
	return l
}

// store takes where the limit is kept.
func (l *rateLimit) store(o *RateOptions, report model.Report) {
	switch {
	case o.Store == config.Memory && o.Sync == syncLease:
		report("sync", "sync: lease needs a store", "remove it, or name a store with store")
	case o.Store == config.Memory && o.OnFailure != "":
		report("on_store_failure", "on_store_failure needs a store", "remove it, or name a store with store")
	}
	if o.Store == config.Memory {
		return
	}
	l.Lease = o.Sync == syncLease
	if l.Store, l.OnFailure = string(o.Store), o.OnFailure; l.OnFailure == "" {
		l.OnFailure = ratelimit.FailLocal
	}
}

// quota is one of the limit's own, at a path of its options.
func (l *rateLimit) quota(path string, rate config.Rate, burst *int64, report model.Report) resilience.Quota {
	windowed := ratelimit.StrategyNamed(l.Strategy).Windowed
	if windowed && burst != nil {
		report(path+"burst", "a "+l.Strategy+" has no burst: all of its rate may come at once", "remove burst")
		burst = nil
	}
	q := config.LimitQuota(rate, burst, func(key, message, hint string) { report(path+key, message, hint) })
	if l.Cost > q.Burst {
		report(path+"rate", fmt.Sprintf("each request costs %d, and never more than %d can be there", l.Cost, q.Burst), "raise burst, or rate")
	}
	return q
}

// rateStep is a rate limit in its place in a chain.
type rateStep struct {
	rateLimit
	*limiter
}

func buildRate(site *pipeline.Site, l rateLimit) pipeline.Middleware {
	settings := ratelimit.Settings{
		Identity: l.identity(site) + "\n" + model.Text(l.Keys), Name: l.Name, Strategy: l.Strategy,
		Quota: l.Quota, Tiers: l.Tiers, Cost: l.Cost, MaxKeys: l.MaxKeys, Lease: l.Lease, OnFailure: l.OnFailure, Log: site.Log,
	}
	if settings.Name == "" {
		settings.Name = site.Identity()
	}
	for _, m := range site.Gateway.Stores {
		if m.Name == l.Store {
			settings.Store = m
		}
	}
	g := &rateStep{l, newLimiter(site.Leases, &settings, site.Decisions)}
	g.adaptive = newAdaptiveRate(site, &settings, l.Adaptive)
	mode := modeEnforce
	if l.Shadow {
		mode = modeShadow
	}
	site.Show(settings.Identity, func() pipeline.LimitStatus {
		status := g.status(&settings, "rate_limit", mode)
		showKeys(&status, l.Keys)
		return status
	})
	return g.middleware
}

// identity names the limit over reloads: as the middleware is called, else by its own name
// and the route, or global, else by its place.
func (l *rateLimit) identity(site *pipeline.Site) string {
	own := site.Step
	if l.Name == "" || own.Name != "" {
		return site.Identity()
	}
	number := 0
	for i := range site.Route.Chain {
		step := &site.Route.Chain[i]
		if other, ok := step.Settings.(rateLimit); ok && other.Name == l.Name && step.Name == "" && step.From == own.From && step.Place < own.Place {
			number++
		}
	}
	return site.Named(l.Name, number)
}

func (g *rateStep) middleware(next pipeline.Handler) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		p, err := g.admit(x, keyOf(x, g.Keys), g.tier(x), g.Cost, g.Shadow)
		if err != nil {
			return err
		}
		if err = next.Serve(x); err != nil && p.decision.Allowed && refused(x, err) {
			g.giveBack(x, &p)
		}
		return err
	})
}

// refused tells whether a limit further in has refused an exchange, which costs nothing
// then. Once an endpoint was asked it has cost what it costs.
func refused(x *pipeline.Exchange, err error) bool {
	if x.Attempts > 0 {
		return false
	}
	switch pipeline.AsError(err).Word {
	case pipeline.RateLimited, pipeline.LimitUnavailable, pipeline.Overloaded:
		return true
	default:
		return false
	}
}

// tier is the name of the exchange's tier, empty where it has none.
func (g *rateStep) tier(x *pipeline.Exchange) string {
	switch {
	case len(g.Tiers) == 0:
	case g.TierBy != nil:
		name, _ := pipeline.KeyOf(x, g.TierBy)
		return name
	case x.Principal != nil:
		return x.Principal.Tier
	}
	return ""
}

// limiter decides by a limit, counts what it decides and tells clients of it.
type limiter struct {
	limit    *ratelimit.Limit
	adaptive *adaptiveRate // nil: it is not adaptive
	policy   *pipeline.Policy
	tiers    map[string]*pipeline.Policy

	allow, deny, shadow, failed func()
}

func newLimiter(set *lease.Set, s *ratelimit.Settings, decisions func(limit, decision string) func()) *limiter {
	l := &limiter{
		limit: ratelimit.Acquire(set, s), policy: policyOf(s.Name, s.Strategy, s.Quota), tiers: map[string]*pipeline.Policy{},
		allow: decisions(s.Name, "allow"), deny: decisions(s.Name, "deny"), shadow: decisions(s.Name, "shadow_deny"), failed: decisions(s.Name, "store_error"),
	}
	for _, t := range s.Tiers {
		l.tiers[t.Name] = policyOf(s.Name, s.Strategy, t.Quota)
	}
	return l
}

// status tells people how the limit is.
func (l *limiter) status(s *ratelimit.Settings, kind, mode string) pipeline.LimitStatus {
	numbers := func(q resilience.Quota) (rate string, burst int64) {
		if !ratelimit.StrategyNamed(s.Strategy).Windowed {
			burst = q.Burst
		}
		return config.Rate{Count: q.Count, Per: q.Per}.String(), burst
	}
	status := pipeline.LimitStatus{Limit: s.Name, Kind: kind, Algorithm: s.Strategy, Mode: mode}
	status.Rate, status.Burst = numbers(s.Quota)
	for _, t := range s.Tiers {
		rate, burst := numbers(t.Quota)
		status.Tiers = append(status.Tiers, pipeline.TierStatus{Tier: t.Name, Rate: rate, Burst: burst})
	}
	if s.Cost > 1 {
		status.Cost = s.Cost
	}
	status.Keys, status.Evicted = l.limit.Keys()
	status.AdaptiveRate = l.adaptive.status()
	if answers, instances, ok := l.limit.Store(); ok {
		status.Store = &pipeline.LimitStoreStatus{Name: s.Store.Name, Sync: syncExact, Answers: answers, Instances: instances, OnFailure: s.OnFailure}
		if s.Lease {
			status.Store.Sync = syncLease
		}
	}
	return status
}

// policyOf tells clients of a quota: what there is at most, and in which time all of it
// comes back.
func policyOf(name, strategy string, q resilience.Quota) *pipeline.Policy {
	if ratelimit.StrategyNamed(strategy).Windowed {
		return pipeline.NewPolicy(name, q.Count, q.Per)
	}
	return pipeline.NewPolicy(name, q.Burst, time.Duration(float64(q.Per)/float64(q.Count)*float64(q.Burst)))
}

var (
	errTooFast = errors.New("the limit has nothing left for this key")
	errUnknown = errors.New("the store of the limit cannot be used")
)

// passed is what an exchange that was let through has taken.
type passed struct {
	decision ratelimit.Decision
	adaptive ratelimit.AdaptiveDecision // of the adaptive rate, where there is one
	cost     int64
	policy   *pipeline.Policy // that the client is told of; nil: of none
}

// giveBack gives back what an exchange has taken, as it was refused further in.
func (l *limiter) giveBack(x *pipeline.Exchange, p *passed) {
	verdict := l.limit.Return(x, &p.decision)
	if l.adaptive != nil {
		verdict = p.tighter(verdict, p.adaptive.Return())
	}
	if p.policy != nil {
		x.Stand(pipeline.Standing{Policy: p.policy, Remaining: verdict.Remaining, Cost: p.cost, Reset: verdict.Reset, Returned: true})
	}
}

// admit lets an exchange through, or returns 429 rate_limited; where nobody can tell,
// 503 limit_unavailable.
func (l *limiter) admit(x *pipeline.Exchange, key, tier string, cost int64, shadow bool) (p passed, err error) {
	verdict, p := l.take(x, key, tier, cost)
	p.cost = cost
	if p.decision.StoreFailed {
		l.failed()
	}
	if shadow {
		if verdict.Allowed {
			l.allow()
		} else {
			l.shadow()
		}
		return p, nil
	}
	if p.decision.Unknown { // nothing is known that could be told
		if verdict.Allowed {
			l.allow()
			return p, nil
		}
		l.deny()
		return p, pipeline.NewError(pipeline.LimitUnavailable, errUnknown)
	}
	p.policy = l.policy
	if tier != "" {
		if own, ok := l.tiers[tier]; ok {
			p.policy = own
		}
	}
	x.Stand(pipeline.Standing{Policy: p.policy, Remaining: verdict.Remaining, Cost: cost, Reset: verdict.Reset, Denied: !verdict.Allowed})
	if verdict.Allowed {
		l.allow()
		return p, nil
	}
	l.deny()
	refusal := pipeline.NewError(pipeline.RateLimited, errTooFast)
	refusal.Fields.Put(message.RetryAfter, strconv.FormatInt(max(1, pipeline.Seconds(verdict.Retry)), 10))
	return p, refusal
}

// Upstream returns what admits exchanges to an upstream that has a rate limit: nil, or
// 429 rate_limited. Of the site it needs nothing of a chain.
func Upstream(site *pipeline.Site, m *model.Upstream) func(x *pipeline.Exchange) error {
	name := "upstream " + m.Name
	settings := ratelimit.Settings{
		Identity: name, Name: name, Strategy: ratelimit.TokenBucket, Cost: 1, MaxKeys: 1,
		Quota: resilience.Quota{Count: m.RateLimit.Count, Per: m.RateLimit.Per, Burst: m.RateLimit.Burst},
	}
	l := newLimiter(site.Leases, &settings, site.Decisions)
	site.Show(name, func() pipeline.LimitStatus { return l.status(&settings, "upstream", modeEnforce) })
	return func(x *pipeline.Exchange) error {
		_, err := l.admit(x, "", "", 1, false)
		return err
	}
}
