package limit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"sluice/internal/config"
	"sluice/internal/keyed"
	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/resilience"
)

// ConcurrencyOptions are the options of concurrency_limit.
type ConcurrencyOptions struct {
	Max          *int             `config:"max" doc:"how many exchanges there may be at once, from their beginning to the last byte of the response; it may be left out with adaptive" default:"any number"`
	Key          config.LimitKeys `config:"key" doc:"what it counts by: one, or a list that is one key together; a value that is missing counts as an empty one" default:"global, and upstream with adaptive"`
	IPv6Prefix   *int             `config:"ipv6_prefix" doc:"how many bits of a client's address of IPv6 count, from the first, so that all of a network are one; with the key client_ip" default:"128, the whole address"`
	Queue        int              `config:"queue" doc:"how many more may wait for a place, first come first served"`
	QueueTimeout config.Duration  `config:"queue_timeout" doc:"how long they may"`
	MaxKeys      int              `config:"max_keys" doc:"how many keys are remembered; past it those that were not seen lately are forgotten"`
	Adaptive     *GradientOptions `config:"adaptive" doc:"finds out by latency how many exchanges may wait for their responses at once"`
}

// GradientOptions are between what an adaptive limit stays.
type GradientOptions struct {
	Min     int  `config:"min" doc:"how many always may"`
	Max     *int `config:"max" doc:"how many may at most" default:"max of the limit, else 1000"`
	Initial *int `config:"initial" doc:"how many may at first" default:"20, or what of min and max is nearest"`
}

// SetDefaults sets the defaults.
func (o *GradientOptions) SetDefaults() { o.Min = 1 }

// Where an adaptive limit begins and ends unless something else is said.
const (
	initialAdaptive = 20
	mostAdaptive    = 1000
)

// concurrencyLimit is the settings of concurrency_limit.
type concurrencyLimit struct {
	Max, Queue   int // Max 0: any number
	QueueTimeout time.Duration
	Keys         []model.Key
	MaxKeys      int
	Adaptive     *resilience.GradientSettings // nil: not adaptive
}

// Concurrency is the kind concurrency_limit: past max exchanges at once, or as many as the
// destination bears, others wait in a queue, and past that or its time they are 503
// overloaded.
func Concurrency() pipeline.Kind {
	return pipeline.RoleOf(pipeline.NewKind("concurrency_limit", func() *ConcurrencyOptions {
		return &ConcurrencyOptions{QueueTimeout: config.Duration(time.Second), MaxKeys: maxKeys}
	}, validateConcurrency, buildConcurrency), concurrencyLimit.role)
}

func validateConcurrency(o *ConcurrencyOptions, report model.Report) concurrencyLimit {
	l := concurrencyLimit{
		Queue: o.Queue, QueueTimeout: time.Duration(o.QueueTimeout), MaxKeys: o.MaxKeys,
		Keys: []model.Key{{Source: model.KeyGlobal}},
	}
	least := func(key string, value, least int) {
		if value < least {
			report(key, fmt.Sprintf("%s must be at least %d, not %d", key, least, value), "")
		}
	}
	least("queue", o.Queue, 0)
	validateMaxKeys(o.MaxKeys, report)
	switch {
	case o.Max != nil:
		l.Max = *o.Max
		least("max", l.Max, 1)
	case o.Adaptive == nil:
		report("", "concurrency_limit needs the key max, or adaptive", "")
	}
	if o.Adaptive != nil {
		l.Keys[0].Source = model.KeyUpstream
		l.Adaptive = o.Adaptive.settings(l.Max, report)
	}
	if o.Key != nil {
		l.Keys = o.Key.Keys()
	}
	validatePrefix(l.Keys, o.IPv6Prefix, report)
	if o.QueueTimeout == 0 && o.Queue > 0 {
		report("queue_timeout", "with queue_timeout 0 nobody could wait in the queue", "raise it, or remove queue")
	}
	return l
}

// settings are what the options mean beside max of the limit, which is 0 where there is
// none.
func (o *GradientOptions) settings(limit int, report model.Report) *resilience.GradientSettings {
	s := resilience.GradientSettings{Min: o.Min, Max: mostAdaptive}
	if limit > 0 {
		s.Max = limit
	}
	if o.Max != nil {
		s.Max = *o.Max
	}
	switch {
	case s.Min < 1:
		report("adaptive.min", fmt.Sprintf("adaptive.min must be at least 1, not %d", s.Min), "")
	case limit > 0 && s.Max > limit:
		report("adaptive.max", fmt.Sprintf("adaptive.max is %d, and max lets no more than %d run", s.Max, limit), "lower it, or raise max")
	case s.Min > s.Max:
		report("adaptive.min", fmt.Sprintf("adaptive.min is %d, which is more than the most, %d", s.Min, s.Max), "lower it, or raise max")
	case o.Initial == nil:
		s.Initial = min(max(initialAdaptive, s.Min), s.Max)
	case *o.Initial < s.Min || *o.Initial > s.Max:
		report("adaptive.initial", fmt.Sprintf("adaptive.initial must be from %d to %d, not %d", s.Min, s.Max, *o.Initial), "")
	default:
		s.Initial = *o.Initial
	}
	return &s
}

// gates are those of a concurrency limit, by key, and the clock that they and their
// table go by.
type gates struct {
	began time.Time
	table *keyed.Table[gate]

	mu      sync.Mutex
	begun   int      // rules that have begun to serve
	serving []*rules // in the order in which they began; more than one within a reload
}

func (g *gates) now() time.Duration { return time.Since(g.began) }

// Start has the rules serve, which only exchanges notice.
func (r *rules) Start() error {
	g := r.gates
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begun++
	r.since = g.begun
	g.serving = append(g.serving, r)
	g.table.Resize(r.keys)
	return nil
}

// Release leaves the gates to the rules that serve still: who waits there need not wait for
// another exchange to bring them.
func (r *rules) Release() {
	g := r.gates
	g.mu.Lock()
	defer g.mu.Unlock()
	g.serving = slices.DeleteFunc(g.serving, func(s *rules) bool { return s == r })
	if len(g.serving) == 0 {
		return
	}
	last := g.serving[len(g.serving)-1]
	g.table.Range(func(_ uint64, gate *gate) bool {
		gate.follow(last)
		return true
	})
}

// concurrency is a concurrency limit in its place in a chain.
type concurrency struct {
	*concurrencyLimit
	*gates
	rules *rules
	named bool // keys are the gateway's own words, which people may see
}

func buildConcurrency(site *pipeline.Site, l concurrencyLimit) pipeline.Middleware {
	identity := "concurrency limit\n" + site.Identity() + "\n" + model.Text(l.Keys)
	c := &concurrency{concurrencyLimit: &l, named: own(l.Keys)}
	c.gates = lease.Acquire(site.Leases, identity, func() *gates {
		idle := func(g *gate, _ time.Duration) bool { return g.idle() }
		return &gates{began: time.Now(), table: keyed.NewTable(l.MaxKeys, nil, idle)}
	})
	c.rules = lease.Acquire(site.Leases, "rules of a "+identity+"\n"+model.Text([]any{l.Max, l.Queue, l.Adaptive, l.MaxKeys}), func() *rules {
		most := l.Max
		if most == 0 {
			most = math.MaxInt
		}
		return &rules{gates: c.gates, keys: l.MaxKeys, most: most, queue: l.Queue, adaptive: l.Adaptive}
	})
	name := site.Identity()
	site.Show(identity, func() pipeline.LimitStatus { return c.status(name) })
	return func(next pipeline.Handler) pipeline.Handler {
		return pipeline.HandlerFunc(func(x *pipeline.Exchange) error { return c.pass(x, next) })
	}
}

// own tells whether no client has a say in keys.
func own(keys []model.Key) bool {
	for i := range keys {
		switch keys[i].Source {
		case model.KeyUpstream, model.KeyRoute, model.KeyGlobal:
		default:
			return false
		}
	}
	return true
}

// pass serves an exchange once it has a place.
func (c *concurrency) pass(x *pipeline.Exchange, next pipeline.Handler) error {
	key, name := keyOf(x, c.Keys), ""
	if c.named {
		name = key
	}
	g := c.table.Get(c.table.Key(key), c.now())
	w, ok := g.enter(c.rules, name)
	switch {
	case !ok:
		return c.overloaded(errFull)
	case w != nil:
		if err := c.wait(x, w.turn); err != nil {
			g.abandon(w)
			return err
		}
	}
	start, begun := c.now(), false
	x.AtEnd(func() { g.leave(begun) })
	err := next.Serve(x)
	g.begun(start, c.now(), outcomeOf(x, err))
	begun = true
	return err
}

var (
	errFull      = errors.New("all places of the concurrency limit and of its queue are taken")
	errQueueTime = errors.New("no place of the concurrency limit came free in time")
)

// wait waits for the turn of an exchange, unless its client leaves or its time is over.
func (c *concurrency) wait(x *pipeline.Exchange, turn <-chan struct{}) (err error) {
	x.Wait(func() {
		timer := time.NewTimer(time.Until(x.WaitUntil(c.QueueTimeout)))
		defer timer.Stop()
		select {
		case <-turn:
		case <-x.Context().Done():
			err = context.Cause(x.Context())
		case <-timer.C:
			err = c.overloaded(errQueueTime)
		}
	})
	return err
}

// overloaded tells a client to come back after the time that a place may take.
func (c *concurrency) overloaded(cause error) error {
	err := pipeline.NewError(pipeline.Overloaded, cause)
	err.Detail = "Too many requests are being served."
	err.Fields.Put(message.RetryAfter, strconv.FormatInt(max(1, pipeline.Seconds(c.QueueTimeout)), 10))
	return err
}
