package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// watched holds attempts to the time-outs of a route.
type watched struct {
	pipeline.Transport
	watch *pipeline.Watch
}

func (w watched) RoundTrip(ctx context.Context, a *pipeline.Attempt) error {
	a.Watch = w.watch
	return w.Transport.RoundTrip(ctx, a)
}

func watch(transport pipeline.Transport, limits model.RouteTimeouts) watched {
	w := watched{transport, new(pipeline.Watch)}
	w.watch.Begin(limits, time.Now())
	return w
}

// unreachable returns the address of a socket whose queue is full, so that the
// system answers nobody else.
func unreachable(t testing.TB) model.Endpoint {
	t.Helper()
	descriptor, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(descriptor) })
	if err = unix.Bind(descriptor, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err == nil {
		err = unix.Listen(descriptor, 0)
	}
	name, nameErr := unix.Getsockname(descriptor)
	if err = errors.Join(err, nameErr); err != nil {
		t.Fatal(err)
	}
	at := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*unix.SockaddrInet4).Port}
	for {
		conn, err := net.DialTimeout("tcp", at.String(), 300*time.Millisecond)
		if err != nil {
			return model.Endpoint{URL: "http://" + at.String(), Scheme: "http", Address: at.String(), Host: at.String()}
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}

func TestConnectingTakesTooLong(t *testing.T) {
	endpoint := unreachable(t)
	engines(t, func(t *bed) {
		for name, test := range map[string]struct {
			connect, total time.Duration
			word           pipeline.Word
			unsent         bool
		}{
			"for the upstream": {30 * time.Millisecond, time.Minute, pipeline.UpstreamConnect, true},
			"for the route":    {time.Minute, 30 * time.Millisecond, pipeline.UpstreamTimeout, false},
		} {
			transport := watch(open(t, endpoint, setup{timeouts: model.AttemptTimeouts{Connect: test.connect}}), model.RouteTimeouts{Total: test.total})
			if e := wantError(t, fails(t.Context(), t, transport, get("/")), test.word); e.Unsent != test.unsent {
				t.Errorf("%s: got %+v", name, e)
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(20*time.Millisecond, func() { cancel(errOver) })
		if err := fails(ctx, t, open(t, endpoint, setup{}), get("/")); !errors.Is(err, errOver) {
			t.Errorf("for the client: %v", err)
		}
	})
}

func TestNamesAreResolved(t *testing.T) {
	engines(t, func(t *bed) {
		endpoint := scripted(t, answering(ok))
		_, port, _ := net.SplitHostPort(endpoint.Address)
		endpoint.Address = "localhost:" + port
		var c counts
		transport := open(t, endpoint, setup{observer: c.observer(), timeouts: model.AttemptTimeouts{Connect: 10 * time.Second}})
		for range 2 {
			if _, body := ask(t, transport, get("/")); body != "ok" {
				t.Errorf("got %q", body)
			}
		}
		if got := c.String(); got != "opened 1, reused 1, closed 0" {
			t.Error(got)
		}
		endpoint.Address = "nowhere.invalid:80"
		if e := wantError(t, fails(t.Context(), t, open(t, endpoint, setup{}), get("/")), pipeline.UpstreamConnect); !e.Unsent {
			t.Errorf("got %+v", e)
		}
	})
}

func TestHeadIsWaitedForFromTheEndOfTheRequest(t *testing.T) {
	engines(t, func(t *bed) {
		endpoint := scripted(t, func(p *peer) { _, _ = io.Copy(io.Discard, p) })
		transport := open(t, endpoint, setup{timeouts: model.AttemptTimeouts{ResponseHeader: 50 * time.Millisecond}})
		for name, length := range map[string]int64{"in chunks": message.Unknown, "of known length": 1} {
			start := time.Now()
			request := post(&slowly{strings.NewReader("x"), 150 * time.Millisecond}, length)
			if length > 0 {
				request = post(&late{strings.NewReader("x"), 150 * time.Millisecond}, length)
			}
			e := wantError(t, fails(t.Context(), t, transport, request), pipeline.UpstreamTimeout)
			if took := time.Since(start); took < 200*time.Millisecond || e.Status != 504 {
				t.Errorf("%s: after %v: %+v", name, took, e)
			}
		}
		start := time.Now()
		wantError(t, fails(t.Context(), t, transport, get("/")), pipeline.UpstreamTimeout)
		if took := time.Since(start); took < 50*time.Millisecond {
			t.Errorf("without a body: after %v", took)
		}
	})
}

// late is a body that pauses before its beginning.
type late struct {
	io.Reader
	pause time.Duration
}

func (l *late) Read(p []byte) (int, error) {
	<-time.After(l.pause)
	return l.Reader.Read(p)
}

func TestHeadAloneHasATimeout(t *testing.T) {
	engines(t, func(t *bed) {
		endpoint := scripted(t, func(p *peer) {
			p.head()
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
			<-time.After(150 * time.Millisecond)
			p.say("k")
		})
		transport := open(t, endpoint, setup{timeouts: model.AttemptTimeouts{Connect: 5 * time.Second, ResponseHeader: 50 * time.Millisecond}})
		if _, body := ask(t, transport, get("/")); body != "ok" {
			t.Errorf("got %q", body)
		}
	})
}

func TestTimeoutsOfTheRoute(t *testing.T) {
	engines(t, func(t *bed) {
		silent := scripted(t, func(p *peer) { _, _ = io.Copy(io.Discard, p) })
		stuck := scripted(t, func(p *peer) {
			p.head()
			p.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")
			_, _ = io.Copy(io.Discard, p)
		})
		deaf := scripted(t, func(p *peer) {
			_, _ = p.Conn.Read(make([]byte, 1))
			for !isClosed(t.Context().Done()) { // until the cleanup closes it
				if _, err := p.Conn.Write(nil); err != nil {
					return
				}
				<-time.After(10 * time.Millisecond)
			}
		})
		asking := func(w *pipeline.Watch, source io.Reader) io.Reader {
			return readerFunc(func(p []byte) (int, error) {
				w.Ask()
				n, err := source.Read(p)
				w.Given(n)
				return n, err
			})
		}
		const short = 60 * time.Millisecond
		t.Run("no answer", func(t *bed) {
			transport := watch(open(t, silent, setup{}), model.RouteTimeouts{Response: short, Idle: time.Minute})
			transport.watch.Sent()
			wantError(t, fails(t.Context(), t, transport, get("/")), pipeline.UpstreamTimeout)
		})
		t.Run("no answer to a body", func(t *bed) {
			transport := watch(open(t, silent, setup{}), model.RouteTimeouts{Response: short, Idle: time.Minute})
			body := readerFunc(func([]byte) (int, error) { transport.watch.Sent(); return 0, io.EOF })
			wantError(t, fails(t.Context(), t, transport, post(body, message.Unknown)), pipeline.UpstreamTimeout)
		})
		t.Run("no more of an answer", func(t *bed) {
			transport := watch(open(t, stuck, setup{}), model.RouteTimeouts{Idle: short})
			response, err := trip(t.Context(), transport, get("/"), nil)
			if err != nil {
				t.Fatal(err)
			}
			transport.watch.Answered(false)
			_, err = io.ReadAll(response.Body)
			wantError(t, err, pipeline.UpstreamTimeout)
		})
		t.Run("a silent client", func(t *bed) {
			transport := watch(open(t, silent, setup{}), model.RouteTimeouts{Idle: short})
			body, client := io.Pipe()
			defer client.Close()
			wantError(t, fails(t.Context(), t, transport, post(asking(transport.watch, body), message.Unknown)), pipeline.RequestTimeout)
		})
		t.Run("an endpoint that takes nothing", func(t *bed) {
			transport := watch(open(t, deaf, setup{}), model.RouteTimeouts{Idle: short})
			body := asking(transport.watch, bytes.NewReader(make([]byte, 64<<20)))
			if err := fails(t.Context(), t, transport, post(body, 64<<20)); pipeline.AsError(err).Status < 408 {
				t.Errorf("got %v", err)
			}
		})
		t.Run("nothing but slow", func(t *bed) {
			endpoint := scripted(t, func(p *peer) {
				p.head()
				p.say("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n")
				for range 8 {
					<-time.After(20 * time.Millisecond)
					p.say("x")
				}
			})
			transport := watch(open(t, endpoint, setup{}), model.RouteTimeouts{Idle: 100 * time.Millisecond})
			response, err := trip(t.Context(), transport, get("/"), nil)
			if err != nil {
				t.Fatal(err)
			}
			got := 0
			for one := make([]byte, 1); err == nil; {
				var n int
				n, err = response.Body.Read(one)
				got += n
				transport.watch.Touch()
			}
			if !errors.Is(err, io.EOF) || got != 8 {
				t.Errorf("after %d bytes: %v", got, err)
			}
		})
	})
}

func TestExpectation(t *testing.T) {
	engines(t, func(t *bed) {
		t.Run("met", func(t *bed) {
			request, asked := expecting("hello")
			endpoint := scripted(t, func(p *peer) {
				if head := p.head(); !strings.Contains(head, "expect: 100-continue\r\n") {
					t.Errorf("got the head %q", head)
				}
				<-time.After(50 * time.Millisecond)
				if isClosed(asked) {
					t.Error("the body was read before the go-ahead")
				}
				p.say("HTTP/1.1 100 Continue\r\n\r\n")
				p.until("hello")
				p.say(ok)
			})
			if _, body := ask(t, open(t, endpoint, setup{}), request); body != "ok" {
				t.Errorf("got %q", body)
			}
		})
		t.Run("given up", func(t *bed) {
			request, _ := expecting("hello")
			endpoint := scripted(t, func(p *peer) {
				p.head()
				p.until("hello")
				p.say(ok)
			})
			start := time.Now()
			if _, body := ask(t, open(t, endpoint, setup{}), request); body != "ok" || time.Since(start) < continueTimeout {
				t.Errorf("got %q after %v", body, time.Since(start))
			}
		})
	})
}

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
			eventually(t, "after "+text+": "+want, func() bool { return c.String() == want })
		}
	})
}

// The end of a context that comes late meets nobody else's attempt.
func TestLateEndOfAContext(t *testing.T) {
	engines(t, func(t *bed) {
		transport := open(t, scripted(t, answering(ok)), setup{})
		for range 300 {
			ctx, cancel := context.WithCancelCause(t.Context())
			response, err := trip(ctx, transport, get("/"), nil)
			if err != nil {
				t.Fatal(err)
			}
			go cancel(errOver)
			if _, err := io.ReadAll(response.Body); err != nil && !errors.Is(err, errOver) {
				t.Fatal(err)
			}
			ask(t, transport, get("/"))
		}
	})
}

// An engine that stops ends what is under way.
func TestStopEndsAttempts(t *testing.T) {
	for name, request := range map[string]func(body io.Reader) *message.Request{
		"waiting for a head": func(io.Reader) *message.Request { return get("/") },
		"sending a body":     func(body io.Reader) *message.Request { return post(body, message.Unknown) },
	} {
		t.Run(name, func(t *testing.T) {
			driver, err := netloop.NewLoops(1, discard)
			if err != nil {
				t.Fatal(err)
			}
			defer driver.Stop()
			came := make(chan bool, 1)
			endpoint := scripted(t, func(p *peer) {
				p.head()
				came <- true
				_, _ = io.Copy(io.Discard, p)
			})
			own := driver.Executors()[0]
			transport := open(&bed{t, NewEngine(driver.Executors(), startGoroutines(t)), own}, endpoint, setup{})
			body, client := io.Pipe()
			defer client.Close()
			done := make(chan error, 1)
			go func() { _, err := trip(t.Context(), transport, request(body), nil); done <- err }()
			within(t, "a request", came)
			driver.Stop()
			if err := within(t, "the end of the attempt", done); err == nil {
				t.Error("no error")
			}
		})
	}
}

// unaware is a connection whose end shows only when it is used.
type unaware struct {
	netloop.Conn
	writes atomic.Int64
}

func (*unaware) Stale() bool { return false }

func (u *unaware) Write(p []byte) (int, error) {
	u.writes.Add(1)
	return u.Conn.Write(p)
}

// rest is the one idle connection of a transport.
func rest(t testing.TB, o opened) *unaware {
	t.Helper()
	for _, s := range o.pool.shelves {
		l := s.pop()
		if l == nil {
			continue
		}
		u := &unaware{Conn: l.conn}
		l.conn = u
		o.pool.idle.Add(1)
		s.mu.Lock()
		s.idle = append(s.idle, l)
		s.mu.Unlock()
		return u
	}
	t.Fatal("no connection rests")
	return nil
}

// A small body that is there goes out with the head.
func TestSmallBodiesGoWithTheHead(t *testing.T) {
	engines(t, func(t *bed) {
		for name, test := range map[string]struct {
			size, writes int
			expects      bool
		}{"a small one": {1000, 1, false}, "one that waits": {1000, 2, true}, "a large one": {bufferSize, 2, false}} {
			text := strings.Repeat("x", test.size)
			endpoint := scripted(t, func(p *peer) {
				for head := p.head(); head != ""; head = p.head() {
					if strings.HasPrefix(head, "POST") {
						if test.expects {
							p.say("HTTP/1.1 100 Continue\r\n\r\n")
						}
						_, _ = io.ReadFull(p, make([]byte, test.size))
					}
					p.say(ok)
				}
			})
			transport := open(t, endpoint, setup{})
			ask(t, transport, get("/"))
			conn := rest(t, transport)
			request := get("/")
			request.Method, request.Body, request.Length = "POST", message.Text(text), int64(test.size)
			if test.expects {
				request.Fields.Add("Expect", "100-continue")
			}
			ask(t, transport, request)
			if n := conn.writes.Load(); n != int64(test.writes) {
				t.Errorf("%s of %d bytes went out in %d writes", name, test.size, n)
			}
		}
	})
}

// What was not acknowledged may be sent again whatever its method.
func TestReplayOfWhatWasNotAcknowledged(t *testing.T) {
	engines(t, func(t *bed) {
		for name, body := range map[string]func() (io.ReadCloser, int64){
			"without a body": func() (io.ReadCloser, int64) { return nil, 0 },
			"a small body":   func() (io.ReadCloser, int64) { return message.Text("hello"), 5 },
			"a body":         func() (io.ReadCloser, int64) { return io.NopCloser(strings.NewReader("hello")), 5 },
			"chunks":         func() (io.ReadCloser, int64) { return io.NopCloser(strings.NewReader("hello")), message.Unknown },
		} {
			leave, left := make(chan struct{}), make(chan struct{})
			var connections atomic.Int64
			endpoint := scripted(t, func(p *peer) {
				first := connections.Add(1) == 1
				for head := p.head(); head != ""; head = p.head() {
					switch {
					case strings.Contains(head, "chunked"):
						p.until("5\r\nhello\r\n0\r\n\r\n")
					case strings.Contains(head, "Content-Length: 5"):
						p.until("hello")
					}
					p.say(ok)
					if first {
						<-leave
						p.Conn.Close()
						close(left)
						return
					}
				}
			})
			var c counts
			transport := open(t, endpoint, setup{observer: c.observer()})
			ask(t, transport, get("/"))
			rest(t, transport)
			close(leave)
			within(t, "the end of the connection", left)
			request := get("/")
			request.Method = "POST"
			request.Body, request.Length = body()
			if _, text := ask(t, transport, request); text != "ok" {
				t.Errorf("%s: got %q", name, text)
			}
			if got := c.String(); got != "opened 2, reused 1, closed 1" {
				t.Errorf("%s: %s", name, got)
			}
		}
	})
}

// The system tells how much of what was sent the endpoint's has.
func TestAcknowledged(t *testing.T) {
	engines(t, func(t *bed) {
		endpoint := scripted(t, answering(ok))
		transport := open(t, endpoint, setup{})
		for range 3 {
			ask(t, transport, get("/"))
			rest(t, transport)
			for _, s := range transport.pool.shelves {
				for _, l := range s.idle {
					if got, known := acknowledged(l.conn); !known || got != l.written || got == 0 {
						t.Errorf("%d bytes of %d are acknowledged (known: %v)", got, l.written, known)
					}
				}
			}
		}
	})
}
