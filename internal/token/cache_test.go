package token

import (
	"crypto/sha256"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"sluice/internal/keyed"
)

func numbered(n int) keyed.Digest {
	var text [8]byte
	binary.BigEndian.PutUint64(text[:], uint64(n))
	return sha256.Sum256(text[:])
}

func TestCache(t *testing.T) {
	c := NewCache[int](100, 30*time.Second)
	end := &Verified{expires: now.Add(time.Minute)}
	one, two := numbered(1), numbered(2)
	if _, _, ok := c.Get(&one, now); ok || c.Len() != 0 {
		t.Error("a token was remembered that nobody put there")
	}
	c.Put(&one, end, 7, now)
	if verified, value, ok := c.Get(&one, now); !ok || verified != end || value != 7 {
		t.Error("a token was forgotten")
	}
	if _, _, ok := c.Get(&two, now); ok {
		t.Error("another token was found")
	}
}

// TestCacheEnds remembers a token for as long as a verifier could take it.
func TestCacheEnds(t *testing.T) {
	c, one := NewCache[int](100, 30*time.Second), numbered(1)
	c.Put(&one, &Verified{expires: now.Add(time.Minute)}, 7, now)
	if _, _, ok := c.Get(&one, now.Add(90*time.Second-1)); !ok {
		t.Error("a token was forgotten within the leeway")
	}
	if _, _, ok := c.Get(&one, now.Add(90*time.Second)); ok {
		t.Error("a token was remembered that has expired")
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
			c.Get(&hot, now)
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
	if _, _, ok := c.Get(&hot, now); !ok {
		t.Error("the token that was used all the time is forgotten")
	}
}
