package upstream

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
)

const (
	// firstCheck is how long a first check may wait, so that those of many endpoints
	// do not come at once.
	firstCheck = 250 * time.Millisecond
	// jitter is the share by which the time between two checks differs.
	jitter = 0.1
)

// checker asks one endpoint for its health, again and again, one check at a time.
// It is on lease: every group that has the endpoint with the same check shares it.
type checker struct {
	m        *model.HealthCheck
	upstream string
	url      string
	state    *state
	shared   *shared
	observer Observer
	probe    probe
	stop     context.CancelFunc

	row     int  // how many of the last checks came to the same
	passing bool // what they came to
}

// probe is one check; nil: the endpoint is well.
type probe func(ctx context.Context) error

// check lets an endpoint be checked for as long as set holds it.
func (b *builder) check(set *lease.Set, e *Endpoint, identity string) {
	key := "check\n" + identity + "\n" + model.Text(struct {
		Check    *model.HealthCheck
		Protocol string
		TLS      *model.ClientTLS
		Proxy    string
	}{b.m.Health, b.m.Protocol, b.m.TLS, b.m.ProxyProtocol})
	probe := b.probe(set, e)
	lease.Acquire(set, key, func() *checker {
		return &checker{m: b.m.Health, upstream: b.m.Name, url: e.URL, state: e.state, shared: b.shared, observer: b.observer, probe: probe}
	})
}

// Start begins the checks.
func (c *checker) Start() error {
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.run(ctx)
	return nil
}

// Release ends them.
func (c *checker) Release() { c.stop() }

func (c *checker) run(ctx context.Context) {
	timer := time.NewTimer(rand.N(min(c.m.Interval, firstCheck)))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		err := c.once(ctx)
		if ctx.Err() != nil {
			return
		}
		c.note(err)
		timer.Reset(time.Duration(float64(c.m.Interval) * (1 - jitter + 2*jitter*rand.Float64())))
	}
}

func (c *checker) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.m.Timeout, fmt.Errorf("no answer within %v", c.m.Timeout))
	defer cancel()
	err := c.probe(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return err
}

// note takes the result of a check.
func (c *checker) note(err error) {
	if passing := err == nil; passing != c.passing || c.row == 0 {
		c.passing, c.row = passing, 0
	}
	c.row++
	from, to := c.state.of(), unhealthy
	switch {
	case err == nil && c.row >= c.m.HealthyAfter:
		to = healthy
	case err == nil, c.row < c.m.UnhealthyAfter:
		to = from
	}
	if err == nil {
		c.state.fault.Store(nil)
	} else {
		text := err.Error()
		c.state.fault.Store(&text)
	}
	if from == to {
		return
	}
	c.shared.mu.Lock()
	if to == healthy && (from == unhealthy || !c.state.back.IsZero()) {
		c.state.back = time.Now()
	}
	c.state.health.Store(uint32(to))
	c.shared.mu.Unlock()
	c.shared.changed()
	reason := fmt.Sprintf("%d checks in a row passed", c.row)
	if err != nil {
		reason = fmt.Sprintf("%d checks in a row failed: %v", c.row, err)
	}
	c.observer.tell(Event{Kind: HealthChanged, Upstream: c.upstream, Endpoint: c.url, From: from.String(), To: to.String(), Reason: reason})
}
