package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"sluice/internal/pipeline"
)

const (
	// usualStreams is how many attempts a connection is expected to take, until it
	// is known better: what an endpoint is taken to allow before it has said
	// anything (RFC 9113 6.5.2).
	usualStreams = 100
	// streamWindow is how much of a response may wait here for a slow client, in
	// bytes of one stream.
	streamWindow = 256 << 10
	// writeTimeout is how long an endpoint's system may take no byte of what is
	// written to a connection.
	writeTimeout = 30 * time.Second
	// slotCheck is how often those who wait look for a stream that has come free:
	// one that was reset counts until the endpoint has confirmed that it lives, of
	// which nobody is told.
	slotCheck = 20 * time.Millisecond
)

// sharing sends attempts to one endpoint over HTTP/2 connections, each of which
// many of them share. The connections belong to goroutines, whoever makes the
// attempts. The protocol is that of golang.org/x/net/http2, without its pool and
// its replays.
//
// Its lock comes before those of the library.
type sharing struct {
	*way
	engine *Engine // nil: net/http's
	clear  bool    // HTTP/2 without TLS, by prior knowledge
	offer  []string
	// declined is told where an endpoint that was offered HTTP/1.1, too, has picked
	// that; nil: nobody.
	declined func()
	agreedOn func() // told where it picked HTTP/2; may be nil
	library  *http2.Transport
	patience patience

	mu       sync.Mutex
	sessions []*session // open ones, that used last at the end
	places   int        // connections that are open or being made
	dialing  map[string]int
	waiting  []*applicant
	capacity int // how many attempts a connection takes, as far as it is known
	released bool
	life     context.Context // ends the making of connections
	stop     context.CancelFunc
	looking  *time.Timer // for slots, while somebody waits
}

// applicant is an attempt that waits for a stream. Its fields are under the lock
// until settled is closed.
type applicant struct {
	introduction string
	settled      chan struct{}
	session      *session // nil: err
	err          error
}

func newSharing(w *way, engine *Engine) *sharing {
	p := &sharing{way: w, engine: engine, clear: w.encryption == nil, offer: []string{alpnH2}, capacity: usualStreams, patience: usualPatience(), dialing: map[string]int{}}
	p.life, p.stop = context.WithCancel(context.Background())
	if w.settings.MaxStreams > 0 {
		p.capacity = min(p.capacity, w.settings.MaxStreams)
	}
	// Some settings are of net/http's Transport alone, which sends nothing here.
	base := &http.Transport{
		DisableCompression:    true,
		ResponseHeaderTimeout: w.timeouts.ResponseHeader,
		ExpectContinueTimeout: continueTimeout,
		HTTP2:                 &http.HTTP2Config{MaxReceiveBufferPerStream: streamWindow},
	}
	library, err := http2.ConfigureTransports(base)
	if err != nil {
		panic("BUG: a new transport knows HTTP/2 already: " + err.Error())
	}
	library.ConnPool = p
	library.DisableCompression = true
	library.MaxHeaderListSize = maxHeadBytes
	library.IdleConnTimeout = w.settings.IdleTimeout
	library.WriteByteTimeout = writeTimeout
	p.library = library
	return p
}

// Release closes what is idle. What is under way goes on, and its connections
// close with it.
func (p *sharing) Release() {
	p.mu.Lock()
	p.released = true
	idle := p.idle()
	for _, s := range idle {
		p.remove(s)
	}
	p.forsake()
	p.mu.Unlock()
	for _, s := range idle {
		s.close()
	}
}

// forsake ends the making of connections that nobody wants any more. The caller
// holds the lock.
func (p *sharing) forsake() {
	if p.released && len(p.waiting) == 0 {
		p.stop()
	}
}

// idle are the connections that carry nothing. The caller holds the lock.
func (p *sharing) idle() (list []*session) {
	for _, s := range p.sessions {
		if s.streams == 0 {
			list = append(list, s)
		}
	}
	return list
}

// acquire returns a connection with a stream reserved for an attempt, which must
// use it. It makes one, or waits until ctx ends. queued is set while the attempt
// waits for a stream though no connection is being made.
func (p *sharing) acquire(ctx context.Context, introduction string, queued *atomic.Bool) (*session, error) {
	p.mu.Lock()
	if !slices.ContainsFunc(p.waiting, func(a *applicant) bool { return a.introduction == introduction }) {
		if s := p.reserve(introduction); s != nil {
			p.mu.Unlock()
			return s, nil
		}
	}
	a := &applicant{introduction: introduction, settled: make(chan struct{})}
	p.waiting = append(p.waiting, a)
	evicted, uncovered := p.expand()
	if uncovered > p.settings.MaxPending {
		p.waiting = p.waiting[:len(p.waiting)-1]
		a.err = p.overloaded()
		close(a.settled)
	}
	p.watch()
	queued.Store(p.dialing[introduction] == 0)
	p.mu.Unlock()
	if evicted != nil {
		evicted.close()
	}
	defer queued.Store(false)
	select {
	case <-a.settled:
		return a.session, a.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, a); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.forsake()
		if queued.Load() {
			return nil, inQueue(ended(ctx))
		}
		return nil, ended(ctx)
	}
	return a.session, a.err // it came in the same moment
}

func (p *sharing) overloaded() error {
	err := pipeline.NewError(pipeline.Overloaded, fmt.Errorf("no stream is free on %d connections, and %d attempts wait", p.settings.MaxConnections, p.settings.MaxPending))
	err.Unsent = true
	return err
}

// reserve takes a stream of the connection that was used last and has a free one;
// nil: none has. The caller holds the lock.
func (p *sharing) reserve(introduction string) *session {
	for i, s := range slices.Backward(p.sessions) {
		if s.introduction != introduction || !s.reserve() {
			continue
		}
		copy(p.sessions[i:], p.sessions[i+1:])
		p.sessions[len(p.sessions)-1] = s
		return s
	}
	return nil
}

// expand begins to make connections for those who wait, as many as they need and
// as there are places for. It returns a connection that must be closed to make
// room, and how many wait for whom none is being made. The caller holds the lock.
func (p *sharing) expand() (evicted *session, uncovered int) {
	need := map[string]int{}
	for _, a := range p.waiting {
		key := a.introduction
		if need[key]++; need[key] <= p.dialing[key]*p.capacity {
			continue
		}
		if p.full() && evicted == nil {
			evicted = p.evict(key)
		}
		if p.full() {
			uncovered++
			continue
		}
		p.places++
		p.dialing[key]++
		go func() { _ = p.connect(key) }() // those who wait are told
	}
	return evicted, uncovered
}

// full tells whether no place is left. The caller holds the lock.
func (p *sharing) full() bool {
	return p.settings.MaxConnections > 0 && p.places >= p.settings.MaxConnections
}

// evict takes a connection that carries nothing and began with another
// introduction out of its place. The caller holds the lock, and closes it after.
func (p *sharing) evict(introduction string) *session {
	for _, s := range p.sessions {
		if s.streams == 0 && s.introduction != introduction {
			p.remove(s)
			return s
		}
	}
	return nil
}

// connect makes a connection in a place that is taken.
func (p *sharing) connect(introduction string) error {
	s, err := p.dial(p.life, introduction)
	if err == nil {
		p.join(s, introduction)
		return nil
	}
	p.mu.Lock()
	p.dialed(introduction)
	p.places--
	p.refuse(introduction, err)
	p.mu.Unlock()
	p.serve()
	return err
}

// dialed notes that a connection is not being made any more. The caller holds the
// lock.
func (p *sharing) dialed(introduction string) {
	if p.dialing[introduction]--; p.dialing[introduction] == 0 {
		delete(p.dialing, introduction)
	}
}

// begin makes a connection for nobody in particular, if there is a place for it.
func (p *sharing) begin(introduction string) error {
	p.mu.Lock()
	full := p.full()
	if !full {
		p.places++
		p.dialing[introduction]++
	}
	p.mu.Unlock()
	if full { // of those that have agreed
		return nil
	}
	return p.connect(introduction)
}

// join adds a connection that was made, which has a place, to those that take
// attempts. Those who wait get its streams before anybody counts again what is
// needed: else more connections would be made than that.
func (p *sharing) join(s *session, introduction string) {
	p.mu.Lock()
	p.dialed(introduction)
	if s.gone {
		p.places--
	} else {
		s.joined = true
		p.sessions = append(p.sessions, s)
	}
	evicted := p.giveOut()
	p.mu.Unlock()
	if evicted != nil {
		evicted.close()
	}
	p.settle(s)
}

// refuse fails those for whom a connection was to be made. The caller holds the
// lock.
func (p *sharing) refuse(introduction string, err error) {
	left := p.capacity
	p.waiting = slices.DeleteFunc(p.waiting, func(a *applicant) bool {
		if left == 0 || a.introduction != introduction {
			return false
		}
		left--
		a.err = err
		close(a.settled)
		return true
	})
}

// serve gives free streams to those who wait, first come first served, and makes
// connections for the others.
func (p *sharing) serve() {
	p.mu.Lock()
	evicted := p.giveOut()
	p.mu.Unlock()
	if evicted != nil {
		evicted.close()
	}
}

// giveOut is serve for who holds the lock, and closes the connection that it
// returns after it.
func (p *sharing) giveOut() (evicted *session) {
	full := map[string]bool{}
	p.waiting = slices.DeleteFunc(p.waiting, func(a *applicant) bool {
		if full[a.introduction] {
			return false
		}
		if a.session = p.reserve(a.introduction); a.session == nil {
			full[a.introduction] = true
			return false
		}
		close(a.settled)
		return true
	})
	evicted, _ = p.expand()
	p.watch()
	return evicted
}

// watch sees to it that those who wait are not forgotten. The caller holds the
// lock.
func (p *sharing) watch() {
	switch {
	case len(p.waiting) == 0:
		if p.looking != nil {
			p.looking.Stop()
			p.looking = nil
		}
	case p.looking == nil:
		p.looking = time.AfterFunc(slotCheck, func() {
			p.mu.Lock()
			p.looking = nil
			p.mu.Unlock()
			p.serve()
		})
	}
}

// leave gives a stream back.
func (p *sharing) leave(s *session) {
	p.mu.Lock()
	s.streams--
	waits := len(p.waiting) > 0
	p.mu.Unlock()
	if waits {
		p.serve()
	}
	p.settle(s)
}

// settle lets a connection that carries nothing rest, or closes it.
func (p *sharing) settle(s *session) {
	p.mu.Lock()
	over := s.streams == 0 && (s.gone || p.released || p.settings.MaxIdle > 0 && len(p.idle()) > p.settings.MaxIdle)
	switch {
	case over:
		p.remove(s)
	case s.streams == 0:
		s.rest()
	}
	p.mu.Unlock()
	if over {
		s.close()
	}
}

// remove takes a connection out of its place: it takes no attempt any more, and
// is closed when it carries none. The caller holds the lock.
func (p *sharing) remove(s *session) {
	if s.gone {
		return
	}
	s.gone = true
	s.wake()
	if i := slices.Index(p.sessions, s); i >= 0 {
		p.sessions = slices.Delete(p.sessions, i, i+1)
	}
	if s.joined { // else whoever makes it gives its place back
		p.places--
	}
}

// GetClientConn is not called: connections are chosen here.
func (p *sharing) GetClientConn(*http.Request, string) (*http2.ClientConn, error) {
	panic("BUG: the library asks for a connection")
}

// MarkDead is how the library tells that a connection takes no further request:
// it has ended, or the endpoint lets it run out (GOAWAY).
func (p *sharing) MarkDead(cc *http2.ClientConn) {
	p.mu.Lock()
	if i := slices.IndexFunc(p.sessions, func(s *session) bool { return s.library == cc }); i >= 0 {
		p.remove(p.sessions[i])
	}
	waits := len(p.waiting) > 0
	p.mu.Unlock()
	if waits {
		p.serve()
	}
}

// dial makes a connection, within the upstream's time-out.
func (p *sharing) dial(ctx context.Context, introduction string) (*session, error) {
	if p.timeouts.Connect > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.timeouts.Connect)
		defer cancel()
	}
	name, address := network(p.endpoint)
	raw, err := (&net.Dialer{}).DialContext(ctx, name, address)
	if err != nil {
		return nil, p.unconnected(context.Background(), nil, err, false) //nolint:contextcheck // its end is no end of an attempt: those who wait are told of err
	}
	conn, err := p.begun(ctx, raw, introduction, p.offer...)
	if err == nil {
		if err = p.agreed(conn); err != nil {
			part(conn)
		}
	}
	var s *session
	if err == nil {
		s, err = p.newSession(ctx, conn, introduction)
	}
	if err != nil && !errors.Is(err, errDeclined) {
		err = p.unconnected(context.Background(), nil, err, false) //nolint:contextcheck // its end is no end of an attempt: those who wait are told of err
	}
	return s, err
}

// errDeclined is for an endpoint that picked HTTP/1.1 where it could.
var errDeclined = errors.New("the endpoint speaks HTTP/1.1")

// agreed tells why a connection is not for HTTP/2.
func (p *sharing) agreed(conn net.Conn) error {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return nil
	}
	switch picked := secure.ConnectionState().NegotiatedProtocol; {
	case picked == alpnH2:
		if p.agreedOn != nil {
			p.agreedOn()
		}
		return nil
	case p.declined != nil:
		p.declined()
		return errDeclined
	case picked == "":
		return errors.New("the endpoint does not speak HTTP/2: it picked no protocol of those offered by ALPN")
	default:
		return fmt.Errorf("the endpoint does not speak HTTP/2: it picked %q by ALPN", picked)
	}
}

// scheme is that of requests.
func (p *sharing) scheme() string {
	if p.clear {
		return "http"
	}
	return p.endpoint.Scheme
}
