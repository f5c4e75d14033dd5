package pipeline

import (
	"context"
	"errors"

	"sluice/internal/message"
	"sluice/internal/rpc"
)

// Word names an error: the same word in the problem document, the log and the
// metric. The set is closed.
type Word string

// The words of SPEC 4 that can occur so far.
const (
	BadRequest       Word = "bad_request"
	BadPath          Word = "bad_path"
	Unauthenticated  Word = "unauthenticated"
	Forbidden        Word = "forbidden"
	NoRoute          Word = "no_route"
	MethodNotAllowed Word = "method_not_allowed"
	RequestTimeout   Word = "request_timeout"
	BodyTooLarge     Word = "body_too_large"
	URITooLong       Word = "uri_too_long"
	HeaderTooLarge   Word = "header_too_large"
	ClientClosed     Word = "client_closed"
	LoopDetected     Word = "loop_detected"
	NotImplemented   Word = "not_implemented"
	BadVersion       Word = "bad_version"
	UpstreamConnect  Word = "upstream_connect"
	UpstreamReset    Word = "upstream_reset"
	UpstreamProtocol Word = "upstream_protocol"
	UpstreamTimeout  Word = "upstream_timeout"
	NoEndpoint       Word = "no_endpoint"
	CircuitOpen      Word = "circuit_open"
	Overloaded       Word = "overloaded"
	RateLimited      Word = "rate_limited"
	LimitUnavailable Word = "limit_unavailable"
	AuthUnavailable  Word = "auth_unavailable"
	Internal         Word = "internal"
)

// Fault says whose fault an error is.
type Fault string

// The parties of an exchange.
const (
	Client   Fault = "client"
	Gateway  Fault = "gateway"
	Upstream Fault = "upstream"
)

// kind is what follows from a word alone.
type kind struct {
	status int
	code   rpc.Code // what a gRPC client is told instead of the status
	fault  Fault
	detail string // what the client reads unless there is more to say
}

// StatusClientClosed is the status in the log of an exchange whose client left
// before the response; no client ever sees it.
const StatusClientClosed = 499

// The codes follow doc/http-grpc-status-mapping.md of grpc/grpc where that has
// the status, but that time which is over is DEADLINE_EXCEEDED.
var kinds = map[Word]kind{
	BadRequest:       {400, rpc.Internal, Client, "The request is malformed."},
	BadPath:          {400, rpc.Internal, Client, "The path of the request is malformed."},
	Unauthenticated:  {401, rpc.Unauthenticated, Client, "The request needs valid credentials."},
	Forbidden:        {403, rpc.PermissionDenied, Client, "The request is not allowed."},
	NoRoute:          {404, rpc.Unimplemented, Client, "No route matches the request."},
	MethodNotAllowed: {405, rpc.Unimplemented, Client, "The path is known, but not with this method."},
	RequestTimeout:   {408, rpc.DeadlineExceeded, Client, "The request did not arrive in time."},
	BodyTooLarge:     {413, rpc.ResourceExhausted, Client, "The body of the request is too large."},
	URITooLong:       {414, rpc.ResourceExhausted, Client, "The target of the request is too long."},
	HeaderTooLarge:   {431, rpc.ResourceExhausted, Client, "The header of the request is too large."},
	ClientClosed:     {StatusClientClosed, rpc.Cancelled, Client, "The client closed the connection."},
	LoopDetected:     {508, rpc.Internal, Gateway, "The request has passed this gateway too often."},
	NotImplemented:   {501, rpc.Unimplemented, Client, "The transfer coding is not supported."},
	BadVersion:       {505, rpc.Unimplemented, Client, "The HTTP version is not supported."},
	UpstreamConnect:  {502, rpc.Unavailable, Upstream, "The upstream cannot be reached."},
	UpstreamReset:    {502, rpc.Unavailable, Upstream, "The upstream closed the connection before it answered."},
	UpstreamProtocol: {502, rpc.Unavailable, Upstream, "The upstream gave a malformed response."},
	UpstreamTimeout:  {504, rpc.DeadlineExceeded, Upstream, "The upstream did not answer in time."},
	NoEndpoint:       {503, rpc.Unavailable, Gateway, "The upstream has no available endpoint."},
	CircuitOpen:      {503, rpc.Unavailable, Gateway, "The upstream fails too often and is left alone for a while."},
	Overloaded:       {503, rpc.Unavailable, Gateway, "Too many requests wait for the upstream."},
	RateLimited:      {429, rpc.Unavailable, Client, "Too many requests came in too short a time."},
	LimitUnavailable: {503, rpc.Unavailable, Gateway, "Whether the request is within its limit cannot be told for now."},
	AuthUnavailable:  {503, rpc.Unavailable, Gateway, "Whether the request is allowed cannot be told for now."},
	Internal:         {500, rpc.Internal, Gateway, "The gateway failed."},
}

// Error ends an exchange. It is turned into a response, a log field and a
// metric label in one place each.
type Error struct {
	Word   Word
	Status int
	// Code is what a gRPC client is told.
	Code  rpc.Code
	Fault Fault
	// Detail is for the client: a sentence without addresses, stacks or secrets.
	Detail string
	// Fields go into the response, as Allow or Retry-After.
	Fields message.Fields
	// Close says that the connection cannot go on after the response.
	Close bool
	// Unsent says that the endpoint cannot have seen any of the request, so
	// that any method may be tried again.
	Unsent bool
	// Err is the cause, for the log; may be nil.
	Err error
}

// NewError returns the error that a word names, with a cause that may be nil.
func NewError(word Word, cause error) *Error {
	k, ok := kinds[word]
	if !ok {
		panic("BUG: no error has the word " + string(word))
	}
	return &Error{Word: word, Status: k.status, Code: k.code, Fault: k.fault, Detail: k.detail, Err: cause}
}

// Error is the word and the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return string(e.Word)
	}
	return string(e.Word) + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ErrClientGone is the cause with which an exchange's context ends when the
// client has left.
var ErrClientGone = errors.New("the client closed the connection")

// AsError returns what any error of a handler means: itself, client_closed
// where the client has left, or internal. nil stays nil.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	switch {
	case errors.Is(err, ErrClientGone):
		return NewError(ClientClosed, err)
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled):
		return NewError(ClientClosed, err)
	}
	return NewError(Internal, err)
}
