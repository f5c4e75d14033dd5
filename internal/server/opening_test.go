package server_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// about answers with what an exchange knows of its connection.
func about(x *pipeline.Exchange) error {
	name := ""
	if x.ClientCertificate != nil {
		name = x.ClientCertificate.CommonName
	}
	x.Response = reply(200, fmt.Sprintf("%s %s %s", x.Request.Protocol, x.Request.Scheme, name))
	return nil
}

// TestTLS serves HTTP/1.1 over TLS: one after another, pipelined, large both
// ways, with what came in one record and in many.
func TestTLS(t *testing.T) {
	ofEngine(t, "the adapter has no TLS")
	a := newAuthority(t)
	f := start(t, func(x *pipeline.Exchange) error {
		if x.Request.Body == nil {
			return about(x)
		}
		defer x.Request.Body.Close()
		body, err := io.ReadAll(x.Request.Body)
		x.Response = reply(200, string(body))
		return err
	}, a.over)
	c := f.dialTLS(a.client("http/1.1"))
	for range 3 {
		if _, body := c.send(get("/")).answer("GET"); body != "HTTP/1.1 https " {
			t.Fatal(body)
		}
	}
	c.send(strings.Repeat(get("/"), 50))
	for range 50 {
		if _, body := c.answer("GET"); body != "HTTP/1.1 https " {
			t.Fatal(body)
		}
	}
	for _, r := range get("/") {
		c.send(string(r))
	}
	if _, body := c.answer("GET"); body != "HTTP/1.1 https " {
		t.Fatal(body)
	}
	large := letters(3 << 20)
	if _, body := c.send(post(fmt.Sprintf("Content-Length: %d\r\n", len(large)), large)).answer("POST"); body != large {
		t.Errorf("%d bytes of %d came back", len(body), len(large))
	}
}

// TestTLSRequestsOfARecordsSize pipelines requests so that records and buffers
// end at the same places: nothing may be left in what TLS has read ahead.
func TestTLSRequestsOfARecordsSize(t *testing.T) {
	ofEngine(t, "the adapter has no TLS")
	a := newAuthority(t)
	f := start(t, text("ok"), a.over)
	c := f.dialTLS(a.client())
	const record = 16 << 10
	for _, size := range []int{record - 1, record, record + 1, 2 * record} {
		one := "GET / HTTP/1.1\r\nHost: a\r\nX-Fill: "
		one += strings.Repeat("x", size-len(one)-4) + "\r\n\r\n"
		c.send(one + one + get("/"))
		for i := range 3 {
			if response, body := c.answer("GET"); response.StatusCode != http.StatusOK || body != "ok" {
				t.Fatalf("%d bytes, answer %d: %d %q", size, i, response.StatusCode, body)
			}
		}
	}
}

// TestClientCertificates tells an exchange who its client is.
func TestClientCertificates(t *testing.T) {
	ofEngine(t, "the adapter has no TLS")
	a := newAuthority(t)
	for mode, anonymous := range map[string]bool{model.ClientAuthOptional: true, model.ClientAuthRequire: false} {
		f := start(t, about, a.over, func(m *model.Listener) {
			m.TLS.ClientAuth = model.ClientAuth{Mode: mode, CA: a.file}
		})
		known := a.client()
		known.Certificates = []tls.Certificate{a.identity("alice")}
		if _, body := f.dialTLS(known).send(get("/")).answer("GET"); body != "HTTP/1.1 https alice" {
			t.Errorf("%s: %q", mode, body)
		}
		stranger := a.client()
		stranger.Certificates = []tls.Certificate{newAuthority(t).identity("eve")}
		for who, config := range map[string]*tls.Config{"nobody": a.client(), "a stranger": stranger} {
			c := f.dial()
			secure := tls.Client(c.Conn, config)
			_, _ = io.WriteString(secure, get("/")) // reading tells
			response, err := http.ReadResponse(bufio.NewReader(secure), nil)
			if err == nil {
				_ = response.Body.Close()
			}
			if want := anonymous && who == "nobody"; (err == nil) != want {
				t.Errorf("%s, %s: %v", mode, who, err)
			}
		}
	}
}

// TestHandshakesThatFail are counted, and harm nobody.
func TestHandshakesThatFail(t *testing.T) {
	ofEngine(t, "the adapter has no TLS")
	a := newAuthority(t)
	f := start(t, text("ok"), a.over, func(m *model.Listener) { m.Timeouts.ReadHeader = time.Second })
	if answer := f.dial().send("\x16\x03\x01\x00\x05nonse").rest(); !strings.HasPrefix(answer, "\x15\x03") { // an alert
		t.Errorf("%q", answer)
	}
	f.dial().send("\x16\x03\x01").ends() // and no more
	old := a.client()
	old.MinVersion, old.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	if err := tls.Client(f.dial(), old).Handshake(); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
	if err := tls.Client(f.dial(), a.client("spdy/3")).Handshake(); err == nil {
		t.Error("spdy/3 is spoken")
	}
	waittest.Until(t, "four failures", func() bool { return f.listener.Status().Failed == 4 && f.listener.Status().Connections == 0 })
	if _, body := f.dialTLS(a.client()).send(get("/")).answer("GET"); body != "ok" {
		t.Error(body)
	}
}

// TestPlainHTTPOnTLS answers a client that forgot the s in its own language.
func TestPlainHTTPOnTLS(t *testing.T) {
	ofEngine(t, "the adapter has no TLS")
	a := newAuthority(t)
	f := start(t, text("never"), a.over)
	response, body := f.dial().send(get("/")).answer("GET")
	if response.StatusCode != http.StatusBadRequest || !strings.Contains(body, "HTTPS") {
		t.Errorf("%d %q", response.StatusCode, body)
	}
	if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.BadRequest {
		t.Error(x.Err)
	}
}

// http2Client speaks HTTP/2 with a listener, over TLS or by prior knowledge.
func (f *fixture) http2Client(config *tls.Config) *http.Client {
	transport := &http.Transport{TLSClientConfig: config, Protocols: new(http.Protocols)}
	if config != nil {
		transport.Protocols.SetHTTP2(true)
	} else {
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	f.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// TestHTTP2 serves HTTP/2 over TLS and by prior knowledge, beside HTTP/1.1.
func TestHTTP2(t *testing.T) {
	ofEngine(t, "the adapter has no HTTP/2")
	a := newAuthority(t)
	for name, secure := range map[string]bool{"h2": true, "h2c": false} {
		t.Run(name, func(t *testing.T) {
			edit := func(m *model.Listener) { m.Protocols = []string{model.H1, model.H2} }
			var config *tls.Config
			scheme := "http"
			if secure {
				edit, config, scheme = a.over, a.client("h2"), "https"
			}
			f := start(t, func(x *pipeline.Exchange) error {
				if x.Request.Body == nil {
					return about(x)
				}
				// Echo, with a trailer.
				body := x.Request.Body
				x.Response = &message.Response{Status: 200, Body: body, Length: message.Unknown, Trailer: func() message.Fields {
					return message.Fields{{Name: "X-Sum", Value: "7"}}
				}}
				x.Response.Fields.Add("Trailer", "X-Sum")
				return nil
			}, edit)
			client := f.http2Client(config)
			url := scheme + "://" + f.listener.Addr().String() + "/x"
			var all sync.WaitGroup
			for range 20 {
				all.Go(func() {
					response, err := client.Get(url)
					if err != nil {
						t.Error(err)
						return
					}
					body, _ := io.ReadAll(response.Body)
					_ = response.Body.Close()
					if want := "HTTP/2 " + scheme + " "; string(body) != want || response.Header.Get("X-Request-Id") == "" {
						t.Errorf("%q, %v", body, response.Header)
					}
				})
			}
			all.Wait()
			large := letters(2 << 20)
			response, err := client.Post(url, "text/plain", strings.NewReader(large))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			if err != nil || string(body) != large || response.Trailer.Get("X-Sum") != "7" {
				t.Errorf("%d bytes, %v, %v", len(body), err, response.Trailer)
			}
			if n := f.listener.Status().Connections; n != 1 {
				t.Errorf("%d connections", n)
			}
		})
	}
}

// TestTooManyOverTLS closes what limits.connections does not take, without a word
// that no client of TLS would understand.
func TestTooManyOverTLS(t *testing.T) {
	ofEngine(t, "the adapter has no TLS")
	a := newAuthority(t)
	f := start(t, text("ok"), a.over, func(m *model.Listener) { m.Limits.Connections = 1 })
	f.dialTLS(a.client()).send(get("/")).answer("GET")
	f.next(t)
	f.dial().ends()
	if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.Overloaded || x.BytesOut != 0 || x.Request.Scheme != "https" {
		t.Errorf("%v, %d bytes out, %s", x.Err, x.BytesOut, x.Request.Scheme)
	}
}

// TestBrokenPreface is refused in HTTP/2 where nothing of it is HTTP/1, though the
// listener speaks that, too.
func TestBrokenPreface(t *testing.T) {
	ofEngine(t, "the adapter has no HTTP/2")
	f := start(t, text("never"), func(m *model.Listener) { m.Protocols = []string{model.H1, model.H2} })
	for first, away := range map[string]bool{
		"INVALID CONNECTION PREFACE\r\n\r\n": true,
		"GET / FOO/1.1\r\n\r\n":              false,
		"GET x http\r\n\r\n":                 false,
		"GET /\r\n\r\n":                      false,
		"HTTP/1.1 200 OK\r\n\r\n":            false,
		"A B C D\r\n\r\n":                    false,
	} {
		c := f.dial().send(first)
		got, err := io.ReadAll(c)
		if err != nil {
			t.Fatal(err)
		}
		if http1 := strings.HasPrefix(string(got), "HTTP/1.1 "); http1 == away || len(got) == 0 {
			t.Errorf("%q: %q", first, got)
		}
	}
}

// TestSlowPreface bounds by read_header, once, what may become the preface of
// HTTP/2 or a request.
func TestSlowPreface(t *testing.T) {
	ofEngine(t, "the adapter has no HTTP/2")
	for name, protocols := range map[string][]string{"beside HTTP/1.1": {model.H1, model.H2}, "alone": {model.H2}} {
		for _, first := range []string{"P", "PRI * HTTP/2.0\r\n", "POST / HTTP/1.1\r\n"} {
			f := start(t, text("never"), func(m *model.Listener) { m.Protocols, m.Timeouts.ReadHeader = protocols, 300*time.Millisecond })
			c := f.dial().send(first[:1])
			waittest.Until(t, "the first byte is read", func() bool { return f.listener.Status().Connections == 1 && f.listener.Pending() == 0 })
			half := time.Now()
			if len(first) > 1 {
				c.send(first[1:])
			}
			if response, _ := c.answer("GET"); response.StatusCode != http.StatusRequestTimeout {
				t.Errorf("%s, %q: %d", name, first, response.StatusCode)
			}
			if x := f.next(t); x.Request.Protocol != message.HTTP11 || !x.Start.Before(half) {
				t.Errorf("%s, %q: %+v began %v after its first byte", name, first, x.Request, x.Start.Sub(half))
			}
			c.ends()
		}
	}
}
