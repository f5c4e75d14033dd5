package h2

import (
	"io"
	"net/http"
	"os"
)

// body is the content of a request. Reading it opens the windows again: a client
// can send no more ahead than they allow.
type body struct{ stream *stream }

// Read reads what has come, or waits for it. Errors: os.ErrDeadlineExceeded past
// the read deadline, after which reading may go on; *ResetError, *ProtocolError or
// one that wraps ErrClosed where the stream broke, after the request's context has
// ended.
func (b *body) Read(p []byte) (int, error) {
	s := b.stream
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.proceed {
		s.proceed = false
		if !s.begun && s.gone == nil && !s.ended {
			c.sayContinue(s)
		}
	}
	for {
		switch {
		case s.unwanted:
			return 0, http.ErrBodyReadAfterClose
		case s.gone != nil:
			return 0, s.gone
		case s.inbox.size > 0 && len(p) > 0:
			n := s.inbox.read(p, c.options.Buffers)
			c.refund(int64(n))
			s.restore(int64(n))
			return n, nil
		case s.ended && s.inbox.size == 0:
			b.trailers()
			return 0, io.EOF
		case s.reading.passed():
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		}
		s.reading.wait(&s.readable)
	}
}

// trailers puts those that came into the request, once. Those that were not
// announced are there as well.
func (b *body) trailers() {
	s := b.stream
	if len(s.trailer) == 0 {
		return
	}
	if s.request.Trailer == nil {
		s.request.Trailer = make(http.Header, len(s.trailer))
	}
	for _, field := range s.trailer {
		s.request.Trailer.Add(field.Name, field.Value)
	}
	s.trailer = nil
}

// Close tells that the rest is not wanted. What has come of it is dropped, and the
// client's window stays as it is.
func (b *body) Close() error {
	s := b.stream
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.close()
	return nil
}

func (s *stream) close() {
	if s.unwanted || s.gone != nil {
		return
	}
	s.unwanted = true
	s.conn.refund(s.inbox.drop(s.conn.options.Buffers))
	s.readable.Broadcast()
}
