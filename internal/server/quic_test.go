package server_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/server"
)

// TestHTTP3 serves HTTP/3 on the port of the others, and says so there.
func TestHTTP3(t *testing.T) {
	ofEngine(t, "the adapter has no TLS")
	a := newAuthority(t)
	f := start(t, func(x *pipeline.Exchange) error {
		if x.Request.Body == nil {
			err := about(x)
			x.Response.Fields.Add("alt-svc", "what the endpoint says of itself")
			return err
		}
		x.Response = &message.Response{Status: 200, Body: x.Request.Body, Length: message.Unknown}
		return nil
	}, a.over, func(m *model.Listener) { m.Protocols = []string{model.H1, model.H2, model.H3} })
	response, _ := f.dialTLS(a.client()).send(get("/")).answer("GET")
	_, port, _ := strings.Cut(f.listener.Addr().String(), ":")
	if got, want := response.Header.Get("Alt-Svc"), `h3=":`+port+`"; ma=86400`; got != want {
		t.Errorf("Alt-Svc: %s, want %s", got, want)
	}
	overHTTP2, err := f.http2Client(a.client("h2")).Get("https://" + f.listener.Addr().String() + "/")
	if err != nil {
		t.Fatal(err)
	}
	_ = overHTTP2.Body.Close()
	if got := overHTTP2.Header.Values("Alt-Svc"); len(got) != 1 || got[0] != `h3=":`+port+`"; ma=86400` {
		t.Errorf("Alt-Svc over HTTP/2: %q", got)
	}
	transport := &http3.Transport{TLSClientConfig: a.client()}
	defer func() { _ = transport.Close() }()
	client := &http.Client{Transport: transport, Timeout: patience}
	url := "https://" + f.listener.Addr().String() + "/"
	for range 3 {
		answer, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if string(body) != "HTTP/3 https " {
			t.Errorf("%q", body)
		}
	}
	large := letters(1 << 20)
	answer, err := client.Post(url, "text/plain", strings.NewReader(large))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if body, err := io.ReadAll(answer.Body); err != nil || string(body) != large {
		t.Errorf("%d bytes came back, %v", len(body), err)
	}
}

// TestHTTP3NeedsItsPort refuses a configuration whose UDP port another program
// has: nothing of the listener is left.
func TestHTTP3NeedsItsPort(t *testing.T) {
	ofEngine(t, "the adapter has no TLS")
	taken := takenForUDP(t)
	a := newAuthority(t)
	m := defaults()
	a.over(m)
	m.Protocols, m.Address = []string{model.H1, model.H3}, taken.LocalAddr().String()
	set := new(lease.Registry).NewSet()
	server.Acquire(set, m, server.Options{Service: newService(about), Driver: newDriver(t)})
	var refused *server.BindError
	if err := set.Commit(); !errors.As(err, &refused) || refused.Address != m.Address || !refused.UDP || !strings.Contains(err.Error(), m.Address+" by UDP, for h3: address already in use") {
		t.Errorf("got %v", err)
	}
	set.Release()
	again, err := net.Listen("tcp", m.Address)
	if err != nil {
		t.Fatalf("the other socket is still there: %v", err)
	}
	_ = again.Close()
}

// takenForUDP is a socket on a port that is free for TCP, as far as one can tell.
func takenForUDP(t *testing.T) net.PacketConn {
	t.Helper()
	for range 20 {
		taken, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = taken.Close() })
		if free, err := net.Listen("tcp", taken.LocalAddr().String()); err == nil {
			_ = free.Close()
			return taken
		}
	}
	t.Fatal("no port is free for TCP")
	return nil
}

// TestHTTP3ComesAndGoes begins and ends it by a reload.
func TestHTTP3ComesAndGoes(t *testing.T) {
	ofEngine(t, "the adapter has no TLS")
	a := newAuthority(t)
	f := start(t, about, a.over)
	ask := func() error {
		transport := &http3.Transport{TLSClientConfig: a.client(), QUICConfig: &quic.Config{HandshakeIdleTimeout: time.Second}}
		defer func() { _ = transport.Close() }()
		response, err := (&http.Client{Transport: transport}).Get("https://" + f.listener.Addr().String() + "/")
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	with := *f.model
	with.Protocols = []string{model.H1, model.H3}
	f.listener.Serve(&with, nil)
	if err := ask(); err != nil {
		t.Errorf("with it: %v", err)
	}
	f.listener.Serve(f.model, nil)
	if err := ask(); err == nil {
		t.Error("without it, it is spoken")
	}
	for range 2 { // it stays so over further reloads
		if response, _ := f.dialTLS(a.client()).send(get("/")).answer("GET"); response.Header.Get("Alt-Svc") != "clear" {
			t.Errorf("clients who remember it are told %q", response.Header.Get("Alt-Svc"))
		}
		f.listener.Serve(f.model, nil)
	}
	f.listener.Serve(&with, nil)
	if response, _ := f.dialTLS(a.client()).send(get("/")).answer("GET"); !strings.HasPrefix(response.Header.Get("Alt-Svc"), "h3=") {
		t.Errorf("once it is back: %q", response.Header.Get("Alt-Svc"))
	}
}
