package proxy_test

import (
	"context"
	"io"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// roundTripper stands in for a transport that waits on a context.
type roundTripper interface {
	RoundTrip(ctx context.Context, request *message.Request, inform func(int, message.Fields)) (*message.Response, error)
}

// onContext makes a transport of one: the time-outs end its context, and so
// does the end of the response.
type onContext struct{ roundTripper }

func (o onContext) RoundTrip(ctx context.Context, a *pipeline.Attempt) error {
	ctx, stop := a.Watch.Context(ctx)
	inform := func(status int, fields message.Fields) {
		if a.Informer != nil {
			a.Informer.Inform(status, fields)
		}
	}
	response, err := o.roundTripper.RoundTrip(ctx, a.Request, inform)
	if err != nil {
		stop(nil)
		return err
	}
	a.Response = *response
	switch {
	case response.Tunnel != nil:
		a.Response.Tunnel = endedTunnel{response.Tunnel, stop}
	case response.Body != nil:
		a.Response.Body = endedBody{response.Body, stop}
	default:
		stop(nil)
	}
	return nil
}

type endedBody struct {
	io.ReadCloser
	stop context.CancelCauseFunc
}

func (b endedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.stop(nil)
	}
	return n, err
}

func (b endedBody) Buffered() int { return message.Buffered(b.ReadCloser) }

func (b endedBody) Close() error {
	defer b.stop(nil)
	return b.ReadCloser.Close()
}

type endedTunnel struct {
	message.Tunnel
	stop context.CancelCauseFunc
}

func (t endedTunnel) Close() error {
	defer t.stop(nil)
	return t.Tunnel.Close()
}

// informing is a function as an Informer.
type informing func(status int, fields message.Fields)

func (f informing) Inform(status int, fields message.Fields) { f(status, fields) }
