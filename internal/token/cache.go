package token

import (
	"time"

	"sluice/internal/keyed"
)

const (
	// light is how many bytes of memory a token may take up to have one of a cache's
	// places. One that takes up to heavy has one of heavyShare times fewer places; one that
	// takes more has none. So there are at most 12 KiB for each place.
	light      = 8 << 10
	heavy      = 64 << 10
	heavyShare = 16
)

// Cache remembers tokens that were good, with what was made of them, until they expire, up
// to a number of them and of bytes. Nothing that was not verified ever gets into it. It is
// safe for concurrent use.
type Cache[T any] struct {
	light, heavy *keyed.Cache[remembered[T]]
	leeway       time.Duration
}

type remembered[T any] struct {
	verified *Verified
	value    T
}

// NewCache returns an empty cache for so many tokens. leeway is the verifier's.
func NewCache[T any](most int, leeway time.Duration) *Cache[T] {
	return &Cache[T]{keyed.NewCache[remembered[T]](most), keyed.NewCache[remembered[T]](most / heavyShare), leeway}
}

// Get returns what is remembered of a token. Whether it still is good is for Still to
// tell.
func (c *Cache[T]) Get(d *keyed.Digest, now time.Time) (verified *Verified, value T, ok bool) {
	got, ok := c.light.Get(d, now)
	if !ok {
		got, ok = c.heavy.Get(d, now)
	}
	return got.verified, got.value, ok
}

// Put remembers a token that is good at a time, unless it takes up too much memory: its
// claims, and size bytes of the value beside them.
func (c *Cache[T]) Put(d *keyed.Digest, verified *Verified, value T, size int, now time.Time) {
	cache := c.light
	switch size += weigh(verified.Claims); {
	case size > heavy:
		return
	case size > light:
		cache = c.heavy
	}
	cache.Put(d, remembered[T]{verified, value}, verified.expires.Add(c.leeway), now)
}

// Len is how many tokens are remembered.
func (c *Cache[T]) Len() int { return c.light.Len() + c.heavy.Len() }
