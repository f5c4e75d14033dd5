package ratelimit

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
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

// decisionNumbers is how many numbers a decision is, and portionNumbers how many a portion.
const (
	decisionNumbers = 5
	portionNumbers  = 7
)

// take lets the store decide, once and within decisionTimeout. It fails at once while the
// server of the key is known not to answer. What is taken too late goes back.
func (r *remote) take(t *tierRule, key string, cost int64) (v resilience.Verdict, from taken, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), decisionTimeout)
	defer cancel()
	name, q := r.key(key, t.name), &t.quota
	answer, ok := r.ask(ctx, &call{
		script: r.script, key: name, numbers: decisionNumbers, args: []any{q.Count, q.Per.Microseconds(), q.Burst}, last: cost,
		late: func(answer []int64) {
			if answer[0] == 1 {
				r.giveBack(context.Background(), name, cost, t.most, answer[4], answer[4]+answer[2], q.Count, q.Per.Microseconds())
			}
		},
	})
	if !ok {
		return v, from, false
	}
	micro := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	v = resilience.Verdict{Allowed: answer[0] == 1, Remaining: answer[1], Reset: micro(answer[2]), Retry: micro(answer[3])}
	return v, taken{name: name, stamp: answer[4]}, true
}

// giveBack gives back to the store what was not used, once and within decisionTimeout. more
// are the further arguments of the script. What the store does not take is lost: it was
// counted, and nobody has it.
func (r *remote) giveBack(ctx context.Context, name string, n, of, stamp int64, more ...int64) {
	ctx, cancel := context.WithTimeout(ctx, decisionTimeout)
	defer cancel()
	c := &call{script: r.refund, key: name, numbers: 1, args: []any{n, of}, last: stamp, aside: true}
	for _, each := range more {
		c.args, c.last = append(c.args, c.last), each
	}
	r.ask(ctx, c)
}

// key is where the state of a key is. What clients send is not to be read in the store,
// and could be of any length. All that belongs to a key is in one slot of a cluster.
func (r *remote) key(key, tier string) string {
	sum := sha256.Sum256([]byte(tier + "\n" + key))
	return r.prefix + hex.EncodeToString(sum[:16]) + "}"
}

// nameLength is how much of a limit's name its keys bear, in bytes.
const nameLength = 100

// prefixOf is what the keys of a limit begin with: its name, for people, and what tells
// it from all others. A brace in the name would part the keys of a cluster otherwise.
func prefixOf(identity, name string) string {
	sum := sha256.Sum256([]byte(identity))
	name = strings.ToValidUTF8(name[:min(len(name), nameLength)], "")
	return "sluice:limit:" + strings.NewReplacer("{", "(", "}", ")").Replace(name) + ":{" + hex.EncodeToString(sum[:8]) + "|"
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
