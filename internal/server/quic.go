package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"sluice/internal/certificate"
	"sluice/internal/message"
	"sluice/internal/model"
)

const (
	// quicStreams is how many requests of a connection may be under way.
	quicStreams = 250
	// quicHeaderBytes bounds a header before header_bytes is looked at.
	quicHeaderBytes = 1 << 20
	// alternativeAge is how long clients may remember that HTTP/3 is spoken, in
	// seconds.
	alternativeAge = 86400
)

// datagrams is where a listener speaks HTTP/3: a UDP socket on the port of the
// other one. The library owns connections; the adapter serves their exchanges.
type datagrams struct {
	listener  *Listener
	transport *quic.Transport
	accepting *quic.Listener
	socket    net.PacketConn
	conns     atomic.Int64
}

// speakQUIC begins or ends HTTP/3, as the listener's settings say. l.mu is held.
func (l *Listener) speakQUIC(m *model.Listener) {
	wanted := m.Speaks(model.H3) && m.TLS != nil && !l.ending.Load()
	switch {
	case wanted && l.datagrams == nil:
		d, err := l.openQUIC()
		if err != nil {
			l.log.Error("a listener cannot speak HTTP/3", "listener", m.Name, "error", err)
			return
		}
		l.datagrams = d
		l.tasks++
		go d.accept()
		alternative := fmt.Sprintf(`h3=":%d"; ma=%d`, portOf(l.socket.Addr()), alternativeAge)
		l.alternative.Store(&alternative)
	case !wanted && l.datagrams != nil:
		_ = l.datagrams.accepting.Close() // what goes on is told that no more comes
		l.datagrams = nil
		l.alternative.Store(nil)
	}
}

// alternatives is the Alt-Svc of responses over TLS, empty for none.
func (l *Listener) alternatives() string {
	if alternative := l.alternative.Load(); alternative != nil {
		return *alternative
	}
	return ""
}

// alternatively puts Alt-Svc into a copy of fields. What an endpoint says there
// is about itself.
func alternatively(fields message.Fields, alternative string) message.Fields {
	fields = fields.Clone()
	fields.Put(message.AltSvc, alternative)
	return fields
}

// withoutBody tells whether a request of HTTP/3 has no body, which its head does
// not say (RFC 9114 4.1): where its method rarely has one, the first byte is waited
// for, or the end that nearly always comes with the head. An endpoint would be sent
// an empty body in chunks otherwise.
func withoutBody(r *http.Request) bool {
	switch {
	case r.ProtoMajor != 3 || r.ContentLength >= 0:
		return false
	case r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions && r.Method != http.MethodDelete:
		return false
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

func portOf(address net.Addr) int {
	_, port, err := net.SplitHostPort(address.String())
	if err != nil {
		return 0
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		return 0
	}
	return number
}

// openQUIC opens the socket. Another process of the same user may open it as
// well, as the one that takes over does.
func (l *Listener) openQUIC() (*datagrams, error) {
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error { return setReusePort(raw, 1) }}
	host, _, err := net.SplitHostPort(l.address)
	if err != nil {
		return nil, err
	}
	socket, err := config.ListenPacket(context.Background(), "udp", net.JoinHostPort(host, strconv.Itoa(portOf(l.socket.Addr()))))
	if err != nil {
		return nil, reason(err)
	}
	d := &datagrams{listener: l, socket: socket, transport: &quic.Transport{Conn: socket}}
	d.accepting, err = d.transport.Listen(l.handshake.QUIC(), &quic.Config{
		GetConfigForClient: func(*quic.ClientInfo) (*quic.Config, error) { return d.config(), nil },
	})
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	return d, nil
}

// config is that of a new connection.
func (d *datagrams) config() *quic.Config {
	m := d.listener.model.Load()
	c := &quic.Config{HandshakeIdleTimeout: m.Timeouts.ReadHeader, MaxIdleTimeout: m.Timeouts.Idle, MaxIncomingStreams: quicStreams}
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
	c := &multiplexed{listener: l, peer: peerNamed(conn.RemoteAddr().String()), secure: true, turns: map[*turn]struct{}{}}
	c.certificate = certificate.Client(conn.ConnectionState().TLS)
	server := &http3.Server{
		Handler: &adapter{listener: l}, IdleTimeout: m.Timeouts.Idle, MaxHeaderBytes: quicHeaderBytes, Logger: l.log,
		ConnContext: func(ctx context.Context, _ *quic.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) },
	}
	c.ends = func() { _ = conn.CloseWithError(h3NoError, "") } // it is over either way
	c.retires = func() {
		go func() { _ = server.Shutdown(conn.Context()) }() // it ends with the connection
	}
	c.lasts = true
	if !l.enter(c, m) {
		l.refused.Add(1)
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
		if l.ending.Load() { // it missed the sweep
			c.retire()
		}
		_ = server.ServeQUICConn(conn) // however it ended
		c.ends()
	}()
}
