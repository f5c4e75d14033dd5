package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWireEarlyResponses answers a request before its body is there. The client
// gets the answer at once. What it sends on is thrown away, or the connection
// closes; never is it taken for a request.
func TestWireEarlyResponses(t *testing.T) {
	g := newWireGroup(t)
	const rest = "GET /smuggled/n0 HTTP/1.1\r\nHost: x\r\n\r\n"
	const out = "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"
	for _, test := range []struct {
		name, ask, rest string
		closes          bool // else either may be: a small rest is worth waiting for
	}{
		{name: "a small rest", ask: wirePost(fmt.Sprintf("Content-Length: %d\r\n", 3+len(rest)), "abc"), rest: rest},
		{name: "a small rest in chunks", ask: wireChunked("3\r\nabc\r\n"), rest: fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(rest), rest)},
		{name: "a bad rest in chunks", ask: wireChunked("3\r\nabc\r\n"), rest: rest, closes: true},
		{name: "a large rest", ask: wirePost("Content-Length: 100000000\r\n", "abc"), rest: rest, closes: true},
		{name: "a rest that waits to be asked for", ask: wirePost("Expect: 100-continue\r\nContent-Length: 100000000\r\n", ""), rest: rest, closes: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, method := g.begin(t, test.ask, &wireScript{early: true, out: out})
			m, informed := c.receive(t, method)
			g.answered(t, &m, "", "")
			g.via(t, &m, "")
			closes := cmp.Equal(m.take("Connection"), []string{"close"})
			if m.text() != "HTTP/1.1 413 Content Too Large\nContent-Length: 2\n\nno" || len(informed) > 0 {
				t.Errorf("the answer is %q after %q", m.text(), informed)
			}
			c.send(test.rest)
			if test.closes || closes {
				c.over(t)
			} else {
				g.goesOn(t, c)
			}
			for _, arrival := range g.endpoint.of(0) {
				t.Errorf("this arrived: %q", arrival.text())
			}
		})
	}
	g.finish(t)
}

// TestWireExpect asks for a body once (RFC 9110 10.1.1), and for none where the
// request is refused.
func TestWireExpect(t *testing.T) {
	g := newWireGroup(t)
	for _, test := range []struct{ name, fields, body, want string }{
		{"a length", "Content-Length: 3\r\n", "abc", "Content-Length: 3"},
		{"chunks", "Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n", "Transfer-Encoding: chunked"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := g.dial(g.next())
			c.send(wirePost("Expect: 100-Continue\r\n"+test.fields, ""))
			hear(t, c.in, "HTTP/1.1 100 Continue\r\n\r\n")
			c.send(test.body)
			m, informed := c.receive(t, "POST")
			g.answered(t, &m, "", "")
			g.via(t, &m, "")
			if m.text() != "HTTP/1.1 200 OK\nContent-Length: 2\n\nok" || len(informed) > 0 {
				t.Errorf("the answer is %q after %q", m.text(), informed)
			}
			arrivals := g.endpoint.of(c.number)
			if len(arrivals) != 1 || arrivals[0].framing != test.want || arrivals[0].body != "abc" || !arrivals[0].whole {
				t.Errorf("this arrived: %+v", arrivals)
			}
			g.goesOn(t, c)
		})
	}
	for name, head := range map[string]string{
		"a bad path":     "POST /{n}%zz HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
		"two Hosts":      "POST /{n} HTTP/1.1\r\nHost: x\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
		"both framings":  wirePost("Expect: 100-continue\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n", ""),
		"a method alone": strings.Replace(wirePost("Expect: 100-continue\r\nContent-Length: 3\r\n", ""), " /{n}", "", 1),
	} {
		t.Run(name, func(t *testing.T) {
			word := "bad_request"
			if name == "a bad path" {
				word = "bad_path"
			}
			c := g.dial(g.next())
			c.send(head)
			g.refused(t, c, "POST", 400, word)
			g.nothing(t, c)
		})
	}
	g.finish(t)
}
