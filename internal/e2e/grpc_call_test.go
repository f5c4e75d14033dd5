package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"sluice/internal/gatewaytest"
)

func callRoutes(url string) string {
	return fmt.Sprintf("upstreams: {calls: {protocol: h2c, endpoints: [%q]}}\nroutes: [{id: calls, match: {path_prefix: /test.Calls}, upstream: calls}]\n", url)
}

// TestCalls makes a call of each kind on each listener.
func TestCalls(t *testing.T) {
	endpoint := startCalls(t, "one")
	gw := startCallGateway(t, callRoutes(endpoint.url))
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			client := gw.caller(t, way)
			t.Run("unary", func(t *testing.T) {
				ctx := metadata.AppendToOutgoingContext(t.Context(), "x-mine", "1", "x-mine", "2", "x-bytes-bin", "\x00\xfe")
				a := client.call(t, ctx, "/test.Calls/Echo", "hello")
				if a.err != nil || a.text != "hello" || !sameList(a.head.Get("x-head"), "1", "2") || !sameList(a.head.Get("x-bytes-bin"), "\x00\xfe") {
					t.Fatalf("%+v", a)
				}
				if !sameList(a.trailer.Get("x-trail"), "one") || !sameList(a.trailer.Get("x-trail-bin"), "\x00\xff") || !sameList(a.head.Get("content-type"), "application/grpc+text") {
					t.Errorf("head %v, trailer %v", a.head, a.trailer)
				}
				if want := map[string]string{"web": "http", "websecure": "https"}[way]; !sameList(a.head.Get("x-forwarded-proto-seen"), want) {
					t.Errorf("forwarded as %v", a.head)
				}
				line := gw.line(t, a.head)
				if line["status"] != 200.0 || line["error"] != "" || line["protocol"] != "HTTP/2" || line["path"] != "/test.Calls/Echo" || line["upstream"] != "calls" {
					t.Errorf("log line %v", line)
				}
			})
			t.Run("large", func(t *testing.T) {
				large := strings.Repeat("0123456789abcdef", 200_000)
				if a := client.call(t, t.Context(), "/test.Calls/Echo", large[:3<<20]); a.err != nil || a.text != large[:3<<20] {
					t.Errorf("%v, %d bytes", a.err, len(a.text))
				}
			})
			t.Run("compressed", func(t *testing.T) {
				text, reply := strings.Repeat("squeeze ", 1000), ""
				if err := client.Invoke(t.Context(), "/test.Calls/Echo", &text, &reply, grpc.UseCompressor(gzip.Name)); err != nil || reply != text {
					t.Errorf("%v, %d bytes", err, len(reply))
				}
			})
			t.Run("only trailers", func(t *testing.T) {
				a := client.call(t, t.Context(), "/test.Calls/Fail", "x")
				if s := status.Convert(a.err); s.Code() != codes.FailedPrecondition || s.Message() != "100% no\né" || !sameList(a.trailer.Get("x-trail"), "one") {
					t.Errorf("%v, trailer %v", a.err, a.trailer)
				}
			})
			t.Run("client streams", func(t *testing.T) {
				stream := client.open(t, t.Context(), "/test.Calls/Collect")
				stream.say("a", "b", "c")
				stream.finish()
				stream.hear("a b c")
				if err := stream.end(); !errors.Is(err, io.EOF) {
					t.Error(err)
				}
			})
			t.Run("server streams", func(t *testing.T) {
				stream := client.open(t, t.Context(), "/test.Calls/Count")
				stream.say("n")
				stream.hear("n0", "n1", "n2")
				if err := stream.end(); !errors.Is(err, io.EOF) {
					t.Error(err)
				}
			})
			t.Run("both stream", func(t *testing.T) { // each message waits for the one before
				stream := client.open(t, t.Context(), "/test.Calls/Echo")
				for i := range 20 {
					stream.say(strconv.Itoa(i))
					stream.hear(strconv.Itoa(i))
				}
				stream.finish()
				if err := stream.end(); !errors.Is(err, io.EOF) || !sameList(stream.Trailer().Get("x-trail"), "one") {
					t.Errorf("%v, trailer %v", err, stream.Trailer())
				}
			})
			t.Run("fails late", func(t *testing.T) {
				stream := client.open(t, t.Context(), "/test.Calls/FailLate")
				stream.hear("first")
				if err := stream.end(); status.Code(err) != codes.Aborted {
					t.Error(err)
				}
			})
			t.Run("cancelled", func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				stream := client.open(t, ctx, "/test.Calls/Watch")
				stream.hear("watching")
				cancel()
				if err := await(t, "the endpoint hears of it", endpoint.ended); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				<-endpoint.given
			})
		})
	}
}

// TestCallsAreBalanced counts where the calls of one connection go.
func TestCallsAreBalanced(t *testing.T) {
	one, two := startCalls(t, "one"), startCalls(t, "two")
	gw := startCallGateway(t, fmt.Sprintf("upstreams: {calls: {protocol: h2c, endpoints: [%q, %q]}}\nroutes: [{match: {path_prefix: /test.Calls}, upstream: calls}]\n", one.url, two.url))
	client := gw.caller(t, "websecure")
	for range 10 {
		if a := client.call(t, t.Context(), "/test.Calls/Echo", "x"); a.err != nil {
			t.Fatal(a.err)
		}
	}
	if one, two := one.taken.Load(), two.taken.Load(); one != 5 || two != 5 {
		t.Errorf("%d and %d calls", one, two)
	}
}

// TestErrorsOfCalls has what the gateway itself says.
func TestErrorsOfCalls(t *testing.T) {
	endpoint := startCalls(t, "one")
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	plain := gatewaytest.NewEcho(t, "plain")
	gw := startCallGateway(t, fmt.Sprintf(`
upstreams:
  calls: {protocol: h2c, endpoints: [%q]}
  gone: {protocol: h2c, endpoints: ["http://%s"]}
  plain: {endpoints: [%q]}
routes:
  - {match: {path_prefix: /test.Calls}, upstream: calls}
  - {match: {path_prefix: /test.Gone}, upstream: gone}
  - {match: {path_prefix: /test.Plain}, upstream: plain}
  - {match: {path_prefix: /test.Denied}, upstream: calls, middleware: [{ip_filter: {deny: ["0.0.0.0/0", "::/0"]}}]}
  - {match: {path_prefix: /test.Small}, upstream: calls, middleware: [{body_limit: {max: 100B}}]}
  - {match: {path_prefix: /test.Get, methods: [GET]}, upstream: calls}
  - {match: {path_prefix: /test.Slow}, upstream: calls, timeout: 100ms}
`, endpoint.url, gone.Addr(), plain))
	for _, way := range ways {
		client := gw.caller(t, way)
		for path, want := range map[string]struct {
			code   codes.Code
			word   string
			status float64
		}{
			"/test.None/M":                     {codes.Unimplemented, "no_route", 404},
			"/test.Gone/M":                     {codes.Unavailable, "upstream_connect", 502},
			"/test.Denied/M":                   {codes.PermissionDenied, "forbidden", 403},
			"/test.Small/M":                    {codes.ResourceExhausted, "body_too_large", 413},
			"/test.Get/M":                      {codes.Unimplemented, "method_not_allowed", 405},
			"/test.Slow/Hang":                  {codes.DeadlineExceeded, "upstream_timeout", 504},
			"/test.None/%2e%2e/%2e%2e/%2e%2e/": {codes.Internal, "bad_path", 400},
		} {
			a := client.call(t, t.Context(), path, strings.Repeat("x", 200))
			if s := status.Convert(a.err); s.Code() != want.code || !strings.HasPrefix(s.Message(), want.word+": ") {
				t.Errorf("%s %s: %v", way, path, a.err)
				continue
			}
			if line := gw.line(t, a.trailer); line["status"] != want.status || line["error"] != want.word {
				t.Errorf("%s %s: log line %v", way, path, line)
			}
		}
		if a := client.call(t, t.Context(), "/test.Plain/M", "x"); a.err == nil { // an answer that is not gRPC passes, as it would without a gateway
			t.Errorf("%s: %+v", way, a)
		}
	}
}

// TestDeadlines has calls that nothing but time ends.
func TestDeadlines(t *testing.T) {
	endpoint := startCalls(t, "one")
	gw := startCallGateway(t, fmt.Sprintf(`
upstreams: {calls: {protocol: h2c, endpoints: [%q]}}
routes:
  - {match: {path_prefix: /test.Calls}, upstream: calls, idle_timeout: 1m}
  - {match: {path_prefix: /test.Total}, upstream: calls, total_timeout: 1s}
  - {match: {path_prefix: /test.Idle}, upstream: calls, idle_timeout: 1s}
`, endpoint.url))
	client := gw.caller(t, "web")
	ended := func(t *testing.T) {
		t.Helper()
		if err := await(t, "the endpoint hears of it", endpoint.ended); err == nil {
			t.Error("the endpoint's call ended well")
		}
	}
	t.Run("of the client", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if a := client.call(t, ctx, "/test.Calls/Hang", "x"); a.code() != codes.DeadlineExceeded {
			t.Error(a.err)
		}
		if given := await(t, "the endpoint is asked", endpoint.given); given <= 0 || given > time.Second {
			t.Errorf("the endpoint was given %v", given)
		}
		ended(t)
	})
	t.Run("of the route, where the client has a later one", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if a := client.call(t, ctx, "/test.Total/Hang", "x"); a.code() != codes.DeadlineExceeded { // the gateway says so, or the endpoint
			t.Error(a.err)
		}
		if given := await(t, "the endpoint is asked", endpoint.given); given <= 0 || given > time.Second {
			t.Errorf("the endpoint was given %v", given)
		}
		ended(t)
	})
	for _, path := range []string{"/test.Total/Watch", "/test.Idle/Watch"} {
		t.Run("of a stream that has begun "+path, func(t *testing.T) {
			stream := client.open(t, t.Context(), path)
			stream.hear("watching")
			err := stream.end()
			if s := status.Convert(err); s.Code() != codes.Unavailable || !strings.HasPrefix(s.Message(), "upstream_timeout: ") {
				t.Error(err)
			}
			head, headErr := stream.Header()
			if headErr != nil {
				t.Fatal(headErr)
			}
			if line := gw.line(t, head); line["status"] != 200.0 || line["error"] != "upstream_timeout" {
				t.Errorf("log line %v", line)
			}
			<-endpoint.given
			ended(t)
		})
	}
}

// TestADrainEndsStreams lets a gateway stop while a call streams.
func TestADrainEndsStreams(t *testing.T) {
	endpoint := startCalls(t, "one")
	gw := startCallGateway(t, "drain_timeout: 300ms\n"+callRoutes(endpoint.url))
	var streams []*talk
	for _, way := range ways {
		stream := gw.caller(t, way).open(t, t.Context(), "/test.Calls/Watch")
		stream.hear("watching")
		streams = append(streams, stream)
	}
	if err := gw.Stop(); err != nil {
		t.Error(err)
	}
	for i, stream := range streams {
		if err := stream.end(); status.Code(err) != codes.Unavailable || !strings.HasPrefix(status.Convert(err).Message(), "overloaded: ") {
			t.Errorf("%s: %v", ways[i], err)
		}
	}
}

// TestAnEndpointThatBreaks tells what the client hears of it.
func TestAnEndpointThatBreaks(t *testing.T) {
	gate := startBreaking(t)
	gw := startCallGateway(t, callRoutes(gate.url))
	for _, way := range ways {
		stream := gw.caller(t, way).open(t, t.Context(), "/test.Calls/Watch")
		stream.hear("watching")
		gate.cut()
		if err := stream.end(); status.Code(err) != codes.Unavailable || !strings.HasPrefix(status.Convert(err).Message(), "upstream_reset: ") {
			t.Errorf("%s: %v", way, err)
		}
		<-gate.calls.given
	}
}

// breaking is an endpoint behind a pipe that can be cut.
type breaking struct {
	calls *calls
	url   string
	conns chan net.Conn
}

func startBreaking(t *testing.T) *breaking {
	t.Helper()
	b := &breaking{calls: startCalls(t, "one"), conns: make(chan net.Conn, 100)}
	b.url = gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
		inner, err := net.Dial("tcp", strings.TrimPrefix(b.calls.url, "http://"))
		if err != nil {
			return
		}
		defer inner.Close()
		b.conns <- conn
		go func() {
			_, _ = io.Copy(inner, in) // until either ends
			inner.Close()
		}()
		_, _ = io.Copy(conn, inner)
	}).URL
	return b
}

// cut breaks the connections so far.
func (b *breaking) cut() {
	for {
		select {
		case conn := <-b.conns:
			conn.Close()
		default:
			return
		}
	}
}

func exampleGRPC(t *testing.T, g *exampleGateway) {
	t.Helper()
	one, two := startCalls(t, "one"), startCalls(t, "two")
	t.Setenv("GREETER_1_URL", one.url)
	t.Setenv("GREETER_2_URL", two.url)
	g.Gateway = gatewaytest.StartFile(t, g.file)
	gw := &callGateway{Gateway: g.Gateway}
	client := gw.caller(t, "web")
	for range 4 {
		if a := client.call(t, t.Context(), "/helloworld.Greeter/Echo", "you"); a.err != nil || a.text != "you" {
			t.Errorf("%+v", a)
		}
	}
	if one, two := one.taken.Load(), two.taken.Load(); one != 2 || two != 2 {
		t.Errorf("%d and %d calls", one, two)
	}
	if a := client.call(t, t.Context(), "/helloworld.Stranger/SayHello", "you"); a.code() != codes.Unimplemented {
		t.Error(a.err)
	}
	stream := client.open(t, t.Context(), "/helloworld.Greeter/Watch")
	stream.hear("watching")
	page := gw.webClient(t, webForm{"web", "HTTP/1.1", true})
	a := page.call(t, "/helloworld.Greeter/Echo", strings.NewReader("AAAAAAA="))
	a.messages("")
	if ending := a.ending(); ending["grpc-status"] != "0" {
		t.Errorf("%v", ending)
	}
}
