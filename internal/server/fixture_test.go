package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/logtest"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/server"
	"sluice/internal/waittest"
)

// patience is how long a test waits for what must come. It is reached only by
// a test that fails.
const patience = 20 * time.Second

// service is a scripted pipeline.Service that watches its contract.
type service struct {
	serve func(x *pipeline.Exchange) error

	mu     sync.Mutex
	done   map[*pipeline.Exchange]int
	served map[*pipeline.Exchange]int
	ended  chan *pipeline.Exchange
}

func newService(serve func(x *pipeline.Exchange) error) *service {
	return &service{serve: serve, done: map[*pipeline.Exchange]int{}, served: map[*pipeline.Exchange]int{}, ended: make(chan *pipeline.Exchange, 1<<16)}
}

func (s *service) Serve(x *pipeline.Exchange) error {
	s.mu.Lock()
	s.served[x]++
	s.mu.Unlock()
	return s.serve(x)
}

func (s *service) Done(x *pipeline.Exchange) {
	s.mu.Lock()
	s.done[x]++
	s.mu.Unlock()
	s.ended <- x
}

// next waits for the end of an exchange.
func (s *service) next(t *testing.T) *pipeline.Exchange {
	t.Helper()
	return waittest.Receive(t, "an exchange ends", s.ended)
}

// verify checks that every exchange was done once.
func (s *service) verify(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for x, n := range s.served {
		if n != 1 || s.done[x] != 1 {
			t.Errorf("an exchange was served %d and done %d times: %s %s", n, s.done[x], x.Request.Method, x.Request.Target)
		}
	}
	for x, n := range s.done {
		if n != 1 {
			t.Errorf("an exchange was done %d times: %+v", n, x.Request)
		}
	}
}

// defaults are a listener as SPEC 3 has it, on a free port.
func defaults() *model.Listener {
	return &model.Listener{
		Name: "web", Address: "127.0.0.1:0",
		Timeouts: model.ListenerTimeouts{ReadHeader: 10 * time.Second, Idle: 120 * time.Second, MinBodyRate: 240},
		Limits:   model.ListenerLimits{HeaderBytes: 64 << 10, Headers: 100, URIBytes: 16 << 10},
		Paths:    model.Paths{MergeSlashes: true, EncodedSlash: "keep"},
	}
}

// fixture is a listener that serves.
type fixture struct {
	*testing.T
	*service
	listener *server.Listener
	set      *lease.Set
	model    *model.Listener
	log      *logtest.Buffer
}

// start serves by serve until the test ends. Edits are made to the model
// before.
func start(t *testing.T, serve func(x *pipeline.Exchange) error, edits ...func(*model.Listener)) *fixture {
	t.Helper()
	return startWith(t, server.Options{}, serve, edits...)
}

func startWith(t *testing.T, o server.Options, serve func(x *pipeline.Exchange) error, edits ...func(*model.Listener)) *fixture {
	t.Helper()
	return startService(t, o, nil, serve, edits...)
}

func startService(t *testing.T, o server.Options, wrap func(*service) pipeline.Service, serve func(x *pipeline.Exchange) error, edits ...func(*model.Listener)) *fixture {
	t.Helper()
	m := defaults()
	for _, edit := range edits {
		edit(m)
	}
	f := &fixture{T: t, service: newService(serve), model: m, log: &logtest.Buffer{}}
	o.Service = f.service
	if wrap != nil {
		o.Service = wrap(f.service)
	}
	if o.Driver == nil {
		o.Driver = newDriver(t)
	}
	o.Log = slog.New(slog.NewTextHandler(f.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	f.set = new(lease.Registry).NewSet()
	f.listener = server.Acquire(f.set, m, o)
	f.listener.Hurry(time.Second, time.Second, time.Second, 200*time.Millisecond)
	secure := secured(t, f.set, m)
	if err := f.set.Commit(); err != nil {
		t.Fatal(err)
	}
	f.listener.Serve(m, secure)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := f.listener.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		f.set.Release()
		f.verify(t)
	})
	return f
}

// text is a handler that answers 200 with a body.
func text(body string) func(x *pipeline.Exchange) error {
	return func(x *pipeline.Exchange) error {
		x.Response = reply(200, body)
		return nil
	}
}

func reply(status int, body string, fields ...string) *message.Response {
	r := &message.Response{Status: status, Body: io.NopCloser(strings.NewReader(body)), Length: int64(len(body))}
	for i := 0; i < len(fields); i += 2 {
		r.Fields.Add(fields[i], fields[i+1])
	}
	return r
}

// client is one connection to a listener.
type client struct {
	*testing.T
	net.Conn
	r *bufio.Reader
}

func (f *fixture) dial() *client {
	f.Helper()
	return dial(f.T, f.listener.Addr())
}

func dial(t *testing.T, address net.Addr) *client {
	t.Helper()
	conn, err := net.DialTimeout(address.Network(), address.String(), patience)
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return newClient(t, conn)
}

func newClient(t *testing.T, conn net.Conn) *client {
	t.Helper()
	t.Cleanup(func() { _ = conn.Close() })
	return &client{T: t, Conn: conn, r: bufio.NewReader(conn)}
}

// send writes text.
func (c *client) send(text string) *client {
	c.Helper()
	if _, err := io.WriteString(c.Conn, text); err != nil {
		c.Fatalf("sending %.60q: %v", text, err)
	}
	return c
}

// closeWrite ends the client's writing side.
func (c *client) closeWrite() {
	c.Helper()
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		c.Fatalf("a %T has no writing side", c.Conn)
	}
	if err := half.CloseWrite(); err != nil {
		c.Fatal(err)
	}
}

// head is the head of a response, with its body to be read.
type head struct {
	StatusCode int
	Header     http.Header
	Close      bool // it says that the connection closes
	Body       io.Reader
}

// head reads the head of a response to a request with a method.
func (c *client) head(method string) head {
	c.Helper()
	r, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.Fatalf("reading a response: %v", err)
	}
	c.Cleanup(func() {
		_ = c.Conn.Close() // else closing the body would wait for its end
		_ = r.Body.Close()
	})
	return head{r.StatusCode, r.Header, r.Close, r.Body}
}

// answer reads a whole response and returns its body, too.
func (c *client) answer(method string) (head, string) {
	c.Helper()
	response := c.head(method)
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.Fatalf("reading a body: %v after %.60q", err, body)
	}
	return response, string(body)
}

// read reads as many bytes as want has, and compares.
func (c *client) read(want string) {
	c.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(c.r, got)
	if err != nil || string(got) != want {
		c.Fatalf("read %q, %v; want %q", got[:n], err, want)
	}
}

// rest reads to the end of the connection.
func (c *client) rest() string {
	c.Helper()
	got, err := io.ReadAll(c.r)
	if err != nil {
		c.Fatalf("reading to the end: %v after %q", err, got)
	}
	return string(got)
}

// ends checks that the connection is closed with nothing more to read, by
// whatever way.
func (c *client) ends() {
	c.Helper()
	if b, err := c.r.ReadByte(); err == nil {
		rest, _ := io.ReadAll(c.r)
		c.Fatalf("the connection goes on with %q", string(b)+string(rest))
	} else if isTimeout(err) {
		c.Fatal("the connection stays open")
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

func get(path string) string {
	return fmt.Sprintf("GET %s HTTP/1.1\r\nHost: example.com\r\n\r\n", path)
}

func contextCause(x *pipeline.Exchange) error { return context.Cause(x.Context()) }

func routeWithIdle(idle, stream time.Duration) *model.Route {
	return &model.Route{Timeouts: model.RouteTimeouts{Idle: idle, IdleStream: stream}}
}

// reset ends a client's connection with a reset.
func reset(t *testing.T, c *client) {
	t.Helper()
	tcp, ok := c.Conn.(*net.TCPConn)
	if !ok {
		t.Fatalf("a %T cannot be reset", c.Conn)
	}
	if err := tcp.SetLinger(0); err != nil {
		t.Fatal(err)
	}
	tcp.Close()
}
