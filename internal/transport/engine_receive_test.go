package transport

import (
	"io"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// What is there of a body is known to be, and no more.
func TestBuffered(t *testing.T) {
	engines(t, func(t *bed) {
		for name, test := range map[string]struct {
			text string
			want int
		}{
			"whole":            {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 5},
			"a part":           {"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", 5},
			"with more behind": {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello world", 5},
			"in chunks":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", 5},
			"part of a chunk":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nhello", 5},
			"until the end":    {"HTTP/1.0 200 OK\r\n\r\nhello", 5},
			"nothing":          {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0},
		} {
			endpoint := scripted(t, func(p *peer) {
				p.head()
				p.say(test.text)
				_, _ = p.Peek(1)
			})
			response, err := trip(t.Context(), open(t, endpoint, setup{}), get("/"), nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := message.Buffered(response.Body); got != test.want {
				t.Errorf("%s: %d bytes are there, want %d", name, got, test.want)
			}
			if test.want > 0 {
				got := make([]byte, test.want)
				if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != "hello" {
					t.Errorf("%s: got %q, %v", name, got, err)
				}
			}
			response.Close()
		}
	})
}

// What a response means does not depend on how its bytes come.
func TestResponsesByteByByte(t *testing.T) {
	engines(t, func(t *bed) {
		for _, text := range []string{
			"HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 5\r\n\r\nhello",
			"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nX: y\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\nX-Sum: 1\r\n\r\n",
			"HTTP/1.0 200 OK\r\nX: y\r\n\r\nhello",
		} {
			for _, size := range []int{1, 2, 7} {
				endpoint := scripted(t, func(p *peer) {
					p.head()
					for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
						p.say(rest[:min(size, len(rest))])
						<-time.After(50 * time.Microsecond)
					}
				})
				response, body := ask(t, open(t, endpoint, setup{}), get("/"))
				if response.Status != 200 || fieldText(response.Fields) != "X: y" || body != "hello" {
					t.Errorf("%d bytes at a time: %d, %q, %q", size, response.Status, fieldText(response.Fields), body)
				}
				if response.Trailer != nil && fieldText(response.Trailer()) != "X-Sum: 1" {
					t.Errorf("%d bytes at a time: trailer %q", size, fieldText(response.Trailer()))
				}
			}
		}
	})
}

func TestLargeHeads(t *testing.T) {
	engines(t, func(t *bed) {
		for _, size := range []int{bufferSize - 200, bufferSize, 3 * bufferSize, 200 << 10} {
			value := strings.Repeat("v", size)
			endpoint := scripted(t, func(p *peer) {
				for range 2 {
					if head := p.head(); !strings.Contains(head, "X: "+value+"\r\n") {
						t.Errorf("the request lost its field of %d bytes", size)
					}
					p.say("HTTP/1.1 103 Early Hints\r\nX: " + value[:size/4] + "\r\n\r\nHTTP/1.1 200 OK\r\nX: " + value + "\r\nContent-Length: 5\r\n\r\nhello")
				}
			})
			var c counts
			transport := open(t, endpoint, setup{observer: c.observer()})
			for range 2 {
				request := get("/")
				request.Fields.Add("X", value)
				response, body := ask(t, transport, request)
				if body != "hello" || fieldText(response.Fields) != "X: "+value {
					t.Errorf("%d bytes: got %q and %d bytes of fields", size, body, len(fieldText(response.Fields)))
				}
			}
			if c.opened.Load() != 1 {
				t.Errorf("%d bytes: %s", size, c.String())
			}
		}
	})
}

// A body that is closed does not cost its connection if its rest is there.
func TestClosedBodies(t *testing.T) {
	engines(t, func(t *bed) {
		for text, want := range map[string]string{
			ok: "opened 1, reused 1, closed 0",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n":   "opened 1, reused 1, closed 0",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nok": "opened 2, reused 0, closed 2",
			"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n":            "opened 2, reused 0, closed 2",
			"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok":                              "opened 2, reused 0, closed 2",
			"HTTP/1.0 200 OK\r\n\r\nok":                                                   "opened 2, reused 0, closed 2",
		} {
			var c counts
			transport := open(t, scripted(t, answering(text)), setup{observer: c.observer()})
			for range 2 {
				response, err := trip(t.Context(), transport, get("/"), nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := response.Close(); err != nil {
					t.Error(err)
				}
			}
			waittest.Until(t, "after "+text+": "+want, func() bool { return c.String() == want })
		}
	})
}

// Another protocol that nobody asked for, or before its time, is none.
func TestUnwantedProtocols(t *testing.T) {
	engines(t, func(t *bed) {
		for name, test := range map[string]struct {
			answer  string
			request func() *message.Request
		}{
			"unasked":         {switching, func() *message.Request { return get("/") }},
			"without Upgrade": {"HTTP/1.1 101 X\r\nConnection: Upgrade\r\n\r\n", asksUpgrade},
			"unnamed":         {"HTTP/1.1 101 X\r\nUpgrade: echo\r\n\r\n", asksUpgrade},
			"before the body": {switching, func() *message.Request {
				r := asksUpgrade()
				read, write := io.Pipe()
				t.Cleanup(func() { write.Close() })
				r.Method, r.Body, r.Length = "POST", read, message.Unknown
				return r
			}},
		} {
			endpoint := scripted(t, func(p *peer) { p.head(); p.say(test.answer); _, _ = io.Copy(io.Discard, p) })
			err := fails(t.Context(), t, open(t, endpoint, setup{}), test.request())
			if e := wantError(t, err, pipeline.UpstreamProtocol); e.Status != 502 {
				t.Errorf("%s: got %+v", name, e)
			}
		}
	})
}
