package keyed

import (
	"crypto/sha256"
	"encoding/binary"
	"runtime"
	"sync"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func numbered(n int) *Digest {
	var text [8]byte
	binary.BigEndian.PutUint64(text[:], uint64(n))
	d := Digest(sha256.Sum256(text[:]))
	return &d
}

func TestCache(t *testing.T) {
	c := NewCache[int](100)
	if _, ok := c.Get(numbered(1), noon); ok || c.Len() != 0 {
		t.Error("a value was got that nobody put there")
	}
	c.Put(numbered(1), 7, noon.Add(time.Minute), noon)
	c.Put(numbered(2), 8, time.Time{}, noon)
	for _, get := range []struct {
		digest, want int // 0: nothing
		after        time.Duration
	}{{1, 7, 0}, {2, 8, 0}, {3, 0, 0}, {1, 7, time.Minute - 1}, {1, 0, time.Minute}, {2, 8, 1 << 60}} {
		if got, ok := c.Get(numbered(get.digest), noon.Add(get.after)); got != get.want || ok != (get.want != 0) {
			t.Errorf("%d after %v: %d, %v", get.digest, get.after, got, ok)
		}
	}
	c.Put(numbered(1), 9, noon.Add(time.Hour), noon)
	if got, _ := c.Get(numbered(1), noon.Add(time.Minute)); got != 9 || c.Len() != 2 {
		t.Errorf("a value that was put again: %d; %d are there", got, c.Len())
	}
}

// TestCacheComparesAll has two digests meet in one place of the table.
func TestCacheComparesAll(t *testing.T) {
	c := NewCache[int](100)
	c.Put(numbered(1), 1, noon.Add(time.Minute), noon)
	c.table.Find(c.key(numbered(1))).entry.Load().digest = *numbered(2)
	if _, ok := c.Get(numbered(1), noon); ok {
		t.Error("a value was taken for that of another digest with the same key")
	}
}

// TestCacheIsBounded: any number of values takes no more memory than the cache may, and
// those that are used stay.
func TestCacheIsBounded(t *testing.T) {
	const most = 10_000
	c := NewCache[*[200]byte](most)
	c.Put(numbered(-1), nil, noon.Add(time.Hour), noon)
	memory := func() int64 {
		runtime.GC() //nolint:revive // what is counted is what is held, not what is left over
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	var full int64
	for i := range 6 * most {
		c.Put(numbered(i), new([200]byte), noon.Add(time.Hour), noon)
		if i%1000 == 0 {
			c.Get(numbered(-1), noon)
		}
		if i == 2*most {
			full = memory()
		}
	}
	if c.Len() != most {
		t.Errorf("%d values are remembered", c.Len())
	}
	if grown := memory() - full; grown > 2<<20 {
		t.Errorf("memory grew by %d bytes after the cache was full", grown)
	}
	if _, ok := c.Get(numbered(-1), noon); !ok {
		t.Error("the value that was used all the time is forgotten")
	}
}

// TestOverGoFirst: those whose time is over make room before others.
func TestOverGoFirst(t *testing.T) {
	c := NewCache[int](1000)
	for i := range 1000 {
		end := noon.Add(time.Minute)
		if i%2 == 0 {
			end = noon.Add(-time.Minute)
		}
		c.Put(numbered(i), 0, end, noon)
	}
	for i := range 400 {
		c.Put(numbered(1000+i), 0, noon.Add(time.Minute), noon)
	}
	lost := 0
	for i := 1; i < 1000; i += 2 {
		if _, ok := c.Get(numbered(i), noon); !ok {
			lost++
		}
	}
	if lost > 20 { // it looks at a few places, not at all
		t.Errorf("%d values were forgotten while the time of others was over", lost)
	}
}

func TestCacheOfMany(t *testing.T) {
	c := NewCache[int](64)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 2000 {
				if value, ok := c.Get(numbered(i%200), noon); ok && value != i%200 {
					t.Errorf("the value of %d is %d", i%200, value)
				}
				if i%8 == g {
					c.Put(numbered(i%200), i%200, noon.Add(time.Minute), noon)
				}
			}
		})
	}
	all.Wait()
}
