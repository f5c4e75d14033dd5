package pipeline

import (
	"context"
	"net/netip"

	"sluice/internal/message"
)

// Transport sends attempts to one endpoint.
type Transport interface {
	// RoundTrip sends the request of an attempt and fills in the head of its
	// response, with a body that streams. ctx ends the attempt, body and tunnel
	// included, and so does a.Watch.
	//
	// The body of the response is for the one who called RoundTrip: nobody may
	// touch it after it has returned an error or was closed, since the transport
	// may use it again.
	//
	// Errors are *Error with a word of the upstream; ctx's cause is wrapped
	// where the context ended the attempt. The request's body is closed in any
	// case, by the end of the response's body at the latest. A panic of that
	// body or of a.Informer ends the attempt, and goes on where it can.
	//
	// Where ctx is a *netloop.Context, one attempt at a time may run on it, from
	// the call to the end of the response's body, and tasks of its executor do
	// all of that. Where it is none, be it only derived from one, goroutines may
	// read the request's body: one that comes over a loop's connection would
	// corrupt the loop. Such a body must be read into memory first.
	RoundTrip(ctx context.Context, a *Attempt) error
}

// Attempt is one try of an exchange at one endpoint.
type Attempt struct {
	// Request is what is sent; it is not changed. Its Path has the endpoint's
	// base path in it already.
	Request *message.Request
	// Informer is told of informational responses but 100 and 101, before
	// RoundTrip returns. nil: nobody.
	Informer Informer
	// Watch tells how long may be waited. nil: for ever.
	Watch *Watch
	// Client is whom the attempt is made for and Local where it came in, for
	// upstreams that are told by a PROXY header. Invalid: not known.
	Client, Local netip.AddrPort
	// Response is set by RoundTrip. Its Fields may have room when it begins.
	Response message.Response
}

// Informer takes informational responses (RFC 9110 15.2).
type Informer interface {
	Inform(status int, fields message.Fields)
}
