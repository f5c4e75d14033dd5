package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// flight is an attempt over HTTP/2, from when it is sent to the end of its
// response. What is not said to be otherwise is of the goroutine that sends.
type flight struct {
	pool         *sharing
	request      *message.Request
	introduction string
	body         *outgoing // nil: none
	informer     informing
	informed     int         // of the goroutine that reads the connection
	came         atomic.Bool // anything of a response
	queued       atomic.Bool // it waits for a stream of a connection that there is

	session *session // it goes over
	sent    time.Time
}

// informing takes informational responses; it does not wait.
type informing func(status int, fields message.Fields)

// send sends the request and waits for the head of the response. It is sent a
// second time, and no third, where its connection ran out before the endpoint took
// it up; where it was more than the endpoint allows at once since a moment ago; and
// where a connection that had served before ended before an answer, if the endpoint
// may see the request twice. All else is for whoever asks for attempts.
func (f *flight) send(ctx context.Context) (*http.Response, error) {
	repeated, doubtful := false, false
	for {
		s, err := f.pool.acquire(ctx, f.introduction, &f.queued)
		if err != nil {
			return nil, since(err, doubtful)
		}
		f.session, f.sent = s, time.Now()
		reused := s.take()
		response, err := s.library.RoundTrip(f.outbound(ctx))
		if err == nil {
			return response, nil
		}
		f.land()
		if ctx.Err() != nil || f.body.failure() != nil {
			return nil, f.failure(ctx, err)
		}
		again := !repeated && !f.came.Load() && f.body.repeatable()
		switch full := refused(err) && s.refused(); {
		case again && (full || ranOut(err)):
		case again && reused && died(err) && idempotent(f.request):
			doubtful = true
		default:
			return nil, since(f.failure(ctx, err), doubtful)
		}
		repeated = true
	}
}

// since is the error of a sending. After one that the endpoint may have seen it is
// not unsent.
func since(err error, doubtful bool) error {
	var known *pipeline.Error
	if !doubtful || !errors.As(err, &known) {
		return err
	}
	clone := *known
	clone.Unsent = false
	return &clone
}

// land gives the stream back, which has ended.
func (f *flight) land() {
	if f.session != nil {
		f.session.doubt(f.sent)
		f.pool.leave(f.session)
		f.session = nil
	}
}

// outbound is the request as the library sends it.
func (f *flight) outbound(ctx context.Context) *http.Request {
	out := f.pool.request(f.request)
	if f.body != nil {
		sending := f.body.send(out)
		out.Body, out.ContentLength = sending, f.request.Length
	}
	return out.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotFirstResponseByte: func() { f.came.Store(true) },
		Got1xxResponse:       func(status int, header textHeader) error { return f.informational(status, http.Header(header)) },
	}))
}

// informational is called by the goroutine that reads the connection.
func (f *flight) informational(status int, header http.Header) error {
	if f.informed++; f.informed > maxInformational {
		return errInformational
	}
	switch {
	case status == http.StatusSwitchingProtocols:
		return errSwitching
	case status == http.StatusContinue, f.informer == nil:
		return nil
	}
	fields := fieldsOf(header)
	fields.DeleteFunc(invalid)
	f.informer(status, fields)
	return nil
}

var errSwitching = errors.New("101 over HTTP/2 (RFC 9113 8.6)")

// failure says what an error of the library means.
func (f *flight) failure(ctx context.Context, err error) error {
	var broken panicked
	if client := f.body.failure(); errors.As(client, &broken) {
		return pipeline.NewError(pipeline.Internal, client)
	} else if client != nil {
		return client
	}
	var late interface{ Timeout() bool }
	switch {
	case ctx.Err() != nil:
		return ended(ctx)
	case isKnown(err), errors.Is(err, errDeclined):
		return err
	case unprocessed(err):
		failure := pipeline.NewError(pipeline.UpstreamReset, err)
		failure.Unsent = true
		return failure
	case err.Error() == tooLarge:
		return pipeline.NewError(pipeline.HeaderTooLarge, err)
	case errors.As(err, &late) && late.Timeout() && !lost(err):
		return pipeline.NewError(pipeline.UpstreamTimeout, errors.New("no response within "+f.pool.timeouts.ResponseHeader.String()))
	case died(err), reset(err):
		return pipeline.NewError(pipeline.UpstreamReset, err)
	}
	return pipeline.NewError(pipeline.UpstreamProtocol, err)
}

// The library's texts of errors for which it exports no value.
const (
	goneAway       = "http2: Transport received Server's graceful shutdown GOAWAY"
	goneAwayFirst  = "http2: Transport received GOAWAY from server ErrCode:"
	unusable       = "http2: client conn not usable"
	notEstablished = "http2: client conn could not be established"
	connClosed     = "http2: client conn is closed"
	forceClosed    = "http2: client connection force closed via ClientConn.Close"
	lostPing       = "http2: client connection lost"
	fromPeer       = "received from peer"
	tooLarge       = "http2: request header list larger than peer's advertised limit"
	stopped        = "http2: aborting request body write"
	tooLong        = "net/http: server replied with more than declared Content-Length; truncated"
)

// believable is how much of what was read with an error is passed on. Of a response
// that is longer than it said the end is kept back: with it the client would take the
// response for whole (RFC 9113 8.1.1).
func believable(n int, err error) int {
	if err != nil && err.Error() == tooLong {
		return 0
	}
	return n
}

// unprocessed tells whether the endpoint has not processed the request (RFC 9113
// 8.7): it refused the stream, or its GOAWAY names an earlier one as the last (6.8);
// or the request was never sent.
func unprocessed(err error) bool {
	// With an error, and of the first request on its connection, which may be the
	// cause: another connection would hardly fare better.
	return ranOut(err) || refused(err) || strings.HasPrefix(err.Error(), goneAwayFirst)
}

// ranOut tells whether the connection takes no request any more, and has not taken
// this one, for no reason that is known to lie in it.
func ranOut(err error) bool {
	switch err.Error() {
	case goneAway, unusable, notEstablished:
		return true
	}
	return false
}

// refused tells whether the endpoint refused the stream.
func refused(err error) bool {
	var stream http2.StreamError
	return errors.As(err, &stream) && stream.Code == http2.ErrCodeRefusedStream && reset(err)
}

// reset tells whether the endpoint reset the stream.
func reset(err error) bool {
	var stream http2.StreamError
	return errors.As(err, &stream) && stream.Cause != nil && stream.Cause.Error() == fromPeer
}

// died tells whether the connection ended.
func died(err error) bool {
	var away http2.GoAwayError
	if errors.As(err, &away) {
		return true
	}
	switch err.Error() {
	case connClosed, forceClosed, lostPing:
		return true
	}
	return lost(err)
}

// informs passes informational responses on in order, from one goroutine at a
// time, for whom may wait.
type informs struct {
	to    pipeline.Informer
	broke func(cause error) // told of a panic, which ends the attempt

	mu      sync.Mutex
	pending []inform
	running bool
	idle    chan struct{} // closed when it is not running; nil: it is not
	fault   any           // a panic
}

type inform struct {
	status int
	fields message.Fields
}

func (i *informs) add(status int, fields message.Fields) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.pending = append(i.pending, inform{status, fields})
	if !i.running {
		i.running, i.idle = true, make(chan struct{})
		go i.run()
	}
}

func (i *informs) run() {
	defer func() {
		if fault := recover(); fault != nil {
			i.mu.Lock()
			defer i.mu.Unlock()
			i.fault, i.pending = fault, nil
			i.rest()
			i.broke(errStopped)
		}
	}()
	for next := i.next(); next != nil; next = i.next() {
		i.to.Inform(next.status, next.fields)
	}
}

// next takes the first; nil: there is none, and nobody runs any more.
func (i *informs) next() *inform {
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.pending) == 0 {
		i.rest()
		return nil
	}
	next := i.pending[0]
	i.pending = i.pending[1:]
	return &next
}

func (i *informs) rest() {
	i.running = false
	close(i.idle)
}

// wait waits until all are passed on. A panic of the informer goes on here.
func (i *informs) wait() {
	i.mu.Lock()
	idle := i.idle
	i.mu.Unlock()
	if idle != nil {
		<-idle
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fault != nil {
		panic(fmt.Sprintf("BUG: an informer panicked: %v", i.fault))
	}
}
