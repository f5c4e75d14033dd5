package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/certtest"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

func TestHTTP1OverTLS(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	each(t, func(t *bed) {
		endpoint, trust := secured(t, http.HandlerFunc(echo), alpnHTTP1)
		var c counts
		transport := reach(t, &model.Upstream{TLS: trust, Protocol: model.UpstreamHTTP1}, endpoint, c.observer())
		for _, body := range [][]byte{[]byte("hello"), big} {
			for _, length := range []int64{int64(len(body)), message.Unknown} {
				response, got := ask(t, transport, post(bytes.NewReader(body), length))
				if got != string(body) || response.Protocol != message.HTTP11 {
					t.Errorf("got %d bytes over %s", len(got), response.Protocol)
				}
			}
		}
		if got := c.String(); got != "opened 1, reused 3, closed 0" {
			t.Error(got)
		}
	})
}

// An endpoint is believed if its certificate is for it, by whom it must be and
// now; and then only.
func TestCertificatesAreVerified(t *testing.T) {
	trusted, other := certtest.Authority(t, "authority"), certtest.Authority(t, "authority")
	past := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)
	}
	server := func(c tls.Certificate) model.Endpoint {
		return served(t, &tls.Config{Certificates: []tls.Certificate{c}}, http.HandlerFunc(echo))
	}
	self := certtest.SelfSigned(t, "127.0.0.1").TLS()
	named := server(trusted.Issue("shop.test").TLS())
	ca := trusted.CertFile()
	for _, c := range []struct {
		name     string
		endpoint model.Endpoint
		settings *model.ClientTLS
		fault    string // empty: none
	}{
		{"sound", server(trusted.Issue("127.0.0.1").TLS()), &model.ClientTLS{CA: ca}, ""},
		{"server name", named, &model.ClientTLS{CA: ca, ServerName: "shop.test"}, ""},
		{"wrong name", named, &model.ClientTLS{CA: ca}, "127.0.0.1"},
		{"other name", named, &model.ClientTLS{CA: ca, ServerName: "other.test"}, "other.test"},
		{"expired", server(trusted.IssueFor(certtest.NewKey(t), past, "127.0.0.1").TLS()), &model.ClientTLS{CA: ca}, "expired"},
		{"other authority", server(other.Issue("127.0.0.1").TLS()), &model.ClientTLS{CA: ca}, "unknown authority"},
		{"system's authorities", server(trusted.Issue("127.0.0.1").TLS()), nil, "unknown authority"},
		{"self-signed", server(self), &model.ClientTLS{CA: ca}, "unknown authority"},
		{"not verified", server(self), &model.ClientTLS{Insecure: true}, ""},
		{"no file", server(self), &model.ClientTLS{CA: ca + "x"}, "no such file"},
		{"no TLS", insecure(served(t, nil, http.HandlerFunc(echo))), &model.ClientTLS{CA: ca}, "TLS"},
	} {
		each(t, func(t *bed) {
			for _, protocol := range []string{model.UpstreamHTTP1, model.UpstreamH2, model.UpstreamAuto} {
				transport := reach(t, &model.Upstream{TLS: c.settings, Protocol: protocol, Timeouts: model.AttemptTimeouts{Connect: 10 * time.Second}}, c.endpoint, Observer{})
				if c.fault == "" {
					ask(t, transport, get("/"))
					continue
				}
				e := wantError(t, fails(t.Context(), t, transport, get("/")), pipeline.UpstreamConnect)
				if !strings.Contains(e.Error(), c.fault) || !e.Unsent {
					t.Errorf("%s, %s: %v, unsent %v", c.name, protocol, &e, e.Unsent)
				}
			}
		})
	}
}

// insecure is an endpoint in clear that is taken for one with TLS.
func insecure(endpoint model.Endpoint) model.Endpoint {
	endpoint.Scheme = "https"
	return endpoint
}

func TestClientCertificates(t *testing.T) {
	a := certtest.Authority(t, "authority")
	cert, key := a.Issue("gateway.test").Write(t.TempDir(), "own")
	who := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].DNSNames[0])
	})
	endpoint := served(t, &tls.Config{Certificates: []tls.Certificate{a.Issue("127.0.0.1").TLS()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool()}, who)
	each(t, func(t *bed) {
		for _, protocol := range []string{model.UpstreamHTTP1, model.UpstreamH2, model.UpstreamAuto} {
			settings := &model.ClientTLS{CA: a.CertFile(), Cert: cert, Key: key}
			if _, body := ask(t, reach(t, &model.Upstream{TLS: settings, Protocol: protocol}, endpoint, Observer{}), get("/")); body != "gateway.test" {
				t.Errorf("%s: got %q", protocol, body)
			}
			none := &model.ClientTLS{CA: a.CertFile()}
			// In TLS 1.3 an endpoint may say so only behind its handshake, so that the
			// error need not be that of connecting.
			if err := fails(t.Context(), t, reach(t, &model.Upstream{TLS: none, Protocol: protocol}, endpoint, Observer{}), get("/")); pipeline.AsError(err).Status != http.StatusBadGateway {
				t.Errorf("%s: got %v without a certificate", protocol, err)
			}
		}
	})
}

// New files are taken up by new connections, broken ones are told of once and
// change nothing.
func TestFilesAreReplaced(t *testing.T) {
	each(t, func(t *bed) {
		for _, protocol := range []string{model.UpstreamHTTP1, model.UpstreamH2} {
			first, second := certtest.Authority(t, "authority"), certtest.Authority(t, "authority")
			var current atomic.Pointer[tls.Certificate]
			show := func(a *certtest.Certificate) { c := a.Issue("127.0.0.1").TLS(); current.Store(&c) }
			show(first)
			endpoint := served(t, &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return current.Load(), nil }},
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }))
			ca := first.CertFile()
			var faults atomic.Int64
			transport := reach(t, &model.Upstream{TLS: &model.ClientTLS{CA: ca}, Protocol: protocol}, endpoint, Observer{Faulty: func(string, error) { faults.Add(1) }})
			works := func() bool {
				response, err := trip(t.Context(), transport, get("/"), nil)
				if err == nil {
					drain(t, response)
				}
				return err == nil
			}
			if !works() {
				t.Fatal("it fails with the first files")
			}
			write(t, ca, []byte("broken"))
			waittest.Until(t, "the broken file is told of", func() bool { return works() && faults.Load() == 1 })
			if err := os.Remove(ca); err != nil {
				t.Fatal(err)
			}
			waittest.Until(t, "the missing file is told of", func() bool { return works() && faults.Load() == 2 })
			write(t, ca, second.CertPEM())
			show(second)
			waittest.Until(t, "the second is trusted", works)
			show(first)
			waittest.Until(t, "the first is not", func() bool { return !works() })
			if n := faults.Load(); n != 2 {
				t.Errorf("told of %d faults", n)
			}
		}
	})
}

// A client's certificate in a fault of its key.
func TestFaultsOfPairs(t *testing.T) {
	a := certtest.Authority(t, "authority")
	cert, key := a.Issue("a.test").Write(t.TempDir(), "own")
	_, other := a.Issue("b.test").Write(t.TempDir(), "own")
	for name, settings := range map[string]model.ClientTLS{
		"other key": {Cert: cert, Key: other}, "no certificate": {Cert: key, Key: key}, "missing key": {Cert: cert, Key: key + "x"},
	} {
		c := newCredentials("up", &settings, nil)
		if _, err := c.get(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Connections of a pool resume the TLS session of those before.
func TestSessionsAreResumed(t *testing.T) {
	each(t, func(t *bed) {
		for _, protocol := range []string{model.UpstreamHTTP1, model.UpstreamH2} {
			resumed := make(chan bool, 10)
			endpoint, trust := secured(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				resumed <- r.TLS.DidResume
				w.Header().Set("Connection", "close")
				_, _ = io.WriteString(w, "ok")
			}))
			transport := reach(t, &model.Upstream{TLS: trust, Protocol: protocol}, endpoint, Observer{})
			ask(t, transport, get("/"))
			<-resumed
			waittest.Until(t, protocol+": one is resumed", func() bool {
				ask(t, transport, get("/"))
				return <-resumed
			})
		}
	})
}

// The time-out of connecting covers the handshake, and so does the context.
func TestHandshakesTakeNoLonger(t *testing.T) {
	each(t, func(t *bed) {
		for _, protocol := range []string{model.UpstreamHTTP1, model.UpstreamH2, model.UpstreamAuto} {
			endpoint := insecure(scripted(t, func(p *peer) { _, _ = io.Copy(io.Discard, p) }))
			upstream := &model.Upstream{TLS: &model.ClientTLS{Insecure: true}, Protocol: protocol}
			upstream.Timeouts.Connect = 50 * time.Millisecond
			e := wantError(t, fails(t.Context(), t, reach(t, upstream, endpoint, Observer{}), get("/")), pipeline.UpstreamConnect)
			if !strings.Contains(e.Error(), "no connection within 50ms") || !e.Unsent {
				t.Errorf("%s: %v", protocol, &e)
			}
			upstream.Timeouts.Connect = 0
			ctx, cancel := context.WithCancelCause(t.Context())
			done := inBackground(ctx, reach(t, upstream, endpoint, Observer{}), "/")
			time.AfterFunc(20*time.Millisecond, func() { cancel(errOver) })
			if err := waittest.Receive(t, "the end", done); pipeline.AsError(err).Word == pipeline.UpstreamConnect {
				t.Errorf("%s: %v", protocol, err)
			}
			w := watch(reach(t, upstream, endpoint, Observer{}), model.RouteTimeouts{Response: 30 * time.Millisecond})
			w.watch.Sent(time.Now())
			wantError(t, fails(t.Context(), t, w, get("/")), pipeline.UpstreamTimeout)
		}
	})
}

// What is asked of a connection that died at rest goes over another.
func TestReplayOverTLS(t *testing.T) {
	engines(t, func(t *bed) {
		a := certtest.Authority(t, "authority")
		config := &tls.Config{Certificates: []tls.Certificate{a.Issue("127.0.0.1").TLS()}}
		endpoint := insecure(scripted(t, func(p *peer) {
			secure := tls.Server(p.Conn, config)
			q := newPeer(t, secure)
			if q.head() != "" {
				q.say(ok)
			}
			_ = secure.Close() // close_notify
		}))
		var c counts
		transport := reach(t, &model.Upstream{TLS: &model.ClientTLS{CA: a.CertFile()}}, endpoint, c.observer())
		replayed := 0
		for i := range 20 {
			if _, body := ask(t, transport, get("/")); body != "ok" {
				t.Errorf("got %q", body)
			}
			request := get("/")
			request.Method, request.Body, request.Length = "POST", message.Text("body"), 4
			response, err := trip(t.Context(), transport, request, nil)
			if err != nil {
				// Its system took it before the endpoint closed, of which nobody can tell
				// whether the endpoint did.
				wantError(t, err, pipeline.UpstreamReset)
				continue
			}
			drain(t, response)
			if replayed++; i%2 == 0 {
				<-time.After(time.Millisecond) // the end has come
			}
		}
		if replayed == 0 {
			t.Error("no request was sent again")
		}
		waittest.Until(t, "all are closed", func() bool { return c.closed.Load() == c.opened.Load() })
	})
}

func TestConnectionsOverTLSMoveBetweenExecutors(t *testing.T) {
	var c counts
	endpoint, trust := secured(t, http.HandlerFunc(echo), alpnHTTP1)
	upstream := &model.Upstream{Name: "up", TLS: trust, Pool: model.Pool{MaxConnections: 1, MaxPending: 10}}
	loops := startLoops(t)
	p := newPool(newWay(upstream, endpoint, c.observer(), newCredentials("up", trust, nil)), NewEngine(loops, startGoroutines(t)))
	t.Cleanup(p.Release)
	var wait sync.WaitGroup
	for _, loop := range append(loops, nil) {
		wait.Go(func() {
			for range 10 {
				if _, body := ask(t, by(loop, p), post(strings.NewReader("hello"), 5)); body != "hello" {
					t.Errorf("got %q", body)
				}
			}
		})
	}
	wait.Wait()
	if got := c.String(); got != "opened 1, reused 29, closed 0" {
		t.Error(got)
	}
}

func TestTunnelsOverTLS(t *testing.T) {
	each(t, func(t *bed) {
		a := certtest.Authority(t, "authority")
		config := &tls.Config{Certificates: []tls.Certificate{a.Issue("127.0.0.1").TLS()}, NextProtos: []string{alpnH2, alpnHTTP1}}
		endpoint := insecure(scripted(t, func(p *peer) {
			secure := tls.Server(p.Conn, config)
			q := newPeer(t, secure)
			if head := q.head(); strings.Contains(head, "Upgrade: echo") {
				q.say(switching + "early")
				_, _ = io.Copy(secure, q)
			}
			_ = secure.Close()
		}))
		for _, protocol := range []string{model.UpstreamHTTP1, model.UpstreamAuto} {
			transport := reach(t, &model.Upstream{TLS: &model.ClientTLS{CA: a.CertFile()}, Protocol: protocol}, endpoint, Observer{})
			tunnel := upgrade(t.Context(), t, transport)
			if _, err := io.WriteString(tunnel, "hello"); err != nil {
				t.Fatal(err)
			}
			_ = tunnel.CloseWrite()
			if text, err := io.ReadAll(tunnel); string(text) != "earlyhello" || err != nil {
				t.Errorf("%s: got %q, %v", protocol, text, err)
			}
			tunnel.Close()
		}
	})
}

// A driver that stops ends what looks after connections at rest, whatever they look
// like then.
func TestStopWithConnectionsAtRest(t *testing.T) {
	var c counts
	endpoint, trust := secured(t, http.HandlerFunc(echo), alpnHTTP1)
	driver, err := newLoops(1, log(t))
	if err != nil {
		t.Fatal(err)
	}
	loop := driver.Executors()[0]
	p := newPool(newWay(&model.Upstream{Name: "up", TLS: trust}, endpoint, c.observer(), newCredentials("up", trust, nil)), NewEngine(driver.Executors(), startGoroutines(t)))
	if _, body := ask(t, by(loop, p), post(strings.NewReader("hello"), 5)); body != "hello" {
		t.Errorf("got %q", body)
	}
	waittest.Until(t, "it rests", func() bool { return p.idle.Load() == 1 })
	done := make(chan struct{})
	go func() { driver.Stop(); close(done) }()
	waittest.Receive(t, "the end of the driver", done)
}
