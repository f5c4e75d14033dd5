package ratelimit

import (
	"log/slog"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/redistest"
	"sluice/internal/resilience"
)

// here lets nothing wait elsewhere.
type here struct{}

func (here) Wait(block func()) { block() }

// TestFetchThatIsDue: while all fetchers are busy with portions of others a request that has
// nothing in hand asks the store by itself, though its portion waits for a fetcher.
func TestFetchThatIsDue(t *testing.T) {
	d := redistest.Start(t)
	set := new(lease.Registry).NewSet()
	l := Acquire(set, &Settings{
		Identity: "limit", Strategy: TokenBucket, Quota: resilience.Quota{Count: 100, Per: time.Second, Burst: 100}, Cost: 1, MaxKeys: 10,
		Store: &model.Store{Name: "main", Redis: model.RedisStore{Address: d.Address}}, Lease: true, OnFailure: FailDeny, Log: slog.New(slog.DiscardHandler),
	})
	// Nothing is started, so there are no fetchers at all.
	p := l.leases.holding(l.leases.table.Get(l.leases.table.Key("k"), 0), &l.plan.base, "k")
	redistest.Until(t, "the store decides", func() bool {
		p.fetch.Store(fetchDue)
		l.leases.ask(p)
		return !l.Take(here{}, "k", "", 1).StoreFailed
	})
	if p := l.leases.next(); p != nil {
		t.Error("what a request has fetched is left for a fetcher")
	}
	if p.fetch.Store(fetchDue); l.leases.next() != nil {
		t.Error("a portion is fetched that nobody has asked for")
	}
	l.leases.ask(p)
	if l.leases.next() != p || p.fetch.Load() != fetchRuns {
		t.Error("a fetcher finds nothing to do")
	}
	if err := l.remote.store.Redis.Close(); err != nil {
		t.Error(err)
	}
}
