package external

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"sluice/internal/keyed"
	"sluice/internal/pipeline"
)

// decider is a way to ask a service. It connects when it is first asked.
type decider interface {
	// question is what it is asked about an exchange.
	question(x *pipeline.Exchange) question
	// decide asks; an error is that it cannot be told. It waits.
	decide(ctx context.Context, s *settings, q question) (*decision, error)
	// disconnect ends what connections there are. It may be asked again.
	disconnect()
}

// question is what a service is asked about one request.
type question interface {
	// sum is of all of it.
	sum() keyed.Digest
}

// target is a service, whose connections are shared by all who ask it, over reloads.
type target struct {
	decider     decider
	description string
	log         *slog.Logger

	mu       sync.Mutex
	asking   int
	released bool
	told     time.Time // when its failure was last logged
	failures int       // since then
}

func newTarget(s *settings, log *slog.Logger) *target {
	t := &target{log: log}
	if s.HTTP != nil {
		t.decider, t.description = newHTTPDecider(s.HTTP, s.Timeout), s.HTTP.Description
	} else {
		t.decider, t.description = newGRPCDecider(s.GRPC), s.GRPC.Address
	}
	return t
}

// Release ends the connections once nobody asks any more.
func (t *target) Release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.released = true
	t.settle()
}

// settle disconnects a released service that nobody asks. Exchanges of an old snapshot
// may still ask it afterwards: then it is the last of them.
func (t *target) settle() {
	if t.released && t.asking == 0 {
		t.decider.disconnect()
	}
}

// ask asks the service, and logs that it cannot be asked.
func (t *target) ask(ctx context.Context, s *settings, q question) (*decision, error) {
	t.mu.Lock()
	t.asking++
	t.mu.Unlock()
	d, err := t.decider.decide(ctx, s, q)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking--
	t.settle()
	if err != nil && !errors.Is(context.Cause(ctx), pipeline.ErrClientGone) {
		t.failed(err, s.Allow)
	}
	return d, err
}

// quiet is how long no further failure is logged.
const quiet = 10 * time.Second

// failed logs a failure, but not each one.
func (t *target) failed(err error, allowed bool) {
	t.failures++
	now := time.Now()
	if !t.told.IsZero() && now.Sub(t.told) < quiet {
		return
	}
	t.log.Warn("an authorization service cannot be asked", "service", t.description, "cause", err, "failures", t.failures, "requests_pass", allowed)
	t.told, t.failures = now, 0
}
