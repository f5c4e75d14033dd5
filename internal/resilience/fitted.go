package resilience

import (
	"slices"
	"time"
)

// Fit makes a new bucket as full in its filling as another is in that one's, as a share.
// The other stays as it is, for whoever still has it.
func (b *Bucket) Fit(other *Bucket, from, to *Filling, now time.Duration) {
	b.full.Store(other.full.Load())
	b.Refit(from, to, now)
}

// Fit makes a new ring as full in its quota as another is in that one's, as Refit has it.
// The other stays as it is, for whoever still has it.
func (r *Ring) Fit(other *Ring, from, to *Quota, now time.Duration) {
	other.mu.Lock()
	r.groups, r.first, r.used, r.total = slices.Clone(other.groups), other.first, other.used, other.total
	other.mu.Unlock()
	r.Refit(from, to, now)
}
