package h2

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// Options are what a connection is served by. Zero values mean the defaults
// that each field names, negative times that there is no bound.
type Options struct {
	// Handler serves the requests, each on a goroutine.
	Handler http.Handler
	// Oversized serves in Handler's place a request whose header list is past
	// MaxHeaderBytes or MaxFields. It has its pseudo-header fields as far as they
	// came before that, and no other. Default: 431 without content.
	Oversized http.Handler
	// Refused is told of each request that no handler is given, and why: the rule
	// that it breaks, behind errors.As a *ProtocolError; a *ResetError if the client
	// took it back while it waited for a handler; else the end of the connection, nil
	// or an error that wraps ErrClosed. The request has as much of its pseudo-header
	// fields and its header as came and is valid, no URL, and no body. Serve's
	// goroutine calls it, which should not wait. Default: nobody is told.
	Refused func(r *http.Request, why error)
	// TLS is the state of the connection, for the requests; nil without.
	TLS *tls.ConnectionState
	// Preface are bytes that were read from the connection already.
	Preface []byte
	// Context is what contexts of requests take their values from. Its end cuts
	// the connection. Default: one that never ends.
	Context context.Context
	// Log takes what a client or a handler did wrong. Default: nothing does.
	Log *slog.Logger
	// Buffers are shared by connections. Default: the connection's own.
	Buffers *Buffers

	// MaxConcurrentStreams bounds both the open streams and the handlers that
	// run. Default 250.
	MaxConcurrentStreams int
	// MaxHeaderBytes bounds a header list, counted as RFC 9113 6.5.2 does.
	// Default 64 KiB.
	MaxHeaderBytes int
	// MaxFields bounds the lines of a header list. Default 100.
	MaxFields int
	// StreamWindow is how much of a request's content may come before it is read.
	// At least 64 KiB; default 512 KiB, from which on one upload alone is not
	// slower than with more.
	StreamWindow int
	// ConnWindow is the same for all requests of a connection together: what one
	// client can make this server hold. At least StreamWindow; default 1 MiB.
	ConnWindow int

	// IdleTimeout is how long a connection may be without a stream. Default 2m.
	IdleTimeout time.Duration
	// ReadHeaderTimeout is how long a header block, or any frame but DATA, may
	// take once it has begun. Default 10s.
	ReadHeaderTimeout time.Duration
	// SettingsTimeout is how long the client may take to acknowledge SETTINGS.
	// Default 10s.
	SettingsTimeout time.Duration
	// StallTimeout is how long a response may wait for the client to open a
	// window, where its handler set no deadline, and how long the client may
	// take to read what was written to the connection. Default 1m.
	StallTimeout time.Duration
}

func (o *Options) setDefaults() {
	if o.Handler == nil {
		panic("BUG: h2.Options without Handler")
	}
	if o.Oversized == nil {
		o.Oversized = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
		})
	}
	if o.Refused == nil {
		o.Refused = func(*http.Request, error) {}
	}
	if o.Context == nil {
		o.Context = context.Background()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Buffers == nil {
		o.Buffers = NewBuffers()
	}
	standard(&o.MaxConcurrentStreams, 250)
	standard(&o.MaxHeaderBytes, 64<<10)
	standard(&o.MaxFields, 100)
	standard(&o.StreamWindow, 512<<10)
	o.StreamWindow = max(o.StreamWindow, initialWindow+1)
	standard(&o.ConnWindow, 1<<20)
	o.ConnWindow = max(o.ConnWindow, o.StreamWindow)
	standard(&o.IdleTimeout, 2*time.Minute)
	standard(&o.ReadHeaderTimeout, 10*time.Second)
	standard(&o.SettingsTimeout, 10*time.Second)
	standard(&o.StallTimeout, time.Minute)
	unbound(&o.IdleTimeout, &o.ReadHeaderTimeout, &o.SettingsTimeout, &o.StallTimeout)
}

func standard[T int | time.Duration](value *T, usual T) {
	if *value == 0 {
		*value = usual
	}
}

// never is a time that does not come; it leaves room to add to.
const never = 100 * 365 * 24 * time.Hour

// unbound makes negative times endless ones.
func unbound(times ...*time.Duration) {
	for _, t := range times {
		if *t < 0 {
			*t = never
		}
	}
}

const (
	// frameSize is the largest frame in either direction: the least that both
	// sides must take (RFC 9113 4.2).
	frameSize = 16 << 10
	// initialWindow is what both sides' windows are before anything is said.
	initialWindow = 64<<10 - 1
	// outLimit is from how many bytes on nothing more is put behind what waits to
	// be written, but what must not wait.
	outLimit = 64 << 10
	// holdLimit is how much of a response is held back until a flush.
	holdLimit = 4 << 10
	// smallSegment is for bodies of little.
	smallSegment = 2 << 10
)

// Buffers lends memory for as long as bytes pass. It may serve any number of
// connections. Nothing that a handler sees is in it.
type Buffers struct {
	out, hold, small, large sync.Pool
}

// NewBuffers makes empty ones.
func NewBuffers() *Buffers { return &Buffers{} }

// takeOut lends a buffer for what is to be written.
func (b *Buffers) takeOut() []byte {
	if buffer, ok := b.out.Get().(*[]byte); ok {
		return (*buffer)[:0]
	}
	return make([]byte, 0, holdLimit)
}

// giveOut takes it back. One that grew past its use is left to the collector.
func (b *Buffers) giveOut(buffer []byte) {
	if cap(buffer) >= holdLimit && cap(buffer) <= outLimit+4*frameSize {
		b.out.Put(&buffer)
	}
}

// takeHold lends a buffer for what of a response is held back.
func (b *Buffers) takeHold() *[holdLimit]byte {
	if buffer, ok := b.hold.Get().(*[holdLimit]byte); ok {
		return buffer
	}
	return new([holdLimit]byte)
}

func (b *Buffers) giveHold(buffer *[holdLimit]byte) { b.hold.Put(buffer) }

func (b *Buffers) takeSegment(size int) *segment {
	pool, room := &b.large, frameSize
	if size <= smallSegment {
		pool, room = &b.small, smallSegment
	}
	if s, ok := pool.Get().(*segment); ok {
		return s
	}
	return &segment{bytes: make([]byte, room)}
}

func (b *Buffers) giveSegment(s *segment) {
	pool := &b.large
	if len(s.bytes) == smallSegment {
		pool = &b.small
	}
	s.next, s.r, s.w = nil, 0, 0
	pool.Put(s)
}
