package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"

	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// connect makes a connection in a place that is taken; without success the place
// is given back. seen says that the endpoint may have seen the request before.
func (p *pool) connect(ctx context.Context, s *shelf, watch *pipeline.Watch, seen bool) (*link, error) {
	conn, err := p.dial(ctx, s.executor, watch)
	if err != nil {
		p.leave()
		return nil, p.unconnected(ctx, watch, err, seen)
	}
	if p.observer.Opened != nil {
		p.observer.Opened(p.upstream, p.endpoint.URL)
	}
	return &link{pool: p, shelf: s, conn: conn}, nil
}

// dial makes a connection within the upstream's time-out and the watch's.
func (p *pool) dial(ctx context.Context, executor netloop.Executor, watch *pipeline.Watch) (netloop.Conn, error) {
	deadline := deadlineOf(watch)
	if p.timeouts.Connect > 0 {
		deadline = earlier(deadline, time.Now().Add(p.timeouts.Connect))
	}
	if p.literal {
		return executor.Dial(ctx, p.name, p.address, deadline)
	}
	var raw net.Conn
	var err error
	executor.Block(func() { raw, err = resolve(ctx, p.name, p.address, deadline) })
	if err != nil {
		return nil, err
	}
	return executor.Adopt(raw)
}

// resolve connects to a name, by whichever of its addresses answers first.
func resolve(ctx context.Context, name, address string, deadline time.Time) (net.Conn, error) {
	dialer := net.Dialer{Deadline: deadline}
	return dialer.DialContext(ctx, name, address)
}

// unconnected says what a failure to connect means.
func (p *pool) unconnected(ctx context.Context, watch *pipeline.Watch, err error, seen bool) error {
	if watch != nil {
		if expired := watch.Expired(); expired != nil {
			return expired
		}
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	var late interface{ Timeout() bool }
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &late) && late.Timeout() {
		err = fmt.Errorf("no connection within %v: %w", p.timeouts.Connect, err)
	}
	word := pipeline.UpstreamConnect
	if scarce(err) {
		word = pipeline.Overloaded
	}
	failure := pipeline.NewError(word, err)
	failure.Unsent = !seen
	return failure
}

// scarce tells whether an error is for want of something here: no fault of the
// endpoint's.
func scarce(err error) bool {
	for _, want := range [...]syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, want) {
			return true
		}
	}
	return false
}

// earlier is the first of two times, of which the zero one is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
