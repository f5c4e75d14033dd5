package keyset

import (
	"context"
	"time"
)

// Repeat asks an issuer at once, and again when what it has told is stale or somebody
// wants it, until ctx ends: once a second at most, whoever wants it, and less often the
// longer it fails. ask is told how often it has failed since it last did not, and returns
// how long the answer is good for.
func Repeat(ctx context.Context, wanted <-chan struct{}, ask func(failures int) (lifetime time.Duration, err error)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-wanted:
		}
		began := time.Now()
		pause, err := ask(failures)
		if err != nil {
			pause = min(slowest, throttle<<min(failures, 10))
			failures++
		} else {
			failures = 0
		}
		// Those who want it now wait for this long, too.
		timer.Reset(time.Until(began.Add(throttle)))
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		timer.Reset(time.Until(began.Add(pause)))
	}
}
