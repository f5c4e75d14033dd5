package resilience

import (
	"sync/atomic"
	"time"
)

// Bucket is a token bucket in one word, by the generic cell rate algorithm (ITU-T
// I.371, annex A): it holds the time at which the bucket is full again. The zero
// value is full. It takes no lock and allocates nothing.
//
// Times are durations since a beginning that all who use the bucket share, and
// which is not after the first of them. They may come out of order.
type Bucket struct{ full atomic.Int64 }

// BucketQuota is a quota as buckets need it.
type BucketQuota struct {
	Quota
	interval int64 // ticks until one token comes: the emission interval
	capacity int64 // ticks until all have come
}

// tick is how finely time is divided: into parts of a nanosecond, so that fast
// rates come out right. 63 bits hold 18 years of them.
const tick = 16

// NewBucketQuota returns a quota, which has no Problem, as buckets need it.
func NewBucketQuota(q Quota) *BucketQuota {
	if problem := q.Problem(); problem != "" {
		panic("BUG: a bucket of a quota that is none: " + problem)
	}
	interval := max(1, (int64(q.Per)*tick+q.Count/2)/q.Count)
	return &BucketQuota{Quota: q, interval: interval, capacity: interval * q.Burst}
}

// Take takes cost, at least 1, if it is there. A cost above Burst never is.
func (b *Bucket) Take(q *BucketQuota, now time.Duration, cost int64) Verdict {
	at := int64(now) * tick
	for {
		before := b.full.Load()
		full := max(before, at)
		if cost > q.Burst { // before it is multiplied, which may be more than fits
			return Verdict{Remaining: q.remaining(full - at), Reset: duration(full - at), Retry: duration(q.capacity)}
		}
		after := full + cost*q.interval
		if wait := after - q.capacity - at; wait > 0 {
			return Verdict{Remaining: q.remaining(full - at), Reset: duration(full - at), Retry: duration(wait)}
		}
		if b.full.CompareAndSwap(before, after) {
			return Verdict{Allowed: true, Remaining: q.remaining(after - at), Reset: duration(after - at)}
		}
	}
}

// Return gives back cost that was taken for nothing, and tells what is there then. due is
// when the bucket would have been full again as that was taken, by the Reset of its
// Verdict: what would have come back by then in any case is not given once more, so no
// more is ever there than if the cost had not been taken.
func (b *Bucket) Return(q *BucketQuota, now, due time.Duration, cost int64) Verdict {
	at := int64(now) * tick
	back := max(0, min(cost*q.interval, int64(due)*tick-at))
	missing := max(0, b.full.Add(-back)-at)
	return Verdict{Allowed: true, Remaining: q.remaining(missing), Reset: duration(missing)}
}

// remaining is how many tokens are there when so much is missing.
func (q *BucketQuota) remaining(missing int64) int64 { return max(0, (q.capacity-missing)/q.interval) }

// duration is so many ticks, rounded up.
func duration(ticks int64) time.Duration { return time.Duration((ticks + tick - 1) / tick) }

// Fit makes a new bucket as full in its quota as another is in that one's, as a share.
// The other stays as it is, for whoever still has it.
func (b *Bucket) Fit(other *Bucket, from, to *BucketQuota, now time.Duration) {
	at := int64(now) * tick
	full := other.full.Load()
	if missing := full - at; missing > 0 {
		full = at + int64(float64(missing)/float64(from.capacity)*float64(to.capacity))
	}
	b.full.Store(full)
}

// Full tells whether nothing is missing: it is as good as a new one.
func (b *Bucket) Full(now time.Duration) bool { return b.full.Load() <= int64(now)*tick }
