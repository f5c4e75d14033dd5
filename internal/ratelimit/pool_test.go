package ratelimit_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/ratelimit"
)

// TestPool: as many decisions at once as there are connections are made by a store that is
// far away; more than that wait for none, and are no outage.
func TestPool(t *testing.T) {
	d := newDatabase(t)
	const clients, each = 32, 10
	for _, c := range []struct {
		size  int
		fails bool
	}{{0, false}, {1, true}} {
		log := new(logged)
		s := common(ratelimit.TokenBucket, quota(1_000_000, time.Second, 1_000_000))
		l := instance(t, model.RedisStore{Address: far(t, d.Address, 10*time.Millisecond), PoolSize: c.size}, s, log)
		// The first opens connections; and a busy machine may take more than 50 ms for a
		// decision, which is an outage.
		for try := 1; ; try++ {
			decided(t, l, "k", 1)
			outages := log.Count("cannot be used")
			var failed atomic.Int64
			var group sync.WaitGroup
			for range clients {
				group.Go(func() {
					for range each {
						if l.Take(nobody{}, "k", "", 1).StoreFailed {
							failed.Add(1)
						}
					}
				})
			}
			group.Wait()
			n := failed.Load()
			outages = log.Count("cannot be used") - outages
			t.Logf("with pool_size %d %d of %d decisions failed, %d outages", c.size, n, clients*each, outages)
			if outages == 0 && n > 0 == c.fails {
				break
			}
			if try == 20 {
				t.Errorf("with pool_size %d %d of %d decisions failed: %s", c.size, n, clients*each, log.String())
				break
			}
		}
	}
}
