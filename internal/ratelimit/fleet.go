package ratelimit

import (
	"context"
	"crypto/rand"
	_ "embed" // the scripts
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/store"
)

// The times of a fleet.
const (
	// patience is how long a request waits for a store.
	patience = 50 * time.Millisecond
	// beat is how often an instance says that it is alive, and alive how long that
	// counts.
	beat  = 2 * time.Second
	alive = 3 * beat
	// knock is how often a store that has failed is asked whether it is back.
	knock = 500 * time.Millisecond
)

//go:embed script/instances.lua
var instancesText string

// fleet is the instances that share a store, as one of them sees it: whether the store
// answers, and how many instances there are. Requests ask the store only while it is
// well.
type fleet struct {
	store *store.Store
	name  string // of the store
	log   *slog.Logger
	id    string

	down      atomic.Bool
	failed    chan struct{} // has room for one: the store has failed
	instances atomic.Int64
	census    *redis.Script

	cancel context.CancelFunc
	done   chan struct{}
}

func acquireFleet(set *lease.Set, m *model.Store, log *slog.Logger) *fleet {
	held := store.Acquire(set, m)
	return lease.Acquire(set, "rate limit store\n"+m.Name+"\n"+model.Text(m.Redis), func() *fleet {
		f := &fleet{
			store: held, name: m.Name, log: log, id: rand.Text(),
			failed: make(chan struct{}, 1), census: redis.NewScript(instancesText), done: make(chan struct{}),
		}
		f.instances.Store(1)
		return f
	})
}

// Start begins to tell the store that this instance is alive.
func (f *fleet) Start() error {
	var ctx context.Context
	ctx, f.cancel = context.WithCancel(context.Background())
	f.store.Keep(f.done)
	go f.run(ctx)
	return nil
}

// Release tells the store that this instance is none any more.
func (f *fleet) Release() { f.cancel() }

func (f *fleet) run(ctx context.Context) {
	defer close(f.done)
	for ctx.Err() == nil {
		wait := beat
		bound := time.Second
		if f.down.Load() {
			wait, bound = knock, patience // it is back once it can serve requests
		}
		f.count(ctx, bound)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-f.failed:
		}
		timer.Stop()
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	_ = f.store.Redis.ZRem(ctx, fleetKey, f.id).Err() // else the others notice by themselves
}

const fleetKey = "sluice:{instances}"

// count says that this instance is alive and takes how many are. It tells whether the
// store is well.
func (f *fleet) count(ctx context.Context, bound time.Duration) {
	within, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	n, err := f.census.Run(within, f.store.Redis, []string{fleetKey}, f.id, alive.Milliseconds()).Int64()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		f.fail(err)
	default:
		f.instances.Store(max(1, n))
		if f.down.CompareAndSwap(true, false) {
			f.log.Info("the store of rate limits answers again", "store", f.name, "instances", n)
		}
	}
}

// fail notes that the store does not answer. It is told once for each outage.
func (f *fleet) fail(err error) {
	if !f.down.CompareAndSwap(false, true) {
		return
	}
	f.log.Warn("the store of rate limits does not answer: limits do as on_store_failure says", "store", f.name, "error", err)
	select {
	case f.failed <- struct{}{}:
	default:
	}
}
