package proxy

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"time"

	"sluice/internal/message"
)

const (
	// firstPause is the longest wait before the first repetition; it doubles with
	// each, up to longPause.
	firstPause = 25 * time.Millisecond
	longPause  = time.Second
	// mostPatience is the longest that an endpoint is left alone because it asks for
	// that, where no time-out bounds it.
	mostPatience = 10 * time.Minute
)

// delay is how long to wait before the next attempt: exponentially longer with
// each, with full jitter (Brooker 2015). Where another endpoint is there, which need
// not pay for the first one's failure, the first repetition comes at once, and every
// one for which nothing was sent; where none is, an endpoint that says how long to
// leave it alone (RFC 9110 10.2.3) gets that time. inTime is false where the exchange
// would be over by then.
func (f *forward) delay(err error, fresh bool, now time.Time) (pause time.Duration, inTime bool) {
	if fresh && (f.x.Attempts == 1 || unsent(err)) {
		return 0, true
	}
	pause = rand.N(min(firstPause<<min(f.x.Attempts-1, 10), longPause)) //nolint:gosec // nothing secret hangs on it
	if err == nil && !fresh {
		pause = max(pause, retryAfter(f.try.Response.Fields, now))
	}
	deadline := f.watch.Deadline()
	return pause, pause <= mostPatience && (deadline.IsZero() || now.Add(pause).Before(deadline))
}

// retryAfter is how long a response asks to be left alone.
func retryAfter(fields message.Fields, now time.Time) time.Duration {
	value := fields.Get(message.RetryAfter)
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(seconds) * time.Second
	}
	// The three forms of a date (RFC 9110 5.6.7).
	for _, layout := range [...]string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} {
		if at, err := time.Parse(layout, value); err == nil {
			return max(0, at.Sub(now))
		}
	}
	return 0
}

// pause waits, unless the exchange ends before.
func (f *forward) pause(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	f.x.Wait(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-f.x.Context().Done():
		}
	})
	if ctx := f.x.Context(); ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return f.watch.Expired()
}
