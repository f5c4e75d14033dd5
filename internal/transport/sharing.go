package transport

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
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
	waiting  []*streamWaiter
	capacity int // how many attempts a connection takes, as far as it is known
	released bool
	life     context.Context // ends the making of connections
	stop     context.CancelFunc
	looking  *time.Timer // for slots, while somebody waits
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

// idle are the connections that carry nothing. The caller holds the lock.
func (p *sharing) idle() (list []*session) {
	for _, s := range p.sessions {
		if s.streams == 0 {
			list = append(list, s)
		}
	}
	return list
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
