package server_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/quic-go/quic-go/http3"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// demand reloads a listener so that it requires certificates of its clients.
func (f *fixture) demand(a *authority) {
	f.Helper()
	strict, settings := *f.model, *f.model.TLS
	settings.ClientAuth = model.ClientAuth{Mode: model.ClientAuthRequire, CA: a.file}
	strict.TLS = &settings
	set := new(lease.Registry).NewSet()
	f.Cleanup(set.Release)
	secure := secured(f.T, set, &strict)
	if err := set.Commit(); err != nil {
		f.Fatal(err)
	}
	f.listener.Serve(&strict, secure)
}

// TestCertificatesRequiredByAReload ends the connections of clients that have shown
// none, and leaves the others alone.
func TestCertificatesRequiredByAReload(t *testing.T) {
	ofEngine(t, "the adapter has no TLS")
	a := newAuthority(t)
	begun, proceed := make(chan struct{}, 2), make(chan struct{})
	f := start(t, func(x *pipeline.Exchange) error {
		if x.Request.Path == "/slow" {
			begun <- struct{}{}
			x.Wait(func() { <-proceed })
		}
		return about(x)
	}, a.over, func(m *model.Listener) {
		m.Protocols = []string{model.H1, model.H2, model.H3}
		m.TLS.ClientAuth = model.ClientAuth{Mode: model.ClientAuthOptional, CA: a.file}
	})
	known := a.client("http/1.1")
	known.Certificates = []tls.Certificate{a.identity("alice")}
	alice, resting, silent, busy := f.dialTLS(known), f.dialTLS(a.client()), f.dialTLS(a.client()), f.dialTLS(a.client())
	alice.send(get("/")).answer("GET")
	resting.send(get("/")).answer("GET")
	busy.send(get("/slow"))
	<-begun
	overHTTP2 := f.http2Client(a.client("h2"))
	transport := &http3.Transport{TLSClientConfig: a.client()}
	defer func() { _ = transport.Close() }()
	clients := map[string]*http.Client{"h2": overHTTP2, "h3": {Transport: transport, Timeout: patience}}
	ask := func(client *http.Client, path string) (string, error) {
		response, err := client.Get("https://" + f.listener.Addr().String() + path)
		if err != nil {
			return "", err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
	for name, client := range clients {
		if body, err := ask(client, "/"); err != nil {
			t.Fatalf("%s: %q, %v", name, body, err)
		}
	}
	slow := make(chan error, 1)
	go func() {
		_, err := ask(overHTTP2, "/slow")
		slow <- err
	}()
	<-begun
	waittest.Until(t, "two at rest", func() bool { return f.listener.Resting() >= 2 })

	f.demand(a)
	resting.ends()
	if response, body := silent.send(get("/")).answer("GET"); response.StatusCode != http.StatusForbidden || !response.Close || !strings.Contains(body, "client certificate") {
		t.Errorf("the silent one: %d, %q", response.StatusCode, body)
	}
	close(proceed)
	if response, _ := busy.answer("GET"); response.StatusCode != http.StatusOK || !response.Close {
		t.Errorf("what was under way: %d, closes: %v", response.StatusCode, response.Close)
	}
	busy.ends()
	if err := <-slow; err != nil {
		t.Errorf("what was under way on HTTP/2: %v", err)
	}
	waittest.Until(t, "one connection", func() bool { return f.listener.Status().Connections == 1 })
	for name, client := range clients {
		if body, err := ask(client, "/"); err == nil {
			t.Errorf("%s, again: %q", name, body)
		}
	}
	if _, body := alice.send(get("/")).answer("GET"); body != "HTTP/1.1 https alice" {
		t.Errorf("who has shown one: %q", body)
	}
}

// TestRequestsWithoutARequiredCertificate are refused on a connection of HTTP/2 whose
// client does not go.
func TestRequestsWithoutARequiredCertificate(t *testing.T) {
	ofEngine(t, "the adapter has no HTTP/2")
	a := newAuthority(t)
	f := start(t, text("ok"), overHTTP2)
	r := f.raw()
	r.ask(1, true, ":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/")
	if status, _ := r.head(1); status != "200" {
		t.Fatal(status)
	}
	secure := *f.model
	a.over(&secure)
	f.model = &secure
	f.demand(a)
	r.ask(3, true, ":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/")
	if status, _ := r.head(3); status != "403" {
		t.Error(status)
	}
}
