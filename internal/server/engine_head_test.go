package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// echoHead answers with what a request says: its line, host and fields.
func echoHead(x *pipeline.Exchange) error {
	r := x.Request
	var text strings.Builder
	text.WriteString(r.Method + " " + r.Target + " " + string(r.Protocol) + " of " + r.Host + "\n")
	for _, field := range r.Fields {
		text.WriteString(field.Name + "=" + field.Value + "\n")
	}
	x.Response = reply(200, text.String())
	return nil
}

func TestTheEngineKeepsOrderAndSpelling(t *testing.T) {
	ofEngine(t, "net/http keeps neither")
	var got message.Fields
	f := start(t, identified(func(x *pipeline.Exchange) error {
		got = x.Request.Fields.Clone()
		x.Response = reply(200, "ok", "x-low", "1", "X-MIXED-cASE", "2", "Set-Cookie", "a", "X-Request-Id", "theirs", "set-cookie", "b")
		return nil
	}))
	c := f.dial().send("GET / HTTP/1.1\r\nx-b: 2\r\nHOST: a\r\nX-a:1\r\nACCEPT-encoding: \t gzip \r\nX-B: 1\r\n\r\n")
	c.read("HTTP/1.1 200 OK\r\nx-low: 1\r\nX-MIXED-cASE: 2\r\nSet-Cookie: a\r\nX-Request-Id: id-1\r\nset-cookie: b\r\nDate: today\r\nContent-Length: 2\r\n\r\nok")
	f.next(t)
	want := message.Fields{{Name: "x-b", Value: "2"}, {Name: "X-a", Value: "1"}, {Name: "ACCEPT-encoding", Value: "gzip", ID: message.AcceptEncoding}, {Name: "X-B", Value: "1"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A head is read the same wherever it is cut, also the second one of a
// connection.
func TestAHeadThatComesInParts(t *testing.T) {
	ofEngine(t, "net/http takes no empty line before a request")
	const head = "\r\nPOST /p?q HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nContent-Length: 3\r\nX-Two: 2\r\n\r\nabc"
	f := start(t, func(x *pipeline.Exchange) error {
		if x.Request.Body != nil {
			defer x.Request.Body.Close()
		}
		return echoHead(x)
	})
	const want = "POST /p?q HTTP/1.1 of a\nX-One=1\nX-Two=2\n"
	for i := range len(head) {
		c := f.dial()
		for range 2 {
			c.send(head[:i])
			if i%4 == 0 { // let it be read alone
				waittest.Until(t, "an empty socket", func() bool { return f.listener.Pending() == 0 })
			}
			if _, body := c.send(head[i:]).answer("POST"); body != want {
				t.Fatalf("cut at %d: %q", i, body)
			}
		}
		c.Close()
	}
	c := f.dial()
	for i := range len(head) { // a byte at a time
		c.send(head[i : i+1])
	}
	if _, body := c.answer("POST"); body != want {
		t.Errorf("byte by byte: %q", body)
	}
}

// Heads around the sizes at which the buffer grows, and at the limit.
func TestLargeHeads(t *testing.T) {
	ofEngine(t, "net/http's limit is not exact")
	const begin, end = "GET / HTTP/1.1\r\nX: ", "\r\nHost: a\r\n\r\n"
	const limit = 64 << 10
	f := start(t, func(x *pipeline.Exchange) error {
		value, _ := x.Request.Fields.Find("X")
		x.Response = reply(200, value)
		return nil
	})
	for _, size := range []int{100, 16<<10 - 1, 16 << 10, 16<<10 + 1, 32<<10 - 1, 32 << 10, 32<<10 + 1, limit - 1, limit, limit + 1} {
		value := strings.Repeat("0123456789", size/10+1)[:size-len(begin+end)]
		request := begin + value + end
		c := f.dial()
		for range 2 { // twice, so that one follows the other in the buffer
			c.send(request)
		}
		for range 2 {
			response, body := c.answer("GET")
			if size > limit {
				if response.StatusCode != 431 || !strings.Contains(body, `"header_too_large"`) || !response.Close {
					t.Errorf("%d bytes: %d %.90s", size, response.StatusCode, body)
				}
				break
			}
			if response.StatusCode != 200 || body != value || response.Close {
				t.Errorf("%d bytes: %d with %d bytes", size, response.StatusCode, len(body))
			}
		}
		c.Close()
	}
}

// What is refused before its end has come is answered at once, and what the
// client goes on sending does not take the answer away.
func TestRefusalsOfHeads(t *testing.T) {
	tests := []struct {
		name, raw string
		status    int
		word      pipeline.Word
	}{
		{"a method", "GE\"T / HTTP/1.1\r\nHost: a\r\n\r\n", 400, pipeline.BadRequest},
		{"a bare LF", "GET / HTTP/1.1\nHost: a\r\n\r\n", 400, pipeline.BadRequest},
		{"no host", "GET / HTTP/1.1\r\n\r\n", 400, pipeline.BadRequest},
		{"two lengths", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400, pipeline.BadRequest},
		{"length and chunks", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400, pipeline.BadRequest},
		{"a coding", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501, pipeline.NotImplemented},
		{"a version", "GET / HTTP/3.0\r\nHost: a\r\n\r\n", 505, pipeline.BadVersion},
		{"a target", "GET /" + strings.Repeat("x", 16<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n", 414, pipeline.URITooLong},
		{"fields", "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: 1\r\n", 101) + "\r\n", 431, pipeline.HeaderTooLarge},
		{"a head without end", "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 1<<20), 431, pipeline.HeaderTooLarge},
		{"a head that is cut", "GET / HTTP/1.1\r\nHost: a\r\nX: ", 400, pipeline.BadRequest},
	}
	ofEngine(t, "net/http answers these by itself")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := start(t, text("first"))
			c := f.dial().send(get("/") + test.raw)
			if test.name == "a head that is cut" {
				c.closeWrite()
			} else {
				c.send(get("/never") + strings.Repeat("x", 1<<20))
			}
			if _, body := c.answer("GET"); body != "first" {
				t.Errorf("%q", body)
			}
			response, body := c.answer("GET")
			if response.StatusCode != test.status || !response.Close || !strings.Contains(body, string(test.word)) {
				t.Errorf("%d, closes: %v, %s", response.StatusCode, response.Close, body)
			}
			c.ends()
			f.next(t)
			x := f.next(t)
			if x.Err == nil || x.Err.Word != test.word || x.Response.Status != test.status || x.BytesOut != int64(len(body)) || response.Header.Get("X-Request-ID") != x.ID {
				t.Errorf("%v, %d bytes out", x.Err, x.BytesOut)
			}
			if len(f.served) != 1 {
				t.Errorf("%d were served", len(f.served))
			}
		})
	}
}

// The empty line that some clients send after a body is no request: nobody is
// told of it when no other comes.
func TestAnEmptyLineIsNoRequest(t *testing.T) {
	ofEngine(t, "net/http counts it as one")
	for _, end := range []string{"\r\n", "\r"} {
		for name, ends := range map[string]func(c *client){
			"the client closes":  (*client).closeWrite,
			"a reset":            func(c *client) { reset(t, c) },
			"nothing else comes": func(*client) {},
		} {
			f := start(t, text("ok"), func(m *model.Listener) {
				m.Timeouts.ReadHeader, m.Timeouts.Idle = 300*time.Millisecond, 300*time.Millisecond
			})
			c := f.dial().send(post("Content-Length: 3\r\n", "abc") + end)
			if response, _ := c.answer("POST"); response.Close {
				t.Error("it closes")
			}
			ends(c)
			c.ends()
			f.next(t)
			waittest.Until(t, "no connection", func() bool { return f.listener.Status().Connections == 0 })
			if len(f.ended) > 0 {
				t.Errorf("%q, %s: it ended with %v", end, name, (<-f.ended).Err)
			}
		}
	}
}

// One empty line may stand before a request, however the client sends it.
func TestEmptyLinesBetweenWhichTheConnectionRests(t *testing.T) {
	ofEngine(t, "net/http takes no empty line before a request")
	f := start(t, text("ok"))
	c := f.dial()
	rests := func() {
		t.Helper()
		waittest.Until(t, "a connection at rest", func() bool { return f.listener.Pending() == 0 && f.listener.Resting() == 1 })
	}
	for range 2 {
		c.send("\r\n")
		rests()
		if response, body := c.send(get("/")).answer("GET"); response.StatusCode != http.StatusOK || body != "ok" {
			t.Fatalf("%d, %q", response.StatusCode, body)
		}
		rests()
	}
	c.send("\r\n")
	rests()
	if response, _ := c.send("\r\n" + get("/")).answer("GET"); response.StatusCode != http.StatusBadRequest {
		t.Errorf("%d behind two empty lines", response.StatusCode)
	}
	c.ends()
}

// A client that breaks the connection in the middle of a head is told of in the
// log alone.
func TestAHeadThatBreaks(t *testing.T) {
	ofEngine(t, "net/http tells nobody")
	f := start(t, text("never"))
	c := f.dial().send("GET / HTTP/1.1\r\nHo")
	waittest.Until(t, "the beginning", func() bool { return f.listener.Status().Connections == 1 && f.listener.Pending() == 0 })
	reset(t, c)
	if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.ClientClosed || x.Response.Status != pipeline.StatusClientClosed || x.BytesOut != 0 || x.Peer.String() != c.LocalAddr().String() {
		t.Errorf("%v of %v, %d bytes out", x.Err, x.Peer, x.BytesOut)
	}
}

// The time for the head is not that of the body.
func TestABodyBehindAHeadInParts(t *testing.T) {
	const limit = time.Second
	read := make(chan struct{})
	f := start(t, func(x *pipeline.Exchange) error {
		close(read)
		return swallow(x)
	}, func(m *model.Listener) { m.Timeouts.ReadHeader, m.Timeouts.MinBodyRate = limit, 0 })
	c := f.dial().send("POST / HTTP/1.1\r\nHost: a\r\n")
	waittest.Until(t, "the beginning", func() bool { return f.listener.Pending() == 0 })
	c.send("Content-Length: 3\r\n\r\n")
	<-read
	<-time.After(limit) // the header's time is over then
	if response, body := c.send("abc").answer("POST"); response.StatusCode != 200 || body != "3" {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}
