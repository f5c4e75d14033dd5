package ratelimit_test

import (
	"fmt"
	"testing"
	"time"

	"sluice/internal/ratelimit"
	"sluice/internal/redistest"
)

// TestForeignKey: what is not a limit's in the place of a key is deleted, and is no outage
// of the store.
func TestForeignKey(t *testing.T) {
	for _, strategy := range ratelimit.Strategies() {
		for _, leased := range []bool{false, true} {
			for _, garbage := range [][]any{{"SET", "x"}, {"HSET", "left", "x", "at", "y", "of", "z"}, {"RPUSH", "x y"}, {"SADD", "x"}} {
				t.Run(fmt.Sprint(strategy.Name, leased, garbage[0]), func(t *testing.T) {
					d := newDatabase(t)
					s := common(strategy.Name, quota(10, time.Hour, 10))
					s.Lease = leased
					log := new(logged)
					l := d.instance(t, s, log)
					decided(t, l, "k", 1)
					keys, ok := d.Must("KEYS", "sluice:limit:*").([]any)
					if !ok || len(keys) != 1 {
						t.Fatalf("the store has %v", keys)
					}
					d.Must("DEL", keys[0])
					d.Must(append([]any{garbage[0], keys[0]}, garbage[1:]...)...)
					d.Must("DEL", "sluice:{instances}")
					d.Must("SET", "sluice:{instances}", "x")
					v := decided(t, l, "k", 1)
					if !v.Allowed {
						t.Errorf("a key that begins anew: %+v", v)
					}
					redistest.Until(t, "the instance has told again that it lives", func() bool { return d.Must("TYPE", "sluice:{instances}") == "zset" })
					if outages := log.refusals(); outages > 0 {
						t.Errorf("%d outages are told: %s", outages, log.String())
					}
					if told := log.Count("not theirs"); told != 1 {
						t.Errorf("it is told %d times", told)
					}
				})
			}
		}
	}
}

// TestFullStore is an outage, though each request is answered.
func TestFullStore(t *testing.T) {
	d := newDatabase(t)
	log := new(logged)
	l := d.instance(t, common(ratelimit.TokenBucket, quota(10, time.Hour, 10)), log)
	decided(t, l, "k", 1)
	d.Must("CONFIG", "SET", "maxmemory", 1)
	redistest.Until(t, "the outage is noticed", func() bool { return l.Take(nobody{}, "k", "", 1).StoreFailed })
	redistest.Until(t, "the outage is told once, and why", func() bool { return log.refusals() == 1 && log.Count("OOM") == 1 })
	d.Must("CONFIG", "SET", "maxmemory", 0)
	decided(t, l, "k", 1)
}
