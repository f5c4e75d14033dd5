package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// tunnelClient is the client's end of a tunnel.
type tunnelClient interface {
	io.Writer
	// source is where what the client sends is read.
	source() io.Reader
	// taking lets f be told while a Write waits for a client that takes something.
	taking(f func())
	closeWrite() error
	// part bounds what is still read of a client that is gone.
	part()
	kill(reset bool)
	// linger reads on for a moment what nobody takes any more: bytes that arrive at
	// a closed socket are answered with a reset, which may take from the client what
	// it has not read yet.
	linger()
}

// pair joins a client and an endpoint after an upgrade: the two directions of a
// tunnel. The client's connection is left to its owner, to be closed.
type pair struct {
	ctx      context.Context // of the exchange
	listener *Listener
	client   tunnelClient
	tunnel   message.Tunnel
	in       atomic.Int64 // bytes from the client
	out      atomic.Int64 // bytes to the client

	upEnded, downEnded atomic.Bool // the direction came to its end in order
	once               sync.Once
	err                error // what broke the tunnel; read after both directions ended
}

// join carries bytes until both directions have ended, or one breaks, and
// returns what broke it. early is what the client has sent already.
func (p *pair) join(early io.Reader) error {
	tunnels := &p.listener.tunnels
	tunnels.Add(1)
	defer tunnels.Add(-1)
	if idle, ok := p.tunnel.(interface{ Touch() }); ok { // it counts what a slow client takes as bytes that pass
		p.client.taking(idle.Touch)
	}
	upward := make(chan struct{})
	go func() {
		defer close(upward)
		p.contain(func() { p.up(early) })
	}()
	p.contain(p.down)
	<-upward
	p.contain(func() { _ = p.tunnel.Close() }) // what matters was told by reading and writing
	return p.err
}

// contain keeps a panic, as of a middleware's tunnel, from all but this one.
func (p *pair) contain(f func()) {
	defer func() {
		if value := recover(); value != nil {
			p.listener.log.Error("a tunnel panicked", "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
			p.broken(pipeline.NewError(pipeline.Internal, nil)) // the cause is told
		}
	}()
	f()
}

// up carries what the client sends.
func (p *pair) up(early io.Reader) {
	reading, err := p.pump(p.tunnel, io.MultiReader(early, p.client.source()), &p.in)
	if err == nil && reading == nil {
		p.upEnded.Store(true)
		err = p.tunnel.CloseWrite()
	}
	switch {
	case reading != nil:
		p.broken(lostClient(p.ctx, reading))
	case err != nil && p.downEnded.Load():
		p.client.linger() // an endpoint that has said all may be gone
		p.broken(nil)
	case err != nil:
		p.broken(p.endpointError(err))
	}
}

// down carries what the endpoint sends.
func (p *pair) down() {
	reading, err := p.pump(p.client, p.tunnel, &p.out)
	switch {
	case reading != nil:
		p.broken(p.endpointError(reading))
	case err != nil && p.upEnded.Load():
		p.broken(nil) // a client that has said all may be gone
	case err != nil:
		p.broken(lostClient(p.ctx, err))
	default:
		p.downEnded.Store(true)
		if p.client.closeWrite() != nil {
			p.client.part() // whether it left in order, what it has sent tells
		}
	}
}

// pump copies until the end of src, which is no error.
func (p *pair) pump(dst io.Writer, src io.Reader, count *atomic.Int64) (reading, writing error) {
	heads := &p.listener.heads // small ones: tunnels may be many, and mostly silent
	buffer := heads.get()
	defer heads.put(buffer)
	for {
		n, err := src.Read(buffer[:])
		if n > 0 {
			written, err := dst.Write(buffer[:n])
			count.Add(int64(written))
			if err != nil {
				return nil, err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil, nil
		case err != nil:
			return err, nil
		}
	}
}

// broken ends both directions. The first cause counts; the other direction's
// is a consequence.
func (p *pair) broken(err error) {
	p.once.Do(func() {
		p.err = err
		p.client.kill(false)
		_ = p.tunnel.Close() // to wake whoever reads
	})
}

// endpointError is what an error of the tunnel's other side means.
func (p *pair) endpointError(err error) error {
	var own *pipeline.Error
	switch cause := context.Cause(p.ctx); {
	case cause != nil:
		return cause
	case errors.As(err, &own):
		return own
	}
	return pipeline.NewError(pipeline.UpstreamReset, err)
}

// lostClient is the error of a client that could not be written to or read
// from: why the exchange was ended, if it was not the client that left.
func lostClient(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, pipeline.ErrClientGone) {
		return cause
	}
	var own *pipeline.Error
	if errors.As(err, &own) {
		return own // of a time-out of the exchange
	}
	return pipeline.NewError(pipeline.ClientClosed, fmt.Errorf("%w: %w", pipeline.ErrClientGone, err))
}

// switchedFields are the fields of a 101 (RFC 9110 7.8).
func switchedFields(x *pipeline.Exchange) message.Fields {
	protocol := x.Response.Fields.Get(message.Upgrade)
	if protocol == "" {
		protocol = x.Request.Fields.Get(message.Upgrade)
	}
	fields := withoutEngine(x.Response.Fields)
	fields.Put(message.Connection, "Upgrade")
	fields.Put(message.Upgrade, protocol)
	x.Identify()
	fields.Put(message.XRequestID, x.ID)
	return fields
}

// stallOf is how long a client may take nothing of a response: the route's idle
// time-out, which the proxy cannot see while it waits for a read. 0: for ever.
func stallOf(x *pipeline.Exchange) time.Duration {
	switch {
	case x.Route == nil:
		return 0
	case pipeline.Streams(x.Response):
		return x.Route.Timeouts.IdleStream
	}
	return x.Route.Timeouts.Idle
}
