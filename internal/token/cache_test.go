package token

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"
)

func numbered(n int) Digest {
	var text [8]byte
	binary.BigEndian.PutUint64(text[:], uint64(n))
	return sha256.Sum256(text[:])
}

func TestCache(t *testing.T) {
	c := NewCache[int](100, 30*time.Second)
	end := &Verified{expires: now.Add(time.Minute)}
	one, two := numbered(1), numbered(2)
	if _, _, ok := c.Get(&one); ok || c.Len() != 0 {
		t.Error("a token was remembered that nobody put there")
	}
	c.Put(&one, end, 7, now)
	if verified, value, ok := c.Get(&one); !ok || verified != end || value != 7 {
		t.Error("a token was forgotten")
	}
	if _, _, ok := c.Get(&two); ok {
		t.Error("another token was found")
	}
}

// TestCacheComparesAll has two tokens meet in one place of the table.
func TestCacheComparesAll(t *testing.T) {
	c := NewCache[int](100, 0)
	one, two := numbered(1), numbered(2)
	c.Put(&one, &Verified{expires: now.Add(time.Minute)}, 1, now)
	c.table.Find(c.key(&one)).entry.Load().digest = two
	if _, _, ok := c.Get(&one); ok {
		t.Error("a token was taken for another with the same key")
	}
}

// TestCacheIsBounded: any number of tokens takes no more memory than the cache may, and those
// that are used stay.
func TestCacheIsBounded(t *testing.T) {
	const most, tokens = 10_000, manyTokens
	c := NewCache[*[200]byte](most, time.Second)
	hot := numbered(-1)
	c.Put(&hot, &Verified{expires: now.Add(time.Hour)}, nil, now)
	memory := func() int64 {
		runtime.GC() //nolint:revive // what is counted is what is held, not what is left over
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	var full int64
	for i := range tokens {
		d := numbered(i)
		c.Put(&d, &Verified{expires: now.Add(time.Hour)}, new([200]byte), now)
		if i%1000 == 0 {
			c.Get(&hot)
		}
		if i == 2*most {
			full = memory()
		}
	}
	if c.Len() > most {
		t.Errorf("%d tokens are remembered", c.Len())
	}
	if grown := memory() - full; grown > 2<<20 {
		t.Errorf("memory grew by %d bytes after the cache was full", grown)
	}
	if _, _, ok := c.Get(&hot); !ok {
		t.Error("the token that was used all the time is forgotten")
	}
}

// TestExpiredGoFirst: those that have ended make room before others.
func TestExpiredGoFirst(t *testing.T) {
	c := NewCache[int](1000, 30*time.Second)
	for i := range 1000 {
		d, end := numbered(i), now.Add(time.Minute)
		if i%2 == 0 {
			end = now.Add(-time.Minute)
		}
		c.Put(&d, &Verified{expires: end}, 0, now)
	}
	for i := range 400 {
		d := numbered(1000 + i)
		c.Put(&d, &Verified{expires: now.Add(time.Minute)}, 0, now)
	}
	lost := 0
	for i := range 1000 {
		if d := numbered(i); i%2 == 1 {
			if _, _, ok := c.Get(&d); !ok {
				lost++
			}
		}
	}
	if lost > 20 { // it looks at a few places, not at all
		t.Errorf("%d tokens that are good were forgotten while others had expired", lost)
	}
}

func TestCacheOfMany(t *testing.T) {
	c := NewCache[string](64, 0)
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			for i := range 2000 {
				d := numbered(i % 200)
				if _, value, ok := c.Get(&d); ok && value != fmt.Sprint(i%200) {
					t.Errorf("token %d was taken for %s", i%200, value)
				}
				if i%8 == g {
					c.Put(&d, &Verified{expires: now.Add(time.Minute)}, fmt.Sprint(i%200), now)
				}
			}
		})
	}
	all.Wait()
}
