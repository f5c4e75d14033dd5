package e2e

import (
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"golang.org/x/net/http2"

	"sluice/internal/gatewaytest"
)

// dialect is what differs between the protocols that clients speak.
type dialect struct {
	name     string
	listener string // of a polyglot
	scheme   string
	protocol string // as the access log has it
	via      string // as Via has it (RFC 9110 7.6.3)
	many     bool   // a connection has many exchanges at once, and none of them ends it
	fits     bool   // clients are told how large a header may be, and send none that is larger
	forgets  bool   // what a stream that breaks off has brought may be lost with it
	sockets  bool   // it carries WebSockets
	// hops is what a client may say about the connection alone.
	hops map[string]string

	// pool makes clients that connect as they need it.
	pool func(*testing.T, *polyglot) transport
	// connect makes one connection.
	connect func(*testing.T, *polyglot, *dialect) line
	// upgrade makes a client for the opening handshake of RFC 6455 4.
	upgrade func(*polyglot) transport
}

// transport is a pool of a client's connections.
type transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

// line is one connection of a client.
type line interface {
	http.RoundTripper
	Close() error
}

// dialects are those that gateways on this engine know.
func dialects() []dialect {
	named := map[string]string{"Connection": "X-Hop, Keep-Alive, TE", "X-Hop": "1", "Keep-Alive": "timeout=5", "Te": "gzip;q=0.5, trailers"}
	plain := dialect{name: "h1", listener: "web", scheme: "http", protocol: "HTTP/1.1", via: "1.1", sockets: true, hops: named}
	plain.speak(func(p *http.Protocols) { p.SetHTTP1(true) })
	if gatewaytest.Engine() == gatewaytest.Standard {
		return []dialect{plain} // net/http's half has neither TLS nor HTTP/2
	}
	secure := plain
	secure.name, secure.listener, secure.scheme = "h1 on TLS", "websecure", "https"

	trailers := map[string]string{"Te": "trailers"} // all that HTTP/2 leaves (RFC 9113 8.2.2)
	second := dialect{name: "h2", listener: "websecure", scheme: "https", protocol: "HTTP/2", via: "2", many: true, fits: true, sockets: true, hops: trailers}
	second.speak(func(p *http.Protocols) { p.SetHTTP2(true) })
	second.upgrade = extendedConnect
	inClear := second
	inClear.name, inClear.listener, inClear.scheme = "h2c", "web", "http"
	inClear.speak(func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) })
	inClear.upgrade = extendedConnect

	third := dialect{name: "h3", listener: "websecure", scheme: "https", protocol: "HTTP/3", via: "3", many: true, forgets: true, hops: trailers}
	// One connection is enough: the library's own pool forgets connections whose
	// requests fail, and leaves them open.
	third.pool = func(t *testing.T, p *polyglot) transport {
		t.Helper()
		return connectQUIC(t, p, &third)
	}
	third.connect = func(t *testing.T, p *polyglot, d *dialect) line {
		t.Helper()
		return connectQUIC(t, p, d)
	}
	return []dialect{plain, secure, second, inClear, third}
}

// speak has net/http's client speak it.
func (d *dialect) speak(choose func(*http.Protocols)) {
	client := func(p *polyglot) *http.Transport {
		t := &http.Transport{TLSClientConfig: p.trust(), DisableCompression: true, Protocols: new(http.Protocols), MaxIdleConnsPerHost: 20}
		choose(t.Protocols)
		return t
	}
	d.pool = func(_ *testing.T, p *polyglot) transport { return client(p) }
	d.upgrade = func(p *polyglot) transport { return client(p) }
	d.connect = func(t *testing.T, p *polyglot, d *dialect) line {
		t.Helper()
		conn, err := client(p).NewClientConn(t.Context(), d.scheme, p.Addr(d.listener).String())
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
}

// quicLine is a connection of HTTP/3, with the socket below it.
type quicLine struct {
	*http3.ClientConn
	transport *quic.Transport
	socket    net.PacketConn
}

func connectQUIC(t *testing.T, p *polyglot, d *dialect) *quicLine {
	t.Helper()
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	security := p.trust()
	security.NextProtos = []string{http3.NextProtoH3}
	l := &quicLine{transport: &quic.Transport{Conn: socket}, socket: socket}
	address, err := net.ResolveUDPAddr("udp", p.Addr(d.listener).String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := l.transport.Dial(t.Context(), address, security, &quic.Config{})
	if err != nil {
		t.Fatal(err)
	}
	l.ClientConn = (&http3.Transport{DisableCompression: true}).NewClientConn(conn)
	return l
}

// CloseIdleConnections is Close: a test that calls it has nothing under way.
func (l *quicLine) CloseIdleConnections() { _ = l.Close() }

func (l *quicLine) Close() error {
	return errors.Join(l.CloseWithError(0, ""), l.transport.Close(), l.socket.Close())
}

// bridge opens WebSockets over HTTP/2 for a client that knows how to in HTTP/1.1:
// it sends its GET as an extended CONNECT (RFC 8441 5), and takes the 200 for a 101.
type bridge struct{ *http2.Transport }

func extendedConnect(p *polyglot) transport {
	t := &http2.Transport{TLSClientConfig: p.trust(), DisableCompression: true, AllowHTTP: true}                    //nolint:staticcheck // net/http lets no :protocol pass
	t.DialTLSContext = func(ctx context.Context, network, address string, security *tls.Config) (net.Conn, error) { //nolint:staticcheck // as above
		if address == p.Addr("web").String() {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
		return (&tls.Dialer{Config: security}).DialContext(ctx, network, address)
	}
	return bridge{t}
}

func (b bridge) RoundTrip(get *http.Request) (*http.Response, error) {
	ours, theirs := io.Pipe()
	connect := get.Clone(get.Context())
	connect.Method, connect.Body, connect.ContentLength = http.MethodConnect, ours, -1
	key := get.Header.Get("Sec-WebSocket-Key")
	for _, name := range []string{"Connection", "Upgrade", "Sec-WebSocket-Key"} {
		connect.Header.Del(name)
	}
	connect.Header[":protocol"] = []string{"websocket"}
	response, err := b.Transport.RoundTrip(connect) //nolint:staticcheck // as above
	if err != nil || response.StatusCode != http.StatusOK {
		_ = theirs.Close() // nobody reads it
		return response, err
	}
	accept := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // RFC 6455 1.3
	response.StatusCode = http.StatusSwitchingProtocols
	response.Header.Set("Connection", "Upgrade")
	response.Header.Set("Upgrade", "websocket")
	response.Header.Set("Sec-WebSocket-Accept", base64.StdEncoding.EncodeToString(accept[:]))
	response.Body = &bothWays{ReadCloser: response.Body, to: theirs}
	return response, nil
}

// bothWays is what a stream brings, and what it takes.
type bothWays struct {
	io.ReadCloser
	to      io.WriteCloser
	reading sync.Mutex // held while the stream is read
}

func (b *bothWays) Read(p []byte) (int, error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	return b.ReadCloser.Read(p)
}

func (b *bothWays) Write(p []byte) (int, error) { return b.to.Write(p) }

// Close says that no more comes, and has what still does taken: a stream that is
// closed before its end is one that breaks off.
func (b *bothWays) Close() error {
	go func() {
		_, _ = io.Copy(io.Discard, b) // to whatever end
		_ = b.ReadCloser.Close()
	}()
	return b.to.Close()
}
