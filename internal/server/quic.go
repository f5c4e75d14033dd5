package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlogwriter"

	"sluice/internal/certificate"
	"sluice/internal/message"
	"sluice/internal/model"
)

const (
	// quicStreams is how many requests of a connection may be under way.
	quicStreams = 250
	// quicHeaderBytes bounds a header before header_bytes is looked at.
	quicHeaderBytes = 1 << 20
	// alternativeAge is how long clients may remember that HTTP/3 is spoken.
	alternativeAge = 24 * time.Hour
)

// datagrams is where a listener speaks HTTP/3: a UDP socket on the port of the
// other one. The library owns connections; the adapter serves their exchanges.
type datagrams struct {
	listener  *Listener
	socket    net.PacketConn
	transport *quic.Transport // nil: it does not serve yet, and what comes waits in the socket
	accepting *quic.Listener
	conns     atomic.Int64
}

// speaksQUIC tells whether settings are for HTTP/3.
func speaksQUIC(m *model.Listener) bool { return m.TLS != nil && m.Speaks(model.H3) }

// beside is the lease of the socket that a listener has for HTTP/3: a reload that
// brings it is refused if its port is taken, as one is that brings an address.
type beside struct{ listener *Listener }

// Start binds the socket, on the port that the listener's own has. Errors are
// *BindError.
func (b *beside) Start() error {
	b.listener.mu.Lock()
	defer b.listener.mu.Unlock()
	return b.listener.openQUIC()
}

// Release closes the socket if nobody was served by it: else the settings, or the
// end, of the listener end it.
func (b *beside) Release() {
	l := b.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.datagrams != nil && l.datagrams.transport == nil {
		l.datagrams.end()
		l.datagrams = nil
	}
}

// speakQUIC begins or ends HTTP/3, as the listener's settings say. l.mu is held.
func (l *Listener) speakQUIC(m *model.Listener) {
	if !speaksQUIC(m) || l.ending.Load() {
		if l.datagrams != nil {
			l.datagrams.end()
		}
		l.datagrams = nil
		l.alternative.Store(l.alternative.Load().gone(l.ending.Load()))
		return
	}
	err := l.openQUIC()
	if err == nil && l.datagrams.transport == nil {
		err = l.datagrams.serve()
	}
	if err != nil {
		l.log.Error("a listener cannot speak HTTP/3", "listener", m.Name, "error", err)
		return
	}
	value := fmt.Sprintf(`h3=":%d"; ma=%d`, addrPort(l.socket.Addr()).Port(), int(alternativeAge/time.Second))
	l.alternative.Store(&alternative{value: value})
}

// alternative is what clients are told of HTTP/3 (RFC 7838 3).
type alternative struct {
	value string
	until time.Time // zero: for ever
}

// gone is what they are told once it is not spoken any more: to forget it, for as
// long as they may remember. A listener that ends lets them go to its successor.
func (a *alternative) gone(ending bool) *alternative {
	switch {
	case a == nil || ending:
		return nil
	case !a.until.IsZero(): // that is said already
		return a
	}
	return &alternative{"clear", time.Now().Add(alternativeAge)}
}

// altSvc is the Alt-Svc of responses over TLS, empty for none.
func (l *Listener) altSvc() string {
	a := l.alternative.Load()
	if a == nil || !a.until.IsZero() && time.Now().After(a.until) {
		return ""
	}
	return a.value
}

// openQUIC opens the socket, unless it is open. Another process of the same user
// may open it as well, as the one that takes over does. l.mu is held.
func (l *Listener) openQUIC() error {
	if l.datagrams != nil {
		return nil
	}
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error { return setReusePort(raw, 1) }}
	host, _, err := net.SplitHostPort(l.address)
	if err != nil {
		return err
	}
	port := strconv.Itoa(int(addrPort(l.socket.Addr()).Port()))
	socket, err := config.ListenPacket(context.Background(), "udp", net.JoinHostPort(host, port))
	if err != nil {
		return &BindError{Address: l.address, UDP: true, Err: reason(err)}
	}
	l.datagrams = &datagrams{listener: l, socket: socket}
	return nil
}

// serve begins to accept connections. The listener's lock is held.
func (d *datagrams) serve() error {
	transport := &quic.Transport{Conn: d.socket}
	accepting, err := transport.Listen(d.listener.handshake.QUIC(), &quic.Config{
		GetConfigForClient: func(*quic.ClientInfo) (*quic.Config, error) { return d.config(), nil },
	})
	if err != nil {
		return err
	}
	d.transport, d.accepting = transport, accepting
	d.listener.tasks++
	go d.accept()
	return nil
}

// end ends the accepting; connections go on.
func (d *datagrams) end() {
	if d.transport == nil {
		_ = d.socket.Close() // nobody has come
		return
	}
	_ = d.accepting.Close() // connections are told that no more comes
}

// withoutBody tells whether a request of HTTP/3 has no body, which its head does
// not say (RFC 9114 4.1): where its method rarely has one, the first byte is waited
// for, or the end that nearly always comes with the head. An endpoint would be sent
// an empty body in chunks otherwise. It may take as long as a head may; 0: any time.
func withoutBody(rc *http.ResponseController, r *http.Request, timeout time.Duration) bool {
	switch {
	case r.ProtoMajor != 3 || r.ContentLength >= 0:
		return false
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions && r.Method != http.MethodDelete:
		return false
	}
	if timeout > 0 {
		_ = rc.SetReadDeadline(time.Now().Add(timeout)) // fails on an ended stream only, where reading tells
		defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	}
	var first [1]byte
	n, err := io.ReadFull(r.Body, first[:])
	if errors.Is(err, io.EOF) {
		return true
	}
	if n > 0 {
		r.Body = &begun{ReadCloser: r.Body, first: first[:]}
	}
	return false
}

// leftQUIC tells whether reading a stream of HTTP/3 failed because the client has
// ended the stream, or the connection is over. The request's context may tell so
// only later.
func leftQUIC(err error) bool {
	var ended *http3.Error
	if errors.As(err, &ended) && ended.Remote {
		return true
	}
	var idle *quic.IdleTimeoutError
	var broken *quic.TransportError
	var forgotten *quic.StatelessResetError
	return errors.As(err, &idle) || errors.As(err, &broken) || errors.As(err, &forgotten)
}

// begun is a body whose first byte was read.
type begun struct {
	io.ReadCloser
	first []byte
}

func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) == 0 || len(p) == 0 {
		return b.ReadCloser.Read(p)
	}
	n := copy(p, b.first)
	b.first = b.first[n:]
	return n, nil
}

// config is that of a new connection.
func (d *datagrams) config() *quic.Config {
	m := d.listener.model.Load()
	c := &quic.Config{
		Tracer:               func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return newHeads() },
		HandshakeIdleTimeout: m.Timeouts.ReadHeader, MaxIdleTimeout: m.Timeouts.Idle, MaxIncomingStreams: quicStreams,
	}
	if c.MaxIdleTimeout == 0 {
		c.MaxIdleTimeout = math.MaxInt64
	}
	return c
}

// accept takes connections until the listener ends. Those that are there go on;
// the socket closes behind the last of them.
func (d *datagrams) accept() {
	d.conns.Add(1)
	defer d.left()
	for {
		conn, err := d.accepting.Accept(context.Background())
		if err != nil {
			return
		}
		d.take(conn)
	}
}

// left counts down what needs the socket.
func (d *datagrams) left() {
	if d.conns.Add(-1) > 0 {
		return
	}
	_ = d.transport.Close() // nothing is left of it
	_ = d.socket.Close()
	d.listener.leave()
}

// The errors that connections of HTTP/3 end with (RFC 9114 8.1).
const (
	h3NoError       = 0x100
	h3ExcessiveLoad = 0x107
)

// take serves a new connection.
func (d *datagrams) take(conn *quic.Conn) {
	l := d.listener
	m := l.model.Load()
	c := &multiplexed{listener: l, peer: addrPort(conn.RemoteAddr()), lasts: true, turns: map[*turn]struct{}{}}
	c.local = func() netip.AddrPort { return addrPort(conn.LocalAddr()) }
	c.certificate = certificate.Client(conn.ConnectionState().TLS)
	c.verified.Store(c.certificate != nil)
	trace, ok := conn.QlogTrace().(*heads)
	if !ok {
		panic("BUG: a connection of HTTP/3 without its trace")
	}
	c.heads, trace.refused = trace, c.refused
	server := &http3.Server{
		Handler: &adapter{listener: l}, IdleTimeout: m.Timeouts.Idle, MaxHeaderBytes: quicHeaderBytes, Logger: l.log,
		ConnContext: func(ctx context.Context, _ *quic.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	c.ends = func() { _ = conn.CloseWithError(h3NoError, "") } // it is over either way
	c.retires = func() {
		go func() { _ = server.Shutdown(conn.Context()) }() // it ends with the connection
	}
	if !l.enter(c, m) {
		l.done(l.refusal(c.peer, m, message.HTTP3))
		_ = conn.CloseWithError(h3ExcessiveLoad, "too many connections")
		return
	}
	d.conns.Add(1)
	go func() {
		defer d.left()
		defer l.drop(c)
		if age := m.Timeouts.MaxAge; age > 0 {
			retiring := time.AfterFunc(jittered(age), c.retire)
			defer retiring.Stop()
		}
		c.catchUp()
		_ = server.ServeQUICConn(conn) // however it ended
		c.heads.over()
		c.ends()
	}()
}
