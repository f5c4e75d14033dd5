package e2e

import (
	"io"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wireRefusal is a request that is refused before anything of it may go on.
// {n} in it is the case's number.
type wireRefusal struct {
	name   string
	in     string
	status int
	word   string
}

// wireMarker follows every refused request: it must neither be answered nor
// reach the endpoint.
const wireMarker = "GET /smuggled/{n} HTTP/1.1\r\nHost: x\r\n\r\n"

// wireGet and wirePost are requests with these fields.
func wireGet(fields string) string { return "GET /{n} HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n" }

func wirePost(fields, body string) string {
	return "POST /{n} HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n" + body
}

func wireChunked(body string) string { return wirePost("Transfer-Encoding: chunked\r\n", body) }

// refusals runs a table of them: each as the first request on a connection, as
// the second behind a good one, and byte by byte. Nobody must see a difference.
func (g *wireGroup) refusals(t *testing.T, tests []wireRefusal) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			method, _, _ := strings.Cut(test.in, " ")
			c := g.dial(g.next())
			c.send(test.in + wireMarker)
			g.refused(t, c, method, test.status, test.word)
			g.nothing(t, c)
		})
		t.Run(test.name+", second", func(t *testing.T) {
			method, _, _ := strings.Cut(test.in, " ")
			c := g.dial(g.next())
			c.send("GET /next/{n} HTTP/1.1\r\nHost: x\r\n\r\n" + test.in + wireMarker)
			first, _ := c.receive(t, "GET")
			if wireStatus(first.line) != 200 {
				t.Errorf("the request before is answered with %q", first.text())
			}
			g.answered(t, &first, "", "")
			g.refused(t, c, method, test.status, test.word)
			if arrivals := g.endpoint.of(c.number); len(arrivals) != 1 || arrivals[0].line != wireFill("GET /next/{n} HTTP/1.1", c.number) {
				t.Errorf("this arrived: %+v", arrivals)
			}
		})
		t.Run(test.name+", dripped", func(t *testing.T) {
			if len(test.in) > 1000 {
				t.Skip("too long for it")
			}
			method, _, _ := strings.Cut(test.in, " ")
			c := g.dial(g.next())
			c.drip(test.in + wireMarker)
			g.refused(t, c, method, test.status, test.word)
			g.nothing(t, c)
		})
	}
}

// drip sends byte by byte.
func (c *wireClient) drip(text string) {
	text = wireFill(text, c.number)
	for i := range len(text) {
		if _, err := io.WriteString(c, text[i:i+1]); err != nil {
			return // the gateway has seen enough
		}
	}
}

// nothing checks that nothing of a case has reached the endpoint.
func (g *wireGroup) nothing(t *testing.T, c *wireClient) {
	t.Helper()
	for _, arrival := range g.endpoint.of(c.number) {
		t.Errorf("this arrived: %q", arrival.text())
	}
}

// wirePass is bytes that are served.
type wirePass struct {
	name string
	in   string
	// reaches are the requests as the endpoint must get them; each is answered
	// with 200. The fields that the gateway sets are left out, but for those that
	// are named here.
	reaches []string
	// closes: the gateway closes the connection behind the last answer. Else it
	// must take a further request.
	closes bool
	rest   string // what follows in the bytes and must not be served
}

func (g *wireGroup) passes(t *testing.T, tests []wirePass) {
	t.Helper()
	for _, test := range tests {
		for _, how := range []string{"", ", dripped"} {
			t.Run(test.name+how, func(t *testing.T) {
				if how != "" && len(test.in) > 1000 {
					t.Skip("too long for it")
				}
				c := g.dial(g.next())
				switch last := len(test.in) - 1; {
				case how == "":
					c.send(test.in + test.rest)
				case strings.Contains(strings.ToLower(test.in), "close") && strings.Contains(test.in, "HTTP/1.1"):
					// A client that has said so may not send more later (RFC 9112 9.6).
					c.drip(test.in[:last])
					c.send(test.in[last:] + test.rest)
				default:
					c.drip(test.in + test.rest)
				}
				g.served(t, c, test)
			})
		}
	}
}

// served reads the answers of a case and compares what reached the endpoint.
func (g *wireGroup) served(t *testing.T, c *wireClient, test wirePass) {
	t.Helper()
	var ids []string
	for i, text := range test.reaches {
		method, _, _ := strings.Cut(text, " ")
		m, _ := c.receive(t, method)
		fields := m
		ids = append(ids, fields.take("X-Request-ID")...)
		g.answered(t, &m, "", "")
		g.via(t, &m, "")
		want := "HTTP/1.1 200 OK\nContent-Length: 2\n\nok"
		if method == "HEAD" {
			want = strings.TrimSuffix(want, "\n\nok")
		}
		g.connection(t, &m, test.closes && i == len(test.reaches)-1)
		if m.text() != want {
			t.Fatalf("answer %d is %q, want %q", i+1, m.text(), want)
		}
	}
	g.reached(t, c, test.reaches, ids)
	if test.closes {
		c.over(t)
		if arrivals := g.endpoint.of(c.number); len(arrivals) != len(test.reaches) {
			t.Errorf("%d requests arrived, want %d", len(arrivals), len(test.reaches))
		}
		return
	}
	g.goesOn(t, c)
	c.Close()
}

// connection checks what an answer says of the connection; keep-alive is for
// clients of HTTP/1.0, who tell it from a close by that.
func (g *wireGroup) connection(t *testing.T, m *wireMessage, closes bool) {
	t.Helper()
	got := strings.Join(m.take("Connection"), ", ")
	if closes != strings.EqualFold(got, "close") || got != "" && !closes && !strings.EqualFold(got, "keep-alive") {
		t.Errorf("Connection is %q; the connection closes: %v", got, closes)
	}
}

// reached compares what has reached the endpoint of a case, whose answers had
// these request ids.
func (g *wireGroup) reached(t *testing.T, c *wireClient, want, ids []string) {
	t.Helper()
	arrivals := g.endpoint.of(c.number)
	if len(arrivals) != len(want) {
		t.Fatalf("%d requests arrived, want %d: %+v", len(arrivals), len(want), arrivals)
	}
	for i, arrival := range arrivals {
		text := wireFill(want[i], c.number)
		if !arrival.whole {
			t.Errorf("request %d came cut", i+1)
		}
		g.set(t, &arrival.wireMessage, text, ids[i])
		if diff := cmp.Diff(text, arrival.text()); diff != "" {
			t.Errorf("request %d reached the endpoint so (-want +got):\n%s", i+1, diff)
		}
	}
}

// set checks the fields that the gateway sets on requests, each of which must be
// there once, and takes them out but where the table names them.
func (g *wireGroup) set(t *testing.T, m *wireMessage, text, id string) {
	t.Helper()
	hosts := m.take("Host")
	if len(hosts) != 1 {
		t.Errorf("Host is %q", hosts)
		return
	}
	for name, want := range map[string]string{"X-Forwarded-For": "127.0.0.1", "X-Real-IP": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": hosts[0], "X-Request-ID": id, "Via": "1.1 tested"} {
		if wireNames(text, name) {
			continue
		}
		if got := m.take(name); !cmp.Equal(got, []string{want}) {
			t.Errorf("%s is %q at the endpoint, want %q", name, got, want)
		}
	}
	m.fields = append([]string{"Host: " + hosts[0]}, m.fields...)
}

// closeWrite ends what the client sends.
func (c *wireClient) closeWrite(t *testing.T) {
	t.Helper()
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
}
