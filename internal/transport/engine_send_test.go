package transport

import (
	"errors"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

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
		l := s.popAny()
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

// onLinux skips a test where the system does not tell what was acknowledged.
func onLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("no system but Linux tells what was acknowledged")
	}
}

// What was not acknowledged may be sent again whatever its method.
func TestReplayOfWhatWasNotAcknowledged(t *testing.T) {
	onLinux(t)
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
			waittest.Receive(t, "the end of the connection", left)
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
	onLinux(t)
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

// ready is a body that says it is there, and breaks its word.
type ready struct {
	io.Reader
	says int
}

func (r *ready) Buffered() int { return r.says }
func (*ready) Close() error    { return nil }

func TestBodiesThatBreakTheirWord(t *testing.T) {
	engines(t, func(t *bed) {
		endpoint := scripted(t, func(p *peer) {
			if head := p.head(); strings.HasPrefix(head, "GET") {
				p.say(ok)
			}
			_, _ = io.Copy(io.Discard, p)
		})
		for name, test := range map[string]struct {
			request *message.Request
			word    pipeline.Word
		}{
			"one that ends early": {&message.Request{Body: &ready{strings.NewReader("some"), 9}, Length: 9}, pipeline.ClientClosed},
			"one that fails":      {&message.Request{Body: &ready{&broken{}, 9}, Length: 9}, pipeline.ClientClosed},
			"one of fewer bytes":  {&message.Request{Body: io.NopCloser(strings.NewReader("some")), Length: 9}, pipeline.ClientClosed},
			"a trailer that is no field": {&message.Request{
				Body: io.NopCloser(strings.NewReader("some")), Length: message.Unknown,
				Trailer: func() message.Fields { return message.Fields{{Name: "X", Value: "a\r\nb"}} },
			}, pipeline.BadRequest},
		} {
			test.request.Method, test.request.Path, test.request.Host = "POST", "/", "shop.test"
			transport := open(t, endpoint, setup{})
			if e := wantError(t, fails(t.Context(), t, transport, test.request), test.word); e.Fault != pipeline.Client {
				t.Errorf("%s: got %+v", name, e)
			}
			if _, body := ask(t, transport, get("/")); body != "ok" {
				t.Errorf("%s: then got %q", name, body)
			}
		}
	})
}

// hollow is a source that gives nothing a number of times, before every byte.
type hollow struct{ times, left int }

func (h *hollow) Read(p []byte) (int, error) {
	if h.left > 0 {
		h.left--
		return 0, nil
	}
	h.left = h.times
	p[0] = 'x'
	return 1, nil
}

// Reads that give nothing are no end; a body that gives nothing else does not
// hold up its loop for ever.
func TestBodiesThatGiveNothing(t *testing.T) {
	engines(t, func(t *bed) {
		endpoint := scripted(t, func(p *peer) {
			for head := p.head(); head != ""; head = p.head() {
				if strings.HasPrefix(head, "POST") {
					body := make([]byte, len("xxx"))
					if _, err := io.ReadFull(p, body); err != nil {
						return
					}
				}
				p.say(ok)
			}
		})
		for name, test := range map[string]struct{ says, times int }{
			"one that is there": {3, 50}, "one that comes": {0, 50}, "a stuck one that is there": {3, 1 << 40}, "a stuck one": {0, 1 << 40},
		} {
			transport := open(t, endpoint, setup{})
			request := &message.Request{Method: "POST", Path: "/", Host: "shop.test", Body: &ready{&hollow{test.times, test.times}, test.says}, Length: 3}
			if test.times < mostEmpty {
				if _, body := ask(t, transport, request); body != "ok" {
					t.Errorf("%s: got %q", name, body)
				}
			} else if e := wantError(t, fails(t.Context(), t, transport, request), pipeline.Internal); !errors.Is(&e, io.ErrNoProgress) {
				t.Errorf("%s: got %v", name, e)
			}
			if _, body := ask(t, transport, get("/")); body != "ok" {
				t.Errorf("%s: then got %q", name, body)
			}
		}
	})
}

// A body that panics ends its attempt, and no other.
func TestBodyThatPanics(t *testing.T) {
	driver, err := newLoops(1, discard)
	if err != nil {
		t.Fatal(err)
	}
	defer driver.Stop()
	endpoint := scripted(t, func(p *peer) {
		if head := p.head(); strings.HasPrefix(head, "GET") {
			p.say(ok)
		}
		_, _ = io.Copy(io.Discard, p)
	})
	own := driver.Executors()[0]
	p := newPool(wayOf(endpoint, setup{}), NewEngine(driver.Executors(), startGoroutines(t)))
	defer p.Release()
	body := &closeNoted{Reader: readerFunc(func([]byte) (int, error) { panic("a body") })}
	request := post(nil, 5)
	request.Body = body
	do(own, func() {
		var ctx netloop.Context
		ctx.Init(own)
		wantError(t, p.RoundTrip(&ctx, &pipeline.Attempt{Request: request}), pipeline.Internal)
	})
	if !body.closed.Load() {
		t.Error("the body was not closed")
	}
	if _, text := ask(t, by(own, p), get("/")); text != "ok" {
		t.Errorf("then got %q", text)
	}
}

// What is held back for a go-ahead is not lost with a connection.
func TestExpectationOnADeadConnection(t *testing.T) {
	engines(t, func(t *bed) {
		endpoint, requests := fickle(t, nil)
		transport := open(t, endpoint, setup{})
		ask(t, transport, get("/"))
		request, asked := expecting("hello")
		request.Method, request.Path = "PUT", "/again"
		if _, body := ask(t, transport, request); body != "ok" {
			t.Errorf("got %q", body)
		}
		if got := strings.Join(requests(), ","); got != "1: GET /,1: PUT /again,2: PUT /again" || isClosed(asked) {
			t.Errorf("the endpoint got %s; the body was asked for: %v", got, isClosed(asked))
		}
	})
}
