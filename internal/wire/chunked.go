package wire

import (
	"bytes"

	"sluice/internal/message"
)

// defaultTrailerBytes bounds extensions and trailers where HeaderBytes does not.
const defaultTrailerBytes = 1 << 20

// The most digits of a chunk's size, leading zeros too, and the largest size: an
// exbibyte, with room for whoever adds to it. net/http miscounts above it.
const (
	sizeDigits = 16
	sizeMost   = 1<<60 - 1
)

// Chunked decodes a body in the chunked coding (RFC 9112 7.1). It holds no
// bytes but the trailer's. Make it with NewChunked; it is a value that may be
// part of another, and is not safe for concurrent use.
type Chunked struct {
	state   chunkState
	digits  uint8
	size    int64 // of the chunk; then what is left of it
	budget  int   // bytes of extensions and trailers that may come
	most    int   // field lines of the trailer; 0: any number
	raw     []byte
	trailer message.Fields
	err     error
}

type chunkState uint8

const (
	inSize      chunkState = iota
	inExtension            // behind its semicolon
	sizeEnd                // the CR has come
	inData
	dataCR // the payload has come
	dataLF
	lineStart // in the trailer
	inLine
	lastLF
	done
)

// NewChunked returns a decoder for the body behind a head that took used bytes
// of the limits. An exhausted bound lets pass what needs none of it.
func NewChunked(limits Limits, used int) Chunked {
	budget := defaultTrailerBytes
	if limits.HeaderBytes > 0 {
		budget = max(limits.HeaderBytes-used, 0)
	}
	return Chunked{budget: budget, most: limits.Headers}
}

// Done tells whether the body has ended; a connection that ends before cuts it.
func (c *Chunked) Done() bool { return c.state == done && c.err == nil }

// Trailer returns the trailer fields; complete once Done, nil before. Those
// that may not be trailers are left out (see ForbiddenTrailer).
func (c *Chunked) Trailer() message.Fields { return c.trailer }

// Next decodes from the front of src until it has a piece of the payload, needs
// more, or is done. It took n bytes; payload is part of src. Call it again with
// the rest until it takes nothing. Behind the body's end it takes nothing. An
// error is an *Error, and stays; the connection cannot go on.
//
// Extensions are skipped. A chunk's size may stand behind leading zeros, but
// neither it nor its line's end has white space around it.
func (c *Chunked) Next(src []byte) (n int, payload []byte, err error) {
	if c.err != nil {
		return 0, nil, c.err
	}
	for n < len(src) && c.state != done {
		switch c.state {
		case inData:
			end := n + int(min(c.size, int64(len(src)-n)))
			payload = src[n:end]
			if c.size -= int64(len(payload)); c.size == 0 {
				c.state = dataCR
			}
			return end, payload, nil
		case inExtension:
			n, c.err = c.extension(src, n)
		case inLine:
			n, c.err = c.line(src, n)
		default:
			var taken int
			taken, c.err = c.step(src[n])
			n += taken
		}
		if c.err != nil {
			return 0, nil, c.err
		}
	}
	return n, nil, nil
}

// step goes on with one byte.
func (c *Chunked) step(b byte) (taken int, err error) {
	switch c.state {
	case inSize:
		return 1, c.sizeByte(b)
	case sizeEnd:
		if b != '\n' {
			return 0, ErrBareCR
		}
		c.digits = 0
		c.state = inData
		if c.size == 0 {
			c.state = lineStart
		}
	case dataCR:
		if b != '\r' {
			return 0, ErrChunkEnd
		}
		c.state = dataLF
	case dataLF:
		if b != '\n' {
			return 0, ErrChunkEnd
		}
		c.state = inSize
	case lineStart:
		switch b {
		case '\r':
			c.state = lastLF
		case '\n':
			return 0, ErrBareLF
		default:
			c.state = inLine
			return 0, nil
		}
	case lastLF:
		if b != '\n' {
			return 0, ErrBareCR
		}
		c.state = done
		return 1, c.readTrailer()
	case inExtension, inData, inLine, done:
		panic("BUG: this state takes no single byte")
	}
	return 1, nil
}

func (c *Chunked) sizeByte(b byte) error {
	if value := digit[b]; value > 0 {
		if c.digits == sizeDigits || c.size > sizeMost>>4 {
			return ErrChunkSize
		}
		c.digits++
		c.size = c.size<<4 | int64(value-1)
		return nil
	}
	switch {
	case b == '\n':
		return ErrBareLF
	case c.digits == 0:
		return ErrChunkSize
	case b == ';':
		c.state = inExtension
	case b == '\r':
		c.state = sizeEnd
	default:
		return ErrChunkSize
	}
	return nil
}

// extension skips what of a chunk's extensions is in src from n on, and a CR
// behind them.
func (c *Chunked) extension(src []byte, n int) (int, error) {
	end := control(src, n)
	if c.budget -= end - n; c.budget < 0 {
		return 0, ErrHeaderTooLarge
	}
	switch {
	case end == len(src):
		return end, nil
	case src[end] == '\n':
		return 0, ErrBareLF
	case src[end] != '\r':
		return 0, ErrChunkExtension
	}
	c.state = sizeEnd
	return end + 1, nil
}

// line keeps what of a trailer's line is in src from n on.
func (c *Chunked) line(src []byte, n int) (int, error) {
	end := len(src)
	next := bytes.IndexByte(src[n:], '\n')
	if next >= 0 {
		end = n + next + 1
	}
	if c.budget -= end - n; c.budget < 0 {
		return 0, ErrHeaderTooLarge
	}
	c.raw = append(c.raw, src[n:end]...)
	if next >= 0 {
		if len(c.raw) < 2 || c.raw[len(c.raw)-2] != '\r' {
			return 0, ErrBareLF
		}
		c.state = lineStart
	}
	return end, nil
}

func (c *Chunked) readTrailer() error {
	if c.raw == nil {
		return nil
	}
	head := string(c.raw)
	stop := len(c.raw)
	s := section{fields: room(nil, bytes.Count(c.raw, []byte{'\n'}), c.most), place: inTrailer}
	if err := s.parse(append(c.raw, "\r\n"...), head, 0, 0, stop, c.most); err != nil {
		return err
	}
	c.raw, c.trailer = nil, s.fields
	return nil
}

// ForbiddenTrailer tells whether a field may not be a trailer (RFC 9110 6.5.1):
// what frames, routes, modifies or authenticates a message, or says how to read
// its content, has been acted on when a trailer comes. What a gateway says about
// where a request came from belongs to these. A receiver that merges trailers
// into the header would else believe them.
func ForbiddenTrailer(field message.Field) bool {
	switch field.ID {
	case message.Other:
		name := field.Name
		if len(name) > 3 && fold(name[:3], "if-") {
			return true
		}
		for _, forbidden := range forbiddenTrailers {
			if fold(name, forbidden) {
				return true
			}
		}
	case message.Connection, message.ContentEncoding, message.ContentLength, message.ContentType, message.Host, message.KeepAlive,
		message.ProxyConnection, message.TE, message.Trailer, message.TransferEncoding, message.Upgrade,
		message.Authorization, message.Cookie, message.ProxyAuthenticate, message.ProxyAuthorization, message.SetCookie, message.WWWAuthenticate,
		message.CacheControl, message.Date, message.Expect, message.Location, message.RetryAfter, message.Vary,
		message.Forwarded, message.Via, message.XForwardedFor, message.XForwardedHost, message.XForwardedProto, message.XRealIP, message.XRequestID:
		return true
	}
	return false
}

// forbiddenTrailers are those whose names have no number.
var forbiddenTrailers = [...]string{"age", "content-range", "expires", "max-forwards", "pragma", "range", "realm", "warning"}
