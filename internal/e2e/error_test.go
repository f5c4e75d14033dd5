package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

// problem is a problem document as a client reads it.
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Error     string `json:"error"`
	RequestID string `json:"request_id"`
}

// errorGateway has a route for each error that a gateway can make so far.
func errorGateway(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	silent := gatewaytest.NewScripted(t, func(_ net.Conn, in *bufio.Reader) { _, _ = io.Copy(io.Discard, in) })
	closes := gatewaytest.NewScripted(t, func(_ net.Conn, in *bufio.Reader) { _, _ = gatewaytest.ReadHead(in) })
	babbles := gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
		_, _ = gatewaytest.ReadHead(in)
		_, _ = io.WriteString(conn, "hello\r\n\r\n")
	})
	stalls := gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
		_, _ = gatewaytest.ReadHead(in)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
		_, _ = io.Copy(io.Discard, in)
	})
	cuts := gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
		_, _ = gatewaytest.ReadHead(in)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
	})
	return gatewaytest.Start(t, fmt.Sprintf(`
listeners:
  web:
    address: 127.0.0.1:0
    limits: {header_bytes: 8KiB, headers: 30, uri_bytes: 4KiB, body: 64KiB}
    timeouts: {min_body_rate: 1MiB/s}
admin: {address: 127.0.0.1:0, name: loop-test}
upstreams:
  echo: {endpoints: [%q]}
  refused: {endpoints: [%q]}
  silent: {endpoints: [%q], timeouts: {response_header: 100ms}}
  patient: {endpoints: [%q]}
  closes: {endpoints: [%q]}
  babbles: {endpoints: [%q]}
  stalls: {endpoints: [%q]}
  cuts: {endpoints: [%q]}
  narrow: {endpoints: [%q], pool: {max_connections_per_endpoint: 1, max_pending: 0}}
routes:
  - {id: echo, match: {path_prefix: /echo}, upstream: echo}
  - {id: get-only, match: {path: /get-only, methods: [GET]}, upstream: echo}
  - {id: put-only, match: {path: /get-only, methods: [PUT]}, upstream: echo}
  - {id: denied, match: {path: /denied}, upstream: echo, middleware: [{ip_filter: {deny: [127.0.0.0/8]}}]}
  - {id: small, match: {path: /small}, upstream: echo, middleware: [{body_limit: {max: 10}}]}
  - {id: refused, match: {path: /refused}, upstream: refused}
  - {id: silent, match: {path: /silent}, upstream: silent}
  - {id: route-timeout, match: {path: /route-timeout}, upstream: patient, timeout: 100ms}
  - {id: idle, match: {path: /idle}, upstream: patient, timeout: 0, idle_timeout: 100ms}
  - {id: total, match: {path: /total}, upstream: patient, timeout: 0, total_timeout: 100ms}
  - {id: waits, match: {path: /waits}, upstream: patient}
  - {id: narrow, match: {path: /narrow}, upstream: narrow}
  - {id: closes, match: {path: /closes}, upstream: closes}
  - {id: babbles, match: {path: /babbles}, upstream: babbles}
  - {id: stalls, match: {path: /stalls}, upstream: stalls, idle_timeout: 1s}
  - {id: cuts, match: {path: /cuts}, upstream: cuts}
`, gatewaytest.NewEcho(t, "echo"), gatewaytest.Refused(t), silent.URL, silent.URL, closes.URL, babbles.URL, stalls.URL, cuts.URL, silent.URL))
}

func TestErrors(t *testing.T) {
	t.Parallel() // it waits most of the time
	gw := errorGateway(t)
	for _, test := range []struct {
		name    string
		request string
		status  int
		word    string
		route   string
		fields  map[string]string // further ones of the response
		closes  bool
	}{
		{name: "a URI without a host", request: "GET http:///echo HTTP/1.1\r\nHost: x\r\n\r\n", status: 400, word: "bad_request", closes: true},
		{name: "a URI with user information", request: "GET http://u:p@x/echo HTTP/1.1\r\nHost: x\r\n\r\n", status: 400, word: "bad_request", closes: true},
		{name: "a URI of another scheme", request: "GET ftp://x/echo HTTP/1.1\r\nHost: x\r\n\r\n", status: 400, word: "bad_request", closes: true},
		{name: "an encoded NUL", request: "GET /%00 HTTP/1.1\r\nHost: x\r\n\r\n", status: 400, word: "bad_path", closes: true},
		{name: "a hidden dot segment", request: "GET /echo/..%2Fx HTTP/1.1\r\nHost: x\r\n\r\n", status: 400, word: "bad_path", closes: true},
		{name: "above the root", request: "GET /../x HTTP/1.1\r\nHost: x\r\n\r\n", status: 400, word: "bad_path", closes: true},
		{name: "no route", request: "GET /nope HTTP/1.1\r\nHost: x\r\n\r\n", status: 404, word: "no_route"},
		{name: "another method", request: "DELETE /get-only HTTP/1.1\r\nHost: x\r\n\r\n", status: 405, word: "method_not_allowed", fields: map[string]string{"Allow": "GET, HEAD, PUT"}},
		{name: "CONNECT", request: "CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n", status: 405, word: "method_not_allowed", closes: true},
		{name: "a denied address", request: "GET /denied HTTP/1.1\r\nHost: x\r\n\r\n", status: 403, word: "forbidden", route: "denied"},
		{name: "a body over the listener's limit", request: "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 70000\r\n\r\n", status: 413, word: "body_too_large", closes: true},
		{name: "a body over body_limit", request: "POST /small HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n01234567890", status: 413, word: "body_too_large", route: "small", closes: true},
		{name: "a chunked body over body_limit", request: "POST /small HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n01234567890\r\n0\r\n\r\n", status: 413, word: "body_too_large", route: "small", closes: true},
		{name: "a slow body", request: "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n", status: 408, word: "request_timeout", route: "echo", closes: true},
		{name: "a long target", request: "GET /" + strings.Repeat("y", 5000) + " HTTP/1.1\r\nHost: x\r\n\r\n", status: 414, word: "uri_too_long", closes: true},
		{name: "a long header", request: "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 9000) + "\r\n\r\n", status: 431, word: "header_too_large", closes: true},
		{name: "many fields", request: "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X: y\r\n", 31) + "\r\n", status: 431, word: "header_too_large", closes: true},
		{name: "a loop", request: "GET /echo HTTP/1.1\r\nHost: x\r\nVia: " + strings.Repeat("1.1 loop-test, ", 11) + "1.1 y\r\n\r\n", status: 508, word: "loop_detected", route: "echo"},
		{name: "a refused connection", request: "GET /refused HTTP/1.1\r\nHost: x\r\n\r\n", status: 502, word: "upstream_connect", route: "refused"},
		{name: "a connection closed before the answer", request: "GET /closes HTTP/1.1\r\nHost: x\r\n\r\n", status: 502, word: "upstream_reset", route: "closes"},
		{name: "no HTTP", request: "GET /babbles HTTP/1.1\r\nHost: x\r\n\r\n", status: 502, word: "upstream_protocol", route: "babbles"},
		{name: "no answer within response_header", request: "GET /silent HTTP/1.1\r\nHost: x\r\n\r\n", status: 504, word: "upstream_timeout", route: "silent"},
		{name: "no answer within timeout", request: "GET /route-timeout HTTP/1.1\r\nHost: x\r\n\r\n", status: 504, word: "upstream_timeout", route: "route-timeout"},
		{name: "nothing within idle_timeout", request: "GET /idle HTTP/1.1\r\nHost: x\r\n\r\n", status: 504, word: "upstream_timeout", route: "idle"},
		{name: "no end within total_timeout", request: "GET /total HTTP/1.1\r\nHost: x\r\n\r\n", status: 504, word: "upstream_timeout", route: "total"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := gw.Metric("gateway_errors_total", "error", test.word, "route", test.route)
			conn := gw.Dial("web")
			if _, err := io.WriteString(conn, test.request); err != nil {
				t.Fatal(err)
			}
			in := bufio.NewReader(conn)
			response, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			var p problem
			if err := json.Unmarshal(body, &p); err != nil {
				t.Fatalf("the body is no JSON: %q", body)
			}
			id := response.Header.Get("X-Request-ID")
			want := problem{"about:blank", p.Title, test.status, p.Detail, test.word, id}
			if response.StatusCode != test.status || p != want || p.Title == "" || p.Detail == "" || id == "" {
				t.Errorf("got %d %+v, want %+v", response.StatusCode, p, want)
			}
			if got := response.Header.Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("Content-Type is %q", got)
			}
			for name, value := range test.fields {
				if got := response.Header.Get(name); got != value {
					t.Errorf("%s is %q, want %q", name, got, value)
				}
			}
			if strings.Contains(string(body), "127.0.0.1") {
				t.Errorf("the problem document shows an address: %s", body)
			}
			if response.Close != test.closes {
				t.Errorf("Connection: close is %v, want %v", response.Close, test.closes)
			}
			if test.closes {
				if n, err := io.Copy(io.Discard, in); n != 0 || err != nil {
					t.Errorf("after the answer came %d bytes, %v; want a close", n, err)
				}
			}
			line := gw.LogLine(id)
			if line["error"] != test.word || line["status"] != float64(test.status) || line["route"] != test.route {
				t.Errorf("the log line is %v", line)
			}
			if after := gw.Metric("gateway_errors_total", "error", test.word, "route", test.route); after != before+1 {
				t.Errorf("gateway_errors_total went from %v to %v", before, after)
			}
			if counted := gw.Metric("gateway_requests_total", "status", strconv.Itoa(test.status), "route", test.route); counted < 1 {
				t.Error("the request is not counted")
			}
		})
	}
}

func TestOverloaded(t *testing.T) {
	gw := errorGateway(t)
	first := gw.Dial("web")
	if _, err := io.WriteString(first, "GET /narrow HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	gatewaytest.WaitFor(t, "the first request holds the connection", func() bool {
		return gw.Metric("gateway_active_requests") == 1
	})
	second := gw.Dial("web")
	gatewaytest.WaitFor(t, "the second is refused", func() bool {
		if _, err := io.WriteString(second, "GET /narrow HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		response, err := http.ReadResponse(bufio.NewReader(second), nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode == 503
	})
}

// TestCutResponses are errors that come when the status is out already: the
// client must see that the body is not whole.
func TestCutResponses(t *testing.T) {
	gw := errorGateway(t)
	for _, test := range []struct{ path, word string }{
		{"/cuts", "upstream_reset"},
		{"/stalls", "upstream_timeout"},
	} {
		t.Run(test.word, func(t *testing.T) {
			response, err := http.Get(gw.URL("web") + test.path)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if body, err := io.ReadAll(response.Body); err == nil || string(body) != "half" {
				t.Errorf("got %q, %v; want a cut after half", body, err)
			}
			line := gw.LogLine(response.Header.Get("X-Request-ID"))
			if line["status"] != 200.0 || line["error"] != test.word {
				t.Errorf("the log line is %v", line)
			}
		})
	}
}

func TestClientClosed(t *testing.T) {
	gw := errorGateway(t)
	conn := gw.Dial("web")
	if _, err := io.WriteString(conn, "GET /waits HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	gatewaytest.WaitFor(t, "the request is under way", func() bool { return gw.Metric("gateway_active_requests") == 1 })
	began := time.Now()
	conn.Close()
	gatewaytest.WaitFor(t, "the exchange is over", func() bool { return gw.Metric("gateway_active_requests") == 0 })
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the upstream request ended %v after the client left", took)
	}
	gatewaytest.WaitFor(t, "it is logged as 499", func() bool {
		for _, line := range gw.LogLines() {
			if line["status"] == 499.0 && line["error"] == "client_closed" && line["route"] == "waits" {
				return true
			}
		}
		return false
	})
	if n := gw.Metric("gateway_errors_total", "error", "client_closed"); n != 1 {
		t.Errorf("client_closed is counted %v times", n)
	}
}
