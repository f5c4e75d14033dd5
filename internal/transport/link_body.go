package transport

import (
	"errors"
	"io"

	"sluice/internal/netloop"
	"sluice/internal/wire"
)

// content is the body of a response: the link that it comes over. Nothing is
// allocated for it, so nobody may touch it after its end.
type content link

// Read reads what is there. With the last bytes, or after them, it returns
// io.EOF, and the connection is another's by then.
func (c *content) Read(p []byte) (int, error) {
	l := (*link)(c)
	if l.try == nil {
		return 0, errEnded
	}
	if len(p) == 0 {
		return 0, nil
	}
	switch l.framing.Body {
	case wire.Sized:
		return l.readSized(p)
	case wire.ChunkedBody:
		return l.readChunked(p)
	case wire.UntilClose, wire.NoBody:
	}
	return l.readRest(p)
}

// errEnded is for a body that is used after its end, where that shows.
var errEnded = errors.New("the response is over")

// buffered takes what is in the buffer, and gives it back when nothing is left.
func (l *link) buffered(p []byte) int {
	n := copy(p, l.data[l.from:l.to])
	if l.from += n; l.from == l.to {
		l.drain()
	}
	return n
}

func (l *link) readSized(p []byte) (int, error) {
	n := l.buffered(p)
	if n == 0 && l.left > 0 {
		var err error
		if n, err = l.receive(p[:min(int64(len(p)), l.left)]); err != nil {
			return 0, l.fail(err)
		}
		l.left -= int64(n)
	}
	if l.left == 0 && l.from == l.to {
		return n, l.over()
	}
	return n, nil
}

// ReadInto is Read into a pipe, for what of a sized body is not in the buffer.
func (c *content) ReadInto(p *netloop.Pipe, most int64) (int, error) {
	l := (*link)(c)
	if l.try == nil || l.framing.Body != wire.Sized || l.from < l.to || l.left == 0 {
		return 0, errors.ErrUnsupported
	}
	l.drain() // its buffer is of no more use
	n, err := l.receiveInto(p, nil, min(most, l.left))
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return 0, err
	case err != nil:
		return 0, l.fail(err)
	}
	if l.left -= int64(n); l.left == 0 {
		return n, l.over()
	}
	return n, nil
}

// readRest reads up to the end of the connection.
func (l *link) readRest(p []byte) (int, error) {
	if n := l.buffered(p); n > 0 {
		return n, nil
	}
	n, err := l.receive(p)
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		return 0, l.over()
	}
	return 0, l.fail(err)
}

// decodeBuffered decodes what is in the buffer.
func (l *link) decodeBuffered() {
	n, err := l.decode(l.data[l.from:l.to])
	l.to, l.broken = l.from+n, err
}

// readChunked reads into p and decodes there: what is decoded is never longer.
func (l *link) readChunked(p []byte) (int, error) {
	n := l.buffered(p)
	for n == 0 && l.broken == nil && !l.chunked.Done() {
		var err error
		if n, err = l.receive(p); err != nil {
			return 0, l.fail(err)
		}
		n, l.broken = l.decode(p[:n])
	}
	switch {
	case l.from < l.to:
	case l.chunked.Done():
		*l.trailer = l.chunked.Trailer()
		return n, l.over()
	case n == 0:
		return 0, l.fail(l.broken)
	}
	return n, nil
}

// decode decodes a piece of a chunked body in place. Nothing may be behind the
// body if the connection is to go on.
func (l *link) decode(p []byte) (n int, err error) {
	for src := p; len(src) > 0; {
		taken, payload, err := l.chunked.Next(src)
		n += copy(p[n:], payload)
		switch {
		case err != nil:
			return n, err
		case taken == 0:
			l.framing.Close = true
			return n, nil
		}
		src = src[taken:]
	}
	return n, nil
}

// over ends the attempt with the response's body.
func (l *link) over() error {
	l.complete()
	return io.EOF
}

// Buffered is how much Read returns without waiting.
func (c *content) Buffered() int { return c.to - c.from }

// Close ends the attempt. The connection goes on if the rest of the response is
// there.
func (c *content) Close() error {
	l := (*link)(c)
	if l.try == nil {
		return nil
	}
	there := l.framing.Body == wire.Sized && l.left == 0 || l.framing.Body == wire.ChunkedBody && l.chunked.Done()
	l.framing.Close = l.framing.Close || !there
	l.from = l.to
	l.complete()
	return nil
}
