package server_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/quic-go/quic-go/http3"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// TestHTTP3 serves HTTP/3 on the port of the others, and says so there.
func TestHTTP3(t *testing.T) {
	ofEngine(t, "the adapter has no TLS")
	a := newAuthority(t)
	f := start(t, func(x *pipeline.Exchange) error {
		if x.Request.Body == nil {
			return about(x)
		}
		x.Response = &message.Response{Status: 200, Body: x.Request.Body, Length: message.Unknown}
		return nil
	}, a.over, func(m *model.Listener) { m.Protocols = []string{model.H1, model.H2, model.H3} })
	response, _ := f.dialTLS(a.client()).send(get("/")).answer("GET")
	_, port, _ := strings.Cut(f.listener.Addr().String(), ":")
	if got, want := response.Header.Get("Alt-Svc"), `h3=":`+port+`"; ma=86400`; got != want {
		t.Errorf("Alt-Svc: %s, want %s", got, want)
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
