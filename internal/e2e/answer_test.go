package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/gatewaytest"
)

// told is a response as an endpoint gives it and as the client must get it.
type told struct {
	name   string
	method string // GET without
	asks   string // further fields of the request
	answer string // bytes of the endpoint
	status int
	body   string
	// has tells the values of each of these fields; none is absent.
	has     map[string][]string
	length  int64 // that the client is told, -1: none
	trailer http.Header
	word    string // of a problem document
}

func tellings() []told {
	return []told{
		{name: "a length", answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", status: 200, body: "hello", length: 5, has: map[string][]string{"Via": {"1.1 tested"}, "Content-Type": nil}},
		{name: "chunks", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\n\r\n", status: 200, body: "hello", length: -1},
		{name: "the end of the connection", answer: "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", status: 200, body: "hello", length: -1, has: map[string][]string{"Connection": nil}},
		{name: "an endpoint of HTTP/1.0", answer: "HTTP/1.0 200 OK\r\n\r\nhello", status: 200, body: "hello", length: -1},
		{
			name: "hop by hop", status: 200, length: 0,
			answer: "HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\nX-Stays: 2\r\nContent-Length: 0\r\n\r\n",
			has:    map[string][]string{"Connection": nil, "X-Hop": nil, "Keep-Alive": nil, "Proxy-Authenticate": nil, "Upgrade": nil, "X-Stays": {"2"}},
		},
		{name: "Via of others", answer: "HTTP/1.1 200 OK\r\nVia: 1.1 other\r\nContent-Length: 0\r\n\r\n", status: 200, has: map[string][]string{"Via": {"1.1 other, 1.1 tested"}}},
		{name: "repeated fields keep their order", answer: "HTTP/1.1 200 OK\r\nSet-Cookie: b=1\r\nSet-Cookie: a=2\r\nContent-Length: 0\r\n\r\n", status: 200, has: map[string][]string{"Set-Cookie": {"b=1", "a=2"}}},
		{name: "fields that a server would make up", answer: "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nServer: old\r\nContent-Type: x/y\r\nContent-Length: 0\r\n\r\n", status: 200, has: map[string][]string{"Date": {"Thu, 01 Jan 1970 00:00:00 GMT"}, "Server": {"old"}, "Content-Type": {"x/y"}}},
		{name: "HEAD", method: "HEAD", answer: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"x\"\r\n\r\n", status: 200, length: 5, has: map[string][]string{"Etag": {`"x"`}}},
		{name: "HEAD of chunks", method: "HEAD", answer: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", status: 200, length: -1},
		{name: "204", answer: "HTTP/1.1 204 No Content\r\nETag: \"x\"\r\n\r\n", status: 204, length: 0, has: map[string][]string{"Etag": {`"x"`}, "Content-Length": nil, "Transfer-Encoding": nil}},
		{name: "204 with a length", answer: "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", status: 204, length: 0, has: map[string][]string{"Content-Length": nil}},
		{name: "205", answer: "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", status: 205},
		{name: "304", answer: "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\nContent-Length: 5\r\nContent-Type: x/y\r\n\r\n", status: 304, has: map[string][]string{"Etag": {`"x"`}, "Content-Length": {"5"}, "Content-Type": {"x/y"}}},
		{name: "304 without a length", answer: "HTTP/1.1 304 Not Modified\r\nETag: \"x\"\r\n\r\n", status: 304, has: map[string][]string{"Content-Length": nil, "Transfer-Encoding": nil}, length: 0},
		{name: "a status of its own", answer: "HTTP/1.1 599 Whatever\r\nContent-Length: 2\r\n\r\nno", status: 599, body: "no", length: 2},
		{name: "an error of the endpoint's", answer: "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\nno", status: 503, body: "no", length: 2, has: map[string][]string{"Retry-After": {"7"}, "Content-Type": nil}},
		{name: "no such status", answer: "HTTP/1.1 999 Whatever\r\nContent-Length: 0\r\n\r\n", status: 502, word: "upstream_protocol"},
		{name: "two lengths", answer: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", status: 502, word: "upstream_protocol"},
		{name: "426", answer: "HTTP/1.1 426 Upgrade Required\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 0\r\n\r\n", status: 426, has: map[string][]string{"Upgrade": {"websocket"}, "Connection": {"Upgrade"}}},
		{
			name: "trailers", asks: "TE: trailers\r\nConnection: TE\r\n", status: 200, body: "hello", length: -1,
			answer:  "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\nContent-Length: 3\r\n\r\n",
			trailer: http.Header{"X-Sum": {"1"}, "X-More": {"2"}},
		},
		{
			name: "a WebSocket refused", status: 403, body: "no", length: 2,
			asks:   "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n",
			answer: "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno", has: map[string][]string{"Upgrade": nil},
		},
		{name: "a protocol that nobody asked for", answer: "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: foo\r\n\r\n", status: 502, word: "upstream_protocol"},
		{name: "another protocol than was asked for", asks: "Connection: Upgrade\r\nUpgrade: foo\r\n", answer: "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: bar\r\n\r\n", status: 502, word: "upstream_protocol"},
		{name: "the endpoint's own request id", answer: "HTTP/1.1 200 OK\r\nX-Request-ID: theirs\r\nContent-Length: 0\r\n\r\n", status: 200},
	}
}

// TestForwardedResponses has an endpoint answer with bytes, and looks at what
// the client gets. The connection must be clean afterwards.
func TestForwardedResponses(t *testing.T) {
	tests := tellings()
	endpoint := gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
		for {
			head, err := gatewaytest.ReadHead(in)
			if err != nil {
				return
			}
			n, err := strconv.Atoi(strings.TrimPrefix(strings.Fields(head)[1], "/"))
			if err != nil {
				return
			}
			if _, err := io.WriteString(conn, tests[n].answer); err != nil || !strings.Contains(tests[n].answer, "Content-Length") && !strings.Contains(tests[n].answer, "chunked") {
				return
			}
		}
	})
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0", name: tested}
routes:
  - {id: after, match: {path: /after}, respond: {status: 200, body: clean}}
  - {id: all, match: {path_prefix: /}, upstream: %q}
`, endpoint.URL))
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			method := test.method
			if method == "" {
				method = "GET"
			}
			conn := gw.Dial("web")
			in := bufio.NewReader(conn)
			if _, err := fmt.Fprintf(conn, "%s /%d HTTP/1.1\r\nHost: x.test\r\n%s\r\n", method, i, test.asks); err != nil {
				t.Fatal(err)
			}
			r := receive(t, in, method)
			if r.StatusCode != test.status || r.word() != test.word {
				t.Fatalf("status %d %q, want %d %q: %s", r.StatusCode, r.word(), test.status, test.word, r.body)
			}
			if id := r.Header.Values("X-Request-Id"); len(id) != 1 || len(id[0]) != 36 {
				t.Errorf("X-Request-ID is %q", id)
			}
			if test.word == "" && (r.body != test.body || r.ContentLength != test.length) {
				t.Errorf("%q with length %d, want %q with %d", r.body, r.ContentLength, test.body, test.length)
			}
			for name, values := range test.has {
				if diff := cmp.Diff(values, r.Header[name]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
			if diff := cmp.Diff(test.trailer, r.Trailer); diff != "" {
				t.Errorf("trailers (-want +got):\n%s", diff)
			}
			if _, err := io.WriteString(conn, "GET /after HTTP/1.1\r\nHost: x.test\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if after := receive(t, in, "GET"); after.body != "clean" {
				t.Errorf("after it came %q", after.body)
			}
		})
	}
}

// TestClientOfHTTP10 gets bodies that end with the connection, and no chunks.
func TestClientOfHTTP10(t *testing.T) {
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
routes: [{id: all, match: {path_prefix: /}, upstream: %q}]
`, gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hints" {
			w.WriteHeader(http.StatusEarlyHints)
		}
		_, _ = io.WriteString(w, "one ")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "two")
	}))))
	for _, target := range []string{"/", "/hints"} {
		conn := gw.Dial("web")
		if _, err := io.WriteString(conn, "GET "+target+" HTTP/1.0\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		head, body, _ := strings.Cut(string(text), "\r\n\r\n")
		if !strings.Contains(head, " 200 OK\r\n") || strings.Contains(strings.ToLower(head), "transfer-encoding") || body != "one two" {
			t.Errorf("%s came as %q", target, text)
		}
	}
}

// TestInformationalResponses passes 103 (Early Hints) on at once, before the
// response is there, as often as they come.
func TestInformationalResponses(t *testing.T) {
	proceed := make(chan struct{})
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
routes: [{id: all, match: {path_prefix: /}, upstream: %q}]
`, gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
		if _, err := gatewaytest.ReadHead(in); err != nil {
			return
		}
		for n := range 2 {
			if _, err := fmt.Fprintf(conn, "HTTP/1.1 103 Early Hints\r\nLink: </%d>; rel=preload\r\nConnection: X-Hop\r\nX-Hop: 1\r\n\r\n", n); err != nil {
				return
			}
			<-proceed
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
	}).URL))
	conn := gw.Dial("web")
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x.test\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	for n := range 2 {
		text, err := gatewaytest.ReadHead(in)
		if err != nil {
			t.Fatal(err)
		}
		line, rest, _ := strings.Cut(text, "\r\n")
		fields, err := textproto.NewReader(bufio.NewReader(strings.NewReader(rest))).ReadMIMEHeader()
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("</%d>; rel=preload", n); line != "HTTP/1.1 103 Early Hints" || fields.Get("Link") != want || fields.Get("X-Hop") != "" {
			t.Errorf("hint %d came as %q", n, text)
		}
		proceed <- struct{}{}
	}
	if r := receive(t, in, "GET"); r.StatusCode != 200 || r.body != "hello" || r.Header.Get("Link") != "" {
		t.Errorf("then came %d %q with %v", r.StatusCode, r.body, r.Header)
	}
}
