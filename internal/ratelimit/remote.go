package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/lease"
	"sluice/internal/resilience"
)

// remote is the side of a limit that is kept in a store, where all instances see it.
type remote struct {
	*fleet
	script, refund *redis.Script
	prefix         string // of keys
}

func newRemote(set *lease.Set, s *Settings) *remote {
	strategy := StrategyNamed(s.Strategy)
	return &remote{
		fleet: acquireFleet(set, s.Store, s.Log), script: redis.NewScript(strategy.Script), refund: redis.NewScript(strategy.Refund),
		prefix: prefixOf(s.Identity+"\n"+s.Strategy, s.Name),
	}
}

// take lets the store decide, once and within decisionTimeout. It fails at once while the
// server of the key is known not to answer.
func (r *remote) take(t *tierRule, key string, cost int64) (v resilience.Verdict, from taken, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), decisionTimeout)
	defer cancel()
	name := r.key(key, t.name)
	server, ok := r.server(ctx, name)
	if !ok {
		return v, from, false
	}
	q := &t.quota
	answer, err := r.call(ctx, r.store.Once, r.script, name, 5, q.Count, q.Per.Microseconds(), q.Burst, cost)
	if err != nil {
		r.fail(server, name, err)
		return v, from, false
	}
	micro := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	v = resilience.Verdict{Allowed: answer[0] == 1, Remaining: answer[1], Reset: micro(answer[2]), Retry: micro(answer[3])}
	return v, taken{name: name, stamp: answer[4]}, true
}

// giveBack gives back to the store what was not used, once. more are the further
// arguments of the script. What the store does not take is lost: it was counted, and
// nobody has it.
func (r *remote) giveBack(ctx context.Context, name string, n, of, stamp int64, more ...any) {
	server, ok := r.server(ctx, name)
	if !ok {
		return
	}
	_, err := r.call(ctx, r.store.Once, r.refund, name, 1, append([]any{n, of, stamp}, more...)...)
	if err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		r.fail(server, name, err)
	}
}

// key is where the state of a key is. What clients send is not to be read in the store,
// and could be of any length. All that belongs to a key is in one slot of a cluster.
func (r *remote) key(key, tier string) string {
	sum := sha256.Sum256([]byte(tier + "\n" + key))
	return r.prefix + hex.EncodeToString(sum[:16]) + "}"
}

// prefixOf is what the keys of a limit begin with: its name, for people, and what tells
// it from all others.
func prefixOf(identity, name string) string {
	sum := sha256.Sum256([]byte(identity))
	return "sluice:limit:" + name + ":{" + hex.EncodeToString(sum[:8]) + "|"
}

// share is the part of a quota that one of n instances may let through by itself, and
// at least what the dearest request costs.
func share(q resilience.Quota, n, cost int64, windowed bool) resilience.Quota {
	part := q
	if windowed {
		part.Count = max(1, cost, q.Count/n)
		return part
	}
	part.Per *= time.Duration(n)
	part.Burst = max(1, cost, q.Burst/n)
	if part.Problem() != "" { // of so many instances that it comes to nothing
		return q
	}
	return part
}
