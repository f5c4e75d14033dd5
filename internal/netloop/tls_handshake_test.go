//go:build unix

package netloop

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/internal/certtest"
)

// TestTLSHandshakeFails has our side say why, and the peer be told.
func TestTLSHandshakeFails(t *testing.T) {
	server, client := configs(t)
	stranger := certtest.Authority(t, "authority")
	mutual := server.Clone()
	mutual.ClientAuth, mutual.ClientCAs = tls.RequireAndVerifyClientCert, client.RootCAs
	with := func(config *tls.Config, change func(config *tls.Config)) *tls.Config {
		config = config.Clone()
		change(config)
		return config
	}
	errNobody := errors.New("nobody by that name")
	for name, test := range map[string]struct {
		server, client *tls.Config
		want, dialing  HandshakeReason // of our server and of our client
		is             error           // of our server
		text           string
	}{
		"version": {
			server: of(server, tls.VersionTLS13), client: of(client, tls.VersionTLS12),
			want: HandshakeVersion, dialing: HandshakeRefused, text: "unsupported versions",
		},
		"cipher": {
			server: with(of(server, tls.VersionTLS12), func(c *tls.Config) { c.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384} }),
			client: with(of(client, tls.VersionTLS12), func(c *tls.Config) { c.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256} }),
			want:   HandshakeCipher, dialing: HandshakeRefused,
		},
		"key exchange": {
			server: with(of(server, tls.VersionTLS13), func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.CurveP384} }),
			client: with(client, func(c *tls.Config) { c.CurvePreferences = []tls.CurveID{tls.X25519} }),
			want:   HandshakeCipher, dialing: HandshakeRefused,
		},
		"protocol": {
			server: with(server, func(c *tls.Config) { c.NextProtos = []string{"h2"} }),
			client: with(client, func(c *tls.Config) { c.NextProtos = []string{"h9"} }),
			want:   HandshakeProtocol, dialing: HandshakeRefused,
		},
		"no certificate of the client": {
			server: of(mutual, tls.VersionTLS12), client: client,
			want: HandshakeNoCertificate, dialing: HandshakeRefused,
		},
		"a stranger's certificate": {
			server: of(mutual, tls.VersionTLS12),
			client: with(client, func(c *tls.Config) {
				own := stranger.Issue("client").TLS()
				c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
			}),
			want: HandshakeCertificate, dialing: HandshakeRefused, text: "unknown authority",
		},
		"a server that is not known": {
			server: server, client: with(client, func(c *tls.Config) { c.RootCAs = stranger.Pool() }),
			want: HandshakeRefused, dialing: HandshakeCertificate, text: "bad certificate",
		},
		"a server of another name": {
			server: server, client: with(client, func(c *tls.Config) { c.ServerName = "another" }),
			want: HandshakeRefused, dialing: HandshakeCertificate,
		},
		"a callback's error": {
			server: with(server, func(c *tls.Config) {
				c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errNobody }
				c.Certificates = nil
			}),
			client: client, want: HandshakeFailed, dialing: HandshakeRefused, is: errNobody,
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachTask(t, func(b *bed, x Executor) {
				t := b.t
				c, peer := pair(t, x, "tcp")
				told := make(chan error, 1)
				go func() {
					other := tls.Client(peer, test.client)
					err := other.Handshake()
					if err == nil { // in TLS 1.3 a client learns it later
						_, err = other.Read(make([]byte, 1))
					}
					told <- err
					_ = peer.Close()
				}()
				own := ServeTLS(c, nil, test.server)
				err := own.Handshake(time.Now().Add(time.Minute))
				wantReason(t, err, test.want)
				if test.is != nil && !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.text) || failureOf(err).Plain != nil {
					t.Errorf("it says: %v", err)
				}
				if again := own.Handshake(time.Time{}); again != err { //nolint:errorlint // the very value
					t.Errorf("again: %v", again)
				}
				_ = own.Close()
				var peerErr error
				x.Block(func() { peerErr = <-told })
				if test.want != HandshakeRefused && (peerErr == nil || !strings.Contains(peerErr.Error(), "remote error: tls: ")) {
					t.Errorf("the client is told: %v", peerErr)
				}

				c, serving := pair(t, x, "tcp")
				go func() { _ = tls.Server(serving, test.server).Handshake() }()
				own = DialTLS(c, test.client)
				wantReason(t, own.Handshake(time.Now().Add(time.Minute)), test.dialing)
				_ = own.Close()
			})
		})
	}
}

func wantReason(t testing.TB, err error, want HandshakeReason) {
	t.Helper()
	if failure := failureOf(err); failure.Reason != want {
		t.Errorf("%v, which is no %q: %+v", err, want, failure)
	}
}

// failureOf is the error of a handshake, empty if it is another.
func failureOf(err error) *HandshakeError {
	failure := &HandshakeError{}
	_ = errors.As(err, &failure)
	return failure
}

// TestTLSClientCertificate has the client show who it is, and learn in TLS 1.3
// by reading that it did not.
func TestTLSClientCertificate(t *testing.T) {
	server, client := configs(t)
	authority := certtest.Authority(t, "authority")
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, authority.Pool()
	known := client.Clone()
	known.Certificates = []tls.Certificate{authority.Issue("client").TLS()}
	eachVersion(t, func(b *bed, x Executor, version uint16) {
		t := b.t
		own, _ := tlsServed(t, x, of(server, version), known)
		if got := own.ConnectionState().VerifiedChains; len(got) != 1 || got[0][0].DNSNames[0] != "client" {
			t.Errorf("the client is %v", got)
		}
		_ = own.Close()
		own, _ = tlsDialed(t, x, of(server, version), known)
		_ = own.Close()
		if version != tls.VersionTLS13 {
			return
		}
		c, peer := pair(t, x, "tcp")
		go func() { _ = tls.Server(peer, server).Handshake() }()
		own = DialTLS(c, client)
		if err := own.Handshake(time.Now().Add(time.Minute)); err != nil {
			t.Errorf("handshake: %v", err)
		}
		if _, err := own.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "certificate required") {
			t.Errorf("read: %v", err)
		}
		_ = own.Close()
	})
}

// TestTLSHandshakeTime has peers that say nothing, or not all.
func TestTLSHandshakeTime(t *testing.T) {
	server, client := configs(t)
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		soon := func() time.Time { return time.Now().Add(20 * time.Millisecond) }
		hello := recordHello(t, client)
		for _, said := range []int{0, 1, headerBytes, 100, len(hello)} {
			c, peer := pair(t, x, "tcp")
			_, _ = peer.Write(hello[:said])
			own := ServeTLS(c, nil, server)
			err := own.Handshake(soon())
			if wantReason(t, err, HandshakeTimeout); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after %d bytes: %v", said, err)
			}
			_ = own.Close()
		}
		c, _ := pair(t, x, "tcp")
		own := DialTLS(c, client)
		wantReason(t, own.Handshake(soon()), HandshakeTimeout)
		_ = own.Close()
	})
}

// TestTLSHandshakeInterrupted gives up a handshake, by whatever means.
func TestTLSHandshakeInterrupted(t *testing.T) {
	server, _ := configs(t)
	cause := errors.New("no longer wanted")
	for name, test := range map[string]struct {
		end  func(own *TLS)
		want error
	}{
		"interrupt": {func(own *TLS) { own.Interrupt(cause) }, cause},
		"inner":     {func(own *TLS) { own.Inner().Interrupt(ErrStopped) }, ErrStopped},
		"close":     {func(own *TLS) { _ = own.Close() }, net.ErrClosed},
		"reset":     {(*TLS).Reset, net.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			eachTask(t, func(b *bed, x Executor) {
				t := b.t
				c, _ := pair(t, x, "tcp")
				own := ServeTLS(c, nil, server)
				done := beside(x, func() {
					err := own.Handshake(time.Time{})
					if wantReason(t, err, HandshakeInterrupted); !errors.Is(err, test.want) {
						t.Errorf("handshake: %v", err)
					}
				})
				_ = x.NewEvent().Wait(time.Now().Add(5 * time.Millisecond)) // it waits, or not yet: it is the same
				test.end(own)
				_ = done.Wait(time.Time{})
				_ = own.Close()
			})
		})
	}
}

// recordHello is what a client says first.
func recordHello(t testing.TB, client *tls.Config) []byte {
	t.Helper()
	near, far := net.Pipe()
	defer func() { _, _ = near.Close(), far.Close() }()
	go func() { _ = tls.Client(far, client).Handshake() }()
	header := make([]byte, headerBytes)
	if _, err := io.ReadFull(near, header); err != nil {
		t.Error(err)
	}
	body := make([]byte, int(header[3])<<8|int(header[4]))
	if _, err := io.ReadFull(near, body); err != nil {
		t.Error(err)
	}
	return slices.Concat(header, body)
}

// leaver is a peer's socket that closes once so many bytes have been written.
type leaver struct {
	net.Conn
	left  int
	reset bool
}

var errLeft = errors.New("it has left")

func (l *leaver) Write(p []byte) (int, error) {
	n := min(l.left, len(p))
	_, _ = l.Conn.Write(p[:n])
	if l.left -= n; n < len(p) {
		if l.reset {
			_ = l.Conn.(*net.TCPConn).SetLinger(0)
		}
		_ = l.Conn.Close()
		return n, errLeft
	}
	return n, nil
}

// TestTLSPeerLeaves has the peer leave after each part of what it says, in the
// handshake and after it.
func TestTLSPeerLeaves(t *testing.T) {
	server, client := configs(t)
	for _, reset := range []bool{false, true} {
		eachVersion(t, func(b *bed, x Executor, version uint16) {
			t := b.t
			for said := 0; said < 3000; said += 41 {
				c, peer := pair(t, x, "tcp")
				done := make(chan struct{})
				go func() {
					defer close(done)
					other := tls.Client(&leaver{peer, said, reset}, of(client, version))
					_, _ = other.Write(make([]byte, 1000))
					_ = other.NetConn().(*leaver).Conn.Close()
				}()
				own := ServeTLS(c, nil, server)
				err := own.Handshake(time.Now().Add(time.Minute))
				if err == nil {
					_, err = io.Copy(io.Discard, struct{ io.Reader }{own})
					if err == nil {
						t.Errorf("after %d bytes it looks whole", said)
					}
				} else {
					wantReason(t, err, HandshakeLeft)
				}
				_ = own.Close()
				x.Block(func() { <-done })
			}
		})
	}
}

// TestTLSPlain has a client speak HTTP in clear; it can be answered so.
func TestTLSPlain(t *testing.T) {
	server, client := configs(t)
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		for text, http := range map[string]bool{
			"GET / HTTP/1.1\r\nHost: a\r\n\r\n": true,
			"OPTIONS * HTTP/1.1\r\n\r\n":        true,
			"SSH-2.0-OpenSSH_9\r\n":             false,
			"get / HTTP/1.1\r\n":                false,
			"\x00\x00\x00\x00\x00":              false,
		} {
			for early := range 2 {
				c, peer := pair(t, x, "tcp")
				_, _ = io.WriteString(peer, text)
				first := make([]byte, 3*early)
				_, _ = io.ReadFull(c, first)
				own := ServeTLS(c, first, server)
				err := own.Handshake(time.Now().Add(time.Minute))
				wantReason(t, err, HandshakeNotTLS)
				failure := failureOf(err)
				var header tls.RecordHeaderError
				if string(failure.Plain) != text || failure.HTTP() != http || !errors.As(err, &header) {
					t.Errorf("%q, early %v: %+v", text, early, failure)
				}
				if _, err := io.WriteString(own.Inner(), "in clear"); err != nil {
					t.Errorf("answer: %v", err)
				}
				_ = own.Close()
				x.Block(func() {
					if got, err := io.ReadAll(peer); string(got) != "in clear" || err != nil {
						t.Errorf("the client read %q, %v", got, err)
					}
				})
			}
		}
		c, peer := pair(t, x, "tcp")
		_, _ = io.WriteString(peer, "HTTP/1.1 400 Bad Request\r\n\r\n")
		own := DialTLS(c, client)
		err := own.Handshake(time.Time{})
		if wantReason(t, err, HandshakeNotTLS); failureOf(err).HTTP() {
			t.Error("an answer is no request")
		}
		_ = own.Close()
	})
}

// TestTLSReasonOf holds the reasons to texts of crypto/tls that no test brings
// about here.
func TestTLSReasonOf(t *testing.T) {
	for text, want := range map[string]HandshakeReason{
		"tls: server selected unsupported protocol version 302":                 HandshakeVersion,
		"tls: unsupported SSLv2 handshake received":                             HandshakeVersion,
		"tls: client sent certificate containing RSA key larger than 8192 bits": HandshakeFailed,
		"tls: failed to parse client certificate: x":                            HandshakeCertificate,
		"tls: failed to parse certificate from server: x":                       HandshakeCertificate,
		"of another: didn't provide a certificate":                              HandshakeFailed,
	} {
		if got := reasonOf(errors.New(text)); got != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	if got := reasonOf(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}); got != HandshakeCertificate {
		t.Errorf("a verification: %s", got)
	}
}

// TestTLSResumed has sessions go on in other connections, and tickets come at
// rest.
func TestTLSResumed(t *testing.T) {
	server, client := configs(t)
	eachVersion(t, func(b *bed, x Executor, version uint16) {
		t := b.t
		for _, dialing := range []bool{false, true} {
			client := of(client, version)
			client.ClientSessionCache = tls.NewLRUClientSessionCache(4)
			for round := range 3 {
				own, other := (*TLS)(nil), (*tls.Conn)(nil)
				if dialing {
					own, other = tlsDialed(t, x, server, client)
					if version == tls.VersionTLS13 {
						settle(t, x, "tickets come", func() bool { return own.records.partial() || own.Inner().Stale() })
					}
					if own.Stale() || own.Pending() {
						t.Error("a ticket counts as something")
					}
					atRest(t, own)
				} else {
					own, other = tlsServed(t, x, server, client)
				}
				if got := own.ConnectionState().DidResume; got != (round > 0) {
					t.Errorf("round %d, dialing %v: resumed %v", round, dialing, got)
				}
				x.Block(func() { _, _ = io.WriteString(other, "x") })
				if err := own.Readable(); err != nil || !own.Stale() {
					t.Errorf("a byte is there: %v", err)
				}
				if n, err := own.Read(make([]byte, 2)); n != 1 || err != nil || own.Stale() {
					t.Errorf("read %d, %v", n, err)
				}
				_, _ = own.Write([]byte("y")) // after the tickets, for those
				x.Block(func() {
					if n, err := other.Read(make([]byte, 1)); n != 1 || err != nil {
						t.Errorf("the peer read %d, %v", n, err)
					}
					_ = other.Close()
				})
				settle(t, x, "the end comes", own.Stale)
				_ = own.Close()
			}
		}
	})
}

// TestTLSInnerClosed has the inner connection be closed below it, as a driver
// closes one that rests too long.
func TestTLSInnerClosed(t *testing.T) {
	server, client := configs(t)
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		own, _ := tlsServed(t, x, server, client)
		_ = own.Inner().Close()
		if !own.Stale() {
			t.Error("it is good for another exchange")
		}
		if _, err := own.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read: %v", err)
		}
		if _, err := own.Write(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write: %v", err)
		}
		if _, err := own.Detach(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("detach: %v", err)
		}
		if err := own.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
}
