package h2

import (
	"errors"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// block is a header block that comes in: HEADERS and what CONTINUATION brings
// (RFC 9113 4.3). Past its limits fields are decoded, for the decoder's table, but
// not kept. It is the reader's own, and used again.
type block struct {
	bytes, lines int // limits of the list
	hard, pieces int // limits of the block, past which the connection ends

	open      bool // it has not come whole
	stream    uint32
	endStream bool
	selfish   bool // the stream is to depend on itself

	fields  []hpack.HeaderField
	size    int // of the list so far
	coded   int // bytes of the block so far
	frames  int
	tooLong bool
}

func (b *block) limit(o *Options) {
	b.bytes, b.lines = o.MaxHeaderBytes, o.MaxFields
	b.hard = 4 * max(o.MaxHeaderBytes, frameSize)
	b.pieces = 16 + b.hard/frameSize
}

// emit takes a field from the decoder.
func (b *block) emit(field hpack.HeaderField) {
	if b.tooLong {
		return
	}
	b.size += int(field.Size())
	if b.size > b.bytes || len(b.fields) >= b.lines+pseudoFields {
		b.tooLong = true
		return
	}
	b.fields = append(b.fields, field)
}

// pseudoFields is how many of a request's fields are no lines of its header.
const pseudoFields = 5

func (c *Conn) headers(f *http2.HeadersFrame) error {
	b := &c.block
	b.size, b.coded, b.frames, b.tooLong = 0, 0, 0, false
	b.open, b.stream, b.endStream = true, f.StreamID, f.StreamEnded()
	b.selfish = f.HasPriority() && f.Priority.StreamDep == f.StreamID
	c.decoder.SetEmitEnabled(true)
	return c.fragment(f.HeaderBlockFragment(), f.HeadersEnded())
}

func (c *Conn) continuation(f *http2.ContinuationFrame) error {
	return c.fragment(f.HeaderBlockFragment(), f.HeadersEnded())
}

func (c *Conn) fragment(piece []byte, last bool) error {
	b := &c.block
	b.coded += len(piece)
	if b.frames++; b.frames > b.pieces {
		return ErrContinuations
	}
	if b.coded > b.hard {
		return ErrHeaderBlock
	}
	if b.tooLong {
		c.decoder.SetEmitEnabled(false) // spares the work; the table is kept
	}
	if _, err := c.decoder.Write(piece); err != nil {
		return undecodable(err)
	}
	if !last {
		c.hurry()
		return nil
	}
	if err := c.decoder.Close(); err != nil {
		return undecodable(err)
	}
	b.open = false
	return c.listed()
}

func undecodable(err error) error {
	if errors.Is(err, hpack.ErrStringLength) {
		return ErrHeaderBlock
	}
	return ErrCompression
}

// listed does with a whole list of fields what it is for: it opens a stream, or
// ends one as its trailers.
func (c *Conn) listed() error {
	b := &c.block
	defer func() { // nothing of a request is kept
		clear(b.fields)
		b.fields = b.fields[:0]
	}()
	id := b.stream
	c.mu.Lock()
	if s := c.live(id); s != nil {
		defer c.mu.Unlock()
		return c.trailers(s)
	}
	switch {
	case id%2 == 0:
		c.mu.Unlock()
		return ErrStreamID
	case id <= c.maxID:
		defer c.mu.Unlock()
		return c.belated(id)
	}
	c.maxID = id
	if c.clock.refuses(id) {
		c.mu.Unlock()
		return nil // RFC 9113 6.8: passed over; the client knows
	}
	crowded := c.open >= c.options.MaxConcurrentStreams
	window := c.initial
	c.mu.Unlock()

	s := newStream(c, id, window)
	err := c.request(s, crowded)
	c.mu.Lock()
	if err != nil {
		defer c.mu.Unlock()
		return c.refuse(s, err)
	}
	c.start(s)
	c.mu.Unlock()
	return nil
}

func (b *block) refusal(crowded bool) error {
	switch {
	case crowded:
		return ErrRefused
	case b.selfish:
		return ErrSelfDepend
	}
	return nil
}

// belated is about HEADERS of a stream that is closed. The caller holds mu.
func (c *Conn) belated(id uint32) error {
	switch {
	case c.resetHere.has(id): // they were under way
		return c.spend(1)
	case id == c.maxID:
		return ErrClosedStream
	}
	return ErrStreamID // RFC 9113 5.1.1
}
