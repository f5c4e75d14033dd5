package external

import "time"

// Cache is a cache with texts as keys.
type Cache struct{ c *cache }

// NewCache makes one that remembers as many decisions.
func NewCache(most int) Cache { return Cache{newCache(most)} }

func digestOfText(text string) digest {
	h := newHash()
	h.text(text)
	return h.sum()
}

// Put remembers a decision.
func (c Cache) Put(key string, until time.Time) { c.c.put(digestOfText(key), &decision{}, until) }

// Has tells whether one is remembered.
func (c Cache) Has(key string, now time.Time) bool { return c.c.get(digestOfText(key), now) != nil }

// Len is how many are.
func (c Cache) Len() int { return len(c.c.entries) }
