package external

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"sluice/internal/keyed"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// decider is a way to ask a service. It connects when it is first asked.
type decider interface {
	// request is what is asked about an exchange.
	// body is what it is told of that; nil: nothing.
	request(x *pipeline.Exchange, s *settings, body *copied) request
	// disconnect ends what connections there are. It may be asked again.
	disconnect()
}

// request is what a service is asked about one exchange.
type request struct {
	// sum is of all by which the service may decide; nil: no two requests are alike.
	sum func() keyed.Digest
	// decide asks; an error is that it cannot be told. It waits.
	decide func(ctx context.Context) (*decision, error)
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

// identity is of all that a target is made of: what it is asked may differ.
func (s *settings) identity() string {
	if s.HTTP != nil {
		return model.Digest("http", s.HTTP.URL, s.HTTP.TLS, s.Timeout)
	}
	return model.Digest("grpc", s.GRPC.Address, s.GRPC.TLS)
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
func (t *target) ask(ctx context.Context, r request, allowed bool) (*decision, error) {
	t.mu.Lock()
	t.asking++
	t.mu.Unlock()
	d, err := r.decide(ctx)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking--
	t.settle()
	if err != nil && !errors.Is(context.Cause(ctx), pipeline.ErrClientGone) {
		t.failed(err, allowed)
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
