package proxy_test

import (
	"strings"
	"testing"

	"sluice/internal/model"
)

// keeping says how much of a body is kept.
func keeping(most int64) func(r *model.Retry) { return func(r *model.Retry) { r.Body = most } }

// takingThen is an endpoint that reads that much of a body, whose head and beginning
// it gives, and then says something and closes.
func takingThen(t *testing.T, much int, text string) (model.Endpoint, <-chan string) {
	t.Helper()
	got := make(chan string, 10)
	return scripted(t, func(p *peer) {
		if p.head() == "" {
			return
		}
		read := make([]byte, 0, much)
		for len(read) < much {
			b, err := p.ReadByte()
			if err != nil {
				break
			}
			read = append(read, b)
		}
		got <- string(read)
		p.say(text)
	}), got
}

// chunks is a body in chunks of at most that size.
func chunks(body, trailer string) string {
	var text strings.Builder
	for len(body) > 0 {
		n := min(len(body), 9)
		text.WriteString(itoa(n) + "\r\n" + body[:n] + "\r\n")
		body = body[n:]
	}
	return text.String() + "0\r\n" + trailer + "\r\n"
}

// TestBodiesAreKept up to a size, whatever the endpoint had taken of them.
func TestBodiesAreKept(t *testing.T) {
	for name, c := range map[string]struct {
		length, most int
		chunked      bool
		status       int
	}{
		"less":                       {99, 100, false, 200},
		"just as much":               {100, 100, false, 200},
		"one more":                   {101, 100, false, 503},
		"nothing is kept":            {1, 0, false, 503},
		"chunked, less":              {99, 100, true, 200},
		"chunked, just as much":      {100, 100, true, 200},
		"chunked, one more":          {101, 100, true, 503},
		"chunked, nothing is kept":   {1, 0, true, 503},
		"larger than a piece":        {60_000, 64 << 10, false, 200},
		"the most":                   {64 << 10, 64 << 10, false, 200},
		"chunked, larger than piece": {60_000, 64 << 10, true, 200},
	} {
		onEach(t, func(t *testing.T, way string) {
			t.Helper()
			t.Run(name, func(t *testing.T) {
				body := strings.Repeat("0123456789", c.length/10+1)[:c.length]
				wire := body
				request := "PUT" + asking + "Content-Length: " + itoa(c.length) + "\r\n\r\n"
				if c.chunked {
					wire = chunks(body, "")
					request = "PUT" + asking + "Transfer-Encoding: chunked\r\n\r\n"
				}
				first := scripted(t, func(p *peer) {
					if head := p.head(); c.chunked {
						p.until("0\r\n\r\n")
					} else {
						p.body(head)
					}
					p.say(say("503 No", "sorry"))
				})
				got := make(chan string, 1)
				second := scripted(t, func(p *peer) {
					head := p.head()
					if c.chunked {
						got <- unchunked(p)
					} else {
						got <- p.body(head)
					}
					p.say(say("200 OK", "ok"))
				})
				f := serve(t, way, retrying(keeping(int64(c.most))), to("up", first, second))
				client := f.client()
				client.say(request)
				client.say(wire)
				head, answer := f.answer(client)
				want := "ok"
				if c.status == 503 {
					want = "sorry"
				}
				f.check(head, answer, c.status, want)
				if c.status == 200 && within(t, "the body", got) != body {
					t.Error("the second endpoint got another body")
				}
				if x := f.over(); x.BytesIn != int64(c.length) {
					t.Errorf("%d bytes were read of %d", x.BytesIn, c.length)
				}
			})
		})
	}
}

// unchunked reads a body of chunks.
func unchunked(p *peer) string {
	var body strings.Builder
	for {
		size := p.until("\r\n")
		n := 0
		for _, digit := range strings.TrimSuffix(size, "\r\n") {
			n = 16*n + strings.IndexRune("0123456789abcdef", digit)
		}
		if n <= 0 {
			p.until("\r\n")
			return body.String()
		}
		for range n {
			b, _ := p.ReadByte()
			body.WriteByte(b)
		}
		p.until("\r\n")
	}
}

// TestBodyOnItsWay has endpoints that fail while the client has yet to send the rest
// of its body: it comes to the next one.
func TestBodyOnItsWay(t *testing.T) {
	for name, c := range map[string]struct {
		sent, rest string
		text       string // what the first endpoint says after what was sent
		fields     string
		status     int
	}{
		"an answer":            {"hello ", "world", say("503 No", "sorry"), "Content-Length: 11", 200},
		"an end":               {"hello ", "world", "", "Content-Length: 11", 200},
		"an answer to nothing": {"", "hello world", say("503 No", "sorry"), "Content-Length: 11", 200},
		"an end after nothing": {"", "hello world", "", "Content-Length: 11", 200},
		"an answer to chunks":  {"6\r\nhello \r\n", "5\r\nworld\r\n0\r\nX-Sum: 1\r\n\r\n", say("503 No", "sorry"), "Transfer-Encoding: chunked\r\nTrailer: X-Sum", 200},
		"an end of chunks":     {"6\r\nhello \r\n", "5\r\nworld\r\n0\r\nX-Sum: 1\r\n\r\n", "", "Transfer-Encoding: chunked\r\nTrailer: X-Sum", 200},
		"an answer, too large": {"hello ", "world", say("503 No", "sorry"), "Content-Length: 65537", 503},
		"an end, too large":    {"hello ", "world", "", "Content-Length: 65537", 502},
	} {
		onEach(t, func(t *testing.T, way string) {
			t.Helper()
			t.Run(name, func(t *testing.T) {
				first, got := takingThen(t, len(c.sent), c.text)
				asked := make(chan bool, 10)
				second := scripted(t, func(p *peer) {
					head := p.head()
					asked <- true
					if strings.Contains(head, "chunked") {
						p.say(say("200 OK", unchunked(p)))
						return
					}
					p.say(say("200 OK", p.body(head)))
				})
				f := serve(t, way, retrying(), to("up", first, second))
				client := f.client()
				client.say("PUT" + asking + c.fields + "\r\n\r\n" + c.sent)
				if text := within(t, "what was sent", got); text != c.sent {
					t.Fatalf("the first endpoint got %q", text)
				}
				if c.status != 200 {
					head, body := f.answer(client)
					if !strings.HasPrefix(head, "HTTP/1.1 "+itoa(c.status)) {
						t.Errorf("got %s%s", head, body)
					}
					client.Close()
					f.over()
					return
				}
				within(t, "the second attempt", asked) // which the client's silence does not hold up
				client.say(c.rest)
				head, body := f.answer(client)
				f.check(head, body, 200, "hello world")
				if x := f.over(); x.Attempts != 2 {
					t.Errorf("%d attempts", x.Attempts)
				}
				// The connection goes on.
				client.say(requestOf("PUT", "more"))
				head, body = f.answer(client)
				f.check(head, body, 200, "more")
				f.over()
			})
		})
	}
}

// TestTrailersAreRepeated with the body.
func TestTrailersAreRepeated(t *testing.T) {
	onEach(t, func(t *testing.T, way string) {
		t.Helper()
		taking := func(answer string) (model.Endpoint, <-chan string) {
			got := make(chan string, 1)
			return scripted(t, func(p *peer) {
				p.head()
				got <- p.until("0\r\n") + p.until("\r\n\r\n")
				p.say(answer)
			}), got
		}
		first, once := taking(say("503 No", ""))
		second, again := taking(say("200 OK", "ok"))
		f := serve(t, way, retrying(), to("up", first, second))
		f.wants("PUT"+asking+"Trailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n"+chunks("hello", "X-Sum: 1\r\n"), 200, "ok")
		for _, got := range []<-chan string{once, again} {
			if text := within(t, "a body", got); text != "5\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n" {
				t.Errorf("an endpoint got %q", text)
			}
		}
		f.over()
	})
}

// TestExpectationIsRepeated: the client is asked for its body by whoever wants it.
func TestExpectationIsRepeated(t *testing.T) {
	onEach(t, func(t *testing.T, way string) {
		t.Helper()
		f := serve(t, way, retrying(), to("up", saying(t, say("503 No", "")), scripted(t, func(p *peer) {
			head := p.head()
			p.say("HTTP/1.1 100 Continue\r\n\r\n")
			p.say(say("200 OK", p.body(head)))
		})))
		c := f.client()
		c.say("PUT" + asking + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n")
		if head := c.head(); !strings.HasPrefix(head, "HTTP/1.1 100 ") {
			t.Fatalf("got %s", head)
		}
		c.say("hello")
		head, body := f.answer(c)
		f.check(head, body, 200, "hello")
		if x := f.over(); x.Attempts != 2 {
			t.Errorf("%d attempts", x.Attempts)
		}
	})
}

// TestClientThatLeavesInTheBody of a second attempt is no reason for a third.
func TestClientThatLeavesInTheBody(t *testing.T) {
	onEach(t, func(t *testing.T, way string) {
		t.Helper()
		first, _ := takingThen(t, 5, say("503 No", ""))
		came := make(chan string, 1)
		second := scripted(t, func(p *peer) {
			p.head()
			came <- p.until("hello")
			p.until("never")
		})
		f := serve(t, way, retrying(upTo(3)), to("up", first, second, echoing(t)))
		client := f.client()
		client.say("PUT" + asking + "Content-Length: 11\r\n\r\nhello")
		within(t, "the beginning, again", came)
		client.Close()
		if x := f.over(); x.Err == nil || x.Err.Word != "client_closed" || x.Attempts != 2 {
			t.Errorf("%d attempts: %v", x.Attempts, x.Err)
		}
	})
}
