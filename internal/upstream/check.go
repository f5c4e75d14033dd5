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
	// jitter is the share by which the time from one check to the next differs.
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
	over    bool // guarded by shared.mu: it has no say any more
}

// probe is one check; nil: the endpoint is well.
type probe func(ctx context.Context) error

// check lets an endpoint be checked for as long as set holds it.
func (b *builder) check(set *lease.Set, e *Endpoint, identity string) {
	where := e.Endpoint
	where.Weight, where.Version = 0, ""
	key := "check\n" + identity + "\n" + model.Text(struct {
		Check    *model.HealthCheck
		Endpoint model.Endpoint
		Protocol string
		TLS      *model.ClientTLS
		Proxy    string
	}{b.m.Health, where, b.m.Protocol, b.m.TLS, b.m.ProxyProtocol})
	probe := b.probe(set, e)
	lease.Acquire(set, key, func() *checker {
		return &checker{m: b.m.Health, upstream: b.m.Name, url: e.URL, state: e.state, shared: b.shared, observer: b.observer, probe: probe}
	})
}

// Start begins the checks.
func (c *checker) Start() error {
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	c.state.checkers++
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	go c.run(ctx)
	return nil
}

// Release ends them. Nothing is known of the health of an endpoint that nobody checks.
func (c *checker) Release() {
	c.stop()
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	c.over = true
	if c.state.checkers--; c.state.checkers == 0 {
		c.state.health, c.state.fault = unknown, ""
		c.shared.changed()
	}
}

func (c *checker) run(ctx context.Context) {
	timer := time.NewTimer(rand.N(min(c.m.Interval, firstCheck)))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		began := time.Now()
		c.note(c.once(ctx))
		wait := time.Duration(float64(c.m.Interval) * (1 - jitter + 2*jitter*rand.Float64()))
		timer.Reset(wait - time.Since(began))
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
	c.shared.mu.Lock()
	defer c.shared.unlock()
	if c.over {
		return
	}
	if passing := err == nil; passing != c.passing || c.row == 0 {
		c.passing, c.row = passing, 0
	}
	c.row++
	from, to := c.state.health, c.verdict()
	c.state.fault = ""
	if err != nil {
		c.state.fault = err.Error()
	}
	if from == to {
		return
	}
	if to == healthy && (from == unhealthy || !c.state.back.IsZero()) {
		c.state.back = time.Now()
	}
	c.state.health = to
	c.shared.changed()
	reason := checks(c.row) + " passed"
	if err != nil {
		reason = fmt.Sprintf("%s failed: %v", checks(c.row), err)
	}
	c.shared.note(c.observer, Event{Kind: HealthChanged, Upstream: c.upstream, Endpoint: c.url, From: from.String(), To: to.String(), Reason: reason})
}

// verdict is what the last checks say of the endpoint.
func (c *checker) verdict() health {
	switch {
	case c.passing && c.row >= c.m.HealthyAfter:
		return healthy
	case !c.passing && c.row >= c.m.UnhealthyAfter:
		return unhealthy
	}
	return c.state.health
}

func checks(n int) string {
	if n == 1 {
		return "a check"
	}
	return fmt.Sprintf("%d checks in a row", n)
}
