package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"sluice/internal/h2"
	"sluice/internal/pipeline"
)

// refused notes a request of HTTP/2 or 3 that no handler is given: the client is
// told by the reset of its stream, or by the end of the connection.
func (c *multiplexed) refused(r *http.Request, why *pipeline.Error) {
	l := c.listener
	x := pipeline.NewExchange(context.Background(), newRequest(r), l.model.Load(), c.peer, time.Now())
	x.Local, x.ClientCertificate = c.local, c.certificate
	pipeline.Fail(x, why)
	_ = x.Response.Close() // nobody reads it
	l.done(x)
}

// malformed tells whether a stream of HTTP/2 has ended because of what its client
// sent on it. Where a rule of the connection was broken, its other streams are only
// left behind.
func malformed(why error) bool {
	var rule *h2.ProtocolError
	return errors.As(why, &rule) && !errors.Is(why, h2.ErrClosed)
}

// refusalOver is what the end of a stream of HTTP/2 says of its request.
func refusalOver(why error) *pipeline.Error {
	word := pipeline.BadRequest
	switch {
	case errors.Is(why, net.ErrClosed):
		return pipeline.NewError(pipeline.Overloaded, errStopped)
	case !malformed(why):
		return pipeline.NewError(pipeline.ClientClosed, pipeline.ErrClientGone)
	case errors.Is(why, h2.ErrRefused):
		word = pipeline.Overloaded
	case errors.Is(why, h2.ErrHeaderTimeout):
		word = pipeline.RequestTimeout
	case errors.Is(why, h2.ErrHeaderBlock), errors.Is(why, h2.ErrTrailersLarge):
		word = pipeline.HeaderTooLarge
	}
	return pipeline.NewError(word, why)
}
