package resilience

import (
	"slices"
	"time"
)

// Fitted returns a bucket of another filling that is as full as this one, as a share.
// This one stays as it is, for whoever still has the other filling.
func (b *Bucket) Fitted(from, to *Filling, now time.Duration) *Bucket {
	next := new(Bucket)
	next.full.Store(b.full.Load())
	next.Refit(from, to, now)
	return next
}

// Fitted returns a ring of another quota that is as full as this one, as Refit has it.
// This one stays as it is, for whoever still has the other quota.
func (r *Ring) Fitted(from, to *Quota, now time.Duration) *Ring {
	next := new(Ring)
	r.mu.Lock()
	next.groups, next.first, next.used, next.total = slices.Clone(r.groups), r.first, r.used, r.total
	r.mu.Unlock()
	next.Refit(from, to, now)
	return next
}
