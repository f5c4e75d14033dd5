package transport

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

const (
	// continueTimeout is how long a body is held back for a 100 (Continue).
	continueTimeout = time.Second
	// maxHeadBytes bounds the head of a response.
	maxHeadBytes = 256 << 10
	// maxInformational bounds the informational responses of one attempt.
	maxInformational = 64
)

// standard sends attempts to one endpoint with net/http's Transport.
type standard struct {
	upstream string
	endpoint model.Endpoint
	timeouts model.AttemptTimeouts
	observer Observer
	dial     dialer
	client   *http.Transport
	gate     gate
	released atomic.Bool
}

func newStandard(upstream string, endpoint model.Endpoint, pool model.Pool, timeouts model.AttemptTimeouts, observer Observer, dial dialer) *standard {
	s := &standard{upstream: upstream, endpoint: endpoint, timeouts: timeouts, observer: observer, dial: dial}
	s.gate.max, s.gate.maxPending = pool.MaxConnections, pool.MaxPending
	maxIdle := pool.MaxIdle
	if maxIdle == 0 {
		maxIdle = math.MaxInt
	}
	s.client = &http.Transport{
		DialContext:            s.connect,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    maxIdle,
		MaxConnsPerHost:        pool.MaxConnections,
		IdleConnTimeout:        pool.IdleTimeout,
		ResponseHeaderTimeout:  timeouts.ResponseHeader,
		ExpectContinueTimeout:  continueTimeout,
		MaxResponseHeaderBytes: maxHeadBytes,
		WriteBufferSize:        16 << 10,
		ReadBufferSize:         16 << 10,
	}
	return s
}

// Release closes what is idle. What is under way goes on, and whoever ends
// closes what became idle since.
func (s *standard) Release() {
	s.released.Store(true)
	s.client.CloseIdleConnections()
}

// connect makes a connection within the time that the upstream's settings give.
func (s *standard) connect(ctx context.Context, _, _ string) (net.Conn, error) {
	if s.timeouts.Connect > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, s.timeouts.Connect, fmt.Errorf("no connection within %v", s.timeouts.Connect))
		defer cancel()
	}
	name, address := network(s.endpoint)
	raw, err := s.dial(ctx, name, address)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		return nil, &connectError{err}
	}
	if s.observer.Opened != nil {
		s.observer.Opened(s.upstream, s.endpoint.URL)
	}
	return newConnection(raw, func() {
		if s.observer.Closed != nil {
			s.observer.Closed(s.upstream, s.endpoint.URL)
		}
	}), nil
}

// attempt is one use of the transport, until its response has ended.
type attempt struct {
	transport  *standard
	ctx        context.Context
	body       *upload // nil: none
	slashes    bool    // the target begins with two slashes
	connection *connection

	informing sync.Mutex
	inform    func(status int, fields message.Fields) // nil once the head is there
	informed  int

	ending sync.Once
}

// RoundTrip does what pipeline.Transport asks for.
func (s *standard) RoundTrip(ctx context.Context, request *message.Request, inform func(status int, fields message.Fields)) (*message.Response, error) {
	a := &attempt{transport: s, ctx: ctx, inform: inform}
	if request.Body != nil {
		a.body = newUpload(ctx, request)
	}
	outgoing, err := a.request(ctx, request)
	if err == nil {
		err = s.gate.enter(ctx)
	}
	if err != nil {
		_ = a.body.Close() // the error at hand is the one to tell
		return nil, err
	}
	return a.answered(s.client.RoundTrip(outgoing)) //nolint:bodyclose // the message's body closes it
}

// answered makes a message, or an error that says whose fault it is, of what
// net/http gave.
func (a *attempt) answered(response *http.Response, err error) (*message.Response, error) {
	a.informing.Lock()
	a.inform = nil
	a.informing.Unlock()
	if err != nil {
		err = a.failure(err)
		a.end()
		return nil, err
	}
	return a.response(response)
}

// end gives back what the attempt holds. Its connection is idle or closed by
// now.
func (a *attempt) end() {
	a.ending.Do(func() {
		_ = a.body.Close() // nobody waits for the rest of the request
		a.transport.gate.leave()
		if a.transport.released.Load() {
			a.transport.client.CloseIdleConnections()
		}
	})
}

// trace follows what net/http does with the attempt.
func (a *attempt) trace() *httptrace.ClientTrace {
	trace := &httptrace.ClientTrace{
		GotConn:        a.gotConnection,
		Got1xxResponse: func(status int, header textHeader) error { return a.informational(status, http.Header(header)) },
	}
	if a.body != nil {
		trace.Wait100Continue = func() { a.body.awaiting = time.Now() }
		trace.Got100Continue = func() { a.body.continued.Store(true) }
	}
	return trace
}

// gotConnection is called before anything is sent, again if net/http replays
// the request on another connection.
func (a *attempt) gotConnection(info httptrace.GotConnInfo) {
	c, ok := info.Conn.(*connection)
	if !ok {
		panic("BUG: a connection that was not made here")
	}
	a.connection = c
	a.connection.originOf = a.slashes
	if a.body != nil {
		a.body.connection = a.connection
	}
	if observe := a.transport.observer.Reused; info.Reused && observe != nil {
		observe(a.transport.upstream, a.transport.endpoint.URL)
	}
}

var errInformational = errors.New("too many informational responses")

func (a *attempt) informational(status int, header http.Header) error {
	if a.informed++; a.informed > maxInformational {
		return errInformational
	}
	if status == http.StatusContinue {
		return nil
	}
	a.informing.Lock()
	defer a.informing.Unlock()
	if a.inform != nil {
		fields := fieldsOf(header)
		fields.DeleteFunc(invalid)
		a.inform(status, fields)
	}
	return nil
}

// failure says what an error of net/http means.
func (a *attempt) failure(err error) error {
	if client := a.body.failure(); client != nil {
		return client
	}
	if a.ctx.Err() != nil {
		return ended(a.ctx)
	}
	var connect *connectError
	switch {
	case errors.As(err, &connect):
		failure := pipeline.NewError(pipeline.UpstreamConnect, connect.cause)
		failure.Unsent = true
		return failure
	case errors.Is(err, errStopped):
		// The connection ended under a body that the client had yet to send.
		err = errors.New("the endpoint ended the exchange while the request was sent")
	case errors.Is(err, context.DeadlineExceeded): // of the response's head alone: others are ctx's
		return pipeline.NewError(pipeline.UpstreamTimeout, err)
	}
	if lost(err) || err.Error() == serverClosedIdle || a.connection != nil && a.connection.broken.Load() {
		return pipeline.NewError(pipeline.UpstreamReset, err)
	}
	return pipeline.NewError(pipeline.UpstreamProtocol, err)
}

// serverClosedIdle is net/http's text for a connection that ended before a
// response came; it exports no value for it.
const serverClosedIdle = "http: server closed idle connection"
