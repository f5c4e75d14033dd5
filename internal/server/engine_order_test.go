package server_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// echoBody answers with the path and the body of a request; /close closes.
func echoBody(x *pipeline.Exchange) error {
	var body []byte
	if x.Request.Body != nil {
		var err error
		if body, err = io.ReadAll(x.Request.Body); err != nil {
			return err
		}
	}
	x.Response = reply(200, x.Request.Path+" "+string(body))
	if x.Request.Path == "/close" {
		x.Response.Fields.Add("Connection", "close")
	}
	return nil
}

// pipelined is a request with a body, in chunks or not, and what echoBody
// answers.
func pipelined(i, size int) (raw, want string) {
	path := fmt.Sprintf("/%d", i)
	body := strings.Repeat(string(rune('a'+i%26)), size)
	want = path + " " + body
	switch i % 3 {
	case 0:
		return get(path), path + " "
	case 1:
		return fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", path, size, body), want
	}
	half := size / 2
	return fmt.Sprintf("PUT %s HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x;x=y\r\n%s\r\n%x\r\n%s\r\n0\r\nX-T: 1\r\n\r\n",
		path, half, body[:half], size-half, body[half:]), want
}

// Many requests at once, with bodies smaller and larger than the buffers, in
// pieces that are cut anywhere.
func TestPipelinedBodies(t *testing.T) {
	f := start(t, echoBody)
	for _, piece := range []int{1 << 30, 1 << 16, 1000, 7} {
		var sent strings.Builder
		var want []string
		for i, size := range []int{2, 3, 100, 2, 2, 2, 20 << 10, 70 << 10, 2, 16 << 10, 33, 9999} {
			if piece < 1000 {
				size = min(size, 100)
			}
			raw, answer := pipelined(i, size)
			sent.WriteString(raw)
			want = append(want, answer)
		}
		c := f.dial()
		go func() {
			for rest := sent.String(); rest != ""; {
				n := min(piece, len(rest))
				if _, err := io.WriteString(c.Conn, rest[:n]); err != nil {
					return
				}
				rest = rest[n:]
			}
		}()
		for i, want := range want {
			if response, body := c.answer("GET"); response.StatusCode != 200 || response.Close || body != want {
				t.Fatalf("pieces of %d, answer %d: %d %.80q, want %.80q", piece, i, response.StatusCode, body, want)
			}
		}
		c.Close()
	}
}

// A bad request in the middle: those before it are answered, it is refused, and
// what follows is not looked at.
func TestPipelinedWithABadOne(t *testing.T) {
	for name, bad := range map[string]string{
		"a head": "GET /bad HTTP/1.1\r\n\r\n",
		"a body": "POST /bad HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX",
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, echoBody)
			c := f.dial()
			raw, want := pipelined(1, 10)
			c.send(get("/0") + raw + bad + get("/never") + get("/never"))
			for _, want := range []string{"/0 ", want} {
				if _, body := c.answer("GET"); body != want {
					t.Errorf("%q, want %q", body, want)
				}
			}
			if response, _ := c.answer("GET"); response.StatusCode != 400 || engine && !response.Close {
				t.Errorf("%d, closes: %v", response.StatusCode, response.Close)
			}
			c.ends()
		})
	}
}

// After a response that says that the connection closes nothing is served, and
// what comes meanwhile does not take the response away.
func TestNothingIsServedAfterTheEnd(t *testing.T) {
	for name, last := range map[string]string{
		"a handler closes": get("/close"),
		"the client does":  "GET /close HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
		"HTTP/1.0":         "GET /close HTTP/1.0\r\n\r\n",
	} {
		for _, more := range []int{0, 1, 1 << 20} {
			t.Run(fmt.Sprint(name, " ", more), func(t *testing.T) {
				proceed := make(chan struct{})
				f := start(t, func(x *pipeline.Exchange) error {
					if x.Request.Path == "/close" {
						await(x, proceed)
					}
					return echoBody(x)
				})
				c := f.dial().send(get("/0") + last)
				if more > 1 {
					c.send(get("/never"))
				}
				if _, body := c.answer("GET"); body != "/0 " {
					t.Errorf("%q", body)
				}
				// Unread when the connection closes.
				c.send(strings.Repeat(get("/never"), more/40+1))
				waittest.Until(t, "more", func() bool { return f.listener.Pending() == 1 })
				close(proceed)
				if response, body := c.answer("GET"); body != "/close " || !response.Close {
					t.Errorf("%q, closes: %v", body, response.Close)
				}
				if engine {
					c.rest() // no reset, which may take away what was not read
				} else {
					c.ends()
				}
				f.next(t)
				f.next(t)
				if len(f.served) != 2 {
					t.Errorf("%d were served", len(f.served))
				}
			})
		}
	}
}

// One connection, many requests, each with a part of the next behind it.
func TestKeepAliveWithLeftOverBytes(t *testing.T) {
	f := start(t, echoBody)
	c := f.dial()
	all, wants := "", []string(nil)
	for i := range 300 {
		raw, want := pipelined(i, 2+i*13%500)
		all += raw
		wants = append(wants, want)
		n := len(all) - (i*7)%len(raw) // whole but for the last bytes
		if i == 299 {
			n = len(all)
		}
		c.send(all[:n])
		all = all[n:]
		if i > 0 {
			if _, body := c.answer("GET"); body != wants[i-1] {
				t.Fatalf("answer %d is %q, want %q", i-1, body, wants[i-1])
			}
		}
	}
	if _, body := c.answer("GET"); body != wants[299] {
		t.Errorf("%q", body)
	}
	waittest.Until(t, "300 exchanges", func() bool { return len(f.ended) == 300 })
}

// Responses that are read late do not hold up the order, nor does a stream.
func TestPipelinedStreams(t *testing.T) {
	f := start(t, func(x *pipeline.Exchange) error {
		x.Response = &message.Response{Status: 200, Length: message.Unknown, Body: io.NopCloser(io.MultiReader(strings.NewReader(x.Request.Path), &slow{x: x}))}
		return nil
	})
	c := f.dial().send(get("/1") + get("/2") + get("/3"))
	for i := 1; i <= 3; i++ {
		if _, body := c.answer("GET"); body != fmt.Sprintf("/%d...", i) {
			t.Errorf("answer %d is %q", i, body)
		}
	}
}

// slow gives three dots, one by one.
type slow struct {
	x *pipeline.Exchange
	n int
}

func (s *slow) Read(p []byte) (int, error) {
	if s.n++; s.n > 3 {
		return 0, io.EOF
	}
	if err := pause(s.x, time.Millisecond); err != nil {
		return 0, err
	}
	return copy(p, "."), nil
}
