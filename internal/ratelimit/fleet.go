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
	mu          sync.Mutex                        // of changes of what has failed
	failed      atomic.Pointer[map[string]string] // servers that have failed, by Shard, with a key of theirs
	outage      chan struct{}                     // has room for one: a server has failed
	instances   atomic.Int64
	countScript *redis.Script
	toldOfKey   atomic.Int64 // when, in nanoseconds of Unix
	released    atomic.Bool  // the store is about to be closed: nobody is asked any more

	last   bool // set before cancel: nothing else of this instance is in a store
	cancel context.CancelFunc
	done   chan struct{}
}

func acquireFleet(set *lease.Set, m *model.Store, log *slog.Logger) *fleet {
	held, self := store.Acquire(set, m), acquirePresence(set)
	return lease.Acquire(set, "rate limit store\n"+m.Name+"\n"+model.Text(m.Redis), func() *fleet {
		f := &fleet{
			store: held, name: m.Name, log: log, self: self,
			outage: make(chan struct{}, 1), countScript: redis.NewScript(instancesText), done: make(chan struct{}),
		}
		f.instances.Store(1)
		f.failed.Store(&map[string]string{})
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
// server that keeps them is well; one that has failed is back once it can serve
// requests.
func (f *fleet) count(ctx context.Context) {
	bound, by := time.Second, redis.Scripter(f.store.Redis)
	if !f.answers() {
		bound, by = decisionTimeout, f.store.Once
	}
	within, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	n, err := f.call(within, by, f.countScript, fleetKey, 1, f.self.id, heartbeatLife.Milliseconds())
	switch {
	case ctx.Err() != nil:
	case err != nil:
		server, fault := f.store.Shard(within, fleetKey)
		if fault != nil {
			server, err = "", fault
		}
		f.fail(server, fleetKey, err)
	default:
		f.instances.Store(max(1, n[0]))
		f.heal("")
	}
}

// probe asks the servers of a cluster that have failed whether they are back, each for
// a key that it has failed with: that another server is well says nothing of it. By
// then another one may have the key, as a replica that took over.
func (f *fleet) probe(ctx context.Context) {
	failed := *f.failed.Load()
	if len(failed) > 0 {
		f.store.Refresh(ctx)
	}
	for server, key := range failed {
		if server != "" {
			f.ask(ctx, server, key)
		}
	}
}

func (f *fleet) ask(ctx context.Context, server, key string) {
	within, cancel := context.WithTimeout(ctx, decisionTimeout)
	defer cancel()
	_, err := f.call(within, f.store.Once, f.countScript, key+":probe", 1, f.self.id, heartbeatLife.Milliseconds())
	now, unknown := f.store.Shard(within, key)
	switch {
	case ctx.Err() != nil:
	case err == nil:
		f.heal(server)
	case unknown == nil && now != server:
		f.replace(server, now, key)
	}
}

// server is the one that has a key. False: it is known not to answer, or cannot be
// told, and the store has failed.
func (f *fleet) server(ctx context.Context, key string) (server string, ok bool) {
	if f.down.Load() {
		return "", false
	}
	server, err := f.store.Shard(ctx, key)
	if err != nil {
		f.fail("", key, err)
		return "", false
	}
	_, failed := (*f.failed.Load())[server]
	return server, !failed
}

// answers tells whether all servers do, as far as is known.
func (f *fleet) answers() bool { return len(*f.failed.Load()) == 0 }

// fail notes that a server cannot be used for a key. It is told once for each outage. None
// are that a store which was released does not answer, that too many ask at once for all
// to have a connection, and what is about the key alone.
func (f *fleet) fail(server, key string, err error) {
	if f.released.Load() || errors.Is(err, redis.ErrPoolTimeout) || ofKey(err) || !f.replace(server, server, key) {
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
func (f *fleet) replace(before, server, key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := (*f.failed.Load())[server]; known && before == server {
		return false
	}
	changed := maps.Clone(*f.failed.Load())
	delete(changed, before)
	changed[server] = key
	f.set(changed)
	return true
}

// set takes what has failed, a map that nobody changes any more; mu is held.
func (f *fleet) set(failed map[string]string) {
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
