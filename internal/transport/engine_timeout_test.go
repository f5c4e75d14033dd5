package transport

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/sockettest"
	"sluice/internal/waittest"
)

func TestConnectingTakesTooLong(t *testing.T) {
	address := sockettest.FullQueue(t)
	endpoint := model.Endpoint{URL: "http://" + address, Scheme: "http", Address: address, Host: address}
	engines(t, func(t *bed) {
		for name, test := range map[string]struct {
			connect, total time.Duration
			word           pipeline.Word
			unsent         bool
		}{
			"for the upstream": {30 * time.Millisecond, time.Minute, pipeline.UpstreamConnect, true},
			"for the route":    {time.Minute, 30 * time.Millisecond, pipeline.UpstreamTimeout, true},
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

// A time-out that is over in the queue for a connection, or for a stream, is no fault
// of the endpoint's.
func TestWaitingInTheQueueTakesTooLong(t *testing.T) {
	engines(t, func(t *bed) {
		for _, protocol := range []string{model.UpstreamHTTP1, model.UpstreamH2C} {
			arrived, leave := make(chan struct{}, 1), make(chan struct{})
			endpoint := served(t, nil, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				arrived <- struct{}{}
				<-leave
			}))
			transport := reach(t, &model.Upstream{Protocol: protocol, Pool: model.Pool{MaxConnections: 1, MaxStreams: 1, MaxPending: 1}}, endpoint, Observer{})
			done := make(chan error, 1)
			go func() {
				_, _, err := read(t.Context(), transport, get("/"))
				done <- err
			}()
			waittest.Receive(t, "the first", arrived)
			e := wantError(t, fails(t.Context(), t, watch(transport, model.RouteTimeouts{Total: 30 * time.Millisecond}), get("/")), pipeline.UpstreamTimeout)
			if e.Fault != pipeline.Gateway || !e.Unsent {
				t.Errorf("%s: %+v", protocol, e)
			}
			close(leave)
			if err := waittest.Receive(t, "the first's answer", done); err != nil {
				t.Errorf("%s: %v", protocol, err)
			}
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
			<-time.After(900 * time.Millisecond)
			p.say("k")
		})
		transport := open(t, endpoint, setup{timeouts: model.AttemptTimeouts{Connect: 5 * time.Second, ResponseHeader: 600 * time.Millisecond}})
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
		const short = 300 * time.Millisecond
		t.Run("no answer", func(t *bed) {
			transport := watch(open(t, silent, setup{}), model.RouteTimeouts{Response: short, Idle: time.Minute})
			transport.watch.Sent(time.Now())
			wantError(t, fails(t.Context(), t, transport, get("/")), pipeline.UpstreamTimeout)
		})
		t.Run("no answer to a body", func(t *bed) {
			transport := watch(open(t, silent, setup{}), model.RouteTimeouts{Response: short, Idle: time.Minute})
			body := readerFunc(func([]byte) (int, error) { transport.watch.Sent(time.Now()); return 0, io.EOF })
			wantError(t, fails(t.Context(), t, transport, post(body, message.Unknown)), pipeline.UpstreamTimeout)
		})
		t.Run("no more of an answer", func(t *bed) {
			transport := watch(open(t, stuck, setup{}), model.RouteTimeouts{Idle: short})
			response, err := trip(t.Context(), transport, get("/"), nil)
			if err != nil {
				t.Fatal(err)
			}
			transport.watch.Answered(time.Now(), false)
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
					<-time.After(120 * time.Millisecond)
					p.say("x")
				}
			})
			transport := watch(open(t, endpoint, setup{}), model.RouteTimeouts{Idle: 700 * time.Millisecond})
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

// An endpoint that takes nothing does not hold up a head for ever, and one that
// is slow to take a body is waited for while it takes something.
func TestWritingHasTheTimeoutsOfTheRoute(t *testing.T) {
	engines(t, func(t *bed) {
		t.Run("a head", func(t *bed) {
			hold := make(chan struct{})
			defer close(hold)
			endpoint := scripted(t, func(*peer) { <-hold })
			request := get("/")
			request.Fields.Add("X", strings.Repeat("x", 32<<20))
			transport := watch(open(t, endpoint, setup{}), model.RouteTimeouts{Total: 200 * time.Millisecond})
			wantError(t, fails(t.Context(), t, transport, request), pipeline.UpstreamTimeout)
		})
		t.Run("a body", func(t *bed) {
			const size = 16 << 20
			endpoint := scripted(t, func(p *peer) {
				p.head()
				for range 8 {
					<-time.After(120 * time.Millisecond)
					if _, err := io.CopyN(io.Discard, p, size/8); err != nil {
						t.Errorf("the body: %v", err)
						return
					}
				}
				p.say(ok)
			})
			transport := watch(open(t, endpoint, setup{}), model.RouteTimeouts{Idle: 800 * time.Millisecond})
			source := bytes.NewReader(make([]byte, size))
			body := readerFunc(func(p []byte) (int, error) {
				transport.watch.Ask()
				n, err := source.Read(p)
				transport.watch.Given(n)
				return n, err
			})
			if _, text := ask(t, transport, post(body, size)); text != "ok" {
				t.Errorf("got %q", text)
			}
		})
	})
}

// A tunnel of a route lasts while something passes, however the attempt's
// context goes on.
func TestTunnelHasTheTimeoutOfTheRoute(t *testing.T) {
	engines(t, func(t *bed) {
		endpoint := scripted(t, func(p *peer) {
			p.head()
			p.say(switching)
			_, _ = io.Copy(p.Conn, p)
		})
		transport := watch(open(t, endpoint, setup{}), model.RouteTimeouts{Idle: time.Minute, IdleStream: 800 * time.Millisecond})
		tunnel := upgrade(t.Context(), t, transport)
		defer tunnel.Close()
		transport.watch.Answered(time.Now(), true)
		got := make([]byte, 1)
		for range 8 {
			<-time.After(150 * time.Millisecond)
			if _, err := tunnel.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(tunnel, got); err != nil {
				t.Fatal(err)
			}
			transport.watch.Touch()
		}
		_, err := tunnel.Read(got)
		wantError(t, err, pipeline.UpstreamTimeout)
	})
}
