package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
	"sluice/internal/server"
	"sluice/internal/waittest"
)

func maxAge(age time.Duration) func(*model.Listener) {
	return func(m *model.Listener) { m.Timeouts.MaxAge = age }
}

// A connection that is too old says so with its next response. At rest it stays:
// to close it might meet a request.
func TestMaxAge(t *testing.T) {
	ofEngine(t, "net/http knows no age")
	t.Run("old", func(t *testing.T) {
		f := start(t, text("ok"), maxAge(time.Nanosecond))
		c := f.dial().send(get("/") + get("/never"))
		if response, body := c.answer("GET"); body != "ok" || !response.Close {
			t.Errorf("%q, closes: %v", body, response.Close)
		}
		c.rest()
	})
	t.Run("young", func(t *testing.T) {
		f := start(t, text("ok"), maxAge(time.Hour))
		c := f.dial()
		for range 2 {
			if response, _ := c.send(get("/")).answer("GET"); response.Close {
				t.Error("it closes")
			}
		}
	})
	t.Run("it grows old at rest", func(t *testing.T) {
		f := start(t, text("ok"), maxAge(100*time.Millisecond))
		c := f.dial()
		waittest.Until(t, "a response that closes", func() bool {
			response, _ := c.send(get("/")).answer("GET")
			return response.Close
		})
		c.rest()
	})
	t.Run("it grows old in an exchange", func(t *testing.T) {
		f := start(t, func(x *pipeline.Exchange) error {
			if err := pause(x, 20*time.Millisecond); err != nil {
				return err
			}
			return text("ok")(x)
		}, maxAge(10*time.Millisecond))
		if response, _ := f.dial().send(get("/")).answer("GET"); !response.Close {
			t.Error("it does not close")
		}
	})
}

// What clients are told for whom there is no descriptor is a whole response.
func TestWhatClientsAreToldInExhaustion(t *testing.T) {
	driver := newStaged(t)
	told := make(chan netloop.ListenOptions, 1)
	driver.listens = func(o *netloop.ListenOptions) { told <- *o }
	f := startWith(t, server.Options{Driver: driver}, text("ok"))
	options := <-told
	r := bufio.NewReader(strings.NewReader(string(options.Exhausted())))
	response, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var document struct {
		Status int
		Error  string
	}
	if err := json.NewDecoder(response.Body).Decode(&document); err != nil || response.StatusCode != 503 || !response.Close || document.Status != 503 || document.Error != "overloaded" {
		t.Errorf("%d, closes: %v, %+v, %v", response.StatusCode, response.Close, document, err)
	}
	if rest, err := io.ReadAll(io.MultiReader(response.Body, r)); len(rest) > 0 || err != nil {
		t.Errorf("%q is left, %v", rest, err)
	}
	// Where a reload has brought TLS, no client would understand it.
	secure := *f.model
	newAuthority(t).over(&secure)
	f.listener.Serve(&secure, nil)
	if told := options.Exhausted(); len(told) > 0 {
		t.Errorf("clients of TLS are told %q", told)
	}
}

// kinds are connections of every kind, on one listener.
type kinds struct {
	*fixture
	proceed                                     chan struct{}
	idle, busy, parting, tunnel, body, endpoint *client
}

func everyKind(t *testing.T) *kinds {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	k := &kinds{proceed: make(chan struct{}), endpoint: dial(t, listener.Addr())}
	side, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { side.Close() })
	begun := make(chan struct{}, 2)
	k.fixture = start(t, func(x *pipeline.Exchange) error {
		switch x.Request.Path {
		case "/ws":
			x.ID = "id-1"
			x.Response = &message.Response{Status: 101, Tunnel: side.(*net.TCPConn), Fields: message.Fields{{Name: "Sec-WebSocket-Accept", Value: "x"}}}
			return nil
		case "/large":
			return pipeline.NewError(pipeline.NoRoute, nil)
		case "/upload":
			begun <- struct{}{}
			return swallow(x)
		case "/busy":
			begun <- struct{}{}
			var ended error
			x.Wait(func() {
				select {
				case <-k.proceed:
				case <-x.Context().Done():
					ended = contextCause(x)
				}
			})
			if ended != nil {
				return ended
			}
		}
		return text(x.Request.Path)(x)
	})
	k.listener.Hurry(patience, patience, patience, patience)
	k.idle, k.busy, k.parting, k.tunnel, k.body = k.dial(), k.dial(), k.dial(), k.dial(), k.dial()
	k.idle.send(get("/idle")).answer("GET")
	k.busy.send(get("/busy"))
	k.body.send("POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n1")
	<-begun
	<-begun
	k.parting.send("POST /large HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n").answer("POST")
	k.tunnel.send(upgrade)
	k.tunnel.read(upgraded)
	waittest.Until(t, "every kind", func() bool {
		status := k.listener.Status()
		return status.Connections == 5 && status.Tunnels == 1 && k.listener.Parting() == 1 && k.listener.Resting() == 1
	})
	return k
}

// finish lets the exchanges that were spared come to their end.
func (k *kinds) finish() {
	k.Helper()
	close(k.proceed)
	if response, body := k.busy.answer("GET"); body != "/busy" || !response.Close {
		k.Errorf("busy: %q, closes: %v", body, response.Close)
	}
	k.busy.rest()
	if response, body := k.body.send("23").answer("POST"); body != "3" || !response.Close {
		k.Errorf("with a body: %q, closes: %v", body, response.Close)
	}
	k.body.rest()
	k.tunnel.send("up")
	k.endpoint.read("up")
	k.endpoint.send("down")
	k.tunnel.read("down")
	k.tunnel.closeWrite()
	k.endpoint.rest()
	k.endpoint.Close()
	k.tunnel.ends()
}

func TestReleaseOfEveryKind(t *testing.T) {
	k := everyKind(t)
	k.listener.Release()
	k.idle.ends()
	if _, err := k.parting.r.ReadByte(); err == nil || isTimeout(err) {
		t.Errorf("the parting one: %v", err)
	}
	k.finish()
	k.busy.Close()
	k.body.Close()
	<-k.listener.Quiet()
}

func TestYieldOfEveryKind(t *testing.T) {
	k := everyKind(t)
	yielded := make(chan struct{})
	go func() { k.listener.Yield(t.Context()); close(yielded) }()
	waittest.Until(t, "the end of the socket", func() bool { _, err := k.listener.File(); return errors.Is(err, net.ErrClosed) })
	if response, body := k.idle.send(get("/once")).answer("GET"); body != "/once" || !response.Close {
		t.Errorf("idle: %q, closes: %v", body, response.Close)
	}
	k.finish()
	for _, c := range []*client{k.idle, k.busy, k.body, k.parting} {
		c.Close()
	}
	<-yielded
}

func TestShutdownOfEveryKind(t *testing.T) {
	t.Run("in time", func(t *testing.T) {
		k := everyKind(t)
		ended := make(chan error, 1)
		go func() { ended <- k.listener.Shutdown(context.Background()) }()
		k.idle.ends()
		select {
		case err := <-ended:
			t.Errorf("it did not wait: %v", err)
		default:
		}
		k.finish()
		if err := <-ended; err != nil { // it waits for no client that parts
			t.Error(err)
		}
	})
	t.Run("out of time", func(t *testing.T) {
		k := everyKind(t)
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errors.New("a second signal"))
		if err := k.listener.Shutdown(ctx); err == nil || !strings.Contains(err.Error(), "3 connections were ended: a second signal") {
			t.Errorf("%v", err)
		}
		told := []*client{k.busy}
		if engine { // where a task that waits for a body can be woken
			told = append(told, k.body)
		}
		for _, c := range told {
			if response, body := c.answer("GET"); response.StatusCode != 503 || !response.Close || !strings.Contains(body, "stopping") {
				t.Errorf("%d %s", response.StatusCode, body)
			}
		}
		for _, c := range []*client{k.idle, k.busy, k.body, k.parting, k.tunnel, k.endpoint} {
			if _, err := io.Copy(io.Discard, c.r); isTimeout(err) {
				t.Errorf("a connection stays open")
			}
		}
		words := make(map[pipeline.Word]int)
		for range 5 {
			if x := k.next(t); x.Err != nil {
				words[x.Err.Word]++
			}
		}
		if !engine {
			words[pipeline.Overloaded] += words[pipeline.ClientClosed]
		}
		if words[pipeline.Overloaded] != 3 || words[pipeline.NoRoute] != 1 {
			t.Errorf("they ended with %v", words)
		}
	})
}

// A connection that is served when the listener ends, and whose client then asks
// for no more, is closed at once; so is one that has sent an empty line only.
func TestAConnectionThatMissedTheSweep(t *testing.T) {
	h := newHeld()
	f := start(t, h.serve)
	c := f.dial().send(get("/slow"))
	<-h.begun
	f.listener.Release()
	close(h.proceed)
	if response, body := c.answer("GET"); body != "/slow" || !response.Close {
		t.Errorf("%q, closes: %v", body, response.Close)
	}
	c.ends()
	c.Close()
	<-f.listener.Quiet()
}

// A new connection that has said nothing is no exchange that was cut.
func TestShutdownCutsASilentConnection(t *testing.T) {
	f := start(t, text("never"))
	f.listener.Hurry(time.Second, time.Second, time.Second, patience)
	c := f.dial()
	waittest.Until(t, "a connection", func() bool { return f.listener.Status().Connections == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.listener.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	c.ends()
	<-f.listener.Quiet()
}
