package transport

import (
	"context"
	"errors"
	"sync"
	"time"

	"sluice/internal/message"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// askAgain is how long it is believed that an endpoint speaks no HTTP/2.
const askAgain = 10 * time.Minute

// choice sends attempts to an endpoint by whichever protocol it picks by ALPN,
// which is remembered. Upgrades go over HTTP/1.1.
type choice struct {
	http2 *sharing
	http1 interface {
		pipeline.Transport
		Release()
	}

	mu     sync.Mutex
	known  bool          // the endpoint has picked
	old    bool          // HTTP/1.1
	since  time.Time     // when it did
	asking chan struct{} // closed when it is known, or cannot be; nil: nobody asks
	err    error         // why not
}

func newChoice(w *way, engine *Engine) *choice {
	c := &choice{http2: newSharing(w, engine)}
	c.http2.offer = []string{alpnH2, alpnHTTP1}
	c.http2.declined = func() { c.picked(true) }
	c.http2.agreedOn = func() { c.picked(false) }
	if engine != nil {
		c.http1 = newPool(w, engine)
	} else {
		c.http1 = newStandard(w, dialDirect)
	}
	return c
}

// Release ends both.
func (c *choice) Release() {
	c.http2.Release()
	c.http1.Release()
}

// picked notes what the endpoint has picked.
func (c *choice) picked(old bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.old, c.since = true, old, time.Now()
}

// RoundTrip does what pipeline.Transport asks for.
func (c *choice) RoundTrip(ctx context.Context, try *pipeline.Attempt) error {
	if try.Request.Fields.Has(message.Upgrade) {
		return c.http1.RoundTrip(ctx, try)
	}
	old, err := c.decide(ctx, try)
	switch {
	case err != nil:
		if try.Request.Body != nil {
			_ = try.Request.Body.Close() // the error at hand is the one to tell
		}
		return err
	case old:
		return c.http1.RoundTrip(ctx, try)
	}
	err = c.http2.RoundTrip(ctx, try)
	if errors.Is(err, errDeclined) { // it has changed its mind
		if try.Request.Body == nil {
			return c.http1.RoundTrip(ctx, try)
		}
		failure := pipeline.NewError(pipeline.UpstreamConnect, err)
		failure.Unsent = true
		return failure
	}
	return err
}

// decide tells whether the endpoint speaks HTTP/1.1 only.
func (c *choice) decide(ctx context.Context, try *pipeline.Attempt) (old bool, err error) {
	c.mu.Lock()
	known, old := c.known, c.old
	if !known || old && time.Since(c.since) > askAgain {
		c.ask(introduction(c.http2.proxyProtocol, try))
	}
	asking := c.asking
	c.mu.Unlock()
	if known {
		return old, nil
	}
	wait := func() { err = waitFor(ctx, asking, try.Watch) }
	if own, ok := ctx.(*netloop.Context); ok {
		own.Block(wait)
	} else {
		wait()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil:
		return false, err
	case !c.known:
		return false, c.err
	}
	return c.old, nil
}

// ask makes a connection to learn what the endpoint picks; one of HTTP/2 is kept.
// The caller holds the lock.
func (c *choice) ask(introduction string) {
	if c.asking != nil {
		return
	}
	done := make(chan struct{})
	c.asking = done
	go func() {
		err := c.http2.begin(introduction)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asking, c.err = nil, err
		close(done)
	}()
}

// waitFor waits until something is done, ctx ends, or a watch, which may be nil,
// expires.
func waitFor(ctx context.Context, done <-chan struct{}, watch *pipeline.Watch) error {
	ctx, stop := watch.Context(ctx)
	defer stop(nil)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ended(ctx)
	}
}
