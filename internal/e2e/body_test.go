package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/gatewaytest"
)

// to starts a gateway that forwards everything to one endpoint.
func to(t *testing.T, url string) *gatewaytest.Gateway {
	t.Helper()
	return gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
routes: [{id: all, match: {path_prefix: /}, upstream: %q}]
`, url))
}

// say writes to a connection.
func say(t *testing.T, conn io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// hear reads so many bytes, which must be these.
func hear(t *testing.T, conn io.Reader, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(conn, got); err != nil || string(got) != want {
		t.Fatalf("%q came, %v; want %q", got[:n], err, want)
	}
}

// await receives from a channel, or fails the test.
func await[T any](t *testing.T, what string, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(gatewaytest.Patience):
		t.Fatalf("waited in vain for %s", what)
		panic("BUG: not reached")
	}
}

// TestRequestTrailers passes trailers up, announced ones and others, but none
// that may not be one.
func TestRequestTrailers(t *testing.T) {
	seen := make(chan http.Header, 1)
	gw := to(t, gatewaytest.NewHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		seen <- r.Trailer
	})))
	r := exchange(t, gw.Dial("web"), "POST", "POST / HTTP/1.1\r\nHost: x.test\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\nContent-Length: 3\r\nAuthorization: x\r\n\r\n")
	if r.StatusCode != 200 {
		t.Fatalf("status %d: %s", r.StatusCode, r.body)
	}
	if diff := cmp.Diff(http.Header{"X-Sum": {"1"}, "X-More": {"2"}}, await(t, "the trailers", seen)); diff != "" {
		t.Errorf("trailers (-want +got):\n%s", diff)
	}
}

// TestRequestTrailersOfDroppedFields: what the gateway drops from a head or sets there, no
// client can say behind the body.
func TestRequestTrailersOfDroppedFields(t *testing.T) {
	seen := make(chan http.Header, 1)
	url := gatewaytest.NewHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		seen <- r.Trailer
	}))
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
routes:
  - match: {path_prefix: /}
    upstream: %q
    middleware: [{headers: {request: {remove: [X-Role], set: {X-User: ann}}}}, {jwt: {issuers: [{issuer: a, secret: a-secret-of-at-least-32-bytes-0123}], optional: true, claims_to_headers: {X-Sub: sub}}}]
`, url))
	r := exchange(t, gw.Dial("web"), "POST", "POST / HTTP/1.1\r\nHost: x.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-Role: root\r\nX_Role: root\r\nx_user: root\r\nX-Sub: root\r\n\r\n")
	if r.StatusCode != 200 {
		t.Fatalf("status %d: %s", r.StatusCode, r.body)
	}
	if diff := cmp.Diff(http.Header{"X-Sum": {"1"}}, await(t, "the trailers", seen)); diff != "" {
		t.Errorf("trailers (-want +got):\n%s", diff)
	}
}

// TestExpectContinue lets the endpoint decide whether it wants the body.
func TestExpectContinue(t *testing.T) {
	gw := to(t, gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/refused" {
			w.WriteHeader(http.StatusExpectationFailed)
			return
		}
		_, _ = io.Copy(w, r.Body)
	})))
	conn := gw.Dial("web")
	in := bufio.NewReader(conn)
	for range 2 { // the connection goes on
		say(t, conn, "POST /wanted HTTP/1.1\r\nHost: x.test\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
		hear(t, in, "HTTP/1.1 100 Continue\r\n\r\n")
		say(t, conn, "hello")
		if r := receive(t, in, "POST"); r.StatusCode != 200 || r.body != "hello" {
			t.Errorf("status %d %q", r.StatusCode, r.body)
		}
	}
	say(t, conn, "POST /refused HTTP/1.1\r\nHost: x.test\r\nExpect: 100-continue\r\nContent-Length: 5000000\r\n\r\n")
	if r := receive(t, in, "POST"); r.StatusCode != 417 {
		t.Errorf("status %d %q", r.StatusCode, r.body)
	}
	// The client may send the body nevertheless; the gateway cannot know.
	if _, err := in.ReadByte(); err == nil {
		t.Error("more came after a response to a request without its body")
	}
	conn = gw.Dial("web")
	if r := exchange(t, conn, "POST", "POST / HTTP/1.1\r\nHost: x.test\r\nExpect: rain\r\nContent-Length: 5\r\n\r\nhello"); r.StatusCode != 417 {
		t.Errorf("an unknown expectation gives %d", r.StatusCode)
	}
}

// TestUploadStreams has the endpoint see and answer each part of a chunked
// body while the client still sends.
func TestUploadStreams(t *testing.T) {
	gw := to(t, gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.EnableFullDuplex() // it does what it can
		buffer := make([]byte, 100)
		for {
			n, err := r.Body.Read(buffer)
			if n > 0 {
				_, _ = fmt.Fprintf(w, "got %s;", buffer[:n])
				_ = rc.Flush()
			}
			if err != nil {
				return
			}
		}
	})))
	conn := gw.Dial("web")
	say(t, conn, "POST / HTTP/1.1\r\nHost: x.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
	in := bufio.NewReader(conn)
	response, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	hear(t, response.Body, "got one;")
	for _, part := range []string{"two", "six"} {
		say(t, conn, "3\r\n"+part+"\r\n")
		hear(t, response.Body, "got "+part+";")
	}
	say(t, conn, "0\r\n\r\n")
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
		t.Errorf("then came %q, %v", rest, err)
	}
	say(t, conn, "POST / HTTP/1.1\r\nHost: x.test\r\nContent-Length: 5\r\n\r\nagain")
	if r := receive(t, in, "POST"); r.body != "got again;" {
		t.Errorf("the next request on the connection gives %q", r.body)
	}
}

// TestEarlyResponse answers a large upload before its end: the client gets the
// response whole, though it still sends.
func TestEarlyResponse(t *testing.T) {
	for name, endpoint := range map[string]func(*testing.T) string{
		"an endpoint that closes": func(t *testing.T) string {
			t.Helper()
			return gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
				if _, err := gatewaytest.ReadHead(in); err != nil {
					return
				}
				say(t, conn, "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbig")
				// A polite end: a reset would take the answer away.
				_ = conn.(interface{ CloseWrite() error }).CloseWrite()
				_, _ = io.Copy(io.Discard, in)
			}).URL
		},
		"an endpoint that reads on": func(t *testing.T) string {
			t.Helper()
			return gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
				if _, err := gatewaytest.ReadHead(in); err != nil {
					return
				}
				say(t, conn, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
				_, _ = io.Copy(io.Discard, in)
			}).URL
		},
	} {
		t.Run(name, func(t *testing.T) {
			gw := to(t, endpoint(t))
			conn := gw.Dial("web")
			say(t, conn, "POST / HTTP/1.1\r\nHost: x.test\r\nContent-Length: 1000000000\r\n\r\n")
			stopped := make(chan struct{})
			go func() { // until the gateway closes
				defer close(stopped)
				block := []byte(strings.Repeat("x", 64<<10))
				for {
					if _, err := conn.Write(block); err != nil {
						return
					}
				}
			}()
			r := receive(t, bufio.NewReader(conn), "POST")
			if r.StatusCode != 413 || r.body != "big" {
				t.Errorf("status %d %q", r.StatusCode, r.body)
			}
			await(t, "the end of the connection", stopped)
			line := gw.LogLine(r.Header.Get("X-Request-ID"))
			if sent, _ := line["bytes_in"].(float64); line["status"] != 413.0 || sent >= 1e9 {
				t.Errorf("the log line is %v", line)
			}
		})
	}
}

// TestStreamsAtOnce passes on each part of a response when it comes: the head
// of a long poll, the first event of an event stream.
func TestStreamsAtOnce(t *testing.T) {
	next := make(chan struct{})
	gw := to(t, gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rc := http.NewResponseController(w)
		wait := func() bool {
			select {
			case <-next:
				return true
			case <-r.Context().Done():
				return false
			}
		}
		if r.URL.Path == "/events" {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", "6")
		}
		_ = rc.Flush() // the head alone
		for _, part := range []string{"one", "two"} {
			if !wait() {
				return
			}
			_, _ = io.WriteString(w, part)
			_ = rc.Flush()
		}
	})))
	for _, target := range []string{"/events", "/poll", "/length"} {
		t.Run(target, func(t *testing.T) {
			conn := gw.Dial("web")
			say(t, conn, "GET "+target+" HTTP/1.1\r\nHost: x.test\r\n\r\n")
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			for _, part := range []string{"one", "two"} {
				next <- struct{}{}
				hear(t, response.Body, part)
			}
			if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
				t.Errorf("then came %q, %v", rest, err)
			}
		})
	}
}

// TestClientGone cancels the endpoint's request when the client leaves, at
// every stage of the exchange.
func TestClientGone(t *testing.T) {
	began, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	gw := to(t, gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/upload" {
			began <- struct{}{}
			if _, err := io.Copy(io.Discard, r.Body); err == nil {
				return // whole, which the test takes for a fault: gone never comes
			}
			gone <- struct{}{}
			return
		}
		_, _ = io.Copy(io.Discard, r.Body) // only then does net/http see that the gateway leaves
		if r.URL.Path == "/download" {
			_, _ = io.WriteString(w, "begin")
			_ = http.NewResponseController(w).Flush()
		}
		began <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	})))
	for _, test := range []struct {
		name, request, heard string
		half                 bool // only the writing side is closed
	}{
		{name: "while it waits", request: "GET /wait HTTP/1.1\r\nHost: x.test\r\n\r\n"},
		{name: "half, while it waits", request: "GET /wait HTTP/1.1\r\nHost: x.test\r\n\r\n", half: true},
		{name: "after an upload", request: "POST /wait HTTP/1.1\r\nHost: x.test\r\nContent-Length: 5\r\n\r\nhello"},
		{name: "in an upload", request: "POST /upload HTTP/1.1\r\nHost: x.test\r\nContent-Length: 10\r\n\r\nhello"},
		{name: "in a chunked upload", request: "POST /upload HTTP/1.1\r\nHost: x.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
		{name: "half, in a chunked upload", request: "POST /upload HTTP/1.1\r\nHost: x.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", half: true},
		{name: "in a download", request: "GET /download HTTP/1.1\r\nHost: x.test\r\n\r\n", heard: "HTTP/1.1 200 OK\r\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn := gw.Dial("web")
			say(t, conn, test.request)
			await(t, "the endpoint's request", began)
			hear(t, conn, test.heard)
			if test.half {
				if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
					t.Fatal(err)
				}
			} else {
				conn.Close()
			}
			await(t, "the end of the endpoint's request", gone)
			gatewaytest.WaitFor(t, "the exchange is over", func() bool { return gw.Metric("gateway_active_requests") == 0 })
		})
	}
	gatewaytest.WaitFor(t, "all are logged", func() bool { return len(gw.LogLines()) == 7 })
	for _, line := range gw.LogLines() {
		status := 499.0
		if line["path"] == "/download" {
			status = 200
		}
		if line["error"] != "client_closed" || line["status"] != status {
			t.Errorf("the log line is %v", line)
		}
	}
}

// TestHalfCloseServed lets a client close its writing side early where the
// listener says so.
func TestHalfCloseServed(t *testing.T) {
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0", half_close: serve}}
admin: {address: "127.0.0.1:0"}
routes: [{id: all, match: {path_prefix: /}, upstream: %q}]
`, gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))))
	conn := gw.Dial("web")
	say(t, conn, "POST / HTTP/1.1\r\nHost: x.test\r\nContent-Length: 5\r\n\r\nhello")
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if r := receive(t, bufio.NewReader(conn), "POST"); r.StatusCode != 200 || r.body != "hello" {
		t.Errorf("status %d %q", r.StatusCode, r.body)
	}
}
