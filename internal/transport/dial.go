package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// connect makes a connection in a place that is taken; without success the place
// is given back. seen says that the endpoint may have seen the request before.
func (p *pool) connect(ctx context.Context, s *shelf, watch *pipeline.Watch, introduction string, seen bool) (*link, error) {
	conn, err := p.dial(ctx, s.executor, watch, introduction)
	if err != nil {
		p.leave()
		return nil, p.unconnected(ctx, watch, err, seen)
	}
	p.opened()
	l := &link{pool: p, shelf: s, conn: conn, introduction: introduction, written: int64(len(introduction))}
	l.secure, _ = conn.(*netloop.TLS)
	return l, nil
}

// dial makes a connection within the upstream's time-out and the watch's, with
// all that comes before HTTP.
func (p *pool) dial(ctx context.Context, executor netloop.Executor, watch *pipeline.Watch, introduction string) (netloop.Conn, error) {
	deadline := deadlineOf(watch)
	if p.timeouts.Connect > 0 {
		deadline = pipeline.Earlier(deadline, time.Now().Add(p.timeouts.Connect))
	}
	var config *tls.Config
	if p.encryption != nil {
		var err error
		look := func() { config, err = p.encryption.config(alpnHTTP1) }
		if p.encryption.credentials.fresh() {
			look()
		} else {
			executor.Block(look)
		}
		if err != nil {
			return nil, err
		}
	}
	conn, err := p.reach(ctx, executor, deadline)
	if err != nil || introduction == "" && config == nil {
		return conn, err
	}
	return begun(ctx, conn, introduction, config, deadline)
}

// reach connects a socket.
func (p *pool) reach(ctx context.Context, executor netloop.Executor, deadline time.Time) (netloop.Conn, error) {
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

// begun says what comes before HTTP on a connection: the introduction and, with a
// config, a TLS handshake. After an error the connection is closed.
func begun(ctx context.Context, conn netloop.Conn, introduction string, config *tls.Config, deadline time.Time) (_ netloop.Conn, err error) {
	interrupted := &target{conn: conn} // the end of ctx may be told late
	guard := netloop.NewGuard(ctx, conn.Executor(), interrupted)
	defer func() {
		guard.End()
		interrupted.end()
		if err != nil {
			_ = conn.Close() // nothing is to be saved
		}
	}()
	if introduction != "" {
		conn.SetWriteDeadline(deadline)
		if _, err = io.WriteString(conn, introduction); err != nil {
			return nil, err
		}
		conn.SetWriteDeadline(time.Time{})
	}
	if config == nil {
		return conn, nil
	}
	secure := netloop.DialTLS(conn, config)
	conn = secure                                     // what is closed after an error
	if err = secure.Handshake(deadline); err != nil { //nolint:contextcheck // the guard interrupts the connection at the end of ctx
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return secure, nil
}

// resolve connects to a name, by whichever of its addresses answers first.
func resolve(ctx context.Context, name, address string, deadline time.Time) (net.Conn, error) {
	dialer := net.Dialer{Deadline: deadline}
	return dialer.DialContext(ctx, name, address)
}

// unconnected says what a failure to connect means.
func (w *way) unconnected(ctx context.Context, watch *pipeline.Watch, err error, seen bool) error {
	if watch != nil {
		if expired := watch.Expired(); expired != nil {
			return unsent(expired, seen)
		}
	}
	if ctx.Err() != nil {
		return ended(ctx)
	}
	var late interface{ Timeout() bool }
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &late) && late.Timeout() {
		err = fmt.Errorf("no connection within %v: %w", w.timeouts.Connect, err)
	}
	word := pipeline.UpstreamConnect
	if scarce(err) {
		word = pipeline.Overloaded
	} else {
		w.unreached(err)
	}
	failure := pipeline.NewError(word, err)
	failure.Unsent = !seen
	return failure
}

// unsent is the error of a time-out that was over before the request was sent. seen
// says that the endpoint may have seen it before.
func unsent(err error, seen bool) error {
	var known *pipeline.Error
	if errors.As(err, &known) {
		known.Unsent = !seen
	}
	return err
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
