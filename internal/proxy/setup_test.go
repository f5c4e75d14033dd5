package proxy_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/proxy"
	"sluice/internal/transport"
	"sluice/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is the endpoint's side of a connection.
type peer struct {
	net.Conn
	*bufio.Reader
}

func (p *peer) Read(b []byte) (int, error) { return p.Reader.Read(b) }

// until reads up to and with a text, or to the end.
func (p *peer) until(text string) string {
	var got strings.Builder
	for !strings.HasSuffix(got.String(), text) {
		b, err := p.ReadByte()
		if err != nil {
			break
		}
		got.WriteByte(b)
	}
	return got.String()
}

// head reads a request's head; empty where the connection ends.
func (p *peer) head() string { return p.until("\r\n\r\n") }

func (p *peer) say(text string) { _, _ = io.WriteString(p.Conn, text) }

func (p *peer) closeWrite() {
	if half, ok := p.Conn.(*net.TCPConn); ok {
		_ = half.CloseWrite()
	}
}

const okay = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// scripted starts an endpoint that runs script on every connection and closes
// it thereafter.
func scripted(t *testing.T, script func(p *peer)) model.Endpoint {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			stop := context.AfterFunc(ctx, func() { conn.Close() })
			served.Go(func() {
				defer stop()
				defer conn.Close()
				script(&peer{conn, bufio.NewReader(conn)})
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		listener.Close()
		served.Wait()
	})
	address := listener.Addr().String()
	return model.Endpoint{URL: "http://" + address, Scheme: "http", Address: address, Host: address, Weight: 1}
}

// recording is an endpoint that answers every request and gives its head.
func recording(t *testing.T, answer string) (model.Endpoint, <-chan string) {
	t.Helper()
	heads := make(chan string, 10000)
	return scripted(t, func(p *peer) {
		for head := p.head(); head != ""; head = p.head() {
			heads <- head
			p.say(answer)
		}
	}), heads
}

// gateway holds what tests forward with.
type gateway struct {
	t     *testing.T
	route *model.Route
	group *upstream.Group
	pipeline.Handler
}

const pseudonym = "sluice-test"

// forward makes the destination of a route over real connections, or over a
// transport that stands in for them.
func forward(t *testing.T, route *model.Route, instead roundTripper, endpoints ...model.Endpoint) *gateway {
	t.Helper()
	var registry lease.Registry
	set := registry.NewSet()
	route.Upstream = &model.Upstream{Name: "up", Endpoints: endpoints}
	group := upstream.Acquire(set, route.Upstream, upstream.Connect{Transport: func(set *lease.Set, _ *model.Upstream, e model.Endpoint) pipeline.Transport {
		if instead != nil {
			return onContext{instead}
		}
		return transport.Acquire(set, &model.Upstream{Name: "up", Timeouts: model.AttemptTimeouts{Connect: 10 * time.Second}}, e, transport.Observer{}, nil)
	}}, nil)
	if err := set.Commit(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Release)
	return &gateway{t, route, group, proxy.New(route, []proxy.Side{{Group: group}}, proxy.Gateway{Pseudonym: pseudonym})}
}

// quiet checks that nothing is under way.
func (g *gateway) quiet(failures int64) {
	g.t.Helper()
	var active, failed int64
	for _, e := range g.group.Status(time.Now()).Endpoints {
		active, failed = active+e.Active, failed+e.Failures
	}
	if active != 0 || failed != failures {
		g.t.Errorf("%d attempts are active, %d failed; want none and %d", active, failed, failures)
	}
}

func get(path string, fields ...string) *message.Request {
	r := &message.Request{Protocol: message.HTTP11, Method: "GET", Scheme: "http", Target: path, Host: "shop.test", Path: path}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Fields.Add(name, value)
	}
	return r
}

func post(body io.Reader, length int64) *message.Request {
	r := get("/")
	r.Method, r.Body, r.Length = "POST", io.NopCloser(body), length
	return r
}

var peerAddress = netip.MustParseAddrPort("192.0.2.7:4711")

func exchange(ctx context.Context, request *message.Request) *pipeline.Exchange {
	x := pipeline.NewExchange(ctx, request, &model.Listener{Paths: model.Paths{MergeSlashes: true}}, peerAddress, time.Now())
	x.ID = "id-1"
	return x
}

// pass forwards an exchange that must succeed and returns its response's body.
func (g *gateway) pass(x *pipeline.Exchange) string {
	g.t.Helper()
	if err := g.Serve(x); err != nil {
		g.t.Fatalf("Serve: %v", err)
	}
	return g.drain(x)
}

func (g *gateway) drain(x *pipeline.Exchange) string {
	g.t.Helper()
	if x.Response.Body == nil {
		return ""
	}
	body, err := io.ReadAll(x.Response.Body)
	if err != nil {
		g.t.Fatalf("body: %v", err)
	}
	if err := x.Response.Close(); err != nil {
		g.t.Fatalf("Close: %v", err)
	}
	return string(body)
}

// fail forwards an exchange that must fail with a word.
func (g *gateway) fail(x *pipeline.Exchange, word pipeline.Word, status int) {
	g.t.Helper()
	err := g.Serve(x)
	if err == nil {
		_ = x.Response.Close()
		g.t.Fatalf("Serve gave status %d, no error", x.Response.Status)
	}
	if x.Response != nil {
		g.t.Error("an error left a response behind")
	}
	wantError(g.t, err, word, status)
}

func wantError(t *testing.T, err error, word pipeline.Word, status int) {
	t.Helper()
	if e := pipeline.AsError(err); e == nil || e.Word != word || e.Status != status {
		t.Fatalf("error %v, want %s with %d", err, word, status)
	}
}

// within fails the test if a channel stays silent.
func within[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("never: %s", what)
		panic("unreachable")
	}
}

// fieldText is a head's fields of a name, or all of a list's.
func fieldText(fields message.Fields) string {
	lines := make([]string, 0, len(fields))
	for _, f := range fields {
		lines = append(lines, f.Name+": "+f.Value)
	}
	return strings.Join(lines, "\n")
}

// lines are the field lines of a raw head, sorted as they came.
func lines(head string) []string {
	_, fields, _ := strings.Cut(strings.TrimSuffix(head, "\r\n\r\n"), "\r\n")
	return strings.Split(fields, "\r\n")
}

// valueOf is the value of a field of a raw head; several are joined with "|".
func valueOf(head, name string) string {
	var values []string
	for _, line := range lines(head) {
		if key, value, _ := strings.Cut(line, ": "); strings.EqualFold(key, name) {
			values = append(values, value)
		}
	}
	return strings.Join(values, "|")
}

func parse(t *testing.T, text string) *model.Template {
	t.Helper()
	var parts []model.TemplatePart
	for text != "" {
		literal, rest, found := strings.Cut(text, "{")
		if literal != "" {
			parts = append(parts, model.TemplatePart{Literal: literal})
		}
		if !found {
			break
		}
		var name string
		name, text, _ = strings.Cut(rest, "}")
		part := model.TemplatePart{Source: model.FromParam, Name: name}
		for _, builtin := range model.Builtins {
			if string(builtin) == name {
				part = model.TemplatePart{Source: builtin}
			}
		}
		if header, ok := strings.CutPrefix(name, "header."); ok {
			part = model.TemplatePart{Source: model.FromHeader, Name: header}
		}
		parts = append(parts, part)
	}
	return &model.Template{Parts: parts}
}
