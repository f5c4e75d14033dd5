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
	"sluice/internal/pipeline"
)

const (
	// continueTimeout is how long a body is held back for a 100 (Continue).
	continueTimeout = time.Second
	// maxHeadBytes bounds the head of a response.
	maxHeadBytes = 256 << 10
	// maxInformational bounds the informational responses of one attempt.
	maxInformational = 64
	// maxFields bounds the field lines of a head of a response, and those of a
	// trailer.
	maxFields = 1000
)

// standard sends attempts to one endpoint with net/http's Transport.
type standard struct {
	*way
	dial     dialer
	client   *http.Transport
	fresh    *http.Transport // makes a connection for every request
	gate     gate
	released atomic.Bool
}

func newStandard(w *way, dial dialer) *standard {
	s := &standard{way: w, dial: dial}
	pool, timeouts := w.settings, w.timeouts
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
	s.fresh = s.client.Clone()
	s.fresh.MaxIdleConnsPerHost = -1
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
	said, _ := ctx.Value(introductionKey{}).(string)
	conn, err := s.begun(ctx, raw, said, alpnHTTP1)
	if err != nil {
		return nil, &connectError{err}
	}
	s.opened()
	return newConnection(conn, s.closed), nil
}

// introductionKey is what a context has the PROXY header of an attempt under.
type introductionKey struct{}

// attempt is one use of the transport, until its response has ended.
type attempt struct {
	transport *standard
	ctx       context.Context
	stop      context.CancelCauseFunc // ends ctx
	body      *upload                 // nil: none
	slashes   bool                    // the target begins with two slashes
	written   bool                    // some of the request may have gone out before this sending

	// What follows is of one sending; an attempt has two at most.
	cancel     context.CancelCauseFunc
	sending    *sending    // of the body
	connection *connection // nil: none so far
	turn       *turn       // on it
	reused     bool        // it has served before
	torn       bool        // what sends the body may still be at it

	informing sync.Mutex
	informer  pipeline.Informer // nil once the head is there
	informed  int

	ending sync.Once
}

// RoundTrip does what pipeline.Transport asks for. A request that went to a
// reused connection which turned out to be dead is sent again on a new one,
// once, where that is safe (RFC 9110 9.2.2).
func (s *standard) RoundTrip(ctx context.Context, try *pipeline.Attempt) error {
	ctx, stop := try.Watch.Context(ctx)
	a := &attempt{transport: s, ctx: ctx, stop: stop, informer: try.Informer}
	request := try.Request
	if request.Body != nil {
		a.body = newUpload(ctx, request)
	}
	err := sendable(request)
	if err == nil {
		err = s.gate.enter(ctx)
	}
	if err != nil {
		_ = a.body.Close() // the error at hand is the one to tell
		stop(nil)
		return err
	}
	client := s.client
	if s.proxyProtocol != "" { // net/http would let others have the connection
		client = s.fresh
		ctx = context.WithValue(ctx, introductionKey{}, introduction(s.proxyProtocol, try))
	}
	response, err := a.send(ctx, client, request) //nolint:bodyclose // the message's body closes it
	if a.mayReplay(request, err) {
		if s.gate.max > 0 {
			s.client.CloseIdleConnections() // else there could be one too many
		}
		response, err = a.send(ctx, s.fresh, request) //nolint:bodyclose // the message's body closes it
	}
	answer, err := a.answered(response, err)
	if err == nil {
		try.Response = *answer
	}
	return err
}

// send sends the request once.
func (a *attempt) send(ctx context.Context, client *http.Transport, request *message.Request) (*http.Response, error) {
	a.connection, a.turn, a.reused = nil, nil, false
	ctx, a.cancel = context.WithCancelCause(ctx)
	response, err := client.RoundTrip(a.request(ctx, request))
	if err == nil && !a.turn.answered() {
		// It was left from the answer before, and is none to this request.
		_ = a.connection.spoil()
		_ = response.Body.Close() // it is of no use to anyone
		a.torn = a.body != nil
		response, err = nil, errDead
	}
	if err != nil {
		a.cancel(err)
	}
	return response, err
}

// mayReplay tells whether a request that failed may be sent again: its
// connection had served before and died without a byte of an answer, and what
// was sent of the body is at hand. If nothing at all went out the method does
// not matter.
func (a *attempt) mayReplay(request *message.Request, err error) bool {
	if err == nil || a.ctx.Err() != nil || a.turn == nil || !a.reused || a.torn || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	dead, written := a.turn.fate()
	if !dead && !errors.Is(err, errDead) && err.Error() != serverClosedIdle {
		return false
	}
	a.written = a.written || written
	return a.body.repeatable() && (!written || idempotent(request))
}

// idempotent tells whether an endpoint may see a request twice.
func idempotent(request *message.Request) bool {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete:
		return true
	}
	return request.Fields.Has(message.IdempotencyKey)
}

// answered makes a message, or an error that says whose fault it is, of what
// net/http gave.
func (a *attempt) answered(response *http.Response, err error) (*message.Response, error) {
	a.informing.Lock()
	a.informer = nil
	a.informing.Unlock()
	if err != nil {
		err = a.failure(err)
		a.end()
		return nil, err
	}
	defer a.turn.judge()
	return a.response(response)
}

// end gives back what the attempt holds. Its connection is idle or closed by
// now.
func (a *attempt) end() {
	a.ending.Do(func() {
		_ = a.body.Close() // nobody waits for the rest of the request
		a.cancel(nil)
		a.stop(nil)
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
	if body := a.sending; body != nil {
		trace.Wait100Continue = func() { body.awaiting = time.Now() }
		trace.Got100Continue = func() { body.continued.Store(true) }
	}
	return trace
}

// gotConnection is called before anything is sent.
func (a *attempt) gotConnection(info httptrace.GotConnInfo) {
	c, ok := info.Conn.(*connection)
	if !ok {
		panic("BUG: a connection that was not made here")
	}
	a.connection, a.reused = c, info.Reused
	var died func()
	if info.Reused {
		// The end of its context keeps net/http from replays of its own, which
		// may be many, on connections that may be dead as well.
		cancel := a.cancel
		died = func() { cancel(errDead) }
		a.transport.way.reused()
	}
	a.turn = c.begin(died)
	c.originOf = a.slashes
	if a.sending != nil {
		a.sending.begin(c, a.turn, info.Reused)
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
	if a.informer != nil {
		fields := fieldsOf(header)
		fields.DeleteFunc(invalid)
		a.informer.Inform(status, fields)
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
		a.transport.way.unreached(connect.cause)
		failure := pipeline.NewError(pipeline.UpstreamConnect, connect.cause)
		failure.Unsent = !a.written
		return failure
	case errors.Is(err, errStopped):
		// The connection ended under a body that the client had yet to send.
		err = errors.New("the endpoint ended the exchange while the request was sent")
	case errors.Is(err, context.DeadlineExceeded): // of the response's head alone: others are ctx's
		return pipeline.NewError(pipeline.UpstreamTimeout, err)
	}
	if lost(err) || errors.Is(err, errDead) || err.Error() == serverClosedIdle || a.connection != nil && a.connection.reset() {
		return pipeline.NewError(pipeline.UpstreamReset, err)
	}
	return pipeline.NewError(pipeline.UpstreamProtocol, err)
}

// serverClosedIdle is net/http's text for a connection that ended before a
// response came; it exports no value for it.
const serverClosedIdle = "http: server closed idle connection"
