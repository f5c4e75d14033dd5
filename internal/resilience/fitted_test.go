package resilience

import (
	"testing"
	"time"
)

func TestFit(t *testing.T) {
	now := time.Minute
	from, to := Quota{10, time.Second, 10}, Quota{100, time.Hour, 100}
	slow, fast := NewFilling(from), NewFilling(to)
	var bucket, nextBucket Bucket
	var ring, nextRing Ring
	bucket.Take(slow, now, 5)
	ring.Take(&from, now, 5)
	nextBucket.Fit(&bucket, slow, fast, now)
	if v := nextBucket.Take(fast, now, 50); !v.Allowed || v.Remaining != 0 {
		t.Errorf("a bucket that is half full is %+v in another filling", v)
	}
	nextRing.Fit(&ring, &from, &to, now)
	if v := nextRing.Take(&to, now, 50); !v.Allowed || v.Remaining != 0 {
		t.Errorf("a ring that is half full is %+v in another quota", v)
	}
	if a, b := bucket.Take(slow, now, 5), ring.Take(&from, now, 5); !a.Allowed || !b.Allowed {
		t.Errorf("the old ones are touched: %+v, %+v", a, b)
	}
}
