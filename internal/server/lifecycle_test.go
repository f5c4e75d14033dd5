package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/server"
	"sluice/internal/waittest"
)

// held is a handler that answers /slow when it is told to, others at once.
type held struct {
	begun   chan struct{}
	proceed chan struct{}
}

func newHeld() *held { return &held{begun: make(chan struct{}, 16), proceed: make(chan struct{})} }

func (h *held) serve(x *pipeline.Exchange) error {
	if x.Request.Path == "/slow" {
		h.begun <- struct{}{}
		var ended error
		x.Wait(func() {
			select {
			case <-h.proceed:
			case <-x.Context().Done():
				ended = contextCause(x)
			}
		})
		if ended != nil {
			return ended
		}
	}
	x.Response = reply(200, x.Request.Path)
	return nil
}

func TestKeepAliveAndIdle(t *testing.T) {
	f := start(t, text("ok"), func(m *model.Listener) { m.Timeouts.Idle = 500 * time.Millisecond })
	c := f.dial()
	for range 3 {
		if response, body := c.send(get("/")).answer("GET"); body != "ok" || response.Close {
			t.Fatalf("%q, closes: %v", body, response.Close)
		}
	}
	c.ends()
}

func TestReadHeaderTimeout(t *testing.T) {
	f := start(t, text("ok"), func(m *model.Listener) { m.Timeouts.ReadHeader = 500 * time.Millisecond })
	f.dial().ends()
	c := f.dial().send("GET / HTTP/1.1\r\nHost: a\r\nX: ")
	if engine { // net/http closes without a word
		if response, body := c.answer("GET"); response.StatusCode != 408 || !response.Close || !strings.Contains(body, `"request_timeout"`) {
			t.Errorf("%d, closes: %v, %s", response.StatusCode, response.Close, body)
		}
		if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.RequestTimeout {
			t.Errorf("%v", x.Err)
		}
	}
	c.ends()
}

func TestHeaderLimit(t *testing.T) {
	for limit, status := range map[int64]int{1 << 10: 431, 0: 200} {
		f := start(t, text("ok"), func(m *model.Listener) { m.Limits.HeaderBytes = limit })
		c := f.dial().send("GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 2<<20) + "\r\n\r\n")
		if response, _ := c.answer("GET"); response.StatusCode != status {
			t.Errorf("limit %d: %d", limit, response.StatusCode)
		}
	}
}

func TestMalformedRequestsReachNobody(t *testing.T) {
	f := start(t, text("never"))
	if response, _ := f.dial().send("GET / HTTP/1.1\r\nHost: a\r\nbad name: 1\r\n\r\n").answer("GET"); response.StatusCode != 400 {
		t.Errorf("%d", response.StatusCode)
	}
}

func TestReloadOfTimeouts(t *testing.T) {
	ofAdapter(t, "the engine changes them on connections that there are")
	h := newHeld()
	f := start(t, h.serve)
	idle, busy := f.dial(), f.dial()
	if response, _ := idle.send(get("/")).answer("GET"); response.Close {
		t.Error("closes")
	}
	busy.send(get("/slow"))
	<-h.begun
	next := *f.model
	next.Timeouts.Idle = time.Minute
	f.listener.Serve(&next, nil)
	h.proceed <- struct{}{}
	if response, body := busy.answer("GET"); body != "/slow" || !response.Close {
		t.Errorf("the one under way: %q, closes: %v", body, response.Close)
	}
	busy.ends()
	if response, body := idle.send(get("/again")).answer("GET"); body != "/again" || !response.Close { // not cut meanwhile
		t.Errorf("the idle one: %q, closes: %v", body, response.Close)
	}
	idle.ends()
	if response, body := f.dial().send(get("/new")).answer("GET"); body != "/new" || response.Close {
		t.Errorf("a new one: %q, closes: %v", body, response.Close)
	}
}

// The engine goes by what a connection's listener has now, and closes none.
func TestReloadOfTimeoutsOfTheEngine(t *testing.T) {
	ofEngine(t, "net/http cannot change them")
	h := newHeld()
	f := start(t, h.serve)
	idle, busy, silent := f.dial(), f.dial(), f.dial()
	if response, _ := idle.send(get("/")).answer("GET"); response.Close {
		t.Error("closes")
	}
	busy.send(get("/slow"))
	<-h.begun
	waittest.Until(t, "three connections, one at rest", func() bool { return f.listener.Status().Connections == 3 && f.listener.Resting() == 1 })
	next := *f.model
	next.Timeouts.Idle, next.Timeouts.ReadHeader = time.Second, time.Second
	f.listener.Serve(&next, nil)
	if response, body := idle.send(get("/again")).answer("GET"); body != "/again" || response.Close { // it was not cut
		t.Errorf("the idle one: %q, closes: %v", body, response.Close)
	}
	if response, body := silent.send(get("/first")).answer("GET"); body != "/first" || response.Close {
		t.Errorf("the silent one: %q, closes: %v", body, response.Close)
	}
	h.proceed <- struct{}{}
	if response, body := busy.answer("GET"); body != "/slow" || response.Close {
		t.Errorf("the one under way: %q, closes: %v", body, response.Close)
	}
	for _, c := range []*client{idle, silent, busy, f.dial()} { // the last one without a word
		c.ends()
	}
}

func TestReloadsUnderLoadLoseNothing(t *testing.T) {
	f := start(t, text("ok"))
	var clients asking
	clients.start(t, f.listener.Addr().String())
	for i := range 50 {
		next := *f.model
		if i%3 > 0 {
			next.Timeouts.Idle = time.Duration(i+1) * time.Minute
		}
		f.listener.Serve(&next, nil)
		clients.more(t, 4)
	}
	clients.end()
	waittest.Until(t, "every exchange's end", func() bool { return int64(len(f.ended)) == clients.served.Load() || t.Failed() })
}

func TestRelease(t *testing.T) {
	h := newHeld()
	f := start(t, h.serve)
	f.listener.Hurry(time.Second, time.Second, time.Second, 50*time.Millisecond)
	address := f.listener.Addr()
	idle, busy, streaming, fresh := f.dial(), f.dial(), f.dial(), f.dial()
	idle.send(get("/")).answer("GET")
	waittest.Until(t, "an idle connection", func() bool { return len(f.ended) == 1 })
	busy.send(get("/slow"))
	<-h.begun
	streaming.send("GET /st")
	waittest.Until(t, "four connections", func() bool { return f.listener.Status().Connections == 4 })
	f.set.Release()
	f.listener.Release() // twice is once
	idle.ends()
	if _, err := net.Dial(address.Network(), address.String()); err == nil {
		t.Error("it still accepts")
	}
	if response, body := streaming.send("ream HTTP/1.1\r\nHost: a\r\n\r\n").answer("GET"); body != "/stream" || !response.Close {
		t.Errorf("a request that was arriving: %q, closes: %v", body, response.Close)
	}
	fresh.ends() // in a moment
	h.proceed <- struct{}{}
	if response, body := busy.answer("GET"); body != "/slow" || !response.Close {
		t.Errorf("a request under way: %q, closes: %v", body, response.Close)
	}
	busy.ends()
	if f.listener.Addr().String() != address.String() {
		t.Error("the address is forgotten")
	}
	f.listener.Serve(f.model, nil) // too late, and nothing
	if _, err := f.listener.File(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("%v", err)
	}
}

// A new connection whose request comes soon after the release is served.
func TestReleaseSparesANewConnection(t *testing.T) {
	f := start(t, text("ok"))
	f.listener.Hurry(time.Second, time.Second, time.Second, patience)
	c := f.dial()
	waittest.Until(t, "a connection", func() bool { return f.listener.Status().Connections == 1 })
	f.listener.Release()
	if response, body := c.send(get("/")).answer("GET"); body != "ok" || !response.Close {
		t.Errorf("%q, closes: %v", body, response.Close)
	}
}

// The head of this one went out before the release.
func TestReleaseClosesAfterAResponseThatDidNotSaySo(t *testing.T) {
	body := newStream()
	f := start(t, func(x *pipeline.Exchange) error { return body.respond(x, message.Unknown) })
	c := f.dial().send(get("/"))
	response := c.head("GET")
	f.listener.Release()
	body.parts <- "all"
	close(body.parts)
	if got, err := io.ReadAll(response.Body); string(got) != "all" || err != nil || response.Close {
		t.Errorf("%q, %v", got, err)
	}
	c.ends()
}

func TestShutdown(t *testing.T) {
	t.Run("waits", func(t *testing.T) {
		h := newHeld()
		f := start(t, h.serve)
		c := f.dial().send(get("/slow"))
		<-h.begun
		ended := make(chan error, 1)
		go func() { ended <- f.listener.Shutdown(context.Background()) }()
		waittest.Until(t, "the release", func() bool {
			conn, err := net.Dial("tcp", f.listener.Addr().String())
			if err == nil {
				conn.Close()
			}
			return err != nil
		})
		select {
		case err := <-ended:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		close(h.proceed)
		if _, body := c.answer("GET"); body != "/slow" {
			t.Errorf("%q", body)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		f.next(t) // Done came before
	})
	t.Run("has a deadline", func(t *testing.T) {
		h := newHeld()
		f := start(t, h.serve)
		c := f.dial().send(get("/slow"))
		<-h.begun
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errors.New("a second signal"))
		err := f.listener.Shutdown(ctx)
		if err == nil || !strings.Contains(err.Error(), "listener web: 1 connections were ended: a second signal") {
			t.Errorf("%v", err)
		}
		select {
		case x := <-f.ended:
			if x.Err == nil || x.Err.Word != pipeline.Overloaded {
				t.Errorf("%v", x.Err)
			}
		default:
			t.Error("the exchange has not ended")
		}
		if response, body := c.answer("GET"); response.StatusCode != 503 || !response.Close || !strings.Contains(body, "The gateway is stopping.") {
			t.Errorf("%d %s", response.StatusCode, body)
		}
		c.ends()
	})
	t.Run("cuts a response that ends with the connection so that it shows", func(t *testing.T) {
		body := newStream()
		f := start(t, func(x *pipeline.Exchange) error { return body.respond(x, message.Unknown) })
		c := f.dial().send("GET / HTTP/1.0\r\n\r\n")
		c.head("GET")
		body.parts <- "begun"
		c.read("begun")
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := f.listener.Shutdown(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if engine { // its task closes the connection, once it is free
			close(body.parts)
		}
		if _, err := c.r.ReadByte(); err == nil || errors.Is(err, io.EOF) || isTimeout(err) {
			t.Errorf("the client sees %v", err)
		}
		if !engine {
			close(body.parts) // it noticed nothing
		}
	})
	t.Run("does not wait for one that does not end", func(t *testing.T) {
		stuck := make(chan struct{})
		f := start(t, func(x *pipeline.Exchange) error {
			await(x, stuck)
			x.Response = reply(200, "")
			return nil
		})
		f.dial().send(get("/"))
		waittest.Until(t, "an exchange", func() bool { f.mu.Lock(); defer f.mu.Unlock(); return len(f.served) == 1 })
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := f.listener.Shutdown(ctx); err == nil {
			t.Error("no error")
		}
		close(stuck)
	})
	t.Run("before anything", func(t *testing.T) {
		l := server.Acquire(new(lease.Registry).NewSet(), defaults(), server.Options{})
		if l.Addr() != nil {
			t.Error("an address before Start")
		}
		if err := l.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Run("before Serve", func(t *testing.T) {
		l := server.Acquire(new(lease.Registry).NewSet(), defaults(), server.Options{})
		if err := l.Start(); err != nil {
			t.Fatal(err)
		}
		if err := l.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
			conn.Close()
			t.Error("it still listens")
		}
	})
}

func TestConnectionsWaitForServe(t *testing.T) {
	registry := new(lease.Registry)
	s := newService(text("ok"))
	set := registry.NewSet()
	l := server.Acquire(set, defaults(), server.Options{Service: s, Driver: newDriver(t)})
	if err := set.Commit(); err != nil {
		t.Fatal(err)
	}
	c := dial(t, l.Addr()).send(get("/"))
	l.Serve(defaults(), nil)
	if _, body := c.answer("GET"); body != "ok" {
		t.Errorf("%q", body)
	}
	c.Close()
	set.Release()
	if err := l.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	s.verify(t)
}

func TestServeBeforeStartIsAFault(t *testing.T) {
	l := server.Acquire(new(lease.Registry).NewSet(), defaults(), server.Options{})
	defer func() {
		if value := recover(); !strings.HasPrefix(fmt.Sprint(value), "BUG:") {
			t.Errorf("%v", value)
		}
	}()
	l.Serve(defaults(), nil)
}

func TestLeases(t *testing.T) {
	registry := new(lease.Registry)
	acquire := func(set *lease.Set, name, address string) *server.Listener {
		m := defaults()
		m.Name, m.Address = name, address
		return server.Acquire(set, m, server.Options{})
	}
	one, two := registry.NewSet(), registry.NewSet()
	if acquire(one, "a", ":8080") != acquire(two, "b", ":8080") {
		t.Error("one address, two listeners")
	}
	if acquire(one, "a", "127.0.0.1:0") == acquire(two, "b", "127.0.0.1:0") {
		t.Error("port 0 is shared by two names")
	}
	if acquire(one, "a", "127.0.0.1:0") != acquire(two, "a", "127.0.0.1:0") {
		t.Error("port 0 is not kept by its name")
	}
	if acquire(one, "a", "unix:/x:0") != acquire(two, "b", "unix:/x:0") {
		t.Error("a path is not a port")
	}
	one.Release()
	two.Release()
	if err := registry.Idle(); err != nil {
		t.Error(err)
	}
}

func TestConnectionLimit(t *testing.T) {
	var open atomic.Int64
	var names sync.Map
	f := startWith(t, server.Options{Connections: func(listener string, delta int) {
		open.Add(int64(delta))
		names.Store(listener, true)
	}}, text("ok"), func(m *model.Listener) { m.Limits.Connections = 2 })
	one, two := f.dial(), f.dial()
	one.send(get("/")).answer("GET")
	two.send(get("/")).answer("GET")
	f.next(t)
	f.next(t)
	for range 3 {
		c := f.dial().send(get("/"))
		response, body := c.answer("GET")
		x := f.next(t)
		if response.StatusCode != 503 || !strings.Contains(body, `"overloaded"`) || !response.Close || response.Header.Get("Content-Type") != "application/problem+json" || response.Header.Get("X-Request-ID") != x.ID {
			t.Fatalf("%d %v %s", response.StatusCode, response.Header, body)
		}
		if x.Err == nil || x.Err.Word != pipeline.Overloaded || x.Response.Status != 503 || x.BytesOut != int64(len(body)) || x.Peer.String() != c.LocalAddr().String() {
			t.Errorf("%v, %d bytes", x.Err, x.BytesOut)
		}
		c.ends()
	}
	if status := f.listener.Status(); status.Refused != 3 || status.Connections != 2 || open.Load() != 2 {
		t.Errorf("%+v, %d open", status, open.Load())
	}
	one.Close()
	waittest.Until(t, "a free place", func() bool { return f.listener.Status().Connections == 1 && open.Load() == 1 })
	if response, _ := f.dial().send(get("/")).answer("GET"); response.StatusCode != 200 {
		t.Errorf("%d", response.StatusCode)
	}
	more := *f.model
	more.Limits.Connections = 0
	f.listener.Serve(&more, nil)
	for range 3 {
		if response, _ := f.dial().send(get("/")).answer("GET"); response.StatusCode != 200 {
			t.Errorf("%d", response.StatusCode)
		}
	}
	if _, ok := names.Load("web"); !ok {
		t.Error("connections of no listener")
	}
}

// Of more refusals at once than wait for their clients, the others are answered,
// too.
func TestRefusalsAreBounded(t *testing.T) {
	f := start(t, text("ok"), func(m *model.Listener) { m.Limits.Connections = 1 })
	f.dial().send(get("/")).answer("GET")
	f.next(t)
	const many = 400
	var clients []*client
	for range many {
		clients = append(clients, f.dial())
	}
	waittest.Until(t, "all refusals", func() bool { return f.listener.Status().Refused == many })
	for i, c := range clients { // silent ones: each waits for a while, or not at all
		response, body := c.answer("GET")
		if response.StatusCode != 503 || !response.Close || !strings.Contains(body, `"overloaded"`) {
			t.Fatalf("client %d: %d, %s", i, response.StatusCode, body)
		}
		if x := f.next(t); x.Err == nil || x.Err.Word != pipeline.Overloaded || x.BytesOut != int64(len(body)) {
			t.Errorf("%v, %d bytes", x.Err, x.BytesOut)
		}
		c.ends()
		c.Close()
	}
}

// flaky fails to accept now and then.
type flaky struct {
	net.Listener
	failures atomic.Int64
}

func (f *flaky) Accept() (net.Conn, error) {
	if f.failures.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: errors.New("too many open files")}
	}
	return f.Listener.Accept()
}

func TestAcceptFailures(t *testing.T) {
	ofAdapter(t, "the engine's driver accepts")
	listen := func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		f := &flaky{Listener: l}
		f.failures.Store(3)
		return f, err
	}
	f := startWith(t, server.Options{Listen: listen}, text("ok"))
	if _, body := f.dial().send(get("/")).answer("GET"); body != "ok" {
		t.Errorf("%q", body)
	}
	if log := f.log.String(); strings.Count(log, "could not be accepted") != 3 || !strings.Contains(log, `error="too many open files" retry_in=20ms`) {
		t.Errorf("logged: %s", log)
	}
	if _, err := f.listener.File(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}

func TestAcceptFailuresDoNotOutliveTheListener(t *testing.T) {
	ofAdapter(t, "the engine's driver accepts")
	listen := func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		f := &flaky{Listener: l}
		f.failures.Store(1 << 30)
		return f, err
	}
	f := startWith(t, server.Options{Listen: listen}, text("never"))
	waittest.Until(t, "a long pause", func() bool { return strings.Contains(f.log.String(), "retry_in=160ms") })
}

// The engine's driver may fail to take the socket up.
func TestASocketThatIsTakenUpLater(t *testing.T) {
	driver := newStaged(t)
	driver.failures.Store(1)
	f := startWith(t, server.Options{Driver: driver}, text("ok"))
	if _, body := f.dial().send(get("/")).answer("GET"); body != "ok" {
		t.Errorf("%q", body)
	}
	if log := f.log.String(); strings.Count(log, "cannot accept connections") != 1 || !strings.Contains(log, `listener=web error="too many open files" retry_in=1s`) {
		t.Errorf("logged: %s", log)
	}
}

func TestASocketThatIsNeverTakenUp(t *testing.T) {
	driver := newStaged(t)
	driver.failures.Store(1 << 30)
	f := startWith(t, server.Options{Driver: driver}, text("never"))
	if err := f.listener.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", f.listener.Addr().String()); err == nil {
		conn.Close()
		t.Error("it still listens")
	}
	f.listener.Serve(f.model, nil) // as after the pause, and nothing
}
