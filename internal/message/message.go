// Package message holds requests and responses as values: a method or a
// status, an ordered list of fields, and a body that streams. It does no I/O,
// knows no socket and no other package of Sluice.
//
// A message belongs to one exchange. Nothing in it is pooled or reused, so a
// string taken from it stays valid for as long as it is referenced.
package message

import "io"

// Protocol is the HTTP version of a message, as the access log spells it.
type Protocol string

// The versions that Sluice speaks.
const (
	HTTP10 Protocol = "HTTP/1.0"
	HTTP11 Protocol = "HTTP/1.1"
	HTTP2  Protocol = "HTTP/2"
	HTTP3  Protocol = "HTTP/3"
)

// Unknown is the Length of a body whose end shows only when it comes.
const Unknown = -1

// Request is a request (RFC 9110 3.4).
type Request struct {
	Protocol Protocol
	Method   string
	Scheme   string // http or https
	Target   string // the request target as it was received; never forwarded
	Host     string // the authority: Host, or that of an absolute-form target (RFC 9112 3.2.2)
	Path     string // the one canonical path once the exchange is admitted; percent-encoded
	Query    string // byte for byte as it came, with its leading "?"; empty where the target has none
	Fields   Fields // without Host

	Body   io.ReadCloser // nil: none
	Length int64         // of Body in bytes, or Unknown
	// Trailer returns the trailer fields; complete once Body has returned
	// io.EOF. nil: none.
	Trailer func() Fields
}

// Response is a response (RFC 9110 3.4).
type Response struct {
	Protocol Protocol // of whoever sent it; empty where the gateway made it
	Status   int
	Fields   Fields // without Content-Length and Transfer-Encoding where Body is set

	Body io.ReadCloser // nil: none
	// Length of Body in bytes, or Unknown. With a nil Body it is what
	// Content-Length tells in an answer to HEAD or a 304, or Unknown.
	Length int64
	// Trailer returns the trailer fields; complete once Body has returned
	// io.EOF. nil: none.
	Trailer func() Fields

	// Tunnel is the other side of an upgraded connection; set only with
	// status 101. Whoever takes the response closes it.
	Tunnel Tunnel
}

// Tunnel is a byte stream both ways, each of which can end alone.
type Tunnel interface {
	io.ReadWriteCloser
	// CloseWrite ends the writing side; the reading side goes on.
	CloseWrite() error
}

// Close closes whatever body or tunnel the response has. It is safe on nil.
func (r *Response) Close() error {
	switch {
	case r == nil:
		return nil
	case r.Tunnel != nil:
		return r.Tunnel.Close()
	case r.Body != nil:
		return r.Body.Close()
	}
	return nil
}
