package keyed

import (
	"flag"
	"runtime"
	"testing"
	"time"
)

var floodKeys = flag.Int("flood", 200_000, "how many keys come by while memory is measured")

// TestFlood holds memory to what a full table takes, while many times as many keys come
// by: 100 bytes for each of the table's own at most.
func TestFlood(t *testing.T) {
	const most, each = 100_000, 100
	flood := *floodKeys
	table := NewTable(most, nil, idleWord)
	before := heap()
	for i := range flood {
		now := time.Duration(i)
		table.Get(spread(i), now).Store(int64(now) + 10*most)
		if i%(flood/5) == flood/5-1 {
			if grown := heap() - before; grown > most*each {
				t.Fatalf("%d KiB after %d keys, of which %d may stay", grown/1024, i+1, table.Len())
			}
		}
	}
	if table.Len() != most || table.Evicted() != int64(flood-most) {
		t.Errorf("%d states, %d evicted", table.Len(), table.Evicted())
	}
	t.Logf("%d KiB", (heap()-before)/1024)
	runtime.KeepAlive(table)
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC() //nolint:revive // what is counted is what is held, not what is left over
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
