package e2e

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

// webForm is a form of grpc-web, over a version of HTTP.
type webForm struct {
	listener, protocol string
	text               bool
}

func (f webForm) kind() string {
	if f.text {
		return "application/grpc-web-text+text"
	}
	return "application/grpc-web+text"
}

// webClient calls as pages do.
type webClient struct {
	webForm
	*http.Client
	url string
}

func (g *callGateway) webClient(t *testing.T, form webForm) *webClient {
	t.Helper()
	transport := &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{RootCAs: g.roots, ServerName: callHost}}
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(form.protocol == "HTTP/1.1")
	transport.Protocols.SetHTTP2(form.protocol == "HTTP/2.0")
	transport.Protocols.SetUnencryptedHTTP2(form.protocol == "HTTP/2.0")
	t.Cleanup(transport.CloseIdleConnections)
	scheme := "http"
	if form.listener == "websecure" {
		scheme = "https"
	}
	return &webClient{form, &http.Client{Transport: transport, Timeout: gatewaytest.Patience}, scheme + "://" + g.Addr(form.listener).String()}
}

func message(text string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(text))), text...)
}

// webAnswer is the answer to a call, whose frames are read as they come.
type webAnswer struct {
	*http.Response
	t    *testing.T
	text bool
	rest []byte // decoded, and not read
}

func (c *webClient) call(t *testing.T, path string, body io.Reader, fields ...string) *webAnswer {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = callHost
	request.Header.Set("Content-Type", c.kind())
	request.Header.Set("X-Grpc-Web", "1")
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		request.Header.Set(name, value)
	}
	response, err := c.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if response.Proto != c.protocol {
		t.Errorf("the answer came by %s, want %s", response.Proto, c.protocol)
	}
	return &webAnswer{Response: response, t: t, text: c.text}
}

// coded is a body as the form has it.
func (f webForm) coded(body []byte) []byte {
	if !f.text {
		return body
	}
	return []byte(base64.StdEncoding.EncodeToString(body))
}

// bytes reads so many bytes, and no group of letters further than it must.
func (a *webAnswer) bytes(n int) []byte {
	a.t.Helper()
	for len(a.rest) < n {
		piece := make([]byte, 1)
		if a.text {
			piece = make([]byte, 4)
		}
		if _, err := io.ReadFull(a.Body, piece); err != nil {
			a.t.Fatalf("%q, and then %v", a.rest, err)
		}
		if a.text {
			plain, err := base64.StdEncoding.DecodeString(string(piece))
			if err != nil {
				a.t.Fatalf("%q: %v", piece, err)
			}
			piece = plain
		}
		a.rest = append(a.rest, piece...)
	}
	read := a.rest[:n]
	a.rest = a.rest[n:]
	return read
}

// frame reads a frame.
func (a *webAnswer) frame() (flags byte, payload string) {
	a.t.Helper()
	head := bytes.Clone(a.bytes(5))
	return head[0], string(a.bytes(int(binary.BigEndian.Uint32(head[1:]))))
}

// messages reads messages.
func (a *webAnswer) messages(texts ...string) {
	a.t.Helper()
	for _, want := range texts {
		if flags, payload := a.frame(); flags != 0 || payload != want {
			a.t.Fatalf("frame %x %q, want %q", flags, payload, want)
		}
	}
}

// ending reads the last frame, and the end.
func (a *webAnswer) ending() map[string]string {
	a.t.Helper()
	flags, payload := a.frame()
	if flags != 0x80 {
		a.t.Fatalf("frame %x %q", flags, payload)
	}
	if rest, err := io.ReadAll(a.Body); err != nil || len(rest) > 0 || len(a.rest) > 0 {
		a.t.Fatalf("behind the end: %q, %v", rest, err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(payload) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\r\n"), ":")
		fields[name] = value
	}
	return fields
}

// TestWebCalls makes calls as pages do, in both forms, over HTTP/1.1 and 2.
func TestWebCalls(t *testing.T) {
	endpoint := startCalls(t, "one")
	gw := startCallGateway(t, fmt.Sprintf(`
upstreams: {calls: {protocol: h2c, endpoints: [%q]}}
routes:
  - {match: {path_prefix: /test.Calls}, upstream: calls, middleware: [grpc_web: {}]}
  - {match: {path_prefix: /test.Denied}, upstream: calls, middleware: [{ip_filter: {deny: ["0.0.0.0/0"]}}, grpc_web: {}]}
  - {match: {path_prefix: /test.Total}, upstream: calls, total_timeout: 800ms, middleware: [grpc_web: {}]}
`, endpoint.url))
	for _, form := range []webForm{
		{"web", "HTTP/1.1", false}, {"web", "HTTP/1.1", true}, {"web", "HTTP/2.0", false}, {"websecure", "HTTP/1.1", true}, {"websecure", "HTTP/2.0", true},
	} {
		t.Run(fmt.Sprintf("%s %s text %v", form.listener, form.protocol, form.text), func(t *testing.T) {
			client := gw.webClient(t, form)
			callOnTheWeb(t, gw, client)
			breakOnTheWeb(t, gw, client, endpoint)
		})
	}
	t.Run("and gRPC itself", func(t *testing.T) {
		if a := gw.caller(t, "web").call(t, t.Context(), "/test.Calls/Echo", "hello"); a.err != nil || a.text != "hello" || !sameList(a.trailer.Get("x-trail"), "one") {
			t.Errorf("%+v", a)
		}
	})
}

func callOnTheWeb(t *testing.T, gw *callGateway, client *webClient) {
	t.Helper()
	a := client.call(t, "/test.Calls/Echo", bytes.NewReader(client.coded(message("hello"))), "X-Mine: 1")
	a.messages("hello")
	ending := a.ending()
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != client.kind() || a.Header.Get("X-Head") != "1" || ending["grpc-status"] != "0" || ending["x-trail"] != "one" {
		t.Errorf("%d %v %v", a.StatusCode, a.Header, ending)
	}
	if line := gw.LogLine(a.Header.Get("X-Request-Id")); line["status"] != 200.0 || line["error"] != "" {
		t.Errorf("log line %v", line)
	}
	a = client.call(t, "/test.Calls/Count", bytes.NewReader(client.coded(message("n"))))
	a.messages("n0", "n1", "n2")
	a.ending()
	a = client.call(t, "/test.Calls/Collect", bytes.NewReader(append(client.coded(message("a")), client.coded(message("bc"))...)))
	a.messages("a bc")
	a.ending()
	a = client.call(t, "/test.Calls/Fail", bytes.NewReader(client.coded(message("x"))))
	if ending := a.ending(); a.StatusCode != 200 || a.Header.Get("Grpc-Status") != "" || ending["grpc-status"] != "9" || ending["grpc-message"] != "100%25 no%0A%C3%A9" {
		t.Errorf("%d %v %v", a.StatusCode, a.Header, ending)
	}
}

func breakOnTheWeb(t *testing.T, gw *callGateway, client *webClient, endpoint *calls) {
	t.Helper()
	for path, want := range map[string]struct {
		code, word string
		status     float64
	}{"/test.None/M": {"12", "no_route", 404}, "/test.Denied/M": {"7", "forbidden", 403}} {
		a := client.call(t, path, bytes.NewReader(client.coded(message("x"))))
		if ending := a.ending(); a.StatusCode != 200 || a.Header.Get("Content-Type") != client.kind() || ending["grpc-status"] != want.code || !strings.HasPrefix(ending["grpc-message"], want.word+": ") {
			t.Errorf("%s: %d %v %v", path, a.StatusCode, a.Header, ending)
		}
		if line := gw.LogLine(a.Header.Get("X-Request-Id")); line["status"] != want.status || line["error"] != want.word {
			t.Errorf("log line %v", line)
		}
	}
	a := client.call(t, "/test.Total/Watch", bytes.NewReader(client.coded(message("x"))))
	a.messages("watching") // it is there before the stream's end
	if ending := a.ending(); ending["grpc-status"] != "14" || !strings.HasPrefix(ending["grpc-message"], "upstream_timeout: ") {
		t.Errorf("%v", ending)
	}
	a = client.call(t, "/test.Calls/Hang", bytes.NewReader(client.coded(message("x"))), "Grpc-Timeout: 200m")
	if ending := a.ending(); ending["grpc-status"] != "4" {
		t.Errorf("%v", ending)
	}
	for range 2 {
		<-endpoint.given
		if err := await(t, "the endpoint hears of the end", endpoint.ended); err == nil {
			t.Error("the endpoint's call ended well")
		}
	}
}
