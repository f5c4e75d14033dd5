package proxy_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
	"sluice/internal/proxy"
	"sluice/internal/server"
	"sluice/internal/transport"
	"sluice/internal/upstream"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// ways are the kinds of exchange that there are: of tasks of either driver, and of
// goroutines with net/http on both ends.
var ways = []string{"loop", "goroutine", "standard"}

// onEach runs a test on each of the ways.
func onEach(t *testing.T, test func(t *testing.T, way string)) {
	t.Helper()
	for _, way := range ways {
		t.Run(way, func(t *testing.T) { test(t, way) })
	}
}

// front is a listener whose exchanges go to a destination, over real connections.
type front struct {
	*testing.T
	destination pipeline.Handler
	listener    *server.Listener
	groups      []*upstream.Group
	ended       chan pipeline.Exchange // copies of those that are over
	repeated    atomic.Int64
	exhausted   atomic.Int64
	before      func(x *pipeline.Exchange) // is shown each exchange; may be nil
}

// target is an upstream of a route, the only one or one of a split.
type target struct {
	upstream *model.Upstream
	version  string
	weight   int
	fallback pipeline.Handler
	instead  *target // whose upstream is the fallback; nil: none's
}

// to is a target with endpoints.
func to(name string, endpoints ...model.Endpoint) target {
	return target{upstream: &model.Upstream{Name: name, Endpoints: endpoints, Timeouts: model.AttemptTimeouts{Connect: patience}}, weight: 1}
}

// serve starts a listener in front of a route. Of several targets the route has a
// split, whose sides it makes.
func serve(t *testing.T, way string, route *model.Route, targets ...target) *front {
	t.Helper()
	log := slog.New(slog.NewTextHandler(failing{t}, &slog.HandlerOptions{Level: slog.LevelError}))
	f := &front{T: t, ended: make(chan pipeline.Exchange, 10_000)}
	var driver netloop.Driver
	var engine *transport.Engine
	switch way {
	case "loop":
		var err error
		if driver, err = newLoops(log); err != nil {
			t.Fatal(err)
		}
	case "goroutine":
		driver = netloop.NewGoroutines(log)
	}
	var registry lease.Registry
	set := registry.NewSet()
	if driver != nil {
		fallback := netloop.NewGoroutines(log)
		t.Cleanup(fallback.Stop)
		t.Cleanup(driver.Stop)
		engine = transport.NewEngine(driver.Executors(), fallback)
	}
	f.destination = f.route(route, set, engine, targets)
	m := &model.Listener{
		Name: "web", Address: "127.0.0.1:0",
		Timeouts: model.ListenerTimeouts{ReadHeader: patience, Idle: patience},
		Limits:   model.ListenerLimits{HeaderBytes: 64 << 10, Headers: 100, URIBytes: 16 << 10},
		Paths:    model.Paths{MergeSlashes: true, EncodedSlash: "keep"},
	}
	f.listener = server.Acquire(set, m, server.Options{Service: f, Log: log, Driver: driver})
	if err := set.Commit(); err != nil {
		t.Fatal(err)
	}
	f.listener.Serve(m, nil)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := f.listener.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		set.Release()
	})
	return f
}

// route makes the destination.
func (f *front) route(route *model.Route, set *lease.Set, engine *transport.Engine, targets []target) pipeline.Handler {
	sides := make([]proxy.Side, len(targets))
	for i, one := range targets {
		if one.instead != nil {
			alone := *route
			alone.Split = nil
			one.fallback = f.route(&alone, set, engine, []target{*one.instead})
		}
		group := upstream.Acquire(set, one.upstream, upstream.Connect{Transport: func(set *lease.Set, m *model.Upstream, e model.Endpoint) pipeline.Transport {
			return transport.Acquire(set, m, e, transport.Observer{}, engine)
		}}, nil)
		f.groups = append(f.groups, group)
		sides[i] = proxy.Side{
			Group: group, Version: one.version, Weight: one.weight, Fallback: one.fallback,
			Repeated: func() { f.repeated.Add(1) }, Exhausted: func() { f.exhausted.Add(1) },
		}
		if route.Split != nil {
			route.Split.Sides = append(route.Split.Sides, model.Side{Upstream: one.upstream, Version: one.version, Weight: one.weight})
		}
	}
	if route.Split == nil {
		route.Upstream = targets[0].upstream
	}
	return proxy.New(route, sides, proxy.Gateway{Pseudonym: pseudonym})
}

// failing is a log whose lines fail the test.
type failing struct{ t *testing.T }

func (f failing) Write(p []byte) (int, error) {
	if !strings.Contains(string(p), "deliberate") {
		f.t.Errorf("the log says: %s", p)
	}
	return len(p), nil
}

// Serve admits an exchange and forwards it.
func (f *front) Serve(x *pipeline.Exchange) error {
	if err := pipeline.Admit(x, nil); err != nil {
		return err
	}
	if f.before != nil {
		f.before(x)
	}
	return f.destination.Serve(x)
}

// Done keeps what the exchange came to.
func (f *front) Done(x *pipeline.Exchange) { f.ended <- *x }

// client is a connection to the front.
func (f *front) client() *peer {
	f.Helper()
	conn, err := net.DialTimeout("tcp", f.listener.Addr().String(), patience)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		f.Fatal(err)
	}
	return &peer{conn, bufio.NewReader(conn)}
}

// ask sends a request on a connection of its own, and returns the response's head
// and body.
func (f *front) ask(request string) (head, body string) {
	f.Helper()
	c := f.client()
	c.say(request)
	return f.answer(c)
}

// answer reads a response with a known length, or one of chunks as they are.
func (f *front) answer(c *peer) (head, body string) {
	f.Helper()
	if head = c.head(); head == "" {
		f.Fatal("no answer")
	}
	if strings.Contains(head, "chunked") {
		return head, c.until("0\r\n\r\n")
	}
	n, _ := strconv.Atoi(valueOf(head, "Content-Length"))
	read := make([]byte, n)
	for i := range read {
		b, err := c.ReadByte()
		if err != nil {
			f.Fatalf("the body ends after %q: %v", read[:i], err)
		}
		read[i] = b
	}
	return head, string(read)
}

// over waits for the end of an exchange, and checks that nothing is left of it.
func (f *front) over() pipeline.Exchange {
	f.Helper()
	x := within(f.T, "the end of an exchange", f.ended)
	for _, group := range f.groups {
		status := group.Status(time.Now())
		active := slices.ContainsFunc(status.Endpoints, func(e upstream.EndpointStatus) bool { return e.Active != 0 })
		if active || status.InFlight != 0 || status.Repeating != 0 {
			f.Errorf("of %s something is left: %+v", group.Name(), status)
		}
	}
	return x
}

// wants checks an answer: its status and its body.
func (f *front) wants(request string, status int, body string) (head string) {
	f.Helper()
	head, got := f.ask(request)
	f.check(head, got, status, body)
	return head
}

func (f *front) check(head, got string, status int, body string) {
	f.Helper()
	if !strings.HasPrefix(head, "HTTP/1.1 "+strconv.Itoa(status)+" ") || got != body {
		f.Fatalf("got %s%s; want %d with %q", head, got, status, body)
	}
}

// told is the word of an error in a problem document, or the body.
func told(body string) string {
	if _, rest, found := strings.Cut(body, `"error":"`); found {
		word, _, _ := strings.Cut(rest, `"`)
		return word
	}
	return body
}

// retrying is a route with retries of everything, edited.
func retrying(edits ...func(r *model.Retry)) *model.Route {
	r := &model.Retry{
		Attempts: 2, Budget: 0.2, Body: 64 << 10, Methods: []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE"},
		On: model.RetryOn{ConnectFailure: true, Refused: true, Reset: true, Timeout: true, Status: []int{502, 503}},
	}
	for _, edit := range edits {
		edit(r)
	}
	return &model.Route{ID: "r", Retry: r, Rewrite: model.Rewrite{Host: "preserve"}}
}

// on says what is repeated.
func on(reasons model.RetryOn) func(r *model.Retry) {
	return func(r *model.Retry) { r.On = reasons }
}

// upTo says how many attempts there are.
func upTo(attempts int) func(r *model.Retry) { return func(r *model.Retry) { r.Attempts = attempts } }

// saying is an endpoint that reads a request, but for a body that is held back or
// comes in chunks, says something, and closes.
func saying(t *testing.T, text string) model.Endpoint {
	t.Helper()
	return scripted(t, func(p *peer) {
		if head := p.head(); head != "" {
			if valueOf(head, "Expect") == "" {
				p.body(head) // what is not read would break the connection
			}
			p.say(text)
		}
	})
}

// thatSays makes such endpoints.
func thatSays(text string) func(t *testing.T) model.Endpoint {
	return func(t *testing.T) model.Endpoint {
		t.Helper()
		return saying(t, text)
	}
}

// resetting is an endpoint that reads a head and breaks the connection.
func resetting(t *testing.T) model.Endpoint {
	t.Helper()
	return scripted(t, func(p *peer) {
		p.head()
		if tcp, ok := p.Conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	})
}

// silent is an endpoint that takes everything and never answers.
func silent(t *testing.T) model.Endpoint {
	t.Helper()
	return scripted(t, func(p *peer) {
		_, _ = io.Copy(io.Discard, p)
	})
}

// gone is an endpoint where nobody listens.
func gone(t *testing.T) model.Endpoint {
	t.Helper()
	path := "unix:" + filepath.Join(t.TempDir(), "gone")
	return model.Endpoint{URL: "http://" + path, Scheme: "http", Address: path, Host: "gone.test", Weight: 1}
}

// say is an answer with a body of a known length.
func say(status, body string, fields ...string) string {
	text := "HTTP/1.1 " + status + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	for _, field := range fields {
		text += field + "\r\n"
	}
	return text + "\r\n" + body
}

const asking = " / HTTP/1.1\r\nHost: shop.test\r\nX-Sluice-Attempts: ?\r\n"

// requestOf is a request with a whole body of a known length; an empty body: none.
func requestOf(method, body string, fields ...string) string {
	text := method + asking
	for _, field := range fields {
		text += field + "\r\n"
	}
	if body != "" {
		text += "Content-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	return text + "\r\n" + body
}

// echoing is an endpoint that answers each request of a known length with its body.
func echoing(t *testing.T) model.Endpoint {
	t.Helper()
	return scripted(t, func(p *peer) {
		for head := p.head(); head != ""; head = p.head() {
			p.say(say("200 OK", p.body(head)))
		}
	})
}

// body reads the body of a request of a known length.
func (p *peer) body(head string) string {
	n, _ := strconv.Atoi(valueOf(head, "Content-Length"))
	read := make([]byte, 0, n)
	for len(read) < n {
		b, err := p.ReadByte()
		if err != nil {
			break
		}
		read = append(read, b)
	}
	return string(read)
}

func itoa(n int) string { return strconv.Itoa(n) }
