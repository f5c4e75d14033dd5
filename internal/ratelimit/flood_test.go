package ratelimit_test

import (
	"flag"
	"runtime"
	"strconv"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/ratelimit"
)

var floodKeys = flag.Int("flood", 20_000, "how many keys come by while memory is measured")

// TestFlood holds the memory of a limit to what its keys may take, while many times as
// many come by, whichever algorithm: a client that invents keys cannot make it grow.
func TestFlood(t *testing.T) {
	const most = 5_000
	for _, test := range []struct {
		strategy string
		each     int64 // bytes, at most, of each key that is remembered
	}{{ratelimit.TokenBucket, 200}, {ratelimit.SlidingWindow, 400}} {
		t.Run(test.strategy, func(t *testing.T) {
			set := new(lease.Registry).NewSet()
			defer set.Release()
			s := settings(quota(10, time.Hour, 10))
			s.Strategy, s.MaxKeys = test.strategy, most
			before := heap()
			l := ratelimit.Acquire(set, s)
			for i := range *floodKeys {
				if !l.Take(nobody{}, strconv.Itoa(i), "", 1).Allowed {
					t.Fatalf("key %d, which is new, is refused", i)
				}
			}
			held, evicted := l.Keys()
			grown := heap() - before
			t.Logf("%d KiB after %d keys, of which %d are held", grown/1024, *floodKeys, held)
			if held != most || evicted != int64(*floodKeys-most) || grown > most*test.each {
				t.Errorf("%d keys are held, %d evicted, in %d bytes: want %d, %d, in %d at most", held, evicted, grown, most, *floodKeys-most, most*test.each)
			}
			runtime.KeepAlive(l)
		})
	}
}

// TestFloodOfALease: a key that comes once costs one call of the store, and leaves
// nothing that has to go back.
func TestFloodOfALease(t *testing.T) {
	const most, perKey = 500, 2000
	d := newDatabase(t)
	keys := *floodKeys / 5
	s := leased(ratelimit.TokenBucket, 10)
	s.MaxKeys = most
	l := d.instance(t, s, new(logged))
	decided(t, l, "first", 1)
	before, calls := heap(), d.calls(t)
	failed := 0
	for i := range keys {
		if l.Take(nobody{}, strconv.Itoa(i), "", 1).StoreFailed {
			failed++
		}
	}
	grown := heap() - before
	calls = d.calls(t) - calls
	t.Logf("%d KiB and %d calls after %d keys, %d failed", grown/1024, calls, keys, failed)
	if grown > most*perKey || calls > keys+keys/20+10 {
		t.Errorf("%d keys took %d calls and %d bytes, want one each and %d", keys, calls, grown, most*perKey)
	}
	runtime.KeepAlive(l)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC() //nolint:revive // what is counted is what is held, not what is left over
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
