package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/quic-go/quic-go/http3"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/rpc"
)

// errBodyOver is what reading a body gives after its exchange.
var errBodyOver = errors.New("the body of a request was read after its exchange or its Close")

// body reads the body of a request within the listener's limits. What reads it
// may be another goroutine than the connection's; finish parts the two. Its
// errors are *pipeline.Error, and stay.
type body struct {
	inner     io.Reader
	deadline  func(time.Time) error
	proceed   func()      // sends 100 Continue; nil where nobody waits for it
	gone      func() bool // whether the client has left
	trailers  func() message.Fields
	length    int64 // or message.Unknown
	limit     int64 // of bytes; 0: none
	pace      pace
	halfClose bool
	framed    bool // of HTTP/3, where a client that leaves ends its stream otherwise than a body

	mu       sync.Mutex
	over     sync.Cond // reading has become false
	reading  bool
	until    time.Time // the deadline of the Read under way, if rate is set
	received int64
	whole    bool // io.EOF was seen
	closed   bool
	finished bool
	broken   bool // the Read under way at finish failed
	err      *pipeline.Error
	fields   message.Fields // trailers
}

func newBody(t *turn, m *model.Listener) *body {
	b := &body{
		inner: t.r.Body, deadline: t.rc.SetReadDeadline, length: t.r.ContentLength,
		gone: func() bool { return t.r.Context().Err() != nil }, trailers: func() message.Fields { return trailerFields(t.r) },
		limit: m.Limits.Body, pace: pace{m.Timeouts.MinBodyRate, t.listener.limits.bodyGrace, t.listener.limits.bodyCredit}, halfClose: m.HalfClose, framed: t.r.ProtoMajor == 3,
	}
	if t.r.ProtoAtLeast(1, 1) && t.r.Header.Get("Expect") != "" { // net/http lets 100-continue alone pass
		b.proceed = t.proceed
	}
	if b.limit > 0 && b.length > b.limit { // nothing of it is worth asking for
		b.err = tooLarge(b.limit)
	}
	if form, _ := rpc.FormOf(t.r.Header.Get("Content-Type")); form == rpc.Plain {
		b.pace = pace{} // a call's client may be silent for as long as the route lets it
	}
	b.over.L = &b.mu
	return b
}

// Read reads, waits no longer than the sender has earned, and fails at the
// limit.
func (b *body) Read(p []byte) (int, error) {
	proceed, err := b.enter()
	if err != nil {
		return 0, err
	}
	if proceed != nil {
		proceed()
	}
	start := time.Now()
	n, err := b.inner.Read(p)
	return b.leave(n, err, time.Since(start))
}

func (b *body) enter() (proceed func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.whole:
		return nil, io.EOF
	case b.err != nil:
		return nil, b.err
	case b.closed, b.finished:
		return nil, errBodyOver
	case b.reading:
		panic("BUG: a body is read twice at once")
	}
	b.reading = true
	if b.pace.rate > 0 {
		b.until = time.Now().Add(b.pace.credit)
		if err := b.deadline(b.until); err != nil {
			b.until = time.Time{} // a closed connection: reading tells
		}
	}
	proceed, b.proceed = b.proceed, nil
	return proceed, nil
}

func (b *body) leave(n int, err error, waited time.Duration) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	b.over.Broadcast()
	beyond := b.limit > 0 && b.received+int64(n) > b.limit
	if beyond {
		n = int(b.limit - b.received)
	}
	b.received += int64(n)
	inTime := b.pace.gave(n, waited)
	switch {
	case beyond:
		b.err = tooLarge(b.limit)
	case errors.Is(err, io.EOF):
		b.whole = true
		b.fields = b.trailers()
		return n, io.EOF
	case err != nil && b.finished:
		b.broken = true
		return n, errBodyOver
	case err != nil:
		b.err = b.classify(err)
	case !inTime:
		b.err = b.pace.tooSlow()
	default:
		return n, nil
	}
	b.err.Close = true
	return n, b.err
}

// classify says what an error of net/http's reader means. net/http ends the
// request's context before it returns an error of the connection.
func (b *body) classify(err error) *pipeline.Error {
	var broken *net.OpError
	var own *http3.Error
	ended := errors.Is(err, io.ErrUnexpectedEOF)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return b.pace.tooSlow()
	case malformed(err):
		return refusalOver(err)
	case leftQUIC(err):
		return pipeline.NewError(pipeline.ClientClosed, fmt.Errorf("%w: %w", pipeline.ErrClientGone, err))
	case b.framed && !errors.As(err, &own):
		return pipeline.NewError(pipeline.BadRequest, fmt.Errorf("the body is malformed: %w", err))
	case b.halfClose && (ended || b.gone() && !errors.As(err, &broken)):
		return pipeline.NewError(pipeline.BadRequest, fmt.Errorf("the body is incomplete: %w", err))
	case ended, b.gone(), errors.As(err, &broken):
		return pipeline.NewError(pipeline.ClientClosed, fmt.Errorf("%w: %w", pipeline.ErrClientGone, err))
	}
	return pipeline.NewError(pipeline.BadRequest, fmt.Errorf("the body is malformed: %w", err))
}

// Close ends the reading. A Read under way may go on until finish: to break it
// would break the connection, on which a response may be under way.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return nil
}

// trailer is the Trailer of the request: nothing before the end of the body.
func (b *body) trailer() message.Fields {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fields
}

// finish ends all reading, after the response. A Read under way has until then
// to end by itself. If it does not it is broken, and with it the reading side of
// the connection; then interrupted is true.
func (b *body) finish(until time.Time) (interrupted bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finished = true
	if !b.reading {
		return false
	}
	_ = b.deadline(until) // fails on a closed connection only, where Read returns by itself
	for b.reading {
		b.over.Wait()
	}
	return b.broken
}

// drain throws the rest of the body away, after finish and by the deadline that
// is set. It tells whether it came to the end.
func (b *body) drain() (whole bool) {
	if b.failure() != nil {
		return false
	}
	_, err := io.CopyN(io.Discard, b.inner, keepAliveBody+1)
	return errors.Is(err, io.EOF)
}

// verdict is the failure of the body so far, also one that the Read under way
// is about to return.
func (b *body) verdict() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.err != nil:
		return b.err
	case b.reading && !b.finished && !b.until.IsZero() && !time.Now().Before(b.until):
		return b.pace.tooSlow()
	}
	return nil
}

// failure is the failure of the body that Read has returned, or nil.
func (b *body) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		return nil
	}
	return b.err
}

// small tells whether the rest of the body may be worth reading to keep the
// connection. Where the client waits for 100 Continue it never comes.
func (b *body) small() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err == nil && b.proceed == nil && b.length-b.received <= keepAliveBody
}

// abandoned tells whether nobody will read the rest of the body.
func (b *body) abandoned() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed && !b.reading && !b.whole
}

// complete tells whether the body was read to its end.
func (b *body) complete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.whole
}

// count is how many bytes of the body were read.
func (b *body) count() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.received
}
