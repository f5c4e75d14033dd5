package keyed

import (
	"crypto/sha256"
	"sync/atomic"
	"time"
)

// Digest stands for a text, or for several that were made one: no two share one.
type Digest [sha256.Size]byte

// Cache remembers a value for each of many digests until a time, up to a number of them:
// those that were not asked for lately, and those whose time is over, make room. It is
// safe for use by any number of goroutines.
type Cache[T any] struct {
	table *Table[place[T]]
}

// place holds the value of one of the digests that share a key, which is a hash of a few
// bytes: the whole digest is in the entry, and is what counts.
type place[T any] struct{ entry atomic.Pointer[entry[T]] }

type entry[T any] struct {
	digest Digest
	until  time.Time // zero: for good
	value  T
}

// NewCache returns an empty cache for up to most values, at least one.
func NewCache[T any](most int) *Cache[T] {
	// The table is told seconds, which no time overflows.
	over := func(p *place[T], now time.Duration) bool {
		e := p.entry.Load()
		return e == nil || !e.until.IsZero() && int64(now) > e.until.Unix()
	}
	return &Cache[T]{NewTable(most, nil, over)}
}

func (c *Cache[T]) key(d *Digest) uint64 { return c.table.Key(string(d[:])) }

// Get returns the value of a digest, and whether there is one whose time is not over. It
// takes no lock and allocates nothing.
func (c *Cache[T]) Get(d *Digest, now time.Time) (value T, ok bool) {
	if p := c.table.Find(c.key(d)); p != nil {
		if e := p.entry.Load(); e != nil && e.digest == *d && (e.until.IsZero() || now.Before(e.until)) {
			return e.value, true
		}
	}
	return value, false
}

// Put remembers a value until a time; the zero time is for as long as there is room.
func (c *Cache[T]) Put(d *Digest, value T, until, now time.Time) {
	c.table.Get(c.key(d), time.Duration(now.Unix())).entry.Store(&entry[T]{*d, until, value})
}

// Len returns how many values there are, those included whose time is over.
func (c *Cache[T]) Len() int { return c.table.Len() }
