package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
	"sluice/internal/wire"
)

// content is the body of a request of the engine, read within the listener's
// limits. Whoever reads it may be another task than the one that serves the
// exchange; Close and finish part the two. Its errors are *pipeline.Error, and
// stay.
type content struct {
	exchange *exchange
	in       *input // of whoever reads
	framing  wire.Body
	chunked  wire.Chunked
	limit    int64 // of bytes; 0: none
	pace     pace

	mu       sync.Mutex
	left     int64         // of a sized body; changed by who reads alone
	expected bool          // the client waits for 100 Continue
	reading  bool          // a Read is under way
	over     netloop.Event // set when that returns; nil: nobody waits
	received int64
	whole    bool // io.EOF was returned, or is due
	closed   bool // nobody may read any more
	err      *pipeline.Error
}

// begin makes it the body of the request, whose head took used bytes.
func (b *content) begin(m *model.Listener, limits wire.Limits, used int) {
	e := b.exchange
	b.framing, b.left = e.framing.Body, e.framing.Length
	if b.framing == wire.ChunkedBody {
		b.chunked = wire.NewChunked(limits, used)
		e.request.Trailer = b.trailer
	}
	b.expected = e.framing.Expect
	b.limit = m.Limits.Body
	b.pace = pace{m.Timeouts.MinBodyRate, e.client.listener.limits.bodyGrace, e.client.listener.limits.bodyCredit}
	if b.limit > 0 && b.left > b.limit { // nothing of it is worth asking for
		b.err = tooLarge(b.limit)
	}
	e.request.Body = b
}

// none tells whether the request has no body.
func (b *content) none() bool { return b.framing == wire.NoBody }

// Read reads, waits no longer than the sender has earned, and fails at the
// limit.
func (b *content) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	ask, err := b.enter()
	if err != nil {
		return 0, err
	}
	if ask {
		b.exchange.proceed()
	}
	var n int
	if b.framing == wire.ChunkedBody {
		n, err = b.readChunked(p)
	} else {
		n, err = b.readSized(p)
	}
	return b.leave(n, err)
}

func (b *content) enter() (ask bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed: // also where the rest was thrown away since: that is no end
		return false, errBodyOver
	case b.whole:
		return false, io.EOF
	case b.err != nil:
		return false, b.err
	case b.reading:
		panic("BUG: a body is read twice at once")
	}
	b.reading = true
	ask, b.expected = b.expected, false
	return ask, nil
}

// readSized reads of a body whose length is known. io.EOF is its end.
func (b *content) readSized(p []byte) (n int, err error) {
	p = p[:min(int64(len(p)), b.left)]
	if b.in.buffered() > 0 {
		n = b.in.take(p)
	} else {
		n, err = b.wait(func() (int, error) { return b.in.conn.Read(p) })
	}
	return n, b.sizedEnd(n, err)
}

// sizedEnd is the error of a read of n bytes: io.EOF with the last ones.
func (b *content) sizedEnd(n int, err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case err == nil && int64(n) == b.left:
		return io.EOF
	}
	return err
}

// ReadInto is Read into a pipe, for what of a sized body is not in the buffer.
func (b *content) ReadInto(p *netloop.Pipe, most int64) (int, error) {
	if b.framing != wire.Sized || b.in.buffered() > 0 {
		return 0, errors.ErrUnsupported
	}
	ask, err := b.enter()
	if err != nil {
		return 0, err
	}
	if ask {
		b.exchange.proceed()
	}
	n, err := b.wait(func() (int, error) { return b.in.conn.ReadInto(p, min(most, b.left)) })
	if errors.Is(err, errors.ErrUnsupported) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.stopped()
		return 0, err
	}
	return b.leave(n, b.sizedEnd(n, err))
}

// stopped notes that a Read is over. b.mu is held.
func (b *content) stopped() {
	b.reading = false
	if b.over != nil {
		b.over.Set()
	}
}

// readChunked reads until a piece of the payload is there, or the end.
func (b *content) readChunked(p []byte) (n int, err error) {
	for {
		data := b.in.bytes()
		used, payload, err := b.chunked.Next(data[:min(len(data), len(p))])
		if err != nil {
			return 0, err
		}
		n = copy(p, payload)
		b.in.use(used)
		switch {
		case b.chunked.Done():
			return n, io.EOF
		case n > 0:
			return n, nil
		case used > 0:
			continue
		}
		if _, err := b.wait(func() (int, error) { return 0, b.in.fill() }); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, err
		}
	}
}

// wait reads from the connection, for as long as the sender may be waited for.
func (b *content) wait(read func() (int, error)) (n int, err error) {
	conn := b.in.conn
	if b.pace.rate == 0 {
		return read()
	}
	start := time.Now()
	if !b.bound(start.Add(b.pace.credit)) {
		return 0, errBodyOver
	}
	before := b.in.buffered()
	n, err = read()
	conn.SetReadDeadline(time.Time{})
	if err == nil && !b.pace.gave(n+b.in.buffered()-before, time.Since(start)) {
		return n, os.ErrDeadlineExceeded
	}
	return n, err
}

// bound sets the deadline of reading, unless nobody may read any more: Close
// sets one that is over.
func (b *content) bound(deadline time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.in.conn.SetReadDeadline(deadline)
	return true
}

func (b *content) leave(n int, err error) (int, error) {
	b.mu.Lock()
	b.stopped()
	if b.framing == wire.Sized {
		b.left -= int64(n)
	}
	beyond := b.limit > 0 && b.received+int64(n) > b.limit
	if beyond {
		n = int(b.limit - b.received)
	}
	b.received += int64(n)
	switch {
	case beyond:
		b.err = tooLarge(b.limit)
	case errors.Is(err, io.EOF):
		b.whole = true
		b.mu.Unlock()
		return n, io.EOF
	case err == nil:
		b.mu.Unlock()
		return n, nil
	case b.closed:
		b.mu.Unlock()
		return n, errBodyOver
	default:
		b.err = b.classify(err)
	}
	err = b.err
	b.mu.Unlock()
	return n, err
}

// classify says what an error of reading means.
func (b *content) classify(err error) *pipeline.Error {
	var broken *wire.Error
	switch {
	case errors.As(err, &broken):
		return refusalOf(broken)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return b.pace.tooSlow()
	case errors.Is(err, io.ErrUnexpectedEOF) && b.exchange.Listener.HalfClose:
		e := pipeline.NewError(pipeline.BadRequest, fmt.Errorf("the body is incomplete: %w", err))
		e.Close = true
		return e
	}
	e := pipeline.NewError(pipeline.ClientClosed, fmt.Errorf("%w: %w", pipeline.ErrClientGone, err))
	e.Close = true
	return e
}

// Buffered is how much of the body is there already. Where the client has to be
// asked for it, nothing is.
func (b *content) Buffered() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.framing != wire.Sized || b.expected || b.reading || b.closed || b.err != nil {
		return 0
	}
	return int(min(b.left, int64(b.in.buffered())))
}
