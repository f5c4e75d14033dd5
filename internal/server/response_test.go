package server_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/server"
	"sluice/internal/waittest"
)

// identified answers with a fixed request id and date, so that whole responses
// can be compared.
func identified(respond func(x *pipeline.Exchange) error) func(x *pipeline.Exchange) error {
	return func(x *pipeline.Exchange) error {
		x.ID = "id-1"
		err := respond(x)
		if x.Response != nil {
			x.Response.Fields.Add("Date", "today")
		}
		return err
	}
}

func TestResponsesAsTheyGoOut(t *testing.T) {
	const request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"
	chunks := func(trailer func() message.Fields, fields ...string) *message.Response {
		r := reply(200, "hello", fields...)
		r.Length, r.Trailer = message.Unknown, trailer
		return r
	}
	tests := []struct {
		name     string
		request  string
		response *message.Response
		want     string // see means
		closes   bool
	}{
		{
			name: "known length; no type is guessed; hop-by-hop and invalid fields stay here", request: request,
			response: reply(200, "<html>", "x-Spelled", "as-Is", "Set-Cookie", "a=1", "Set-Cookie", "b=2", "Keep-Alive", "5", "Connection", "keep-alive", "Upgrade", "h2c", "Transfer-Encoding", "gzip",
				"Content-Length", "99", "X-Request-Id", "theirs", "bad name", "1", "X-Bad", "a\r\nX-Evil: 1", "", "empty", "X-Nul", "\x00", "Trailer", "X-T"),
			want: "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nDate: today\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Request-ID: id-1\r\nx-Spelled: as-Is\r\n\r\n<html>",
		},
		{
			name: "unknown length", request: request, response: chunks(nil, "content-type", "text/plain"),
			want: "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: today\r\nX-Request-ID: id-1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		},
		{
			name: "trailers, announced and not, forbidden ones left out", request: request,
			response: chunks(func() message.Fields {
				return message.Fields{{Name: "x-sum", Value: "1"}, {Name: "X-Late", Value: "2"}, {Name: "Content-Length", Value: "3", ID: message.ContentLength}, {Name: "Authorization", Value: "4", ID: message.Authorization}, {Name: "X-Bad", Value: "\n"}}
			}, "Trailer", "X-Sum", "X-Sum", "in the head"),
			want: "HTTP/1.1 200 OK\r\nDate: today\r\nTrailer: X-Sum\r\nX-Request-ID: id-1\r\nX-Sum: in the head\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Late: 2\r\nX-Sum: 1\r\n\r\n",
		},
		{
			name: "unknown length to HTTP/1.0", request: "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", closes: true,
			response: chunks(func() message.Fields { return message.Fields{{Name: "X-T", Value: "1"}} }),
			want:     "HTTP/1.1 200 OK\r\nDate: today\r\nX-Request-ID: id-1\r\nConnection: close\r\n\r\nhello",
		},
		{
			name: "no trailers to HTTP/1.0", request: "GET / HTTP/1.0\r\n\r\n", closes: true,
			response: chunks(func() message.Fields { return message.Fields{{Name: "X-Sum", Value: "1"}} }, "Trailer", "X-Sum"),
			want:     "HTTP/1.1 200 OK\r\nDate: today\r\nX-Request-ID: id-1\r\nConnection: close\r\n\r\nhello",
		},
		{
			name: "HTTP/1.0 keep-alive", request: "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", response: reply(200, "ok"),
			want: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDate: today\r\nX-Request-ID: id-1\r\nConnection: keep-alive\r\n\r\nok",
		},
		{
			name: "HTTP/1.0", request: "GET / HTTP/1.0\r\n\r\n", response: reply(200, "ok"), closes: true,
			want: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDate: today\r\nX-Request-ID: id-1\r\nConnection: close\r\n\r\nok",
		},
		{
			name: "the client closes", request: "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", response: reply(200, "ok"), closes: true,
			want: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDate: today\r\nX-Request-ID: id-1\r\nConnection: close\r\n\r\nok",
		},
		{
			name: "a handler closes", request: request, response: reply(200, "ok", "Connection", "x-hop, Close"), closes: true,
			want: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\nDate: today\r\nX-Request-ID: id-1\r\n\r\nok",
		},
		{
			name: "HEAD keeps the length", request: "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", response: &message.Response{Status: 200, Length: 1234},
			want: "HTTP/1.1 200 OK\r\nContent-Length: 1234\r\nDate: today\r\nX-Request-ID: id-1\r\n\r\n",
		},
		{
			name: "HEAD without a length; a body is not sent", request: "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", response: chunks(nil),
			want: "HTTP/1.1 200 OK\r\nDate: today\r\nX-Request-ID: id-1\r\n\r\n",
		},
		{
			name: "304 keeps length and type", request: request, response: &message.Response{Status: 304, Length: 1234, Fields: message.Fields{{Name: "Content-Type", Value: "text/css", ID: message.ContentType}, {Name: "ETag", Value: `"x"`}}},
			want: "HTTP/1.1 304 Not Modified\r\nDate: today\r\nETag: \"x\"\r\nX-Request-ID: id-1\r\ncontent-length: 1234\r\ncontent-type: text/css\r\n\r\n",
		},
		{
			name: "304 without a length", request: request, response: &message.Response{Status: 304, Length: message.Unknown},
			want: "HTTP/1.1 304 Not Modified\r\nDate: today\r\nX-Request-ID: id-1\r\n\r\n",
		},
		{
			name: "204 has no body", request: request, response: reply(204, "body"),
			want: "HTTP/1.1 204 No Content\r\nDate: today\r\nX-Request-ID: id-1\r\n\r\n",
		},
		{
			name: "205 has an empty one", request: request, response: reply(205, "body"),
			want: "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\nDate: today\r\nX-Request-ID: id-1\r\n\r\n",
		},
		{
			name: "no body", request: request, response: &message.Response{Status: 404, Length: message.Unknown},
			want: "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nDate: today\r\nX-Request-ID: id-1\r\n\r\n",
		},
		{
			name: "426 tells what to upgrade to", request: request, response: reply(426, "x", "Upgrade", "TLS/1.3", "Connection", "x-hop", "Keep-Alive", "5"),
			want: "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 1\r\nDate: today\r\nX-Request-ID: id-1\r\nUpgrade: TLS/1.3\r\nConnection: Upgrade\r\n\r\nx",
		},
		{
			name: "426 without", request: request, response: reply(426, "x"),
			want: "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 1\r\nDate: today\r\nX-Request-ID: id-1\r\n\r\nx",
		},
		{
			name: "a status without a name", request: request, response: reply(599, "x"),
			want: "HTTP/1.1 599 \r\nContent-Length: 1\r\nDate: today\r\nX-Request-ID: id-1\r\n\r\nx",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			response := test.response
			closed := &closeCounter{}
			if response.Body != nil {
				closed.ReadCloser = response.Body
				response.Body = closed
			}
			first := true
			f := start(t, identified(func(x *pipeline.Exchange) error {
				x.Response = reply(200, "second")
				if first {
					first, x.Response = false, response
				}
				return nil
			}))
			c := f.dial().send(test.request)
			c.means(test.want)
			x := f.next(t)
			if x.Err != nil {
				t.Errorf("it ended with %v", x.Err)
			}
			if _, body, _ := strings.Cut(test.want, "\r\n\r\n"); len(body) > 0 != (x.BytesOut > 0) {
				t.Errorf("%d bytes out for %q", x.BytesOut, body)
			}
			if response.Body != nil && closed.count != 1 {
				t.Errorf("the body was closed %d times", closed.count)
			}
			if test.closes {
				c.ends()
				return
			}
			if _, body := c.send(get("/")).answer("GET"); body != "second" {
				t.Errorf("then came %q", body)
			}
		})
	}
}

type closeCounter struct {
	io.ReadCloser
	count int
}

func (c *closeCounter) Close() error {
	c.count++
	return c.ReadCloser.Close()
}

func TestADateAndAnIdAreMade(t *testing.T) {
	f := start(t, text("ok"))
	response, _ := f.dial().send(get("/")).answer("GET")
	x := f.next(t)
	if id := response.Header.Get("X-Request-ID"); id == "" || id != x.ID {
		t.Errorf("id %q, the exchange has %q", id, x.ID)
	}
	if _, err := http.ParseTime(response.Header.Get("Date")); err != nil {
		t.Error(err)
	}
}

func TestPipelining(t *testing.T) {
	f := start(t, func(x *pipeline.Exchange) error {
		if err := x.Context().Err(); err != nil {
			return err
		}
		x.Response = reply(200, x.Request.Path)
		return nil
	})
	c := f.dial()
	c.send(get("/1") + "POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" + get("/3") + get("/4"))
	for i := 1; i <= 4; i++ {
		if response, body := c.answer("GET"); body != fmt.Sprintf("/%d", i) || response.Close {
			t.Fatalf("response %d is %q", i, body)
		}
	}
}

// stream is a body that gives what is sent on it, at once.
type stream struct {
	x      *pipeline.Exchange // whose response it is
	parts  chan string
	failed error // after parts; nil: io.EOF
	rest   string
	closed chan struct{}
}

func newStream() *stream { return &stream{parts: make(chan string), closed: make(chan struct{})} }

// respond makes it the body of a response.
func (s *stream) respond(x *pipeline.Exchange, length int64) error {
	s.x = x
	x.Response = &message.Response{Status: 200, Body: s, Length: length}
	return nil
}

func (s *stream) Read(p []byte) (int, error) {
	if s.rest == "" {
		part, ok := await(s.x, s.parts)
		if !ok {
			if s.failed != nil {
				return 0, s.failed
			}
			return 0, io.EOF
		}
		s.rest = part
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *stream) Close() error {
	close(s.closed)
	return nil
}

func TestEveryPartIsSentAtOnce(t *testing.T) {
	for _, length := range []int64{message.Unknown, 15} {
		body := newStream()
		f := start(t, func(x *pipeline.Exchange) error { return body.respond(x, length) })
		c := f.dial().send(get("/"))
		response := c.head("GET") // before any part
		got := make([]byte, 5)
		for i := range 3 {
			part := fmt.Sprintf("part%d", i)
			body.parts <- part
			if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != part {
				t.Fatalf("%q, %v", got, err)
			}
		}
		close(body.parts)
		if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
			t.Errorf("%q, %v", rest, err)
		}
		if x := f.next(t); x.BytesOut != 15 {
			t.Errorf("%d bytes out", x.BytesOut)
		}
		<-body.closed
	}
}

func TestABodyThatFails(t *testing.T) {
	broken := pipeline.NewError(pipeline.UpstreamReset, errors.New("reset"))
	tests := []struct {
		name    string
		request string
		length  int64
		body    string
		failed  error
		panics  bool
		word    pipeline.Word
	}{
		{"in chunks", get("/"), message.Unknown, "begun", broken, false, pipeline.UpstreamReset},
		{"with a length", get("/"), 10, "begun", broken, false, pipeline.UpstreamReset},
		{"to HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", message.Unknown, "begun", broken, false, pipeline.UpstreamReset},
		{"before its first byte", get("/"), message.Unknown, "", broken, false, pipeline.UpstreamReset},
		{"an error without a word", get("/"), 10, "begun", errors.New("disk"), false, pipeline.Internal},
		{"shorter than its length", get("/"), 10, "begun", nil, false, pipeline.Internal},
		{"longer than its length", get("/"), 4, "begun", nil, false, pipeline.Internal},
		{"a panic", get("/"), message.Unknown, "begun", nil, true, pipeline.Internal},
		{"a panic, to HTTP/1.0", "GET / HTTP/1.0\r\n\r\n", message.Unknown, "begun", nil, true, pipeline.Internal},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			body := newStream()
			body.failed = test.failed
			f := start(t, func(x *pipeline.Exchange) error {
				if err := body.respond(x, test.length); err != nil {
					return err
				}
				if test.panics {
					x.Response.Body = panicking{body}
				}
				return nil
			})
			c := f.dial().send(test.request)
			response := c.head("GET")
			if test.body != "" {
				body.parts <- test.body
				got := make([]byte, min(int64(len(test.body)), max(test.length, 0)+int64(len(test.body))*boolean(test.length < 0)))
				if _, err := io.ReadFull(response.Body, got); err != nil || !strings.HasPrefix(test.body, string(got)) {
					t.Fatalf("%q, %v", got, err)
				}
			}
			close(body.parts)
			rest, err := io.ReadAll(response.Body)
			if test.length != 4 && err == nil || len(rest) > 0 {
				t.Errorf("the client sees a clean end after %q", rest)
			}
			c.ends()
			if x := f.next(t); x.Err == nil || x.Err.Word != test.word || x.Response.Status != 200 {
				t.Errorf("it ended with %v", x.Err)
			}
			<-body.closed
			if logged := strings.Contains(f.log.String(), "panicked"); logged != test.panics {
				t.Errorf("logged: %s", f.log)
			}
		})
	}
}

func boolean(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// panicking panics where its body ends.
type panicking struct{ *stream }

func (p panicking) Read(b []byte) (int, error) {
	n, err := p.stream.Read(b)
	if err != nil {
		panic("the body is broken")
	}
	return n, nil
}

func TestErrorsBecomeProblemDocuments(t *testing.T) {
	limited := pipeline.NewError(pipeline.MethodNotAllowed, nil)
	limited.Fields.Add("Allow", "GET")
	closing := pipeline.NewError(pipeline.BadPath, nil)
	closing.Close = true
	tests := []struct {
		name   string
		serve  func(x *pipeline.Exchange) error
		status int
		word   pipeline.Word
		field  [2]string
		closes bool
		log    string
	}{
		{name: "an error", serve: func(*pipeline.Exchange) error { return limited }, status: 405, word: pipeline.MethodNotAllowed, field: [2]string{"Allow", "GET"}},
		{name: "one that closes", serve: func(*pipeline.Exchange) error { return closing }, status: 400, word: pipeline.BadPath, closes: true},
		{name: "one without a word", serve: func(*pipeline.Exchange) error { return io.ErrNoProgress }, status: 500, word: pipeline.Internal},
		{name: "neither response nor error", serve: func(*pipeline.Exchange) error { return nil }, status: 500, word: pipeline.Internal},
		{name: "a panic", serve: func(x *pipeline.Exchange) error { x.ID = "id-of-panic"; panic("oh") }, status: 500, word: pipeline.Internal, log: "request_id=id-of-panic panic=oh stack="},
		{name: "an informational status as the last", serve: func(x *pipeline.Exchange) error { x.Response = reply(103, ""); return nil }, status: 502, word: pipeline.UpstreamProtocol},
		{name: "no status", serve: func(x *pipeline.Exchange) error { x.Response = reply(0, ""); return nil }, status: 502, word: pipeline.UpstreamProtocol},
		{name: "a status past 599", serve: func(x *pipeline.Exchange) error { x.Response = reply(1000, ""); return nil }, status: 502, word: pipeline.UpstreamProtocol},
		{name: "101 without a tunnel", serve: func(x *pipeline.Exchange) error { x.Response = reply(101, ""); return nil }, status: 502, word: pipeline.UpstreamProtocol},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			f := start(t, test.serve)
			c := f.dial().send(get("/"))
			response, body := c.answer("GET")
			x := f.next(t)
			if response.StatusCode != test.status || !strings.Contains(body, fmt.Sprintf("%q", test.word)) || response.Header.Get("Content-Type") != "application/problem+json" || response.Header.Get("X-Request-ID") != x.ID || !strings.Contains(body, x.ID) {
				t.Errorf("%d %v %s", response.StatusCode, response.Header, body)
			}
			if test.field[0] != "" && response.Header.Get(test.field[0]) != test.field[1] {
				t.Errorf("%v", response.Header)
			}
			if x.Err == nil || x.Err.Word != test.word {
				t.Errorf("it ended with %v", x.Err)
			}
			if !strings.Contains(f.log.String(), test.log) || test.log == "" && f.log.String() != "" {
				t.Errorf("logged: %s", f.log)
			}
			if response.Close != test.closes {
				t.Errorf("closes: %v", response.Close)
			}
			if test.closes {
				c.ends()
			} else if response, _ := c.send(get("/")).answer("GET"); response.StatusCode != test.status {
				t.Errorf("then came %d", response.StatusCode)
			}
		})
	}
}

func TestAnAbortIsPassedOn(t *testing.T) {
	ofAdapter(t, "it is a word of net/http")
	closed := &closeCounter{ReadCloser: io.NopCloser(strings.NewReader(""))}
	f := start(t, func(x *pipeline.Exchange) error {
		x.Response = &message.Response{Status: 200, Body: closed}
		panic(http.ErrAbortHandler)
	})
	f.dial().send(get("/")).ends()
	if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.Internal || closed.count != 1 {
		t.Errorf("%v, closed %d times", x.Err, closed.count)
	}
	if log := f.log.String(); log != "" {
		t.Errorf("logged: %s", log)
	}
}

// doneless is a service whose Done fails.
type doneless struct{ *service }

func (d doneless) Done(x *pipeline.Exchange) {
	d.service.Done(x)
	panic("no log")
}

func TestInformationalResponses(t *testing.T) {
	f := start(t, identified(func(x *pipeline.Exchange) error {
		if x.Informer == nil {
			x.Response = reply(200, "none")
			return nil
		}
		for _, status := range []int{100, 101, 99, 200, 600} {
			x.Informer.Inform(status, message.Fields{{Name: "X-Bad", Value: "1"}})
		}
		x.Informer.Inform(103, message.Fields{{Name: "Link", Value: "</a>"}, {Name: "Link", Value: "</b>"}, {Name: "Connection", Value: "x", ID: message.Connection}, {Name: "Content-Length", Value: "3", ID: message.ContentLength}, {Name: "X", Value: "\n"}})
		x.Informer.Inform(102, nil)
		x.Response = reply(200, "ok")
		return nil
	}))
	c := f.dial().send(get("/"))
	c.read("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nLink: </b>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n")
	c.means("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nDate: today\r\nX-Request-ID: id-1\r\n\r\nok")
	x := f.next(t)
	x.Informer.Inform(103, message.Fields{{Name: "X-Late", Value: "1"}}) // dropped: the exchange is over
	if _, body := c.send("GET / HTTP/1.0\r\n\r\n").answer("GET"); body != "none" {
		t.Errorf("an HTTP/1.0 client: %q", body)
	}
}

// The transport informs and reads the body on goroutines of its own.
func TestInformingWhileTheBodyIsRead(t *testing.T) {
	f := start(t, func(x *pipeline.Exchange) error {
		wait := aside(x, func() {
			for range 20 {
				x.Informer.Inform(103, message.Fields{{Name: "Link", Value: "</a>"}})
			}
		})
		defer wait()
		return swallow(x)
	})
	c := f.dial().send(post("Content-Length: 3\r\nExpect: 100-continue\r\n", ""))
	seen := map[int]int{}
	for seen[200] == 0 {
		response := c.head("POST")
		if seen[response.StatusCode]++; response.StatusCode == 100 {
			c.send("abc")
		}
	}
	if seen[100] != 1 {
		t.Errorf("%v", seen)
	}
}

func TestClientGone(t *testing.T) {
	t.Run("while the response is waited for", func(t *testing.T) {
		waiting := make(chan struct{})
		f := start(t, func(x *pipeline.Exchange) error {
			close(waiting)
			return fmt.Errorf("attempt: %w", canceled(x))
		})
		c := f.dial().send(get("/"))
		<-waiting
		c.Close()
		if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.ClientClosed || !errors.Is(x.Err, pipeline.ErrClientGone) {
			t.Errorf("it ended with %v", x.Err)
		}
	})
	t.Run("while the response is written", func(t *testing.T) {
		f := start(t, func(x *pipeline.Exchange) error {
			x.Response = &message.Response{Status: 200, Body: io.NopCloser(endless{}), Length: message.Unknown}
			return nil
		})
		c := f.dial().send(get("/"))
		c.head("GET")
		c.Close()
		x := f.next(t)
		if x.Err == nil || x.Err.Word != pipeline.ClientClosed || !errors.Is(x.Err, pipeline.ErrClientGone) || x.BytesOut == 0 {
			t.Errorf("it ended with %v after %d bytes", x.Err, x.BytesOut)
		}
	})
	t.Run("an error that the client never saw", func(t *testing.T) {
		f := start(t, func(*pipeline.Exchange) error { return pipeline.NewError(pipeline.ClientClosed, nil) })
		f.dial().send(get("/")).ends() // nothing is written
		if x := f.next(t); x.Err.Word != pipeline.ClientClosed || x.Response.Status != pipeline.StatusClientClosed {
			t.Errorf("it ended with %v, %d", x.Err, x.Response.Status)
		}
	})
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func TestAClientThatStopsReading(t *testing.T) {
	f := start(t, func(x *pipeline.Exchange) error {
		x.Route = routeWithIdle(50*time.Millisecond, time.Hour)
		x.Response = &message.Response{Status: 200, Body: io.NopCloser(endless{}), Length: message.Unknown}
		return nil
	})
	c := f.dial().send(get("/"))
	c.head("GET")
	if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.ClientClosed {
		t.Errorf("it ended with %v", x.Err)
	}
}

// An exchange that must be over is, however patient its route is with a client,
// unless it has an error to tell.
func TestAnExchangeThatMustBeOver(t *testing.T) {
	for name, route := range map[string]*model.Route{"without a route": nil, "a patient route": routeWithIdle(time.Hour, time.Hour)} {
		f := start(t, func(x *pipeline.Exchange) error {
			x.Route, x.Until = route, time.Now().Add(100*time.Millisecond)
			if x.Request.Path == "/error" {
				_ = pause(x, 150*time.Millisecond)
				return pipeline.NewError(pipeline.UpstreamTimeout, nil)
			}
			x.Response = &message.Response{Status: 200, Body: io.NopCloser(endless{}), Length: message.Unknown}
			return nil
		})
		c := f.dial()
		if response, _ := c.send(get("/error")).answer("GET"); response.StatusCode != 504 {
			t.Errorf("%s: %d", name, response.StatusCode)
		}
		f.next(t)
		c.send(get("/")).head("GET")
		if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.UpstreamTimeout {
			t.Errorf("%s: it ended with %v", name, x.Err)
		}
	}
}

func TestDoneMayPanic(t *testing.T) {
	f := startService(t, server.Options{}, func(s *service) pipeline.Service { return doneless{s} }, text("ok"))
	c := f.dial()
	for range 2 {
		if _, body := c.send(get("/")).answer("GET"); body != "ok" {
			t.Errorf("%q", body)
		}
	}
	f.next(t)
	f.next(t)
	waittest.Until(t, "a log line", func() bool { return strings.Count(f.log.String(), "the end of an exchange panicked") == 2 })
}
