package transport

import (
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// fickle is an endpoint that answers one request on its first connection, then
// takes another and dies without a byte; every other connection lives.
func fickle(t testing.TB, takes func(p *peer, request string)) (endpoint model.Endpoint, requests func() []string) {
	t.Helper()
	var mu sync.Mutex
	var got []string
	var connections atomic.Int64
	endpoint = scripted(t, func(p *peer) {
		n := connections.Add(1)
		for i := 1; ; i++ {
			head := p.head()
			if head == "" {
				return
			}
			mu.Lock() // they come one after the other
			if takes != nil && strings.Contains(head, "/again") {
				takes(p, head)
			}
			got = append(got, fmt.Sprintf("%d: %s", n, strings.SplitN(head, " HTTP", 2)[0]))
			mu.Unlock()
			if n == 1 && i == 2 {
				return
			}
			p.say(ok)
		}
	})
	return endpoint, func() []string { mu.Lock(); defer mu.Unlock(); return append([]string(nil), got...) }
}

func TestReplayAfterADeadReusedConnection(t *testing.T) {
	each(t, func(t *bed) {
		for name, test := range map[string]struct {
			method, body string
			length       int64
			key          bool
			replayed     bool
		}{
			"GET":                {"GET", "", 0, false, true},
			"HEAD":               {"HEAD", "", 0, false, true},
			"OPTIONS":            {"OPTIONS", "", 0, false, true},
			"DELETE":             {"DELETE", "", 0, false, true},
			"DELETE with body":   {"DELETE", "body", 4, false, true},
			"empty PUT":          {"PUT", "", 0, false, true},
			"PUT":                {"PUT", "body", 4, false, true},
			"PUT of any length":  {"PUT", "body", message.Unknown, false, true},
			"the largest PUT":    {"PUT", strings.Repeat("x", maxReplay), maxReplay, false, true},
			"a larger PUT":       {"PUT", strings.Repeat("x", maxReplay+1), maxReplay + 1, false, false},
			"POST":               {"POST", "body", 4, false, false},
			"empty POST":         {"POST", "", 0, false, false},
			"POST with a key":    {"POST", "body", 4, true, true},
			"PATCH":              {"PATCH", "body", 4, false, false},
			"TRACE":              {"TRACE", "", 0, false, false},
			"a method of others": {"PURGE", "", 0, false, false},
		} {
			t.Run(name, func(t *bed) {
				var bodies []string
				endpoint, requests := fickle(t, func(p *peer, head string) {
					switch {
					case strings.Contains(head, "chunked"):
						bodies = append(bodies, p.until("0\r\n\r\n"))
					case test.length > 0:
						body := make([]byte, test.length)
						_, _ = io.ReadFull(p, body)
						bodies = append(bodies, string(body))
					}
				})
				var c counts
				transport := open(t, endpoint, setup{observer: c.observer()})
				ask(t, transport, get("/"))
				request := get("/again")
				request.Method = test.method
				if test.key {
					request.Fields.Add("Idempotency-Key", "7")
				}
				closed := &closeNoted{Reader: strings.NewReader(test.body)}
				if test.length != 0 {
					request.Body, request.Length = closed, test.length
				}
				want := "1: GET /,1: " + test.method + " /again"
				if test.replayed {
					ask(t, transport, request)
					want += ",2: " + test.method + " /again"
				} else if e := wantError(t, fails(t.Context(), t, transport, request), pipeline.UpstreamReset); e.Unsent {
					t.Error("it counts as unsent")
				}
				if got := strings.Join(requests(), ","); got != want {
					t.Errorf("the endpoint got %s, want %s", got, want)
				}
				if test.length != 0 {
					waittest.Until(t, "the body is closed", closed.closed.Load)
				}
				for _, body := range bodies {
					if body != bodies[0] || !strings.Contains(body, test.body) {
						t.Errorf("a body of %d bytes went out as %d", len(test.body), len(body))
					}
				}
			})
		}
	})
}

// One replay is all, however many connections are dead.
func TestNoSecondReplay(t *testing.T) {
	each(t, func(t *bed) {
		var got atomic.Int64
		var together sync.WaitGroup
		together.Add(3)
		endpoint := scripted(t, func(p *peer) {
			if head := p.head(); strings.Contains(head, "/first") {
				together.Done()
				together.Wait()
				p.say(ok)
			} else {
				got.Add(1)
				return
			}
			if p.head() != "" {
				got.Add(1)
			}
		})
		transport := open(t, endpoint, setup{})
		first := []<-chan error{inBackground(t.Context(), transport, "/first"), inBackground(t.Context(), transport, "/first"), inBackground(t.Context(), transport, "/first")}
		for _, done := range first {
			if err := waittest.Receive(t, "an answer", done); err != nil {
				t.Fatal(err)
			}
		}
		wantError(t, fails(t.Context(), t, transport, get("/second")), pipeline.UpstreamReset)
		if n := got.Load(); n != 2 {
			t.Errorf("the request went out %d times", n)
		}
	})
}

func TestNoReplayAfterPartOfAnAnswer(t *testing.T) {
	each(t, func(t *bed) {
		for _, part := range []string{"H", "HTTP/1.1 200 OK\r\nContent-", "HTTP/1.1 103 Early Hints\r\n\r\n"} {
			endpoint, requests := fickle(t, func(p *peer, _ string) { p.say(part) })
			transport := open(t, endpoint, setup{})
			ask(t, transport, get("/"))
			if err := fails(t.Context(), t, transport, get("/again")); pipeline.AsError(err).Status != 502 {
				t.Errorf("after %q: %v", part, err)
			}
			if got := requests(); len(got) != 2 {
				t.Errorf("after %q the endpoint got %q", part, got)
			}
		}
	})
}

// What finds its connection dead before anything is written may be sent again
// whatever its method.
func TestReplayOfWhatWasNotSent(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	c := newConnection(near, func() {})
	died := make(chan bool, 2)
	first := c.begin(func() { died <- true })
	far.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Fatal("no end")
	}
	waittest.Receive(t, "word of the end", died)
	first.judge()
	second := c.begin(func() { died <- true })
	waittest.Receive(t, "word of an end that was before", died)
	if _, err := c.Write([]byte("x")); err == nil || second.written {
		t.Errorf("a dead connection takes bytes: %v", err)
	}
	a := &attempt{ctx: t.Context(), connection: c, turn: second, reused: true}
	if !a.mayReplay(post(nil, 0), errDead) {
		t.Error("a POST that was never sent is not sent again")
	}
	second.written = true
	if a.mayReplay(post(nil, 0), errDead) {
		t.Error("a POST that was sent is sent again")
	}
}

// A failure to connect for the replay tells that the endpoint may have seen the
// request before.
func TestReplayThatCannotConnect(t *testing.T) {
	each(t, func(t *bed) {
		var listening atomic.Bool
		var stop func()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		stop = func() { listener.Close(); listening.Store(false) }
		defer stop()
		go func() {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			p := newPeer(t, conn)
			p.head()
			p.say(ok)
			p.head()
			stop()
		}()
		transport := open(t, model.Endpoint{URL: "http://x", Address: listener.Addr().String(), Host: "x"}, setup{})
		ask(t, transport, get("/"))
		if e := wantError(t, fails(t.Context(), t, transport, get("/")), pipeline.UpstreamConnect); e.Unsent {
			t.Error("it counts as unsent")
		}
	})
}

// The body of a replay goes on where the client is.
func TestReplayInTheMiddleOfABody(t *testing.T) {
	each(t, func(t *bed) {
		more := make(chan struct{})
		var body string
		endpoint, requests := fickle(t, func(p *peer, _ string) {
			body = p.until("one")
			select {
			case <-more:
				body += p.until("two")
			default:
				close(more) // and die
			}
		})
		transport := open(t, endpoint, setup{})
		ask(t, transport, get("/"))
		read, write := io.Pipe()
		go func() {
			_, _ = io.WriteString(write, "one")
			<-more
			_, _ = io.WriteString(write, "two")
			write.Close()
		}()
		request := post(read, 6)
		request.Method, request.Path = "PUT", "/again"
		ask(t, transport, request)
		if got := requests(); body != "onetwo" || len(got) != 3 {
			t.Errorf("the endpoint got %q, at last %q", got, body)
		}
	})
}

// An endpoint whose keep-alive ends just as requests come.
func TestRaceWithAnEndpointsIdleTimeout(t *testing.T) {
	each(t, func(t *bed) {
		const idle = 5 * time.Millisecond
		endpoint := scripted(t, func(p *peer) {
			for n := 0; ; n++ {
				if n > 0 {
					_ = p.SetReadDeadline(time.Now().Add(idle))
				}
				head := p.head()
				if !strings.HasSuffix(head, "\r\n\r\n") {
					return
				}
				if strings.Contains(head, "Content-Length: 4") {
					_, _ = io.ReadFull(p, make([]byte, 4))
				}
				p.say(ok)
			}
		})
		transport := open(t, endpoint, setup{})
		for i := range 300 {
			request := get("/")
			request.Method = []string{"GET", "PUT", "DELETE"}[i%3]
			if request.Method == "PUT" {
				request.Body, request.Length = io.NopCloser(strings.NewReader("body")), 4
			}
			ask(t, transport, request)
			<-time.After(idle + time.Duration(i%20-10)*10*time.Microsecond)
		}
	})
}
