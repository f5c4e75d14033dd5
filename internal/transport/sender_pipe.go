package transport

import (
	"errors"

	"sluice/internal/netloop"
)

// leastPiped is from how many bytes on the rest of a body goes from socket to
// socket by a pipe, without passing through this process (netloop.BenchmarkPipe).
const leastPiped = 64 << 10

// pipe sends the rest of a large body by a pipe, if it comes from a socket and
// need not be kept; true says that it did not, or stopped before the end, since
// the rest must go another way.
func (s *sender) pipe() (more bool) {
	source, ok := s.body.(netloop.PipeReader)
	if !ok || s.sealed || s.left < leastPiped || s.keeps() {
		return true
	}
	pipe, err := s.shelf.executor.NewPipe()
	if err != nil {
		return true
	}
	defer pipe.Close()
	for s.left > 0 {
		n, err := source.ReadInto(pipe, s.left)
		if errors.Is(err, errors.ErrUnsupported) {
			return true
		}
		s.left -= int64(n)
		last := s.left == 0
		if err != nil && !last {
			s.fail(err)
			return false
		}
		if !s.writeFrom(pipe, last) {
			return false
		}
	}
	return false
}

// keeps tells whether what is sent may have to be sent again.
func (s *sender) keeps() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keep && !s.lost
}

// writeFrom is write of what a pipe holds.
func (s *sender) writeFrom(pipe *netloop.Pipe, last bool) bool {
	s.mu.Lock()
	l := s.await(nil)
	s.last, s.lost = last, true // as note has it
	s.mu.Unlock()
	if l == nil {
		return false
	}
	return s.put(l, last, func() (int, error) { return l.conn.WriteFrom(pipe) })
}
