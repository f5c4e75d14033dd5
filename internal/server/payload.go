package server

import (
	"errors"
	"fmt"
	"io"
	"time"

	"sluice/internal/message"
	"sluice/internal/wire"
)

// payload is the body of a response on its way to the client.
type payload struct {
	*exchange
	framing wire.Body
	left    int64 // of a sized body
	idle    time.Duration
	unsent  int64 // bytes of the body that were read and not written
	sent    int   // bytes that were written, the head and what frames the body among them
	empty   int   // reads in a row that gave neither a byte nor an error
	done    bool
}

// mostEmpty is how many such reads a body may have in a row, whatever it says is
// there: one that goes on so would hold up its loop for ever.
const mostEmpty = 100

// The room that the header of a chunk takes, which has four digits at most, and
// what ends it.
const (
	chunkHead = len("ffff\r\n")
	chunkRoom = chunkHead + len(wire.ChunkEnd)
	mostChunk = 0xffff
)

// appendReady appends what is there of the body, up to the room of b. It reads
// on while it is told that more is there, so that the end is seen, too.
func (p *payload) appendReady(b []byte) ([]byte, error) {
	body := p.Response.Body
	for !p.done && message.Buffered(body) > 0 {
		from := len(b)
		room := cap(b) - from
		if p.framing == wire.ChunkedBody {
			from += chunkHead
			room -= chunkRoom + len(lastChunk)
		}
		if room < leastReady {
			return b, nil
		}
		n, err := p.read(b[from : from+min(room, message.Buffered(body), mostChunk)])
		if n > 0 {
			b = p.framed(b, from, n)
		} else if err == nil && !p.done { // less is there than it says
			return b, nil
		}
		if err != nil {
			return b, err
		}
		if p.done {
			return p.appendEnd(b)
		}
	}
	return b, nil
}

// leastReady is for how little room no part of a body goes along with a head.
const leastReady = 512

const lastChunk = "0\r\n\r\n"

// framed is b with n bytes of the body that stand at from, which is behind the
// room for their header where the body is chunked.
func (p *payload) framed(b []byte, from, n int) []byte {
	if p.framing != wire.ChunkedBody {
		return b[:from+n]
	}
	header := wire.AppendChunkHeader(b, int64(n))
	if gap := from - len(header); gap > 0 { // fewer digits than there is room for
		copy(header[len(header):from+n-gap], b[from:from+n])
	}
	return append(header[:len(header)+n], wire.ChunkEnd...)
}

// read reads some of the body and notes its end. Its errors are those that the
// client must see as a cut.
func (p *payload) read(b []byte) (int, error) { return p.took(p.Response.Body.Read(b)) }

func (p *payload) took(n int, err error) (int, error) {
	if p.framing == wire.Sized {
		if int64(n) > p.left {
			n, err = int(p.left), errors.New("the body of the response is longer than its length")
		}
		p.left -= int64(n)
	}
	p.unsent += int64(n)
	if p.empty++; n > 0 || err != nil {
		p.empty = 0
	}
	switch {
	case p.empty > mostEmpty:
		return 0, fmt.Errorf("the body of the response: %w", io.ErrNoProgress)
	case err == nil:
		p.done = p.framing == wire.Sized && p.left == 0
		return n, nil
	case err == io.EOF && p.framing == wire.Sized && p.left > 0: //nolint:errorlint // an end that is one, and no failure that wraps it
		return n, fmt.Errorf("the body of the response is shorter than its length: %w", io.ErrUnexpectedEOF)
	case err == io.EOF: //nolint:errorlint // as above
		p.done = true
		return n, nil
	}
	return n, err
}

// appendEnd appends what ends the body.
func (p *payload) appendEnd(b []byte) ([]byte, error) {
	if p.framing != wire.ChunkedBody {
		return b, nil
	}
	var trailer message.Fields
	if p.Response.Trailer != nil {
		trailer = p.Response.Trailer()
		trailer.DeleteFunc(func(field message.Field) bool { return !valid(&field) })
	}
	return wire.AppendLastChunk(b, trailer)
}

// send writes what was appended, and counts what the body has of it.
func (p *payload) send(data []byte) error {
	p.begun = true
	framing := int64(len(data)) - p.unsent // most of it stands before the body
	n, err := p.exchange.send(data, p.idle)
	p.note(n, framing)
	return err
}

// note counts what was written: n bytes, those of a head or a chunk among them.
func (p *payload) note(n int, framing int64) {
	p.sent += n
	p.BytesOut += min(max(int64(n)-framing, 0), p.unsent)
	p.unsent = 0
}

// copy streams the rest of the body.
func (p *payload) copy() error {
	if err := p.pipe(); err != nil || p.done {
		return err
	}
	buffer := p.client.listener.bodies.get()
	defer p.client.listener.bodies.put(buffer)
	from, room := 0, len(buffer)
	if p.framing == wire.ChunkedBody {
		from, room = chunkHead, len(buffer)-chunkRoom-len(lastChunk)
	}
	for !p.done {
		n, err := p.read(buffer[from : from+room])
		out := buffer[:0]
		if n > 0 {
			out = p.framed(out, from, n)
		}
		if err == nil && p.done {
			out, err = p.appendEnd(out)
		}
		if len(out) > 0 {
			if lost := p.send(out); lost != nil {
				return lostClient(&p.ctx, lost)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
