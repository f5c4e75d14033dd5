package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"sluice/internal/pipeline"
)

// connectError is a failure to make a connection: nothing was sent.
type connectError struct{ cause error }

func (e *connectError) Error() string { return e.cause.Error() }
func (e *connectError) Unwrap() error { return e.cause }

// ended is the error of an attempt that its context ended.
func ended(ctx context.Context) error {
	return fmt.Errorf("the attempt was ended: %w", context.Cause(ctx))
}

// lost tells whether an error is that of a connection that went away, rather
// than of what came over it.
func lost(err error) bool {
	for _, known := range []error{io.EOF, io.ErrUnexpectedEOF, io.ErrClosedPipe, net.ErrClosed} {
		if errors.Is(err, known) {
			return true
		}
	}
	var operation *net.OpError
	var number syscall.Errno
	return errors.As(err, &operation) || errors.As(err, &number)
}

// mostEmpty is how many reads in a row of a request's body may give neither a
// byte nor an error: one that goes on so would hold up its loop for ever.
const mostEmpty = 100

// errNoProgress is the error of such a body, which is no client's.
func errNoProgress() error {
	return pipeline.NewError(pipeline.Internal, fmt.Errorf("reading the request's body: %w", io.ErrNoProgress))
}

// uploadFailure is what an error of reading the request's body means. An error
// that says so itself is kept; any other is a client that stopped in the middle.
func uploadFailure(err error) error {
	var known *pipeline.Error
	switch {
	case errors.As(err, &known), errors.Is(err, pipeline.ErrClientGone):
		return err
	case lost(err):
		return pipeline.NewError(pipeline.ClientClosed, fmt.Errorf("reading the request's body: %w", err))
	}
	return pipeline.NewError(pipeline.BadRequest, fmt.Errorf("reading the request's body: %w", err))
}
