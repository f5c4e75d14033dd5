package transport

import (
	"errors"
	"io"
	"net/http"
	"os"
	"syscall"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
	"sluice/internal/wire"
)

// carry sends the request with its body, nil where there is none, and reads the
// head of the response.
func (l *link) carry(body io.ReadCloser) error {
	if l.bare = body == nil; !l.bare {
		if err := l.attach(body); err != nil {
			return err
		}
	}
	return l.ask()
}

// attach puts a body that is there already behind the head. Any other is sent
// while the response is waited for.
func (l *link) attach(body io.ReadCloser) error {
	length, room := l.try.Request.Length, cap(l.request)-len(l.request)
	l.holding = l.try.Request.Fields.HasToken(message.Expect, "100-continue")
	if l.holding || length < 0 || length > int64(room) || int64(message.Buffered(body)) < length {
		l.sender = newSender(l, body)
		return nil
	}
	defer func() { _ = body.Close() }() // all of it was read, or an error is at hand
	end := len(l.request) + int(length)
	for empty := 0; len(l.request) < end; empty++ {
		n, err := body.Read(l.request[len(l.request):end])
		l.request = l.request[:len(l.request)+n]
		if n > 0 {
			empty = 0
		} else if err == nil && empty == mostEmpty {
			err = errNoProgress()
		}
		if err != nil && len(l.request) < end {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return uploadFailure(err)
		}
	}
	return nil
}

// ask sends the request and reads the head of the response. An endpoint may
// answer early and close while the request is still being sent, and its answer
// is worth more than a failure to send the rest.
func (l *link) ask() error {
	err := l.write(l.request)
	if err == nil {
		err = l.sendBody()
	}
	if isKnown(err) {
		return err
	}
	if err == nil && l.bare {
		l.drain()
		l.request = nil // it can be made again
	}
	return l.response()
}

// await waits for the response, and takes a buffer when it comes: the attempts
// that wait need none, and those that do not share the few that the processor
// still has.
func (l *link) await() error {
	l.hasten()
	for {
		err := l.conn.Await()
		if err == nil {
			l.lend(l.pool.engine.takeBuffer())
			return nil
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if err := l.overdue(); err != nil {
			return err
		}
	}
}

// again makes the head of a request without a body once more.
func (l *link) again() error {
	l.drain()
	b := l.pool.engine.takeBuffer()
	request, err := wire.AppendRequestHead(b[:0], l.try.Request, wire.Framing{})
	if err != nil {
		l.pool.engine.buffers.Put(b)
		return pipeline.NewError(pipeline.BadRequest, err)
	}
	l.lend(b)
	l.request = request
	return nil
}

// isKnown tells whether an error says what it means, as that of a time-out does.
func isKnown(err error) bool {
	if err == nil {
		return false
	}
	var known *pipeline.Error
	return errors.As(err, &known) || errors.Is(err, pipeline.ErrClientGone)
}

// sendBody begins to send a body, or goes on with it on another connection.
func (l *link) sendBody() error {
	switch {
	case l.sender == nil:
		l.whole = true
		l.sent()
	case l.holding:
		l.mu.Lock()
		l.hold = time.Now().Add(continueTimeout)
		l.mu.Unlock()
	case l.sender.started:
		return l.sender.resume(l)
	default:
		return l.proceed()
	}
	return nil
}

// proceed begins to send a body.
func (l *link) proceed() error {
	l.holding = false
	l.mu.Lock()
	l.hold = time.Time{}
	l.mu.Unlock()
	return l.sender.start(l)
}

// mayReplay tells whether a request that failed may be sent again: its
// connection had served before and died without a byte of an answer, what was
// sent of the body is at hand, and the endpoint may see it twice or cannot have
// seen it. No more of the body is sent then, so that this stays true.
func (l *link) mayReplay(err error) bool {
	if !l.reused || l.came || l.ctx.Err() != nil || isKnown(err) {
		return false
	}
	if l.sender != nil && !l.sender.pause() {
		return false
	}
	l.seen = l.arrived(err)
	return !l.seen || idempotent(l.try.Request)
}

// arrived tells whether the endpoint may have got any of the request before its
// connection ended with err: something was acknowledged. A connection that was
// closed acknowledges with its end (FIN) all that had come. One that was reset
// does not: what has come, and was read, may wait to be acknowledged for some
// hundredths of a second. After a close, bytes are answered with a reset, too,
// but then the system tells of the end, or of a broken pipe.
func (l *link) arrived(err error) bool {
	written := l.written
	if l.sender != nil {
		written = l.sender.reached(l)
	}
	if written == l.before {
		return false
	}
	closed := errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || l.secure != nil && errors.Is(err, io.ErrUnexpectedEOF)
	if !closed {
		return true
	}
	acknowledged, known := acknowledged(l.conn)
	return !known || acknowledged > l.under
}

// replace makes another connection for an attempt whose own has died, in its
// place. After an error the attempt is over.
func (p *pool) replace(l *link) (*link, error) {
	if l.request == nil {
		if err := l.again(); err != nil {
			return nil, l.fail(err)
		}
	}
	l.unguard()
	l.drop()
	next, err := p.connect(l.ctx, l.shelf, l.try.Watch, l.introduction, l.seen)
	if err != nil {
		if l.sender != nil {
			l.sender.stop()
		}
		l.end()
		return nil, err
	}
	next.begin(l.ctx, l.own, l.try, l.buffer, l.request)
	next.sender, next.holding, next.bare = l.sender, l.holding, l.bare
	l.buffer, l.sender = nil, nil
	l.end()
	return next, nil
}

// response reads the head of the response, with those of informational ones
// before it.
func (l *link) response() error {
	response := &l.try.Response
	base := len(response.Fields)
	var scan wire.Scan
	limits := wire.Limits{HeaderBytes: maxHeadBytes, Headers: maxFields}
	for {
		if l.to > l.from {
			n, framing, err := wire.ResponseHead(response, l.data[l.from:l.to], &scan, l.try.Request.Method, limits)
			if err != nil {
				return err
			}
			if n > 0 && response.Status >= 200 || n > 0 && framing.Upgrade {
				l.from += n
				return l.answered(framing, n)
			}
			if n > 0 {
				l.from += n
				l.closing = l.closing || framing.Close
				fields := response.Fields[base:]
				response.Fields = response.Fields[:base]
				if err := l.informational(response.Status, fields); err != nil {
					return err
				}
				continue
			}
			if l.try.Watch != nil {
				l.try.Watch.Touch() // a part of the head is bytes, too
			}
		}
		if l.data == nil {
			if err := l.await(); err != nil {
				return err
			}
		}
		l.makeRoom()
		n, err := l.receive(l.data[l.to:])
		if err != nil {
			return err
		}
		l.to += n
	}
}

// makeRoom sees to it that more can be read.
func (l *link) makeRoom() {
	switch {
	case l.from == l.to:
		l.from, l.to = 0, 0
	case l.to < len(l.data):
	case l.from > 0:
		l.to = copy(l.data, l.data[l.from:l.to])
		l.from = 0
	default:
		data := make([]byte, 4*len(l.data))
		copy(data, l.data)
		l.drain()
		l.data, l.to = data, len(data)/4
	}
}

// informational takes an informational response.
func (l *link) informational(status int, fields message.Fields) error {
	if l.informed++; l.informed > maxInformational {
		return pipeline.NewError(pipeline.UpstreamProtocol, errInformational)
	}
	switch {
	case status != http.StatusContinue:
		if l.try.Informer != nil {
			l.try.Informer.Inform(status, fields.Clone()) // the room is for the response's
		}
	case l.holding:
		return l.proceed()
	}
	return nil
}

// answered takes the head of the response, which has used bytes. Where no more
// is to come, the attempt is over.
func (l *link) answered(framing wire.Framing, used int) error {
	framing.Close = framing.Close || l.closing
	l.framing = framing
	response := &l.try.Response
	l.mu.Lock()
	l.head, l.hold = time.Time{}, time.Time{}
	l.mu.Unlock()
	switch framing.Body {
	case wire.NoBody:
		if framing.Upgrade {
			return l.switched()
		}
		if response.Length == 0 {
			response.Body = nothing{}
		}
		l.complete()
		return nil
	case wire.Sized:
		l.left = framing.Length
		if excess := int64(l.to-l.from) - l.left; excess > 0 {
			l.framing.Close = true // what is behind the body is no answer to anything
			l.to -= int(excess)
		}
		l.left -= int64(l.to - l.from)
	case wire.ChunkedBody:
		l.chunked = wire.NewChunked(wire.Limits{HeaderBytes: maxHeadBytes, Headers: maxFields}, used)
		trailer := new(message.Fields)
		l.trailer = trailer
		response.Trailer = func() message.Fields { return *trailer }
		l.decodeBuffered()
	case wire.UntilClose:
	}
	response.Body = (*content)(l)
	return nil
}

// nothing is a body of no bytes.
type nothing struct{}

// Read is at the end.
func (nothing) Read([]byte) (int, error) { return 0, io.EOF }

// Close does nothing.
func (nothing) Close() error { return nil }
