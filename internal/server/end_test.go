package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
	"sluice/internal/server"
	"sluice/internal/waittest"
)

// TestYield ends a listener whose socket another process serves: no client
// notices.
func TestYield(t *testing.T) {
	h := newHeld()
	f := start(t, h.serve)
	f.listener.Hurry(time.Second, time.Second, time.Second, time.Millisecond)
	one, two, busy, fresh := f.dial(), f.dial(), f.dial(), f.dial()
	for _, c := range []*client{one, two} {
		if response, _ := c.send(get("/")).answer("GET"); response.Close {
			t.Error("closes before")
		}
	}
	busy.send(get("/slow"))
	<-h.begun
	waittest.Until(t, "four connections", func() bool { return f.listener.Status().Connections == 4 })
	ctx, cancel := context.WithCancel(t.Context())
	yielded := make(chan struct{})
	go func() { f.listener.Yield(ctx); close(yielded) }()
	waittest.Until(t, "the end of the socket", func() bool {
		conn, err := net.Dial("tcp", f.listener.Addr().String())
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	for _, c := range []*client{one, fresh} {
		if response, body := c.send(get("/once")).answer("GET"); body != "/once" || !response.Close {
			t.Errorf("one more request: %q, closes: %v", body, response.Close)
		}
		c.ends()
	}
	h.proceed <- struct{}{}
	if response, body := busy.answer("GET"); body != "/slow" || !response.Close {
		t.Errorf("the one under way: %q, closes: %v", body, response.Close)
	}
	for range 5 { // all exchanges are over
		f.next(t)
	}
	select {
	case <-yielded:
		t.Error("it waits for nobody")
	default:
	}
	cancel()
	<-yielded
	if err := f.listener.Shutdown(ctx); err != nil {
		t.Errorf("an idle connection counts as cut: %v", err)
	}
	two.ends()
	<-f.listener.Quiet()
}

// TestYieldWaitsForOneMore: a response whose head was sent before does not say
// that the connection closes, so that one more request may come.
func TestYieldWaitsForOneMore(t *testing.T) {
	body := newStream()
	f := start(t, func(x *pipeline.Exchange) error {
		if x.Request.Path != "/stream" {
			return text(x.Request.Path)(x)
		}
		return body.respond(x, message.Unknown)
	})
	c := f.dial().send(get("/stream"))
	response := c.head("GET")
	yielded := make(chan struct{})
	go func() { f.listener.Yield(t.Context()); close(yielded) }()
	waittest.Until(t, "the end of the socket", func() bool { _, err := f.listener.File(); return errors.Is(err, net.ErrClosed) })
	close(body.parts)
	if got, err := io.ReadAll(response.Body); len(got) > 0 || err != nil || response.Close {
		t.Errorf("%q, %v, closes: %v", got, err, response.Close)
	}
	f.next(t)
	if response, got := c.send(get("/more")).answer("GET"); got != "/more" || !response.Close {
		t.Errorf("%q, closes: %v", got, response.Close)
	}
	<-yielded // nothing is left
}

// queue is a socket that accepts nothing until it is to end.
type queue struct {
	*net.TCPListener
	once sync.Once
	end  chan struct{}
}

func (q *queue) Accept() (net.Conn, error) {
	<-q.end
	return q.TCPListener.Accept()
}

func (q *queue) SetDeadline(t time.Time) error {
	defer q.once.Do(func() { close(q.end) })
	return q.TCPListener.SetDeadline(t)
}

// wrapped listens behind a listener that is made for one of the system's.
func wrapped(t *testing.T, wrap func(*net.TCPListener) net.Listener) func(network, address string) (net.Listener, error) {
	t.Helper()
	return func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		if err != nil {
			return nil, err
		}
		tcp, ok := l.(*net.TCPListener)
		if !ok {
			t.Fatalf("a %T", l)
		}
		return wrap(tcp), nil
	}
}

// TestReleaseServesWhoWaits: who has connected, and asked, gets an answer though
// nobody had accepted the connection yet.
func TestReleaseServesWhoWaits(t *testing.T) {
	options := server.Options{Listen: wrapped(t, func(tcp *net.TCPListener) net.Listener {
		return &queue{TCPListener: tcp, end: make(chan struct{})}
	})}
	if engine {
		driver := newStaged(t)
		driver.queued = true
		options = server.Options{Driver: driver}
	}
	f := startWith(t, options, text("ok"))
	var waiting []*client
	for range 5 {
		waiting = append(waiting, f.dial().send(get("/")))
	}
	f.listener.Release()
	for _, c := range waiting {
		if response, body := c.answer("GET"); body != "ok" || !response.Close {
			t.Errorf("%q, closes: %v", body, response.Close)
		}
		c.ends()
	}
	if conn, err := net.Dial("tcp", f.listener.Addr().String()); err == nil {
		conn.Close()
		t.Error("it still listens")
	}
}

// sleepy is a connection whose reader is not told of what comes while it sleeps.
type sleepy struct {
	*net.TCPConn
	gate *sync.RWMutex
}

func (s sleepy) Read(p []byte) (int, error) {
	n, err := s.TCPConn.Read(p[:1]) // net/http looks for the first byte alone, too
	if err != nil || n == 0 {
		return n, err
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	more, err := s.TCPConn.Read(p[1:])
	return n + more, err
}

type sleepyListener struct {
	*net.TCPListener
	gate *sync.RWMutex
}

func (l sleepyListener) Accept() (net.Conn, error) {
	conn, err := l.TCPListener.Accept()
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return sleepy{tcp, l.gate}, nil
}

// TestReleaseSparesWhoHasAsked: a connection is not idle if a request has
// arrived, even where nobody has read it yet.
func TestReleaseSparesWhoHasAsked(t *testing.T) {
	ofAdapter(t, "the engine has a test of its own")
	gate := new(sync.RWMutex)
	f := startWith(t, server.Options{Listen: wrapped(t, func(tcp *net.TCPListener) net.Listener {
		return sleepyListener{tcp, gate}
	})}, text("ok"))
	c := f.dial()
	c.send(get("/")).answer("GET")
	f.next(t)
	gate.Lock()
	c.send(get("/"))
	waittest.Until(t, "the arrival", func() bool { return f.listener.Pending() == 1 })
	f.listener.Release()
	gate.Unlock()
	if response, body := c.answer("GET"); body != "ok" || !response.Close {
		t.Errorf("%q, closes: %v", body, response.Close)
	}
}

// The same where the engine reads: the second time a task is about to serve the
// connection, it is held up.
func TestTheEngineSparesWhoHasAsked(t *testing.T) {
	driver := newStaged(t)
	came, proceed := make(chan struct{}, 2), make(chan struct{}, 1)
	driver.serves = func(c netloop.Conn) {
		came <- struct{}{}
		c.Executor().Block(func() { <-proceed })
	}
	f := startWith(t, server.Options{Driver: driver}, text("ok"))
	c := f.dial()
	proceed <- struct{}{}
	c.send(get("/")).answer("GET")
	f.next(t)
	<-came
	c.send(get("/"))
	<-came
	f.listener.Release()
	proceed <- struct{}{}
	if response, body := c.answer("GET"); body != "ok" || !response.Close {
		t.Errorf("%q, closes: %v", body, response.Close)
	}
}

// TestShutdownDoesNotWaitForAPartingClient: after an answer to a body that was
// too slow, the connection reads on for a while; nothing is under way on it.
func TestShutdownDoesNotWaitForAPartingClient(t *testing.T) {
	for name, late := range map[string]bool{"that parts already": false, "that parts then": true} {
		t.Run(name, func(t *testing.T) {
			h := newHeld()
			f := start(t, h.serve, func(m *model.Listener) { m.Limits.Body = 10 })
			f.listener.Hurry(time.Second, time.Second, 10*patience, time.Millisecond)
			ended := make(chan error, 1)
			shutdown := func() { go func() { ended <- f.listener.Shutdown(context.Background()) }() }
			c := f.dial()
			if late {
				c.send("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
				<-h.begun
				shutdown()
				waittest.Until(t, "the end", func() bool { _, err := f.listener.File(); return err != nil })
				h.proceed <- struct{}{}
			} else {
				c.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n")
			}
			c.answer("POST")
			if !late {
				waittest.Until(t, "a parting connection", func() bool { return f.listener.Parting() == 1 })
				shutdown()
			}
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(patience):
				t.Error("it waits for the client")
			}
			if _, err := c.r.ReadByte(); err == nil || isTimeout(err) {
				t.Errorf("the connection ended with %v", err)
			}
		})
	}
}

// TestTakeBack: where no other process has the socket after all, its file goes
// with the listener.
func TestTakeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	f := start(t, text("ok"), onSocket(path))
	file, err := f.listener.File()
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
	f.listener.TakeBack()
	f.listener.Release()
	if exists(path) {
		t.Error("the file is left over")
	}
}

// TestInheritedSocketThatNeverServed: a process that was handed a socket, and
// fails to start, leaves its file to the one that has it still.
func TestInheritedSocketThatNeverServed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	before := start(t, text("before"), onSocket(path))
	file, err := before.listener.File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	fails := bare("unix:"+path, server.Options{Listen: func(string, string) (net.Listener, error) { return net.FileListener(file) }})
	if err := fails.Start(); err != nil {
		t.Fatal(err)
	}
	fails.Release()
	if _, body := before.dial().send(get("/")).answer("GET"); body != "before" {
		t.Errorf("%q", body)
	}

	own := filepath.Join(t.TempDir(), "own")
	refused := bare("unix:"+own, server.Options{})
	if err := errors.Join(os.WriteFile(own, nil, 0o600), os.Remove(own), refused.Start()); err != nil {
		t.Fatal(err)
	}
	refused.Release()
	if exists(own) {
		t.Error("the file of one that bound it itself is left over")
	}
}

// TestShutdownCutsNothingThatIsOver: a connection whose last response is out is
// no exchange that was cut.
func TestShutdownCutsNothingThatIsOver(t *testing.T) {
	f := start(t, text("ok"))
	c := f.dial().send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
	c.answer("GET")
	f.next(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.listener.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}
