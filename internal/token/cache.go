package token

import (
	"time"

	"sluice/internal/keyed"
)

// Cache remembers tokens that were good, with what was made of them, until they expire, up
// to a number of them. Nothing that was not verified ever gets into it. It is safe for
// concurrent use.
type Cache[T any] struct {
	cache  *keyed.Cache[remembered[T]]
	leeway time.Duration
}

type remembered[T any] struct {
	verified *Verified
	value    T
}

// NewCache returns an empty cache for so many tokens. leeway is the verifier's.
func NewCache[T any](most int, leeway time.Duration) *Cache[T] {
	return &Cache[T]{keyed.NewCache[remembered[T]](most), leeway}
}

// Get returns what is remembered of a token. Whether it still is good is for Still to
// tell.
func (c *Cache[T]) Get(d *keyed.Digest, now time.Time) (verified *Verified, value T, ok bool) {
	got, ok := c.cache.Get(d, now)
	return got.verified, got.value, ok
}

// Put remembers a token that is good at a time.
func (c *Cache[T]) Put(d *keyed.Digest, verified *Verified, value T, now time.Time) {
	c.cache.Put(d, remembered[T]{verified, value}, verified.expires.Add(c.leeway), now)
}

// Len is how many tokens are remembered.
func (c *Cache[T]) Len() int { return c.cache.Len() }
