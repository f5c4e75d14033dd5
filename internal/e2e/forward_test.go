package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/gatewaytest"
)

// mirror is an endpoint that answers with the head that it received, byte for
// byte.
func mirror(conn net.Conn, in *bufio.Reader) {
	for {
		head, err := gatewaytest.ReadHead(in)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(head), head); err != nil {
			return
		}
	}
}

// head is a request head as an endpoint received it.
type head struct {
	line   string
	fields textproto.MIMEHeader
}

func headOf(t *testing.T, text string) head {
	t.Helper()
	in := textproto.NewReader(bufio.NewReader(strings.NewReader(text)))
	line, err := in.ReadLine()
	if err != nil {
		t.Fatalf("no head: %q", text)
	}
	fields, err := in.ReadMIMEHeader()
	if err != nil {
		t.Fatalf("no head: %q: %v", text, err)
	}
	return head{line, fields}
}

// TestForwardedRequests sends requests as bytes, and looks at the bytes that
// the endpoint gets.
func TestForwardedRequests(t *testing.T) {
	const uuid7 = `^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`
	endpoint := gatewaytest.NewScripted(t, mirror)
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners:
  web: {address: "127.0.0.1:0"}
  trusting: {address: "127.0.0.1:0", trusted_proxies: [127.0.0.0/8, 10.0.0.0/8, "2001:db8::/32"]}
admin: {address: "127.0.0.1:0", name: tested}
routes:
  - {id: strip, match: {path_prefix: /strip}, strip_prefix: true, upstream: %[1]q}
  - {id: all, match: {path_prefix: /}, upstream: %[1]q}
`, endpoint.URL))
	long := strings.Repeat("x", 128)
	for _, test := range []struct {
		name     string
		listener string // web without
		line     string // GET /a HTTP/1.1 without
		fields   string // besides Host: x.test
		want     string // the request line; GET /a HTTP/1.1 without
		// has tells the values of each of these fields; none is absent. One
		// that begins with ^ is a regular expression.
		has map[string][]string
	}{
		{
			name: "nothing but what must be",
			has: map[string][]string{
				"Host": {"x.test"}, "X-Forwarded-For": {"127.0.0.1"}, "X-Real-Ip": {"127.0.0.1"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"x.test"},
				"Via": {"1.1 tested"}, "X-Request-Id": {uuid7}, "Connection": nil, "User-Agent": nil, "Accept-Encoding": nil, "Content-Length": nil, "Transfer-Encoding": nil,
			},
		},
		{
			name: "hop by hop", fields: "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eDp5\r\nX-Stays: 2\r\n",
			has: map[string][]string{"Connection": nil, "X-Hop": nil, "Keep-Alive": nil, "Proxy-Connection": nil, "Proxy-Authorization": nil, "X-Stays": {"2"}},
		},
		{
			name: "a client cannot have the gateway's own fields dropped", fields: "Connection: X-Forwarded-For, X-Real-IP, Via, X-Request-ID, Host\r\n",
			has: map[string][]string{"X-Forwarded-For": {"127.0.0.1"}, "X-Real-Ip": {"127.0.0.1"}, "Via": {"1.1 tested"}, "X-Request-Id": {uuid7}, "Host": {"x.test"}},
		},
		{name: "TE", fields: "TE: gzip;q=0.5, trailers\r\nConnection: TE\r\n", has: map[string][]string{"Te": {"trailers"}, "Connection": {"TE"}}},
		{name: "TE without trailers", fields: "TE: gzip\r\nConnection: TE\r\n", has: map[string][]string{"Te": nil, "Connection": nil}},
		{name: "an upgrade that Connection does not name", fields: "Upgrade: websocket\r\n", has: map[string][]string{"Upgrade": nil, "Connection": nil}},
		{name: "an upgrade to h2c", fields: "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n", has: map[string][]string{"Upgrade": nil, "Connection": nil, "Http2-Settings": nil}},
		{
			name:   "an untrusted peer tells where it came from",
			fields: "X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil.test\r\nX-Forwarded-Port: 1\r\nX-Forwarded-Whatever: 1\r\nForwarded: for=6.6.6.6\r\nX-Real-IP: 6.6.6.6\r\nX_Forwarded_For: 7.7.7.7\r\nX_Real_IP: 7.7.7.7\r\nX-Request_ID: mine\r\n",
			has: map[string][]string{
				"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"x.test"}, "X-Forwarded-Port": nil, "X-Forwarded-Whatever": nil,
				"Forwarded": nil, "X-Real-Ip": {"127.0.0.1"}, "X_forwarded_for": nil, "X_real_ip": nil, "X-Request_id": nil,
			},
		},
		{
			name: "a trusted one", listener: "trusting",
			fields: "X-Forwarded-For: 9.9.9.9, 6.6.6.6\r\nX-Forwarded-For: 10.1.2.3\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: outside.test\r\nX-Real-IP: 1.2.3.4\r\nX_Forwarded_For: 7.7.7.7\r\n",
			has: map[string][]string{
				"X-Forwarded-For": {"9.9.9.9, 6.6.6.6, 10.1.2.3, 127.0.0.1"}, "X-Real-Ip": {"6.6.6.6"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"outside.test"}, "X_forwarded_for": nil,
			},
		},
		{name: "a trusted one with nonsense", listener: "trusting", fields: "X-Forwarded-Proto: gopher\r\nX-Forwarded-Host: a b\r\n", has: map[string][]string{"X-Forwarded-Proto": {"http"}, "X-Forwarded-Host": {"x.test"}}},
		{name: "all are trusted", listener: "trusting", fields: "X-Forwarded-For: 10.0.0.1, 10.0.0.2\r\n", has: map[string][]string{"X-Forwarded-For": {"10.0.0.1, 10.0.0.2, 127.0.0.1"}, "X-Real-Ip": {"10.0.0.1"}}},
		{name: "an entry that is no address ends the walk", listener: "trusting", fields: "X-Forwarded-For: 9.9.9.9, unknown, 10.0.0.2\r\n", has: map[string][]string{"X-Real-Ip": {"10.0.0.2"}}},
		{name: "ports and brackets", listener: "trusting", fields: "X-Forwarded-For: 9.9.9.9:1234, [2001:db8::1]:80, [::ffff:10.0.0.2]\r\n", has: map[string][]string{"X-Real-Ip": {"9.9.9.9"}}},
		{name: "Forwarded", listener: "trusting", fields: "Forwarded: for=9.9.9.9, for=\"[2001:db9::1]:47\";proto=https, for=10.0.0.1\r\n", has: map[string][]string{"X-Real-Ip": {"2001:db9::1"}}},
		{name: "X-Forwarded-For wins over Forwarded", listener: "trusting", fields: "Forwarded: for=9.9.9.9\r\nX-Forwarded-For: 8.8.8.8\r\n", has: map[string][]string{"X-Real-Ip": {"8.8.8.8"}}},
		{name: "a request id from a stranger", fields: "X-Request-ID: mine\r\n", has: map[string][]string{"X-Request-Id": {uuid7}}},
		{name: "a request id from a trusted proxy", listener: "trusting", fields: "X-Request-ID: mine\r\n", has: map[string][]string{"X-Request-Id": {"mine"}}},
		{name: "the longest request id", listener: "trusting", fields: "X-Request-ID: " + long + "\r\n", has: map[string][]string{"X-Request-Id": {long}}},
		{name: "too long a request id", listener: "trusting", fields: "X-Request-ID: " + long + "x\r\n", has: map[string][]string{"X-Request-Id": {uuid7}}},
		{name: "a request id with a space", listener: "trusting", fields: "X-Request-ID: a b\r\n", has: map[string][]string{"X-Request-Id": {uuid7}}},
		{name: "Via of others", fields: "Via: 1.0 first\r\nVia: HTTP/2 second (x)\r\n", has: map[string][]string{"Via": {"1.0 first, HTTP/2 second (x), 1.1 tested"}}},
		{name: "traceparent", fields: "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n", has: map[string][]string{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}},
		{name: "repeated fields keep their order", fields: "X-A: 1\r\nX-B: 0\r\nX-A: 2\r\nX-A: 1\r\n", has: map[string][]string{"X-A": {"1", "2", "1"}, "X-B": {"0"}}},
		{name: "a query byte for byte", line: "GET /a?x=%zz&;y=%2f%20?/../ HTTP/1.1", want: "GET /a?x=%zz&;y=%2f%20?/../ HTTP/1.1"},
		{name: "an empty query", line: "GET /a? HTTP/1.1", want: "GET /a? HTTP/1.1"},
		{name: "one canonical path", line: "GET //a/./b/../%7euser/%2f%c3%a9 HTTP/1.1", want: "GET /a/~user/%2F%C3%A9 HTTP/1.1"},
		{name: "a stripped prefix", line: "GET /strip//x?y HTTP/1.1", want: "GET /x?y HTTP/1.1"},
		{name: "an absolute-form target", line: "GET http://other.test:81/b?c HTTP/1.1", want: "GET /b?c HTTP/1.1", has: map[string][]string{"Host": {"other.test:81"}, "X-Forwarded-Host": {"other.test:81"}}},
		{name: "an absolute-form target without a path", line: "GET http://other.test?c HTTP/1.1", want: "GET /?c HTTP/1.1", has: map[string][]string{"Host": {"other.test"}}},
		{name: "HTTP/1.0", line: "GET /a HTTP/1.0", has: map[string][]string{"Via": {"1.0 tested"}, "Host": {"x.test"}}},
		{name: "HTTP/1.0 cannot upgrade", line: "GET /a HTTP/1.0", fields: "Connection: Upgrade\r\nUpgrade: websocket\r\n", has: map[string][]string{"Upgrade": nil, "Connection": nil}},
		{name: "a method of its own", line: "BREW /a HTTP/1.1", want: "BREW /a HTTP/1.1"},
		{name: "OPTIONS of a path", line: "OPTIONS /a HTTP/1.1", want: "OPTIONS /a HTTP/1.1"},
		{name: "a POST without a body", line: "POST /a HTTP/1.1", fields: "Content-Length: 0\r\n", want: "POST /a HTTP/1.1", has: map[string][]string{"Content-Length": {"0"}, "Transfer-Encoding": nil}},
	} {
		t.Run(test.name, func(t *testing.T) {
			listener, line, want := test.listener, test.line, test.want
			if listener == "" {
				listener = "web"
			}
			if line == "" {
				line = "GET /a HTTP/1.1"
			}
			if want == "" {
				want = "GET /a HTTP/1.1"
			}
			r := exchange(t, gw.Dial(listener), "GET", line+"\r\nHost: x.test\r\n"+test.fields+"\r\n")
			if r.StatusCode != 200 {
				t.Fatalf("status %d: %s", r.StatusCode, r.body)
			}
			got := headOf(t, r.body)
			if got.line != want {
				t.Errorf("the endpoint was asked %q, want %q", got.line, want)
			}
			for name, values := range test.has {
				if len(values) == 1 && strings.HasPrefix(values[0], "^") {
					if all := got.fields[name]; len(all) != 1 || !regexp.MustCompile(values[0]).MatchString(all[0]) {
						t.Errorf("%s is %q, want %s", name, all, values[0])
					}
					continue
				}
				if diff := cmp.Diff(values, got.fields[name]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", name, diff)
				}
			}
			if up, back := got.fields.Get("X-Request-Id"), r.Header.Get("X-Request-ID"); up != back {
				t.Errorf("the request id is %q up and %q back", up, back)
			}
		})
	}
}

// TestUnixSockets goes from a Unix socket to a Unix socket.
func TestUnixSockets(t *testing.T) {
	dir := gatewaytest.ShortDir(t)
	listener, err := net.Listen("unix", filepath.Join(dir, "up"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				mirror(conn, bufio.NewReader(conn))
			}()
		}
	}()
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "unix:%[1]s/web"}}
admin: {address: "127.0.0.1:0"}
upstreams: {up: {endpoints: ["unix:%[1]s/up"]}}
routes: [{id: all, match: {path_prefix: /}, upstream: up}]
`, dir))
	conn, err := net.Dial("unix", filepath.Join(dir, "web"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := ask{target: "/a", header: map[string]string{"X-Forwarded-For": "6.6.6.6", "X-Real-IP": "6.6.6.6"}}.on(t, conn)
	got := headOf(t, r.body)
	if r.StatusCode != 200 || got.line != "GET /a HTTP/1.1" || got.fields.Get("Host") != "x.test" {
		t.Errorf("status %d, the endpoint saw %q", r.StatusCode, r.body)
	}
	if got.fields.Get("X-Forwarded-For") != "" || got.fields.Get("X-Real-Ip") != "" {
		t.Errorf("a peer without an address has one: %q", r.body)
	}
	if address := gw.Addr("web").String(); address != filepath.Join(dir, "web") {
		t.Errorf("the listener's address is %s", address)
	}
}

// TestBalance checks shares, versions and times.
func TestBalance(t *testing.T) {
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
response_time_header: true
upstreams:
  both:
    endpoints:
      - {url: %q, weight: 3, version: v1}
      - {url: %q, weight: 1, version: v2}
      - {url: %q, weight: 0, version: v3}
routes:
  - {id: both, match: {path_prefix: /both}, upstream: both}
  - {id: fixed, match: {path: /fixed}, respond: {status: 204}}
`, gatewaytest.NewEcho(t, "a"), gatewaytest.NewEcho(t, "b"), gatewaytest.NewEcho(t, "c")))
	conn := gw.Dial("web")
	var turns []string
	for range 40 {
		r := ask{target: "/both"}.on(t, conn)
		endpoint := r.echo(t).Endpoint
		turns = append(turns, endpoint)
		if want := map[string]string{"a": "v1", "b": "v2"}[endpoint]; r.Header.Get("X-Backend-Version") != want {
			t.Errorf("X-Backend-Version of %s is %q, want %q", endpoint, r.Header.Get("X-Backend-Version"), want)
		}
		if ms, err := strconv.ParseFloat(r.Header.Get("X-Response-Time"), 64); err != nil || ms < 0 || ms > 60_000 {
			t.Errorf("X-Response-Time is %q", r.Header.Get("X-Response-Time"))
		}
	}
	for part := range slices.Chunk(turns, 4) {
		slices.Sort(part)
		if got := strings.Join(part, ""); got != "aaab" {
			t.Errorf("four turns went to %s, want aaab", got)
		}
	}
	for target, status := range map[string]int{"/fixed": 204, "/nope": 404} {
		r := ask{target: target}.on(t, gw.Dial("web"))
		if r.StatusCode != status || r.Header.Get("X-Response-Time") == "" || r.Header.Get("X-Backend-Version") != "" {
			t.Errorf("%s is %d with %v", target, r.StatusCode, r.Header)
		}
	}
}

// TestAsteriskForm asks about the gateway as a whole (RFC 9110 9.3.7).
func TestAsteriskForm(t *testing.T) {
	endpoint := gatewaytest.NewScripted(t, mirror)
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
routes: [{id: all, match: {hosts: [x.test]}, upstream: "%s/base"}]
`, endpoint.URL))
	r := exchange(t, gw.Dial("web"), "OPTIONS", "OPTIONS * HTTP/1.1\r\nHost: x.test\r\n\r\n")
	if r.StatusCode != 200 || !strings.HasPrefix(r.body, "OPTIONS * HTTP/1.1\r\n") {
		t.Errorf("status %d, the endpoint saw %q", r.StatusCode, r.body)
	}
}

// discard reads until the peer has said all.
func discard(in io.Reader) { _, _ = io.Copy(io.Discard, in) }
