package transport

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is the endpoint's side of a connection.
type peer struct {
	t testing.TB
	net.Conn
	*bufio.Reader
}

func newPeer(t testing.TB, conn net.Conn) *peer {
	t.Helper()
	return &peer{t, conn, bufio.NewReader(conn)}
}

func (p *peer) Read(b []byte) (int, error) { return p.Reader.Read(b) }

// head reads up to the end of a request's head; empty where the connection ends.
func (p *peer) head() string {
	var head strings.Builder
	for {
		line, err := p.ReadString('\n')
		head.WriteString(line)
		if err != nil || line == "\r\n" {
			return head.String()
		}
	}
}

// until reads up to and with a text.
func (p *peer) until(text string) string {
	var got strings.Builder
	for !strings.HasSuffix(got.String(), text) {
		b, err := p.ReadByte()
		if err != nil {
			p.t.Errorf("waiting for %q the endpoint got %q and %v", text, got.String(), err)
			break
		}
		got.WriteByte(b)
	}
	return got.String()
}

func (p *peer) say(text string) { _, _ = io.WriteString(p.Conn, text) }

// scripted starts an endpoint that runs script on every connection and closes
// it thereafter.
func scripted(t testing.TB, script func(p *peer)) model.Endpoint {
	t.Helper()
	return serveScript(t, "tcp", "127.0.0.1:0", script)
}

func serveScript(t testing.TB, network, address string, script func(p *peer)) model.Endpoint {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, listener, script)
}

func serveOn(t testing.TB, listener net.Listener, script func(p *peer)) model.Endpoint {
	t.Helper()
	var served sync.WaitGroup
	var mu sync.Mutex
	open := map[net.Conn]bool{}
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open[conn] = true
			mu.Unlock()
			served.Go(func() {
				defer conn.Close()
				script(newPeer(t, conn))
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		mu.Lock()
		for conn := range open {
			conn.Close()
		}
		mu.Unlock()
		served.Wait()
	})
	endpoint := model.Endpoint{URL: "http://" + listener.Addr().String(), Scheme: "http", Address: listener.Addr().String(), Host: listener.Addr().String(), Weight: 1}
	if address := listener.Addr(); address.Network() == "unix" {
		endpoint.URL, endpoint.Address, endpoint.Host = "unix:"+address.String(), "unix:"+address.String(), "localhost"
	}
	return endpoint
}

const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

// answering serves requests without bodies with one text each.
func answering(text string) func(p *peer) {
	return func(p *peer) {
		for p.head() != "" {
			p.say(text)
		}
	}
}

// delayed dials, and holds the connection back.
func delayed(dialing chan<- struct{}, proceed <-chan struct{}) dialer {
	return func(_ context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).Dial(network, address)
		dialing <- struct{}{}
		<-proceed
		return conn, err
	}
}

type setup struct {
	pool     model.Pool
	timeouts model.AttemptTimeouts
	observer Observer
	dial     dialer
}

// wayOf is how an endpoint is reached by a setup.
func wayOf(endpoint model.Endpoint, s setup) *way {
	return newWay(&model.Upstream{Name: "up", Pool: s.pool, Timeouts: s.timeouts}, endpoint, s.observer, nil)
}

// openStandard returns net/http's transport to an endpoint that is released with
// the test.
func openStandard(t testing.TB, endpoint model.Endpoint, s setup) *standard {
	t.Helper()
	if s.dial == nil {
		s.dial = (&net.Dialer{}).DialContext
	}
	transport := newStandard(wayOf(endpoint, s), s.dial)
	t.Cleanup(transport.Release)
	return transport
}

func get(path string) *message.Request {
	return &message.Request{Protocol: message.HTTP11, Method: "GET", Scheme: "http", Host: "shop.test", Path: path}
}

func post(body io.Reader, length int64) *message.Request {
	r := get("/")
	r.Method, r.Body, r.Length = "POST", io.NopCloser(body), length
	return r
}

// informer takes informational responses by a function.
type informer func(status int, fields message.Fields)

func (f informer) Inform(status int, fields message.Fields) { f(status, fields) }

// trip does an attempt; inform may be nil.
func trip(ctx context.Context, transport pipeline.Transport, request *message.Request, inform informer) (*message.Response, error) {
	try := &pipeline.Attempt{Request: request}
	if inform != nil {
		try.Informer = inform
	}
	if err := transport.RoundTrip(ctx, try); err != nil {
		return nil, err
	}
	return &try.Response, nil
}

// ask does an attempt that must succeed and reads its body.
func ask(t testing.TB, transport pipeline.Transport, request *message.Request) (*message.Response, string) {
	t.Helper()
	response, err := trip(t.Context(), transport, request, nil)
	if err != nil {
		t.Fatalf("RoundTrip: %v", err)
	}
	return response, drain(t, response)
}

func drain(t testing.TB, response *message.Response) string {
	t.Helper()
	if response.Body == nil {
		return ""
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("body: %v", err)
	}
	if err := response.Body.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	return string(body)
}

// fails does an attempt that must fail.
func fails(ctx context.Context, t testing.TB, transport pipeline.Transport, request *message.Request) error {
	t.Helper()
	response, err := trip(ctx, transport, request, nil)
	if err == nil {
		_ = response.Close()
		t.Fatalf("RoundTrip gave status %d, no error", response.Status)
	}
	return err
}

// wantError checks the word, status and fault of an error.
func wantError(t testing.TB, err error, word pipeline.Word) pipeline.Error {
	t.Helper()
	if e := pipeline.AsError(err); e == nil || e.Word != word {
		t.Fatalf("error %v, want %s", err, word)
	} else {
		return *e
	}
	panic("unreachable")
}

func fieldText(fields message.Fields) string {
	var lines []string
	for _, f := range fields {
		lines = append(lines, f.Name+": "+f.Value)
	}
	return strings.Join(lines, "\n")
}

func itoa(n int) string { return strconv.Itoa(n) }
