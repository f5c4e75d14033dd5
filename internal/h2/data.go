package h2

import (
	"golang.org/x/net/http2"
)

// data takes a DATA frame (RFC 9113 6.1): its content goes from the connection
// straight into the inbox of its stream.
func (c *Conn) data(header http2.FrameHeader) error {
	length, content := int(header.Length), int(header.Length)
	left := length // to be read
	if header.StreamID == 0 {
		return ErrStreamID
	}
	if header.Flags.Has(http2.FlagDataPadded) {
		if length == 0 {
			return ErrFrameSize
		}
		padding, err := c.reader.ReadByte()
		if err != nil {
			return c.lost(err)
		}
		left--
		if content -= 1 + int(padding); content < 0 {
			return ErrFrame
		}
	}
	end := header.Flags.Has(http2.FlagDataEndStream)
	s, err := c.admit(header.StreamID, length, content, end)
	if err != nil {
		return err
	}
	if s != nil {
		if err := c.fill(s, content, end); err != nil {
			return err
		}
		left -= content
	}
	if _, err := c.reader.Discard(left); err != nil {
		return c.lost(err)
	}
	return nil
}

// admit counts a frame against the windows, and finds the stream that its content
// is for; nil: nobody's.
func (c *Conn) admit(id uint32, length, content int, end bool) (*stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.credit -= int64(length); c.credit < 0 {
		return nil, ErrWindow
	}
	if content == 0 && !end {
		if err := c.spend(1); err != nil {
			return nil, err
		}
	}
	s, err := c.find(id)
	switch {
	case err != nil:
		return nil, err
	case s == nil:
		c.refund(int64(length))
		return nil, c.stray(id)
	case s.ended:
		c.refund(int64(length))
		return nil, c.faultStream(s, ErrClosedStream)
	case int64(length) > s.credit:
		c.refund(int64(length))
		return nil, c.faultStream(s, ErrWindow)
	case s.length >= 0 && (s.received+int64(content) > s.length || end && s.received+int64(content) < s.length):
		c.refund(int64(length))
		return nil, c.faultStream(s, ErrLength)
	}
	s.credit -= int64(length)
	s.received += int64(content)
	c.refund(int64(length - content)) // padding is read as soon as it is here
	s.restore(int64(length - content))
	return s, nil
}

// stray answers DATA of a stream that is closed, once.
func (c *Conn) stray(id uint32) error {
	if c.resetHere.has(id) || c.clock.refuses(id) {
		return c.spend(0.25) // it was under way
	}
	if err := c.spend(1); err != nil {
		return err
	}
	c.resetHere.add(id, c.options.MaxConcurrentStreams)
	_ = c.framer.WriteRSTStream(id, http2.ErrCodeStreamClosed) // into a buffer
	return c.reply()
}

// fill reads content into a stream's inbox; what nobody wants is given back.
func (c *Conn) fill(s *stream, content int, end bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for content > 0 {
		if s.gone != nil || s.unwanted {
			c.refund(int64(content))
			c.mu.Unlock()
			_, err := c.reader.Discard(content)
			c.mu.Lock()
			if err != nil {
				return c.lostLocked(err)
			}
			break
		}
		room := s.inbox.room(c.options.Buffers, content)
		c.mu.Unlock()
		n, err := c.reader.Read(room) // what is there: a slow client's bytes do not wait for their frame's end
		c.mu.Lock()
		content -= n
		if s.gone != nil || s.unwanted {
			c.refund(int64(n))
			s.inbox.abandon()
		} else {
			s.inbox.commit(n)
			s.readable.Signal()
		}
		if err != nil {
			return c.lostLocked(err)
		}
	}
	if end && s.gone == nil {
		s.endRemote()
	}
	return nil
}

func (c *Conn) lostLocked(err error) error {
	c.mu.Unlock()
	defer c.mu.Lock()
	return c.lost(err)
}

// refund gives bytes back to the connection's window. The caller holds mu.
func (c *Conn) refund(n int64) {
	c.eaten += n
	if c.eaten >= int64(c.options.ConnWindow)/2 && !c.over {
		_ = c.framer.WriteWindowUpdate(0, uint32(c.eaten)) // into a buffer
		c.credit += c.eaten
		c.eaten = 0
		c.wake()
	}
}

// restore gives bytes back to the stream's window. The caller holds mu.
func (s *stream) restore(n int64) {
	s.eaten += n
	if s.eaten >= int64(s.conn.options.StreamWindow)/2 && !s.ended && s.gone == nil && !s.unwanted {
		_ = s.conn.framer.WriteWindowUpdate(s.id, uint32(s.eaten)) // into a buffer
		s.credit += s.eaten
		s.eaten = 0
		s.conn.wake()
	}
}

// inbox is what came of a body and was not read yet: segments of bytes, so that
// small frames take no more memory than they bring, but for the last segment.
type inbox struct {
	head, tail *segment
	size       int
	filling    bool // the reader has room of the tail
}

// segment is a piece of a body: bytes[r:w] are to be read.
type segment struct {
	next  *segment
	r, w  int
	bytes []byte
}

// room is where up to want bytes go: until commit or abandon the caller's.
func (b *inbox) room(buffers *Buffers, want int) []byte {
	if b.tail == nil || b.tail.w == len(b.tail.bytes) {
		s := buffers.takeSegment(want)
		if b.tail == nil {
			b.head = s
		} else {
			b.tail.next = s
		}
		b.tail = s
	}
	b.filling = true
	rest := b.tail.bytes[b.tail.w:]
	return rest[:min(len(rest), want)]
}

func (b *inbox) commit(n int) {
	b.filling = false
	b.tail.w += n
	b.size += n
}

// abandon is commit after drop.
func (b *inbox) abandon() { *b = inbox{} }

// read moves bytes out.
func (b *inbox) read(p []byte, buffers *Buffers) (n int) {
	for b.head != nil && n < len(p) {
		s := b.head
		took := copy(p[n:], s.bytes[s.r:s.w])
		s.r += took
		n += took
		if s.r < s.w || s == b.tail && b.filling {
			break
		}
		b.head = s.next
		if b.head == nil {
			b.tail = nil
		}
		buffers.giveSegment(s)
	}
	b.size -= n
	return n
}

// drop throws away what is there, and tells how much it was. A segment that is
// being filled is left to the collector.
func (b *inbox) drop(buffers *Buffers) int64 {
	dropped := int64(b.size)
	for s := b.head; s != nil; {
		next := s.next
		if next != nil || !b.filling {
			buffers.giveSegment(s)
		}
		s = next
	}
	b.head, b.size = nil, 0
	if !b.filling {
		b.tail = nil
	}
	return dropped
}
