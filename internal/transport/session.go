package transport

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

// patience is how long an endpoint may be silent.
type patience struct {
	// rest is how long a connection at rest may be so before it is asked whether it
	// lives, and then again. It is no shorter since some endpoints count pings
	// without requests, and take more than two for an attack (gRPC).
	rest time.Duration
	// doubt is how long a connection may have been so when an attempt takes it,
	// without being asked.
	doubt time.Duration
	// answer is how long an answer may take.
	answer time.Duration
}

// usualPatience is for endpoints that are not tested.
func usualPatience() patience {
	return patience{rest: 20 * time.Second, doubt: 5 * time.Second, answer: 5 * time.Second}
}

// partTimeout is how long a TLS connection may take to say goodbye.
const partTimeout = 250 * time.Millisecond

// session is an HTTP/2 connection to an endpoint. The fields from limit on are
// under the lock of its pool.
type session struct {
	pool         *sharing
	library      *http2.ClientConn
	introduction string // what it began with
	heard        atomic.Int64
	pinging      atomic.Bool
	closing      sync.Once
	greeting     greeting

	limit   int // attempts at once
	streams int // attempts that have it
	used    bool
	joined  bool // the pool knows of it
	gone    bool // it takes no attempt any more, and has no place
	resting *time.Timer
}

// newSession begins to speak HTTP/2, and waits for the endpoint to do so.
func (p *sharing) newSession(ctx context.Context, conn net.Conn, introduction string) (*session, error) {
	s := &session{pool: p, introduction: introduction, greeting: greeting{over: make(chan struct{})}}
	s.hear()
	p.opened()
	library, err := p.library.NewClientConn(&sessionConn{Conn: conn, session: s})
	if err != nil { // it closed the connection
		return nil, err
	}
	s.library = library
	select {
	case <-s.greeting.over:
		err = s.greeting.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.limit = s.greeting.streams
	if most := p.settings.MaxStreams; most > 0 {
		s.limit = min(s.limit, most)
	}
	return s, nil
}

// sessionConn is the connection as the library has it.
type sessionConn struct {
	net.Conn
	session *session
}

// Read notes when something came, and what came first.
func (c *sessionConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.session.hear()
	}
	c.session.greeting.read(b[:n], err)
	return n, err
}

// Close closes the connection; further calls do nothing. The library calls it
// whatever ends it.
func (c *sessionConn) Close() error {
	c.session.closing.Do(func() {
		part(c.Conn)
		c.session.over()
	})
	return nil
}

// greeting is what an endpoint sends first: a SETTINGS frame (RFC 9113 3.4). The
// library does not wait for it; here no more is sent than it allows. Its fields
// but over are of who reads, and of everybody once that is closed.
type greeting struct {
	over    chan struct{}
	closed  bool
	data    []byte // that came so far
	streams int    // that it takes at once
	err     error
}

var (
	errNotHTTP2  = errors.New("the endpoint does not speak HTTP/2")
	errNoStreams = errors.New("the endpoint takes no request on the connection: it allows no stream (SETTINGS_MAX_CONCURRENT_STREAMS)")
)

// read takes what came.
func (g *greeting) read(data []byte, err error) {
	if g.closed {
		return
	}
	g.data = append(g.data, data...)
	const header = 9 // RFC 9113 4.1
	switch {
	case len(g.data) >= header && (http2.FrameType(g.data[3]) != http2.FrameSettings || g.data[0] != 0):
		g.end(errNotHTTP2)
	case len(g.data) >= header && len(g.data) >= header+int(binary.BigEndian.Uint32(g.data)>>8):
		g.settings(g.data[header : header+int(binary.BigEndian.Uint32(g.data)>>8)])
	case err != nil:
		g.end(fmt.Errorf("%w: %w", errNotHTTP2, err))
	}
}

// settings takes the frame's payload (RFC 9113 6.5.1).
func (g *greeting) settings(payload []byte) {
	g.streams = math.MaxInt32
	for ; len(payload) >= 6; payload = payload[6:] {
		if http2.SettingID(binary.BigEndian.Uint16(payload)) == http2.SettingMaxConcurrentStreams {
			g.streams = int(min(binary.BigEndian.Uint32(payload[2:]), math.MaxInt32))
		}
	}
	if g.streams == 0 {
		g.end(errNoStreams)
		return
	}
	g.end(nil)
}

func (g *greeting) end(err error) {
	g.closed, g.data, g.err = true, nil, err
	close(g.over)
}

// part closes a connection. An endpoint that takes nothing does not hold that up.
func part(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		defer time.AfterFunc(partTimeout, func() { _ = secure.NetConn().Close() }).Stop()
	}
	_ = conn.Close() // nothing is to be saved
}

func (s *session) hear() { s.heard.Store(time.Now().UnixNano()) }

// silent is for how long nothing has come.
func (s *session) silent() time.Duration { return time.Since(time.Unix(0, s.heard.Load())) }

// reserve takes a stream; false: none is free. The caller holds the pool's lock.
func (s *session) reserve() bool {
	if s.gone || s.streams >= s.limit {
		return false
	}
	if !s.library.ReserveNewRequest() {
		s.learn()
		return false
	}
	s.streams++
	s.pool.capacity = max(s.pool.capacity, s.streams)
	s.wake()
	if s.silent() > s.pool.patience.doubt {
		s.ping()
	}
	return true
}

// learn notes how many attempts the endpoint takes on a connection. One that takes
// none is of no use. The caller holds the pool's lock.
func (s *session) learn() {
	if s.streams == 0 {
		go s.close()
		return
	}
	s.pool.capacity = min(s.pool.capacity, s.streams)
}

// refused notes that the endpoint takes fewer attempts at once than it was given.
// full tells whether that is so by its settings, which may have changed while the
// attempt was on its way.
func (s *session) refused() (full bool) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.streams > 0 { // those that it did not refuse; the one it did is given back
		s.limit = min(s.limit, s.streams)
	}
	return !s.library.CanTakeNewRequest()
}

// take notes that an attempt uses it, and tells whether another has before.
func (s *session) take() (reused bool) {
	s.pool.mu.Lock()
	reused = s.used
	s.used = true
	s.pool.mu.Unlock()
	if reused {
		s.pool.way.reused()
	}
	return reused
}

// ping asks the endpoint whether it lives, and closes the connection if it does
// not say so.
func (s *session) ping() {
	if s.pinging.Swap(true) {
		return
	}
	go func() {
		defer s.pinging.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), s.pool.patience.answer)
		defer cancel()
		if s.library.Ping(ctx) != nil {
			s.close()
		}
	}()
}

// doubt is ping where nothing has come since a time, which is long ago.
func (s *session) doubt(since time.Time) {
	if s.heard.Load() < since.UnixNano() && s.silent() > s.pool.patience.doubt {
		s.ping()
	}
}

// rest begins to look after a connection that carries nothing. The caller holds
// the pool's lock.
func (s *session) rest() {
	if s.resting == nil {
		s.resting = time.AfterFunc(s.pool.patience.rest, s.look)
	}
}

// look asks a connection at rest that was silent, and comes back.
func (s *session) look() {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.resting == nil || s.gone {
		return
	}
	s.resting = time.AfterFunc(s.pool.patience.rest, s.look)
	if s.silent() >= s.pool.patience.rest {
		s.ping()
	}
}

// wake ends that. The caller holds the pool's lock.
func (s *session) wake() {
	if s.resting != nil {
		s.resting.Stop()
		s.resting = nil
	}
}

// close closes the connection, with all that it carries.
func (s *session) close() { _ = s.library.Close() }

// over notes that the connection is closed.
func (s *session) over() {
	p := s.pool
	p.mu.Lock()
	p.remove(s)
	waits := len(p.waiting) > 0
	p.mu.Unlock()
	p.closed()
	if waits {
		p.serve()
	}
}
