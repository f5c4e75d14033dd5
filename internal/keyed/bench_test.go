package keyed

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"
)

// word is a state as small as a bucket.
type word struct{ atomic.Int64 }

func idleWord(w *word, now time.Duration) bool { return w.Load() <= int64(now) }

func BenchmarkGet(b *testing.B) {
	b.Run("one key", func(b *testing.B) {
		table := NewTable(100_000, nil, idleWord)
		key := table.Key("192.0.2.1")
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				table.Get(key, 0)
			}
		})
	})
	b.Run("a million keys", func(b *testing.B) {
		const keys = 1_000_000
		table := NewTable(keys, nil, idleWord)
		for i := range keys {
			table.Get(spread(i), 0)
		}
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			random := rand.New(rand.NewPCG(rand.Uint64(), 0))
			for pb.Next() {
				table.Get(spread(random.IntN(keys)), 0)
			}
		})
	})
	b.Run("flood", func(b *testing.B) {
		table := NewTable(100_000, nil, idleWord)
		var next atomic.Int64
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				i := int(next.Add(1))
				table.Get(spread(i), time.Duration(i)).Store(int64(i) + 1_000_000)
			}
		})
	})
	b.Run("key of a text", func(b *testing.B) {
		table := NewTable(100_000, nil, idleWord)
		for b.Loop() {
			table.Key("192.0.2.1")
		}
	})
}

func TestNoAllocation(t *testing.T) {
	table := NewTable(100_000, nil, idleWord)
	if n := testing.AllocsPerRun(100, func() { table.Get(table.Key("192.0.2.1"), 0) }); n != 0 {
		t.Errorf("%v allocations for a key that is there", n)
	}
}
