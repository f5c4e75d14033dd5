package ratelimit

import (
	"crypto/rand"
	"sync/atomic"

	"sluice/internal/lease"
)

// presence is this process in all stores: it has one name, however many stores lead to
// one database.
type presence struct {
	id     string
	fleets atomic.Int64 // that live
}

func acquirePresence(set *lease.Set) *presence {
	return lease.Acquire(set, "rate limit instance", func() *presence { return &presence{id: rand.Text()} })
}
