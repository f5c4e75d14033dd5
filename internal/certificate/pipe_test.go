package certificate

import (
	"bytes"
	"io"
	"net"
	"sync"
	"time"
)

// pipe is a connection in memory whose writes do not wait for reads, as with
// sockets: two sides of TLS may write at once. net.Pipe would have both wait.
type pipe struct {
	in, out *stream
	local   net.Addr
}

// stream is one direction.
type stream struct {
	mu     sync.Mutex
	more   sync.Cond
	buffer bytes.Buffer
	closed bool
}

func newPipe(local net.Addr) (near, far net.Conn) {
	one, two := &stream{}, &stream{}
	one.more.L, two.more.L = &one.mu, &two.mu
	return &pipe{one, two, nil}, &pipe{two, one, local}
}

func (p *pipe) Read(b []byte) (int, error) {
	s := p.in
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.buffer.Len() == 0 {
		if s.closed {
			return 0, io.EOF
		}
		s.more.Wait()
	}
	return s.buffer.Read(b)
}

func (p *pipe) Write(b []byte) (int, error) {
	s := p.out
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return 0, net.ErrClosed
	}
	s.more.Broadcast()
	return s.buffer.Write(b)
}

// Close ends both directions; what was written before can be read.
func (p *pipe) Close() error {
	for _, s := range []*stream{p.in, p.out} {
		s.mu.Lock()
		s.closed = true
		s.more.Broadcast()
		s.mu.Unlock()
	}
	return nil
}

func (p *pipe) LocalAddr() net.Addr              { return p.local }
func (p *pipe) RemoteAddr() net.Addr             { return nil }
func (p *pipe) SetDeadline(time.Time) error      { return nil }
func (p *pipe) SetReadDeadline(time.Time) error  { return nil }
func (p *pipe) SetWriteDeadline(time.Time) error { return nil }
