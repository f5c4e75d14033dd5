package external

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"sluice/internal/keyed"
	"sluice/internal/pipeline"
)

// grpcDecider asks by Envoy's protocol.
type grpcDecider struct {
	*grpcSettings

	mu         sync.Mutex
	connection *grpc.ClientConn // nil until it is needed
}

func newGRPCDecider(s *grpcSettings) *grpcDecider { return &grpcDecider{grpcSettings: s} }

// grpcQuestion is a request to the service.
type grpcQuestion struct{ *authv3.CheckRequest }

// sum is of all of it; no two are alike, since each has its time.
func (q grpcQuestion) sum() keyed.Digest {
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(q.CheckRequest)
	if err != nil {
		panic("BUG: a question that cannot be written: " + err.Error())
	}
	h := newHash()
	h.text(string(text))
	return h.sum()
}

func (d *grpcDecider) question(x *pipeline.Exchange) question {
	return grpcQuestion{&authv3.CheckRequest{Attributes: attributes(x, d.Extensions)}}
}

func (d *grpcDecider) decide(ctx context.Context, s *settings, q question) (*decision, error) {
	asked, ok := q.(grpcQuestion)
	if !ok {
		panic("BUG: a question of another protocol")
	}
	connection, err := d.connect()
	if err != nil {
		return nil, err
	}
	answer, err := authv3.NewAuthorizationClient(connection).Check(ctx, asked.CheckRequest)
	if err != nil {
		return nil, err
	}
	return decisionOf(s, answer)
}

// longestPause is how long a service that was away is not looked for again: an outage
// must not outlast itself.
const longestPause = time.Second

// connect returns the connection, which the library makes when a call needs it, and
// again when it broke.
func (d *grpcDecider) connect() (*grpc.ClientConn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.connection != nil {
		return d.connection, nil
	}
	security := insecure.NewCredentials()
	if d.TLS != nil {
		security = credentials.NewTLS(d.TLS.Config())
	}
	target := "dns:///" + d.Address
	if strings.HasPrefix(d.Address, "unix:") {
		target = d.Address
	}
	pause := backoff.Config{BaseDelay: longestPause / 10, Multiplier: 1.6, Jitter: 0.2, MaxDelay: longestPause}
	connection, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(security),
		grpc.WithUserAgent("sluice"),
		grpc.WithNoProxy(), // the environment is no part of the configuration
		grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pause, MinConnectTimeout: 5 * time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largestAnswer)),
	)
	if err != nil {
		return nil, fmt.Errorf("a client of %s: %w", d.Address, err)
	}
	d.connection = connection
	return connection, nil
}

// largestAnswer bounds what is read of an answer, in bytes.
const largestAnswer = largestHead + largestBody

func (d *grpcDecider) disconnect() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.connection != nil {
		_ = d.connection.Close() // nobody is left to tell
		d.connection = nil
	}
}
