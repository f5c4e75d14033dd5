package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"sluice/internal/certtest"
	"sluice/internal/gatewaytest"
)

// textCodec has messages that are texts.
type textCodec struct{}

func (textCodec) Marshal(v any) ([]byte, error) { return []byte(*v.(*string)), nil }

func (textCodec) Unmarshal(data []byte, v any) error {
	*v.(*string) = string(data)
	return nil
}

func (textCodec) Name() string { return "text" }

// calls is an endpoint of gRPC, by gRPC's own library. The method says what it
// does.
type calls struct {
	name, url string
	taken     atomic.Int64
	given     chan time.Duration // what it was given, by Hang and Watch; 0: no end
	ended     chan error         // why their calls ended
}

func startCalls(t *testing.T, name string) *calls {
	t.Helper()
	if gatewaytest.Engine() == gatewaytest.Standard {
		t.Skip("net/http's own server is there for HTTP/1.1 alone")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &calls{name: name, url: "http://" + listener.Addr().String(), given: make(chan time.Duration, 100), ended: make(chan error, 100)}
	server := grpc.NewServer(grpc.ForceServerCodec(textCodec{}), grpc.UnknownServiceHandler(c.serve))
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *calls) serve(_ any, stream grpc.ServerStream) error {
	c.taken.Add(1)
	method, _ := grpc.MethodFromServerStream(stream)
	method = method[strings.LastIndexByte(method, '/')+1:]
	if method == "Fail" { // the head is all there is
		stream.SetTrailer(metadata.Pairs("x-trail", c.name))
		return status.Error(codes.FailedPrecondition, "100% no\né")
	}
	asked, _ := metadata.FromIncomingContext(stream.Context())
	if err := stream.SetHeader(metadata.MD{"x-head": asked["x-mine"], "x-forwarded-proto-seen": asked["x-forwarded-proto"], "x-bytes-bin": asked["x-bytes-bin"]}); err != nil {
		return err
	}
	stream.SetTrailer(metadata.Pairs("x-trail", c.name, "x-trail-bin", "\x00\xff"))
	switch method {
	case "FailLate":
		text := "first"
		if err := stream.SendMsg(&text); err != nil {
			return err
		}
		return status.Error(codes.Aborted, "late")
	case "Hang", "Watch":
		return c.hang(stream, method == "Watch")
	case "Collect":
		return collect(stream)
	case "Count":
		return count(stream)
	}
	for { // Echo
		var text string
		if err := stream.RecvMsg(&text); err != nil {
			return unlessEnd(err)
		}
		if err := stream.SendMsg(&text); err != nil {
			return err
		}
	}
}

func unlessEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// hang waits until the call is ended, and may say something before.
func (c *calls) hang(stream grpc.ServerStream, watch bool) error {
	given := time.Duration(0)
	if deadline, ok := stream.Context().Deadline(); ok {
		given = time.Until(deadline)
	}
	c.given <- given
	if watch {
		text := "watching"
		if err := stream.SendMsg(&text); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	c.ended <- stream.Context().Err()
	return stream.Context().Err()
}

// collect answers a stream of messages with one.
func collect(stream grpc.ServerStream) error {
	var all []string
	for {
		var text string
		err := stream.RecvMsg(&text)
		if errors.Is(err, io.EOF) {
			joined := strings.Join(all, " ")
			return stream.SendMsg(&joined)
		}
		if err != nil {
			return err
		}
		all = append(all, text)
	}
}

// count answers one message with a stream.
func count(stream grpc.ServerStream) error {
	var text string
	if err := stream.RecvMsg(&text); err != nil {
		return err
	}
	for i := range 3 {
		numbered := fmt.Sprint(text, i)
		if err := stream.SendMsg(&numbered); err != nil {
			return err
		}
	}
	return nil
}

// callGateway is a gateway whose listeners speak gRPC, with and without TLS.
type callGateway struct {
	*gatewaytest.Gateway
	authority string // the file that clients trust
	roots     *x509.CertPool
}

// ways are the listeners of a callGateway.
var ways = []string{"web", "websecure"}

// callHost is the name in its certificate.
const callHost = "calls.test"

// startCallGateway runs a gateway with the rest of a configuration.
func startCallGateway(t *testing.T, rest string) *callGateway {
	t.Helper()
	own := certtest.SelfSigned(t, callHost)
	cert, key := own.Write(t.TempDir(), "own")
	g := &callGateway{roots: own.Pool(), authority: cert}
	g.Gateway = gatewaytest.Start(t, fmt.Sprintf(`
listeners:
  web: {address: "127.0.0.1:0"}
  websecure: {address: "127.0.0.1:0", tls: {certificates: [{cert: %q, key: %q}]}}
admin: {address: "127.0.0.1:0"}
%s`, cert, key, rest))
	return g
}

// selfSigned are the files of a certificate that signs itself.
func selfSigned(t *testing.T, host string) (cert, key string) {
	t.Helper()
	return certtest.SelfSigned(t, host).Write(t.TempDir(), "own")
}

// caller is a client of gRPC, by gRPC's own library.
type caller struct{ *grpc.ClientConn }

func (g *callGateway) caller(t *testing.T, listener string) caller {
	t.Helper()
	security := insecure.NewCredentials()
	if listener == "websecure" {
		security = credentials.NewTLS(&tls.Config{RootCAs: g.roots, ServerName: callHost, MinVersion: tls.VersionTLS12})
	}
	conn, err := grpc.NewClient("passthrough:///"+g.Addr(listener).String(), grpc.WithTransportCredentials(security), grpc.WithAuthority(callHost),
		grpc.WithNoProxy(), grpc.WithDefaultCallOptions(grpc.ForceCodec(textCodec{})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the test may have closed it
	return caller{conn}
}

// outcome is what came of a call.
type outcome struct {
	text          string
	head, trailer metadata.MD
	err           error
}

func (a *outcome) code() codes.Code { return status.Code(a.err) }

// call makes a unary call.
func (c caller) call(t *testing.T, ctx context.Context, method, text string) *outcome { //nolint:revive // the test comes first
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, gatewaytest.Patience)
	defer cancel()
	var a outcome
	a.err = c.Invoke(ctx, method, &text, &a.text, grpc.Header(&a.head), grpc.Trailer(&a.trailer))
	return &a
}

// talk is a call of streams.
type talk struct {
	grpc.ClientStream
	t *testing.T
}

// open begins a call of streams, which ends with the test.
func (c caller) open(t *testing.T, ctx context.Context, method string) *talk { //nolint:revive // the test comes first
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, gatewaytest.Patience)
	t.Cleanup(cancel)
	stream, err := c.NewStream(ctx, &grpc.StreamDesc{StreamName: "x", ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		t.Fatal(err)
	}
	return &talk{stream, t}
}

func (s *talk) say(texts ...string) {
	s.t.Helper()
	for _, text := range texts {
		if err := s.SendMsg(&text); err != nil {
			s.t.Fatal(err)
		}
	}
}

func (s *talk) hear(texts ...string) {
	s.t.Helper()
	for _, want := range texts {
		var text string
		if err := s.RecvMsg(&text); err != nil || text != want {
			s.t.Fatalf("%q, %v; want %q", text, err, want)
		}
	}
}

// finish says that nothing more is to come.
func (s *talk) finish() {
	s.t.Helper()
	if err := s.CloseSend(); err != nil {
		s.t.Fatal(err)
	}
}

// end waits for the end of a stream, which must be without a message.
func (s *talk) end() error {
	s.t.Helper()
	var text string
	err := s.RecvMsg(&text)
	if err == nil {
		s.t.Fatalf("there is more: %q", text)
	}
	return err
}

// line waits for the log line of what came.
func (g *callGateway) line(t *testing.T, head metadata.MD) map[string]any {
	t.Helper()
	id := head.Get("x-request-id")
	if len(id) != 1 {
		t.Fatalf("request ids %q", id)
	}
	return g.LogLine(id[0])
}

func sameList(got []string, want ...string) bool { return slices.Equal(got, want) }
