package e2e

import (
	"io"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

// sendApart sends a text in two pieces that the gateway reads apart.
func (c *wireClient) sendApart(t *testing.T, text string, at int) {
	t.Helper()
	text = wireFill(text, c.number)
	say(t, c, text[:at])
	if err := wireTaken(c.Conn); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(c, text[at:]) // it may have seen enough
}

// TestWireRequestsInTwoPieces cuts requests at every byte: what they mean, and
// what is refused, must not depend on it.
func TestWireRequestsInTwoPieces(t *testing.T) {
	g := newWireGroup(t)
	for _, test := range []wirePass{
		{name: "GET", in: "\r\n" + wireGet("X: y\r\n"), reaches: []string{"GET /{n} HTTP/1.1\nHost: x\nX: y"}},
		{name: "a length", in: wirePost("Content-Length: 4\r\n", "a\r\nb"), reaches: []string{"POST /{n} HTTP/1.1\nHost: x\nContent-Length: 4\n\na\r\nb"}},
		{name: "chunks", in: wireChunked("1;x=y\r\na\r\n02\r\nbc\r\n0;z\r\nX-Sum: 1\r\nHost: y\r\n\r\n"), reaches: []string{"POST /{n} HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\nabc\n\nX-Sum: 1"}},
		{name: "a pipeline", in: wirePost("Content-Length: 1\r\n", "a") + wireGet(""), reaches: []string{"POST /{n} HTTP/1.1\nHost: x\nContent-Length: 1\n\na", "GET /{n} HTTP/1.1\nHost: x"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for at := 1; at < len(wireFill(test.in, g.cases+1)); at++ {
				c := g.dial(g.next())
				c.sendApart(t, test.in, at)
				g.served(t, c, test)
				if t.Failed() {
					t.Fatalf("cut at byte %d", at)
				}
			}
		})
	}
	for _, test := range []wireRefusal{
		{"a folded field", wireGet("X: y\r\n z\r\n"), 400, "bad_request"},
		{"CL.TE", wirePost("Content-Length: 6\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\nX"), 400, "bad_request"},
		{"gzip", wirePost("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 501, "not_implemented"},
		{"HTTP/2.0", "GET /{n} HTTP/2.0\r\nHost: x\r\n\r\n", 505, "bad_version"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for at := 1; at < len(wireFill(test.in, g.cases+1)); at++ {
				c := g.dial(g.next())
				c.sendApart(t, test.in+wireMarker, at)
				g.refused(t, c, "GET", test.status, test.word)
				g.nothing(t, c)
				c.Close()
				if t.Failed() {
					t.Fatalf("cut at byte %d", at)
				}
			}
		})
	}
	g.finish(t)
}

// TestWireFaultsThatShowAtOnce refuses what cannot become a request without
// waiting for its end, which may never come.
func TestWireFaultsThatShowAtOnce(t *testing.T) {
	g := newWireGroup(t)
	for _, test := range []wireRefusal{
		{"a control at the beginning", "\x16", 400, "bad_request"},
		{"a bracket in the method", "GET[", 400, "bad_request"},
		{"a bare LF", "GET /{n} HTTP/1.1\nHost: x", 400, "bad_request"},
		{"a version", "GET /{n} HTTP/2.0\r\n", 505, "bad_version"},
		{"a long target", "GET /{n}" + strings.Repeat("y", 1100), 414, "uri_too_long"},
		{"a bare LF in the fields", "GET /{n} HTTP/1.1\r\nHost: x\nX: y", 400, "bad_request"},
		{"a long head", "GET /{n} HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 4200), 431, "header_too_large"},
		{"a chunk size", wireChunked("x"), 400, "bad_request"},
		{"a chunk extension", wireChunked("1;" + strings.Repeat("x", 5000)), 431, "header_too_large"},
	} {
		t.Run(test.name, func(t *testing.T) {
			method, _, _ := strings.Cut(test.in, " ")
			c := g.dial(g.next())
			c.send(test.in)
			g.refused(t, c, method, test.status, test.word)
		})
	}
	g.finish(t)
}

// TestWireRequestsThatEnd has clients close their writing side after every byte
// of a request: nothing of it is answered with success, and the endpoint never
// gets what it could take for a whole one.
func TestWireRequestsThatEnd(t *testing.T) {
	g := newWireGroup(t)
	for name, in := range map[string]string{
		"a length": wirePost("Content-Length: 4\r\n", "abcd"),
		"chunks":   wireChunked("3\r\nabc\r\n0\r\nX: y\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			for at := range len(wireFill(in, g.cases+1)) {
				c := g.dial(g.next())
				say(t, c, wireFill(in, c.number)[:at])
				c.closeWrite(t)
				if got, err := io.ReadAll(c.in); err != nil || strings.Contains(string(got), " 200 ") {
					t.Errorf("cut at byte %d: it is answered with %q, %v", at, got, err)
				}
				for _, m := range g.endpoint.settled(t, c.number) {
					if m.whole {
						t.Errorf("cut at byte %d: this arrived: %q", at, m.text())
					}
				}
			}
		})
	}
	gatewaytest.WaitFor(t, "no exchange is under way", func() bool { return g.gw.Metric("gateway_active_requests") == 0 })
}

// TestWireResponsesInTwoPieces cuts responses at every byte.
func TestWireResponsesInTwoPieces(t *testing.T) {
	g := newWireGroup(t)
	const ok = "HTTP/1.1 200 OK\n"
	for _, test := range []wireAnswer{
		{name: "a length", out: "HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 4\r\n\r\na\r\nb", want: ok + "X: y\nContent-Length: 4\n\na\r\nb", reused: true},
		{name: "chunks", out: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;x=y\r\na\r\n02\r\nbc\r\n0;z\r\nX-Sum: 1\r\nHost: y\r\n\r\n", want: ok + "Transfer-Encoding: chunked\n\nabc\n\nX-Sum: 1", reused: true},
		{name: "hints", out: "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n", want: "HTTP/1.1 204 No Content", reused: true},
		{name: "the end of the connection", out: "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc", end: "close", want: ok + "Transfer-Encoding: chunked\n\nabc"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for at := 1; at < len(test.out); at++ {
				script := &wireScript{apart: at, out: test.out, end: test.end}
				c, method := g.begin(t, "", script)
				m, _ := c.receive(t, method)
				g.answered(t, &m, "", "")
				g.via(t, &m, "")
				if m.text() != test.want || !m.whole {
					t.Errorf("the answer is %q, whole: %v; want %q", m.text(), m.whole, test.want)
				}
				g.after(t, c, script, test)
				if t.Failed() {
					t.Fatalf("cut at byte %d", at)
				}
			}
		})
	}
	g.finish(t)
}

// TestWireResponsesThatEnd has the endpoint close after every byte of a
// response: never does the client take what came for a whole one.
func TestWireResponsesThatEnd(t *testing.T) {
	g := newWireGroup(t)
	g.endpoint.closes = true // so that nothing is sent again
	for name, out := range map[string]string{
		"a length": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd",
		"chunks":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			for at := range len(out) {
				script := &wireScript{out: out[:at], end: "close"}
				c, _ := g.begin(t, "", script)
				m, _ := c.receive(t, "GET")
				switch status := wireStatus(m.line); {
				case status == 502:
					g.problem(t, &m, "GET", "upstream_reset")
					g.after(t, c, script, wireAnswer{})
				case status == 200 && !m.whole && strings.Contains(out[:at], "\r\n\r\n") && m.body == "abcd"[:len(m.body)]:
					g.answered(t, &m, "upstream_reset", "")
				default:
					t.Fatalf("cut at byte %d: the answer is %q, whole: %v", at, m.text(), m.whole)
				}
				c.Close()
			}
		})
	}
	g.finish(t)
}
