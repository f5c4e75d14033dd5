package ratelimit

import (
	"strconv"

	"sluice/internal/lease"
)

// size gives a table its number of keys once the snapshot serves that says so: until then
// that of the one before holds.
type size struct {
	resize func(most int)
	most   int
}

// Start resizes the table.
func (s *size) Start() error {
	s.resize(s.most)
	return nil
}

// hold has the table of what is held under a key take so many keys.
func hold(set *lease.Set, key string, most int, resize func(most int)) {
	lease.Acquire(set, key+"\nof "+strconv.Itoa(most)+" keys", func() *size { return &size{resize, most} })
}
