package token

import (
	"sync/atomic"
	"time"

	"sluice/internal/keyed"
)

// Cache remembers tokens that were good, with what was made of them, up to a number of
// them: those that were not asked for lately, and those that have expired, make room.
// Nothing that was not verified ever gets into it. It is safe for concurrent use.
type Cache[T any] struct {
	table *keyed.Table[place[T]]
}

// place holds one of the tokens that share a key, which is a hash of a few bytes: the
// whole digest is in the entry, and is what counts.
type place[T any] struct{ entry atomic.Pointer[entry[T]] }

type entry[T any] struct {
	digest   Digest
	verified *Verified
	value    T
}

// NewCache returns an empty cache for so many tokens. leeway is the verifier's.
func NewCache[T any](most int, leeway time.Duration) *Cache[T] {
	// The table is told seconds, which no time that a token can name overflows.
	expired := func(p *place[T], now time.Duration) bool {
		e := p.entry.Load()
		return e == nil || int64(now) >= e.verified.expires.Add(leeway).Unix()
	}
	return &Cache[T]{keyed.NewTable(most, nil, expired)}
}

func (c *Cache[T]) key(d *Digest) uint64 { return c.table.Key(string(d[:])) }

// Get returns what is remembered of a token. Whether it still is good is for Still to
// tell.
func (c *Cache[T]) Get(d *Digest) (verified *Verified, value T, ok bool) {
	if p := c.table.Find(c.key(d)); p != nil {
		if e := p.entry.Load(); e != nil && e.digest == *d {
			return e.verified, e.value, true
		}
	}
	return nil, value, false
}

// Put remembers a token that is good at a time.
func (c *Cache[T]) Put(d *Digest, verified *Verified, value T, now time.Time) {
	c.table.Get(c.key(d), time.Duration(now.Unix())).entry.Store(&entry[T]{*d, verified, value})
}

// Len is how many tokens are remembered.
func (c *Cache[T]) Len() int { return c.table.Len() }
