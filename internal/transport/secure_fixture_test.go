package transport

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/certtest"
	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

func write(t testing.TB, path string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// served starts net/http's server with TLS, or, without a config, for HTTP/2 by
// prior knowledge and HTTP/1.1 in clear.
func served(t testing.TB, config *tls.Config, handler http.Handler, change ...func(s *http.Server)) model.Endpoint {
	t.Helper()
	return servedOn(t, func(l net.Listener) net.Listener { return l }, config, handler, change...)
}

// serverConfig is for a server at the loopback address.
func serverConfig(a *certtest.Certificate) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.Issue("127.0.0.1").TLS()}}
}

// servedOn is served behind a listener that is wrapped.
func servedOn(t testing.TB, wrap func(l net.Listener) net.Listener, config *tls.Config, handler http.Handler, change ...func(s *http.Server)) model.Endpoint {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	scheme, done := "http", make(chan struct{})
	serve := func() error { return server.Serve(wrap(listener)) }
	if config != nil {
		scheme, server.TLSConfig = "https", config
		if len(config.NextProtos) == 1 && config.NextProtos[0] == alpnHTTP1 {
			server.Protocols.SetHTTP2(false)
		}
		serve = func() error { return server.ServeTLS(wrap(listener), "", "") }
	}
	for _, f := range change {
		f(server)
	}
	go func() { defer close(done); _ = serve() }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	address := listener.Addr().String()
	return model.Endpoint{URL: scheme + "://" + address, Scheme: scheme, Address: address, Host: address, Weight: 1}
}

// secured is served by a certificate of a new authority, and the settings that
// trust it.
func secured(t testing.TB, handler http.Handler, protocols ...string) (model.Endpoint, *model.ClientTLS) {
	t.Helper()
	a := certtest.Authority(t, "authority")
	config := &tls.Config{Certificates: []tls.Certificate{a.Issue("127.0.0.1").TLS()}, NextProtos: protocols}
	return served(t, config, handler), &model.ClientTLS{CA: a.CertFile()}
}

// reach is Acquire for a test.
func reach(t *bed, upstream *model.Upstream, endpoint model.Endpoint, observer Observer) pipeline.Transport {
	t.Helper()
	raw := acquired(t, upstream, endpoint, observer)
	return by(t.own, raw)
}

// acquired is Acquire until the end of the test.
func acquired(t *bed, upstream *model.Upstream, endpoint model.Endpoint, observer Observer) pipeline.Transport {
	t.Helper()
	return acquire(t, t.engine, upstream, endpoint, observer)
}

func acquire(t testing.TB, engine *Engine, upstream *model.Upstream, endpoint model.Endpoint, observer Observer) pipeline.Transport {
	t.Helper()
	var registry lease.Registry
	set := registry.NewSet()
	if upstream.Name == "" {
		upstream.Name = "up"
	}
	transport := Acquire(set, upstream, endpoint, observer, engine)
	if err := set.Commit(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Release)
	return transport
}

// bundle writes a certificate and its key to one file.
func bundle(t testing.TB, c *certtest.Certificate) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "bundle.pem"), append(c.CertPEM(), c.KeyPEM()...))
}

// at is an endpoint at a port.
func at(scheme, port string) model.Endpoint {
	address := "127.0.0.1:" + port
	return model.Endpoint{URL: scheme + "://" + address, Scheme: scheme, Address: address, Host: address, Weight: 1}
}

// run runs a program until the end of the test; scripts/test-setup installs it.
func run(t testing.TB, name string, arguments ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/" + name); err != nil {
			t.Fatalf("%s is not installed: see scripts/test-setup", name)
		}
	}
	var said bytes.Buffer
	command := exec.Command(path, arguments...)
	command.Stdout, command.Stderr = &said, &said
	command.WaitDelay = time.Second // for what it has started
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("%s said: %s", name, &said)
		}
	})
	return name
}

// listens waits until somebody listens on a port.
func listens(t testing.TB, port string) {
	t.Helper()
	waittest.Until(t, "port "+port+" answers", func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}
