package ratelimit

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/store"
)

// The times of a fleet.
const (
	// decisionTimeout is how long a request waits for a store.
	decisionTimeout = 50 * time.Millisecond
	// heartbeat is how often an instance says that it is alive, and heartbeatLife how long that
	// counts.
	heartbeat     = 2 * time.Second
	heartbeatLife = 3 * heartbeat
	// probeEvery is how often a store that has failed is asked whether it is back.
	probeEvery = 500 * time.Millisecond
)

//go:embed script/instances.lua
var instancesText string

// fleet is the instances that share a store, as one of them sees it: which of its
// servers answer, and how many instances there are. Requests ask only those that are
// well.
type fleet struct {
	store *store.Store
	name  string // of the store
	log   *slog.Logger
	self  *presence

	// down says that there is nobody to ask: the one server has failed, or a cluster
	// tells of none.
	down        atomic.Bool
	mu          sync.Mutex                         // of changes of what has failed
	failed      atomic.Pointer[map[string]failure] // servers that have failed, by Shard
	outage      chan struct{}                      // has room for one: a server has failed
	contacts    sync.Map                           // of *contact, by Shard
	instances   atomic.Int64
	counted     bool      // this instance has been, by run alone
	forgotten   time.Time // when the store did not know it any more, by run alone
	countScript *redis.Script
	toldOfKey   atomic.Int64 // when, in nanoseconds of Unix
	released    atomic.Bool  // the store is about to be closed: nobody is asked any more

	last   bool // set before cancel: nothing else of this instance is in a store
	cancel context.CancelFunc
	done   chan struct{}
}

// failure is what a server has failed with, a script for a key, and when.
type failure struct {
	key    string
	script *redis.Script
	since  time.Time
}

func acquireFleet(set *lease.Set, m *model.Store, log *slog.Logger) *fleet {
	held, self := store.Acquire(set, m), acquirePresence(set)
	return lease.Acquire(set, "rate limit store\n"+m.Name+"\n"+model.Text(m.Redis), func() *fleet {
		f := &fleet{
			store: held, name: m.Name, log: log, self: self,
			outage: make(chan struct{}, 1), countScript: redis.NewScript(instancesText), done: make(chan struct{}),
		}
		f.instances.Store(1)
		f.failed.Store(&map[string]failure{})
		return f
	})
}

// Start begins to tell the store that this instance is alive.
func (f *fleet) Start() error {
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(context.Background())
	f.store.Keep(f.done)
	f.self.fleets.Add(1)
	go f.run(ctx)
	return nil
}

// Release tells the store that this instance is none any more, if it is in no other one,
// which may be the same database: else the others notice by themselves.
func (f *fleet) Release() {
	f.released.Store(true)
	f.last = f.self.fleets.Add(-1) == 0
	f.cancel()
}

func (f *fleet) run(ctx context.Context) {
	defer close(f.done)
	for ctx.Err() == nil {
		f.count(ctx)
		f.probe(ctx)
		wait := heartbeat
		if !f.answers() {
			wait = probeEvery
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-f.outage:
		}
		timer.Stop()
	}
	if !f.last {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), decisionTimeout)
	defer cancel()
	_ = f.store.Redis.ZRem(ctx, fleetKey, f.self.id).Err() // else the others notice by themselves
}

const fleetKey = "sluice:{instances}"

// count says that this instance is alive and takes how many are. It tells whether the
// server that keeps them is well.
func (f *fleet) count(ctx context.Context) {
	bound, by := time.Second, redis.Scripter(f.store.Redis)
	if !f.answers() {
		bound, by = decisionTimeout, f.store.Once
	}
	within, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	c := f.beat(fleetKey, by)
	n, err := f.wait(within, c)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		with, failed := (*f.failed.Load())[c.where()]
		if failed {
			f.distrust(c.where(), with, err)
		}
		f.fail(c, err)
	default:
		f.contact(c.where()).answered()
		f.instances.Store(f.living(n[0], n[1] == 1))
		with, failed := (*f.failed.Load())[""]
		switch {
		case failed && with.script != f.countScript:
			f.lookAt(ctx, "", with)
		case failed:
			f.heal("")
		}
	}
}

// beat is a call that says that this instance is alive.
func (f *fleet) beat(key string, by redis.Scripter) *call {
	return &call{
		script: f.countScript, by: by, key: key, numbers: 2, anyway: true,
		args: []any{f.self.id}, last: heartbeatLife.Milliseconds(),
	}
}

// living is how many instances there are when the store tells of n, and whether it knew of
// this one. A store that has lost what it knew hears of all again within a heartbeat: until
// they are dead by its word they are believed to live, so that nobody takes the shares of
// others.
func (f *fleet) living(n int64, known bool) int64 {
	if f.counted && !known {
		f.forgotten = time.Now()
	}
	f.counted = true
	if !f.forgotten.IsZero() && time.Since(f.forgotten) < heartbeatLife {
		n = max(n, f.instances.Load())
	}
	return max(1, n)
}

// probe asks the servers of a cluster that have failed whether they are back: that another
// server is well says nothing of it. By then another one may have the key, as a replica that
// took over.
func (f *fleet) probe(ctx context.Context) {
	failed := *f.failed.Load()
	if len(failed) > 0 {
		f.store.Refresh(ctx)
	}
	for server, with := range failed {
		if server != "" {
			f.lookAt(ctx, server, with)
		}
	}
}

// lookAt asks a server that has failed with a script for a key whether it is back: whether
// it runs that script.
func (f *fleet) lookAt(ctx context.Context, server string, with failure) {
	within, cancel := context.WithTimeout(ctx, decisionTimeout)
	defer cancel()
	c := f.beat(with.key+":probe", nil)
	if with.script != f.countScript {
		c.script, c.numbers = with.script, decisionNumbers
		c.args, c.last = []any{1_000_000, time.Second.Microseconds(), 1_000_000}, 1
	}
	_, err := f.wait(within, c)
	now, unknown := f.store.Shard(within, with.key)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		f.heal(server)
	case unknown == nil && now != server:
		f.replace(server, now, with)
	default:
		f.distrust(server, with, err)
	}
}

// distrust has a server that is looked for and does not answer be looked for by new
// connections: those from before it failed may lead nowhere, while it is well.
func (f *fleet) distrust(server string, with failure, err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		f.store.Distrust(server, with.since)
	}
}

// answers tells whether all servers do, as far as is known.
func (f *fleet) answers() bool { return len(*f.failed.Load()) == 0 }

// fail notes that a server cannot be used for a call. It is told once for each outage. None
// are that a store which was released does not answer, that too many ask at once for all
// to have a connection, and what is about the key alone.
func (f *fleet) fail(c *call, err error) {
	server, with := c.where(), failure{c.key, c.script, time.Now()}
	if f.released.Load() || errors.Is(err, redis.ErrPoolTimeout) || ofKey(err) {
		return
	}
	if c.aside {
		if said(err) {
			if f.tellsOfKey() {
				f.told(server).Warn("the store of rate limits does not take back what is not used", "key", c.key, "error", err)
			}
			return
		}
		with.script = f.countScript
	}
	if !f.replace(server, server, with) {
		return
	}
	f.told(server).Warn("the store of rate limits cannot be used: limits do as on_store_failure says", "error", err)
	select {
	case f.outage <- struct{}{}:
	default:
	}
}

// heal notes that a server can be used.
func (f *fleet) heal(server string) {
	f.mu.Lock()
	left := maps.Clone(*f.failed.Load())
	_, failed := left[server]
	if failed {
		delete(left, server)
		f.set(left)
	}
	f.mu.Unlock()
	if failed {
		f.told(server).Info("the store of rate limits can be used again", "instances", f.instances.Load())
	}
}

// replace notes that a server has failed in place of another, which may be itself.
// False: that was known.
func (f *fleet) replace(before, server string, with failure) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := (*f.failed.Load())[server]; known && before == server {
		return false
	}
	changed := maps.Clone(*f.failed.Load())
	delete(changed, before)
	changed[server] = with
	f.set(changed)
	return true
}

// set takes what has failed, a map that nobody changes any more; mu is held.
func (f *fleet) set(failed map[string]failure) {
	f.failed.Store(&failed)
	_, down := failed[""]
	f.down.Store(down)
}

// told is the log of what happens to a server.
func (f *fleet) told(server string) *slog.Logger {
	log := f.log.With("store", f.name)
	if server != "" {
		log = log.With("server", server)
	}
	return log
}
