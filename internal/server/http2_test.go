package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// byPath answers as the path says.
type byPath struct{ ended chan *pipeline.Exchange }

func (byPath) Serve(x *pipeline.Exchange) error {
	switch x.Request.Path {
	case "/echo":
		x.Response = &message.Response{Status: 200, Length: message.Unknown, Body: x.Request.Body, Trailer: func() message.Fields {
			return message.Fields{{Name: "X-Bytes", Value: "5"}}
		}}
	case "/cut":
		x.Response = &message.Response{Status: 200, Length: 10, Body: io.NopCloser(io.MultiReader(strings.NewReader("begun"), broken{}))}
	case "/slow":
		x.Until = time.Now().Add(100 * time.Millisecond)
		x.Response = &message.Response{Status: 200, Length: message.Unknown, Body: io.NopCloser(ticking{})}
	case "/upgrade":
		x.Response = &message.Response{Status: 101, Tunnel: idleTunnel{}}
	default:
		x.Response = &message.Response{Status: 200, Length: message.Unknown, Body: io.NopCloser(strings.NewReader(string(x.Request.Protocol) + " " + x.Request.Scheme))}
	}
	return nil
}

func (b byPath) Done(x *pipeline.Exchange) { b.ended <- x }

// answered is what is left of a response whose body is read.
type answered struct {
	StatusCode      int
	Header, Trailer http.Header
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("broken") }

// ticking gives a byte now and then, for ever.
type ticking struct{}

func (ticking) Read(p []byte) (int, error) {
	<-time.After(5 * time.Millisecond)
	return copy(p, "x"), nil
}

type idleTunnel struct{ io.ReadWriter }

func (idleTunnel) Close() error      { return nil }
func (idleTunnel) CloseWrite() error { return nil }

// The adapter serves HTTP/2, too, where a library owns the connection.
func TestTheAdapterOnHTTP2(t *testing.T) {
	service := byPath{make(chan *pipeline.Exchange, 1)}
	m := &model.Listener{Name: "web", Address: "127.0.0.1:0", Timeouts: model.ListenerTimeouts{MinBodyRate: 240}, Limits: model.ListenerLimits{Body: 8}}
	l := newListener(m, Options{Service: service})
	s := httptest.NewUnstartedServer(&adapter{listener: l, generation: newGeneration(l, m)})
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	ask := func(path, body string) (got answered, text string, err error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+path, io.MultiReader(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		response, err := s.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		all, err := io.ReadAll(response.Body)
		return answered{response.StatusCode, response.Header, response.Trailer}, string(all), err
	}
	if _, body, err := ask("/", ""); body != "HTTP/2 https" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	<-service.ended
	response, body, err := ask("/echo", "hello")
	x := <-service.ended
	if body != "hello" || err != nil || response.Trailer.Get("X-Bytes") != "5" || response.Header.Get("X-Request-ID") != x.ID || x.BytesIn != 5 || x.BytesOut != 5 {
		t.Errorf("%q, %v, %v, %d in, %d out", body, response.Trailer, err, x.BytesIn, x.BytesOut)
	}
	if _, body, err := ask("/echo", "much too long"); err == nil {
		t.Errorf("a clean end after %q", body)
	}
	if x := <-service.ended; x.Err == nil || x.Err.Word != pipeline.BodyTooLarge {
		t.Errorf("%v", x.Err)
	}
	if _, body, err := ask("/cut", ""); body != "begun" || err == nil {
		t.Errorf("%q, %v", body, err)
	}
	<-service.ended
	if _, body, err := ask("/slow", ""); err == nil {
		t.Errorf("a clean end after %d bytes", len(body))
	}
	if x := <-service.ended; x.Err == nil || x.Err.Word != pipeline.UpstreamTimeout {
		t.Errorf("%v", x.Err)
	}
	if response, _, _ := ask("/upgrade", ""); response.StatusCode != 502 {
		t.Errorf("%d", response.StatusCode)
	}
	<-service.ended
}

func TestProtocols(t *testing.T) {
	for want, version := range map[message.Protocol][2]int{message.HTTP10: {1, 0}, message.HTTP11: {1, 1}, message.HTTP2: {2, 0}, message.HTTP3: {3, 0}} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.ProtoMajor, r.ProtoMinor, r.TLS = version[0], version[1], &tls.ConnectionState{}
		if got := newRequest(r); got.Protocol != want || got.Scheme != "https" {
			t.Errorf("%v is %s by %s", version, got.Protocol, got.Scheme)
		}
	}
}

// What follows cannot come from net/http as it is.
func TestFaultsOfNetHTTP(t *testing.T) {
	m := &model.Listener{Name: "web", Address: "127.0.0.1:0"}
	l := newListener(m, Options{})
	if err := l.Start(); err != nil {
		t.Fatal(err)
	}
	defer l.Release()
	g := newGeneration(l, m)
	if g.Addr().String() != l.Addr().String() {
		t.Error("two addresses")
	}
	defer func() {
		if value := fmt.Sprint(recover()); !strings.HasPrefix(value, "BUG:") {
			t.Error(value)
		}
	}()
	l.observe(nil, http.StateNew)
}
