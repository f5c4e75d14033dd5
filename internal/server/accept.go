package server

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"sluice/internal/model"
)

// The pauses after a connection could not be accepted, as when descriptors run
// out.
const (
	firstPause = 5 * time.Millisecond
	lastPause  = time.Second
)

// accept takes connections and hands them to the current generation. It ends
// with the listener: it closes the socket, and the last generation after it.
func (l *Listener) accept(from *socket) {
	defer l.leave()
	defer func() { l.latest().retire() }()
	defer l.finish(from)
	pause := firstPause
	for {
		inner, err := from.Accept()
		switch {
		case err == nil:
			pause = firstPause
			l.take(inner)
		case l.ending.Load() || errors.Is(err, net.ErrClosed):
			return
		default:
			l.log.Warn("a connection could not be accepted", "listener", l.model.Load().Name, "error", reason(err), "retry_in", pause)
			select {
			case <-l.ended:
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, lastPause)
		}
	}
}

// finish closes the socket. Another process that has it accepts what waits.
func (l *Listener) finish(from *socket) {
	defer close(l.shut)
	l.mu.Lock()
	handed := l.handed
	l.mu.Unlock()
	var err error
	if handed {
		err = from.Close()
	} else {
		err = from.finish(l.limits.handshake, l.takeLast)
	}
	if err != nil && !errors.Is(err, net.ErrClosed) {
		l.log.Warn("a socket did not close cleanly", "listener", l.model.Load().Name, "error", err)
	}
	if !handed {
		from.remove()
	}
}

// takeLast takes a connection that was still in the queue.
func (l *Listener) takeLast(inner net.Conn) {
	switch {
	case l.acceptor != nil:
		l.acceptor.Take(inner)
	case l.starting != nil: // the engine never began: nobody can serve it
		_ = inner.Close()
	default:
		l.take(inner)
	}
}

// take hands a new connection on, or refuses it past the limit.
func (l *Listener) take(inner net.Conn) {
	m := l.model.Load()
	c := &conn{Conn: inner, listener: l}
	if !l.enter(c, m) {
		l.refuse(inner, addrPort(inner.RemoteAddr()), m)
		return
	}
	for {
		g := l.latest()
		select {
		case g.conns <- c:
			return
		case <-g.retired: // while it was handed over; the next one has begun
		}
	}
}

func (l *Listener) latest() *generation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.generation
}

// enter takes a new connection into the books, unless there are too many.
func (l *Listener) enter(c member, m *model.Listener) bool {
	of := c.stands()
	of.name, of.since = m.Name, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if most := m.Limits.Connections; most > 0 && len(l.conns) >= most {
		return false
	}
	l.conns[c] = struct{}{}
	l.tasks++
	if l.ending.Load() { // it missed the sweep
		l.sweep()
	}
	l.counted(of.name, 1)
	return true
}

// replace lets a connection go on as another one.
func (l *Listener) replace(before, after member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, before)
	l.conns[after] = struct{}{}
}

// drop forgets a connection that is closed.
func (l *Listener) drop(c member) {
	l.counted(c.stands().name, -1)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
	l.tasks--
	l.settle()
}

// settings are what an http.Server cannot change once it serves.
type settings struct {
	readHeader  time.Duration
	idle        time.Duration
	headerBytes int
}

func settingsOf(m *model.Listener) settings {
	s := settings{readHeader: m.Timeouts.ReadHeader, idle: m.Timeouts.Idle, headerBytes: int(min(m.Limits.HeaderBytes, math.MaxInt32))}
	if s.headerBytes == 0 {
		s.headerBytes = math.MaxInt32 // for net/http, 0 is a megabyte
	}
	return s
}

// generation is one http.Server: connections that were taken under the same
// settings. It is a net.Listener on which new connections are handed to it.
type generation struct {
	listener *Listener
	settings settings
	server   *http.Server
	conns    chan *conn
	retired  chan struct{} // closed when it takes no more
	old      atomic.Bool   // what it has closes after the next response
}

func newGeneration(l *Listener, m *model.Listener) *generation {
	g := &generation{listener: l, settings: settingsOf(m), conns: make(chan *conn), retired: make(chan struct{})}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	g.server = &http.Server{
		Handler:                      &adapter{listener: l, generation: g},
		Protocols:                    protocols,
		DisableGeneralOptionsHandler: true,
		ReadHeaderTimeout:            g.settings.readHeader,
		IdleTimeout:                  g.settings.idle,
		MaxHeaderBytes:               g.settings.headerBytes,
		ErrorLog:                     slog.NewLogLogger(l.log.Handler(), slog.LevelDebug),
		ConnState:                    l.observe,
		ConnContext: func(ctx context.Context, inner net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, inner)
		},
	}
	return g
}

// serve runs until the generation is retired; its connections go on.
func (g *generation) serve() {
	defer g.listener.leave()
	if err := g.server.Serve(g); !errors.Is(err, net.ErrClosed) {
		panic("BUG: a generation ended by itself: " + err.Error())
	}
}

// retire ends the taking of connections. It is called once.
func (g *generation) retire() {
	g.old.Store(true)
	close(g.retired)
}

// Accept waits for a connection to be handed over.
func (g *generation) Accept() (net.Conn, error) {
	select {
	case c := <-g.conns:
		return c, nil
	case <-g.retired:
		return nil, net.ErrClosed
	}
}

// Close does nothing: the socket is the Listener's.
func (g *generation) Close() error { return nil }

// Addr is the address of the socket.
func (g *generation) Addr() net.Addr { return g.listener.Addr() }

// observe is told of the connections' states by net/http, on their own
// goroutines. A connection that must not go on ends where it turns idle: what
// net/http may have buffered of it is then not served (see adapter.ServeHTTP).
func (l *Listener) observe(inner net.Conn, state http.ConnState) {
	c, ok := inner.(*conn)
	if !ok {
		panic("BUG: a connection that was not taken")
	}
	if state != http.StateIdle {
		return
	}
	c.served.Store(true)
	c.busy.Store(false)
	if c.last.Load() || l.ending.Load() && !l.patient.Load() && !c.pending() {
		_ = c.Close() // nobody is left to tell
	}
}
