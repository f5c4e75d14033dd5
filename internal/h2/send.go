package h2

import (
	"os"
	"time"

	"golang.org/x/net/http2"
)

// send puts content of a response into out, as windows and room allow, and waits
// until all of it is there. end says that nothing follows. The caller holds mu.
//
// Where streams wait already, this one waits behind them: each in its turn gives
// one frame.
func (s *stream) send(p []byte, end bool) error {
	if s.gone != nil {
		return s.gone
	}
	c := s.conn
	if len(p) == 0 {
		if end {
			s.sendEnd()
		}
		return nil
	}
	for c.first == nil && len(p) > 0 && len(c.out) < outLimit {
		n := c.piece(s, p, end)
		if n == 0 {
			break
		}
		p = p[n:]
	}
	if len(p) == 0 {
		return nil
	}
	s.pending, s.final = p, end
	s.progress = time.Now()
	c.enqueue(s)
	c.wake()
	s.watch()
	for s.pending != nil {
		if s.writing.passed() {
			c.dequeue(s)
			return os.ErrDeadlineExceeded
		}
		s.writing.wait(&s.writable)
	}
	if end && s.finished {
		return nil // whoever has all of it may leave
	}
	return s.gone
}

// piece puts a frame of a stream's content into out, and tells how much that is.
// 0: a window is closed.
func (c *Conn) piece(s *stream, p []byte, end bool) int {
	n := int(min(int64(len(p)), frameSize, s.window, c.window))
	if n <= 0 {
		return 0
	}
	var flags http2.Flags
	last := end && n == len(p)
	if last {
		flags = http2.FlagDataEndStream
	}
	c.ready()
	s.mark, s.markTurn = len(c.out), c.turn
	c.out = appendHead(c.out, n, http2.FrameData, flags, s.id)
	c.out = append(c.out, p[:n]...)
	s.window -= int64(n)
	c.window -= int64(n)
	c.control.earn(float64(n) / controlBytes)
	if last {
		s.endLocal()
	}
	return n
}

// sendEnd ends the response: by the flag of its last frame if that is still here.
func (s *stream) sendEnd() {
	c := s.conn
	if s.begun && s.markTurn == c.turn && s.mark < len(c.out) {
		c.out[s.mark+4] |= byte(http2.FlagDataEndStream) // HEADERS have the same
	} else {
		c.ready()
		c.out = appendHead(c.out, 0, http2.FrameData, http2.FlagDataEndStream, s.id)
	}
	s.endLocal()
}

// share lets the streams that wait fill out, one frame each in turn.
func (c *Conn) share() {
	if c.first == nil {
		return
	}
	now := time.Now()
	for c.first != nil && len(c.out) < outLimit && c.window > 0 {
		s := c.first
		c.pop()
		n := c.piece(s, s.pending, s.final)
		if s.pending = s.pending[n:]; len(s.pending) == 0 {
			s.pending = nil
			s.writable.Signal()
			continue
		}
		if n > 0 {
			s.progress = now
		}
		c.enqueue(s)
	}
}

// enqueue makes a stream wait for its turn, if it has something to send and its
// window is open.
func (c *Conn) enqueue(s *stream) {
	if s.queued || len(s.pending) == 0 || s.window <= 0 {
		return
	}
	s.queued = true
	if c.first == nil {
		c.first = s
	} else {
		c.last.next = s
	}
	c.last = s
}

func (c *Conn) pop() {
	s := c.first
	c.first = s.next
	if c.first == nil {
		c.last = nil
	}
	s.next, s.queued = nil, false
}

// dequeue takes back what a stream has not sent yet.
func (c *Conn) dequeue(s *stream) {
	s.pending = nil
	if !s.queued {
		return
	}
	if c.first == s {
		c.pop()
		return
	}
	for before := c.first; before != nil; before = before.next {
		if before.next == s {
			before.next = s.next
			if c.last == s {
				c.last = before
			}
			s.next, s.queued = nil, false
			return
		}
	}
}

// watch bounds how long a stream waits for its client, where its handler has set
// no deadline: the timer runs on by itself, so that waiting costs nothing more.
func (s *stream) watch() {
	if s.watched {
		return
	}
	s.watched = true
	if s.stall == nil {
		s.stall = time.AfterFunc(s.conn.options.StallTimeout, s.look)
	} else {
		s.stall.Reset(s.conn.options.StallTimeout)
	}
}

func (s *stream) look() {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.pending == nil || s.gone != nil {
		s.watched = false
		return
	}
	left := c.options.StallTimeout - time.Since(s.progress)
	switch {
	case !s.writing.at.IsZero():
		left = c.options.StallTimeout
	case left <= 0:
		s.reset(http2.ErrCodeCancel, errStalled)
		c.wake()
		return
	}
	s.stall.Reset(left)
}

// room waits until a header block may go into out. The caller holds mu.
func (s *stream) room() error {
	c := s.conn
	for len(c.out) >= 2*outLimit && s.gone == nil {
		if s.writing.passed() {
			return os.ErrDeadlineExceeded
		}
		c.crowd = append(c.crowd, s)
		c.wake()
		s.writing.wait(&s.writable)
	}
	return s.gone
}
