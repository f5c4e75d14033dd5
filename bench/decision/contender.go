//go:build linux

package main

import (
	"context"
	"sync"
	"time"

	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"golang.org/x/time/rate"

	"sluice/internal/lease"
	"sluice/internal/ratelimit"
	"sluice/internal/resilience"
)

// quota is what each key may have at once, and in an hour. It comes back so slowly that
// each key has something used up.
type quota int64

const (
	plenty quota = 1_000_000_000 // for one key
	few    quota = 1000          // for each of many
)

// contender is something that decides by key.
type contender interface {
	take(key string) bool
	end() error
}

// contenders are all that are measured, by name, Sluice's own first.
func contenders(keys int, q quota) ([]string, []contender, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(q), Interval: time.Hour, InitialAlloc: keys})
	if err != nil {
		return nil, nil, err
	}
	return []string{"Sluice", "`x/time/rate` in a `sync.Map`", "`sethvargo/go-limiter`"},
		[]contender{newSluice(keys, q), &timeRate{quota: q}, goLimiter{store}}, nil
}

// sluice is a limit as rate_limit has it.
type sluice struct {
	set   *lease.Set
	limit *ratelimit.Limit
}

func newSluice(keys int, q quota) *sluice {
	set := new(lease.Registry).NewSet()
	return &sluice{set, ratelimit.Acquire(set, &ratelimit.Settings{
		Identity: "it", Name: "it", Strategy: ratelimit.TokenBucket, Cost: 1, MaxKeys: keys,
		Quota: resilience.Quota{Count: int64(q), Per: time.Hour, Burst: int64(q)},
	})}
}

// Wait is never asked of one that is kept in memory.
func (s *sluice) Wait(block func()) { block() }

func (s *sluice) take(key string) bool { return s.limit.Take(s, key, "", 1).Allowed }

func (s *sluice) end() error {
	s.set.Release()
	return nil
}

// timeRate is a limiter for each key, which stays for ever.
type timeRate struct {
	quota    quota
	limiters sync.Map
}

func (r *timeRate) take(key string) bool {
	l, ok := r.limiters.Load(key)
	if !ok {
		l, _ = r.limiters.LoadOrStore(key, rate.NewLimiter(rate.Limit(float64(r.quota)/time.Hour.Seconds()), int(r.quota)))
	}
	limiter, ok := l.(*rate.Limiter)
	return ok && limiter.Allow()
}

func (r *timeRate) end() error { return nil }

type goLimiter struct{ store limiter.Store }

func (l goLimiter) take(key string) bool {
	_, _, _, ok, err := l.store.Take(context.Background(), key)
	return ok && err == nil
}

func (l goLimiter) end() error { return l.store.Close(context.Background()) }
