package transport

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// closeNoted is a body that knows whether it was closed.
type closeNoted struct {
	io.Reader
	closed atomic.Bool
}

func (c *closeNoted) Close() error { c.closed.Store(true); return nil }

func TestResponses(t *testing.T) {
	each(t, func(t *bed) {
		for name, test := range map[string]struct {
			method, text string
			status       int
			length       int64
			hasBody      bool
			body, fields string
		}{
			"length":            {"GET", "HTTP/1.1 200 OK\r\nX-B: 1\r\nX-A: 2\r\nX-B: 3\r\nContent-Length: 2\r\n\r\nok", 200, 2, true, "ok", "X-B: 1\nX-A: 2\nX-B: 3"},
			"chunked":           {"GET", "HTTP/1.1 404 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 404, message.Unknown, true, "ok", ""},
			"until the end":     {"GET", "HTTP/1.0 200 OK\r\n\r\nok", 200, message.Unknown, true, "ok", ""},
			"empty":             {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 200, 0, true, "", ""},
			"HEAD":              {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", 200, 7, false, "", ""},
			"HEAD, no length":   {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", 200, message.Unknown, false, "", ""},
			"304":               {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\nETag: x\r\n\r\n", 304, 7, false, "", "ETag: x"},
			"204":               {"GET", "HTTP/1.1 204 No Content\r\n\r\n", 204, message.Unknown, false, "", ""},
			"204 with a length": {"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", 204, message.Unknown, false, "", ""},
			"204 in chunks":     {"GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 204, message.Unknown, false, "", ""},
			"a redirect stays":  {"GET", "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", 302, 0, true, "", "Location: /x"},
			"gzip stays":        {"GET", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok", 200, 2, true, "ok", "Content-Encoding: gzip"},
			"an odd status":     {"GET", "HTTP/1.1 599 Odd\r\nContent-Length: 0\r\n\r\n", 599, 0, true, "", ""},
		} {
			t.Run(name, func(t *bed) {
				endpoint := scripted(t, func(p *peer) {
					if p.head() != "" {
						p.say(test.text)
					}
				})
				request := get("/")
				request.Method = test.method
				response, body := ask(t, open(t, endpoint, setup{}), request)
				if response.Status != test.status || response.Length != test.length || (response.Body != nil) != test.hasBody || body != test.body || fieldText(response.Fields) != t.spelled(test.fields) {
					t.Errorf("got %d, length %d, body %q (there: %v), fields %q", response.Status, response.Length, body, response.Body != nil, fieldText(response.Fields))
				}
			})
		}
	})
}

func TestConnectionIsNotKeptAfterA204WithContent(t *testing.T) {
	each(t, func(t *bed) {
		var connections atomic.Int32
		endpoint := scripted(t, func(p *peer) {
			if connections.Add(1) == 1 {
				p.head()
				p.say("HTTP/1.1 204 No Content\r\nContent-Length: 40\r\n\r\n")
				if next, err := p.Peek(1); err == nil {
					t.Errorf("it was used again: %q", next)
				}
				return
			}
			p.head()
			p.say(ok)
		})
		transport := open(t, endpoint, setup{})
		ask(t, transport, get("/"))
		if _, body := ask(t, transport, get("/")); body != "ok" || connections.Load() != 2 {
			t.Errorf("got %q over %d connections", body, connections.Load())
		}
	})
}

func TestUpstreamFaultsBeforeTheHead(t *testing.T) {
	each(t, func(t *bed) {
		for name, test := range map[string]struct {
			text string
			word pipeline.Word
		}{
			"nothing":             {"", pipeline.UpstreamReset},
			"half a status line":  {"HTTP/1.1 2", pipeline.UpstreamReset},
			"half a head":         {"HTTP/1.1 200 OK\r\nX: ", pipeline.UpstreamReset},
			"not HTTP":            {"hello\r\n\r\n", pipeline.UpstreamProtocol},
			"status of 2 digits":  {"HTTP/1.1 20 OK\r\n\r\n", pipeline.UpstreamProtocol},
			"status 600":          {"HTTP/1.1 600 X\r\nContent-Length: 0\r\n\r\n", pipeline.UpstreamProtocol},
			"status 099":          {"HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n", pipeline.UpstreamProtocol},
			"two lengths":         {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", pipeline.UpstreamProtocol},
			"an unknown coding":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nab", pipeline.UpstreamProtocol},
			"a bad field":         {"HTTP/1.1 200 OK\r\nX Y: 1\r\n\r\n", pipeline.UpstreamProtocol},
			"a head too large":    {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHeadBytes) + "\r\n\r\n", pipeline.UpstreamProtocol},
			"101 without Upgrade": {"HTTP/1.1 101 Switching Protocols\r\n\r\n", pipeline.UpstreamProtocol},
			"informed for ever":   {strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", maxInformational+1), pipeline.UpstreamProtocol},
		} {
			t.Run(name, func(t *bed) {
				endpoint := scripted(t, func(p *peer) {
					if p.head() != "" {
						p.say(test.text)
					}
				})
				e := wantError(t, fails(t.Context(), t, open(t, endpoint, setup{}), get("/")), test.word)
				if e.Status != 502 || e.Fault != pipeline.Upstream || e.Unsent {
					t.Errorf("got %+v", e)
				}
			})
		}
	})
}

func TestBodyFaultsAfterTheHead(t *testing.T) {
	each(t, func(t *bed) {
		for name, test := range map[string]struct {
			text string
			word pipeline.Word
		}{
			"cut off":           {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", pipeline.UpstreamReset},
			"cut off in chunks": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", pipeline.UpstreamReset},
			"a bad chunk":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n", pipeline.UpstreamProtocol},
		} {
			t.Run(name, func(t *bed) {
				endpoint := scripted(t, func(p *peer) {
					if p.head() != "" {
						p.say(test.text)
					}
				})
				response, err := trip(t.Context(), open(t, endpoint, setup{}), get("/"), nil)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(response.Body)
				wantError(t, err, test.word)
				if string(body) != "ok" {
					t.Errorf("read %q", body)
				}
			})
		}
	})
}

func TestResponseTrailer(t *testing.T) {
	each(t, func(t *bed) {
		endpoint := scripted(t, func(p *peer) {
			if p.head() != "" {
				p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\nTrailer: X-Absent\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\nX-More: 3\r\nHost: x\r\n\r\n")
			}
		})
		response, _ := ask(t, open(t, endpoint, setup{}), get("/"))
		announced := "Trailer: X-Sum\nTrailer: X-Absent"
		if t.engine == nil {
			announced = "Trailer: X-Absent, X-Sum"
		}
		if got := fieldText(response.Fields); got != announced {
			t.Errorf("fields %q", got)
		}
		if got := fieldText(response.Trailer()); got != t.spelled("X-Sum: 1\nX-More: 2\nX-More: 3") {
			t.Errorf("trailer %q", got)
		}
	})
}

func TestInformational(t *testing.T) {
	each(t, func(t *bed) {
		endpoint := scripted(t, func(p *peer) {
			if p.head() != "" {
				p.say("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + ok)
			}
		})
		var got []string
		response, err := trip(t.Context(), open(t, endpoint, setup{}), get("/"), func(status int, fields message.Fields) {
			got = append(got, itoa(status)+" "+fieldText(fields))
		})
		if err != nil {
			t.Fatal(err)
		}
		drain(t, response)
		if text := strings.Join(got, "|"); text != "103 Link: </a>\nLink: </b>|102 " {
			t.Errorf("got %q", text)
		}
	})
}

func TestFirstByteComesAtOnce(t *testing.T) {
	each(t, func(t *bed) {
		more := make(chan struct{})
		endpoint := scripted(t, func(p *peer) {
			if p.head() != "" {
				p.say("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n")
				<-more
				p.say("0\r\n\r\n")
			}
		})
		response, err := trip(t.Context(), open(t, endpoint, setup{}), get("/"), nil)
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 10)
		if n, err := response.Body.Read(first); err != nil || string(first[:n]) != "ok" {
			t.Errorf("read %q, %v", first[:n], err)
		}
		close(more)
		drain(t, response)
	})
}

func TestLargeBodiesBothWays(t *testing.T) {
	each(t, func(t *bed) {
		const size = 3<<20 + 17
		sent := bytes.Repeat([]byte("0123456789abcdef_"), size/17)
		endpoint := scripted(t, func(p *peer) {
			if p.head() == "" {
				return
			}
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(p, got); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("the body arrived otherwise: %v", err)
			}
			p.say("HTTP/1.1 200 OK\r\nContent-Length: " + itoa(len(sent)) + "\r\n\r\n" + string(sent))
		})
		if _, body := ask(t, open(t, endpoint, setup{}), post(bytes.NewReader(sent), int64(len(sent)))); body != string(sent) {
			t.Errorf("%d bytes came back otherwise", len(body))
		}
	})
}

// Fields that Connection names must be known, whatever else it says.
func TestConnectionOptionsOfResponses(t *testing.T) {
	each(t, func(t *bed) {
		for name, test := range map[string]struct{ head, want string }{
			"with close":              {"HTTP/1.1 200 OK\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\n", "close, X-Hop"},
			"on several lines":        {"HTTP/1.1 200 OK\r\nconnection: X-Hop\r\nX-Hop: 1\r\nCONNECTION: close\r\n", "X-Hop|close"},
			"without close":           {"HTTP/1.1 200 OK\r\nConnection: X-Hop\r\nX-Hop: 1\r\n", "X-Hop"},
			"of an HTTP/1.0 response": {"HTTP/1.0 200 OK\r\nConnection: close, X-Hop\r\n", "close, X-Hop"},
			"none in HTTP/1.0":        {"HTTP/1.0 200 OK\r\n", ""},
			"after a 103":             {"HTTP/1.1 103 Early Hints\r\nConnection: X-Early\r\n\r\nHTTP/1.1 200 OK\r\nConnection: close, X-Hop\r\n", "close, X-Hop"},
		} {
			endpoint := scripted(t, func(p *peer) {
				for n := 0; p.head() != ""; n++ {
					if n == 0 { // the head before is not this one's
						p.say(strings.Replace(ok, "\r\n", "\r\nConnection: X-Before\r\n", 1))
						continue
					}
					p.say(test.head + "Content-Length: 2\r\n\r\nok")
					return
				}
			})
			transport := open(t, endpoint, setup{})
			ask(t, transport, get("/"))
			response, _ := ask(t, transport, get("/"))
			var got []string
			for value := range response.Fields.Values("Connection") {
				got = append(got, value)
			}
			if text := strings.Join(got, "|"); text != test.want {
				t.Errorf("%s: got %q, want %q", name, text, test.want)
			}
		}
	})
}

// Content that must not be there is never the answer to another request.
func TestContentOfEmptyResponsesIsNoAnswer(t *testing.T) {
	each(t, func(t *bed) {
		const evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
		for name, test := range map[string]struct{ method, text string }{
			"HEAD":           {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 42\r\n\r\n"},
			"204":            {"GET", "HTTP/1.1 204 No Content\r\n\r\n"},
			"204 of length":  {"GET", "HTTP/1.1 204 No Content\r\nContent-Length: 42\r\n\r\n"},
			"204 in chunks":  {"GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n"},
			"304":            {"GET", "HTTP/1.1 304 Not Modified\r\n\r\n"},
			"a length of 0":  {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
			"behind a 103":   {"HEAD", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\n"},
			"behind content": {"GET", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		} {
			endpoint := scripted(t, func(p *peer) {
				for head := p.head(); head != ""; head = p.head() {
					if strings.Contains(head, "/empty") {
						p.say(test.text + evil)
					} else {
						p.say(ok)
					}
				}
			})
			// A connection that becomes idle goes to one that waits at once, since it
			// takes some time to make another.
			slow := dialer(func(_ context.Context, network, address string) (net.Conn, error) {
				<-time.After(time.Millisecond)
				return net.Dial(network, address)
			})
			if t.engine != nil {
				slow = nil
			}
			transport := open(t, endpoint, setup{dial: slow})
			var wait sync.WaitGroup
			for range 8 {
				wait.Go(func() {
					for range 20 {
						empty, full := get("/empty"), post(strings.NewReader("x"), 1)
						empty.Method = test.method
						if name == "behind content" { // then one without content alone is sure to be sent again
							full = get("/")
						}
						for _, request := range []*message.Request{empty, full} {
							response, err := trip(t.Context(), transport, request, nil)
							if err != nil {
								t.Errorf("%s: %s %s: %v", name, request.Method, request.Path, err)
								return
							}
							if response.Body == nil {
								continue
							}
							body, err := io.ReadAll(response.Body)
							if err != nil || string(body) == "evil" || request == full && string(body) != "ok" {
								t.Errorf("%s: the answer to %s %s is %q, %v", name, request.Method, request.Path, body, err)
								return
							}
						}
					}
				})
			}
			wait.Wait()
		}
	})
}
