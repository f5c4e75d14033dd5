package external_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// coming is a body that comes in pieces, and tells when it is closed.
type coming struct {
	io.Reader
	closed bool
}

func (c *coming) Close() error {
	c.closed = true
	return nil
}

// with gives an exchange a body that comes byte for byte, and a length or Unknown.
func with(x *pipeline.Exchange, text string, length int64) *coming {
	c := &coming{Reader: pieces{strings.NewReader(text)}}
	x.Request.Body, x.Request.Length = c, length
	return c
}

type pieces struct{ from io.Reader }

func (p pieces) Read(b []byte) (int, error) { return p.from.Read(b[:min(1, len(b))]) }

// TestBody: the service is told a bounded part of a body, and the destination gets all of it.
func TestBody(t *testing.T) {
	var told atomic.Pointer[http.Request]
	var text atomic.Value
	url := decider(t, func(_ http.ResponseWriter, r *http.Request) {
		all, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		text.Store(string(all))
		told.Store(r)
	})
	var checked atomic.Pointer[authv3.AttributeContext_HttpRequest]
	address, _ := authorizer(t, "tcp", "127.0.0.1:0", func(_ context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		checked.Store(r.GetAttributes().GetRequest().GetHttp())
		return &authv3.CheckResponse{Status: code(codes.OK)}, nil
	})
	for _, test := range []struct {
		options, body string
		length        int64
		want          string // what is told; "413": it is refused
		partial       string
	}{
		{"{}", "hello", 5, "hello", "false"},
		{"{}", "hello", message.Unknown, "hello", "false"},
		{"{max: 5B}", "hello", 5, "hello", "false"},
		{"{max: 5B}", "hello", message.Unknown, "hello", "false"},
		{"{max: 5B}", "hello!", 6, "413", ""},
		{"{max: 5B}", "hello!", message.Unknown, "413", ""},
		{"{max: 5B, partial: true}", "hello", message.Unknown, "hello", "false"},
		{"{max: 5B, partial: true}", "hello!", 6, "hello", "true"},
		{"{max: 5B, partial: true}", "hello!", message.Unknown, "hello", "true"},
		{"{max: 5B, partial: true}", "hello, you", message.Unknown, "hello", "true"},
		{"{}", "", 0, "", "false"},
	} {
		for _, target := range []string{`http: {url: "` + url + `"}`, `grpc: {address: "` + address + `"}`} {
			told.Store(nil)
			text.Store("none")
			checked.Store(nil)
			m, _ := newBed(t).build("{" + target + ", on_failure: allow, body: " + test.options + "}")
			x := asked(t.Context(), "PUT /x", "Content-Type: text/plain", "X-Envoy-Auth-Partial-Body: maybe")
			came := with(x, test.body, test.length)
			got := ""
			err := m(pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
				all, err := io.ReadAll(x.Request.Body)
				got = string(all)
				x.Response = &message.Response{Status: 200}
				return errors.Join(err, x.Request.Body.Close())
			})).Serve(x)
			name := fmt.Sprintf("%s %s %q of %d", target, test.options, test.body, test.length)
			if test.want == "413" {
				if e := pipeline.AsError(err); e == nil || e.Word != pipeline.BodyTooLarge || !e.Close || told.Load() != nil || checked.Load() != nil || got != "" {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			if err != nil || got != test.body || x.Request.Length != test.length || !came.closed {
				t.Errorf("%s: %v, the destination gets %q of %d", name, err, got, x.Request.Length)
			}
			if r := checked.Load(); r != nil && (r.GetBody() != test.want || r.GetRawBody() != nil || r.GetHeaders()["x-envoy-auth-partial-body"] != test.partial) {
				t.Errorf("%s: told %v", name, r)
			}
			if r := told.Load(); r != nil && (text.Load() != test.want || r.Header.Get("X-Envoy-Auth-Partial-Body") != test.partial ||
				r.Method != "POST" || r.Header.Get("X-Forwarded-Method") != "PUT" || r.Header.Get("Content-Type") != "text/plain" || r.ContentLength != int64(len(test.want)) || r.Header.Values("Idempotency-Key") != nil) {
				t.Errorf("%s: told %q with %v", name, text.Load(), r)
			}
			if told.Load() == nil && checked.Load() == nil {
				t.Errorf("%s: nobody was asked", name)
			}
		}
	}
}

// TestNoBody: a request without one is asked about as others are.
func TestNoBody(t *testing.T) {
	var told atomic.Pointer[http.Request]
	url := decider(t, func(_ http.ResponseWriter, r *http.Request) { told.Store(r) })
	m, _ := newBed(t).build(`{http: {url: "` + url + `"}, body: {}}`)
	x := asked(t.Context(), "GET /")
	if reached, err := serve(m, x); err != nil || reached == nil || x.Request.Body != nil {
		t.Fatal(err)
	}
	if r := told.Load(); r.Method != "POST" || r.ContentLength != 0 || r.Header.Get("X-Envoy-Auth-Partial-Body") != "false" {
		t.Errorf("told %v", r)
	}
}

// TestRawBody: bytes that are no text are told as they are, or as !.
func TestRawBody(t *testing.T) {
	var got atomic.Pointer[authv3.AttributeContext_HttpRequest]
	address, _ := authorizer(t, "tcp", "127.0.0.1:0", func(_ context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		got.Store(r.GetAttributes().GetRequest().GetHttp())
		return &authv3.CheckResponse{Status: code(codes.OK)}, nil
	})
	for raw, want := range map[string][2]string{"false": {"a!b", ""}, "true": {"", "a\xff\xfeb"}} {
		m, _ := newBed(t).build(`{grpc: {address: "` + address + `"}, body: {raw: ` + raw + `}}`)
		x := asked(t.Context(), "PUT /")
		with(x, "a\xff\xfeb", 4)
		if _, err := serve(m, x); err != nil || got.Load().GetBody() != want[0] || string(got.Load().GetRawBody()) != want[1] {
			t.Errorf("raw: %s: %v, told %v", raw, err, got.Load())
		}
	}
}

// broken is a body that fails after some bytes.
type broken struct{ left string }

var errBroken = errors.New("the client has broken off")

func (b *broken) Read(p []byte) (int, error) {
	if b.left == "" {
		return 0, errBroken
	}
	n := copy(p, b.left)
	b.left = b.left[n:]
	return n, nil
}

func (*broken) Close() error { return nil }

// TestBrokenBody: a body that does not come is no failure of the service, which is not asked.
func TestBrokenBody(t *testing.T) {
	var count atomic.Int32
	m, _ := newBed(t).build(`{http: {url: "` + counting(t, &count, nil) + `"}, on_failure: allow, body: {}}`)
	x := asked(t.Context(), "PUT /")
	x.Request.Body, x.Request.Length = &broken{"hel"}, 5
	if reached, err := serve(m, x); !errors.Is(err, errBroken) || reached != nil || count.Load() != 0 {
		t.Errorf("%v, reached %v, asked %d times", err, reached, count.Load())
	}
}

// TestCacheByBody: what the service is told of a body counts, or what the key names.
func TestCacheByBody(t *testing.T) {
	for _, key := range []string{"", ", key: [path, body]"} {
		var count atomic.Int32
		m, _ := newBed(t).build(`{http: {url: "` + counting(t, &count, nil) + `"}, body: {max: 5B, partial: true}, cache: {ttl: 1h` + key + `}}`)
		for i, text := range []string{"one", "one", "two", "", "fives", "fives and more", "fives or more"} {
			x := asked(t.Context(), "PUT /", "Authorization: good")
			with(x, text, message.Unknown)
			if reached, err := serve(m, x); err != nil || reached == nil {
				t.Fatal(err)
			}
			if want := []int32{1, 1, 2, 3, 4, 5, 5}[i]; count.Load() != want {
				t.Errorf("%s: after %q asked %d times, want %d", key, text, count.Load(), want)
			}
		}
	}
}

// TestBodyThatWasRead: what is there is sent along, and what comes later as it comes.
func TestBodyThatWasRead(t *testing.T) {
	url := decider(t, func(http.ResponseWriter, *http.Request) {})
	m, _ := newBed(t).build(`{http: {url: "` + url + `"}, body: {max: 5B, partial: true}}`)
	x := asked(t.Context(), "PUT /")
	x.Request.Body, x.Request.Length = message.Text("hello, you"), 10
	if _, err := serve(m, x); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for want := 5; ; want = 0 {
		if n := message.Buffered(x.Request.Body); n < want {
			t.Errorf("%d are there", n)
		}
		n, err := io.CopyN(&got, x.Request.Body, 5)
		if err != nil || n == 0 {
			break
		}
	}
	if got.String() != "hello, you" || message.Buffered(x.Request.Body) != 0 {
		t.Errorf("got %q", got.String())
	}
}

// TestBodyOverADeadConnection: a connection to the service that dies with a second question
// fails nobody, also where a body goes with it.
func TestBodyOverADeadConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var bodies atomic.Int32
	answer := func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		reader := bufio.NewReader(conn)
		if r, err := http.ReadRequest(reader); err == nil {
			if text, err := io.ReadAll(r.Body); err == nil && string(text) == "hello" {
				bodies.Add(1)
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			_, _ = reader.ReadByte() // the second question begins
		}
	}
	var over sync.WaitGroup
	over.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			over.Go(func() { answer(conn) })
		}
	})
	t.Cleanup(over.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	m, release := newBed(t).build(`{http: {url: "http://` + listener.Addr().String() + `"}, body: {}}`)
	for range 3 {
		x := asked(t.Context(), "PUT /")
		with(x, "hello", 5)
		if reached, err := serve(m, x); err != nil || reached == nil {
			t.Error(err)
		}
	}
	if n := bodies.Load(); n != 3 {
		t.Errorf("the service was told %d bodies", n)
	}
	release()
}
