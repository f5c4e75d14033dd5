package auth

import (
	"context"
	"errors"
	"runtime"

	"sluice/internal/lease"
	"sluice/internal/pipeline"
)

// aside is where tokens are verified that take long: away from the exchanges of others, and
// with some of the processors alone, so that nobody can take the gateway down by tokens that
// nobody has signed. All jwt share it.
type aside struct {
	slots chan struct{} // has as many as may verify at once
}

func acquireAside(set *lease.Set) *aside {
	return lease.Acquire(set, "tokens that take long", func() *aside { return &aside{make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))} })
}

var errTokens = errors.New("too many tokens wait to be verified")

// do runs what verifies a token once a processor may. It fails with 503 auth_unavailable
// where that takes too long, and where the client has left.
func (a *aside) do(x *pipeline.Exchange, verify func()) (err error) {
	until := x.WaitUntil(maxWait)
	x.Wait(func() {
		ctx, cancel := context.WithDeadlineCause(x.Context(), until, unavailable(errTokens))
		defer cancel()
		select {
		case a.slots <- struct{}{}:
			defer func() { <-a.slots }() // also where a library panics
			verify()
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	})
	return err
}
