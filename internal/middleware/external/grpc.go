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
	"google.golang.org/grpc/metadata"

	"sluice/internal/pemfile"
	"sluice/internal/pipeline"
)

// grpcDecider asks by Envoy's protocol.
type grpcDecider struct {
	address string
	tls     *pemfile.Client // nil: in clear

	mu         sync.Mutex
	connection *grpc.ClientConn // nil until it is needed
}

func newGRPCDecider(s *grpcSettings) *grpcDecider {
	return &grpcDecider{address: s.Address, tls: s.TLS}
}

func (d *grpcDecider) request(x *pipeline.Exchange, s *settings, body *copied) request {
	asked := &authv3.CheckRequest{Attributes: attributes(x, s.GRPC.Extensions)} // with its time, so that no two are alike
	if body != nil {
		body.tell(asked.GetAttributes().GetRequest().GetHttp())
	}
	via := viaOf(x.Request.Fields)
	return request{decide: func(ctx context.Context) (*decision, error) {
		return d.decide(metadata.AppendToOutgoingContext(ctx, "via", via), s, asked)
	}}
}

func (d *grpcDecider) decide(ctx context.Context, s *settings, asked *authv3.CheckRequest) (*decision, error) {
	connection, err := d.connect()
	if err != nil {
		return nil, err
	}
	answer, err := authv3.NewAuthorizationClient(connection).Check(ctx, asked)
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
	if d.tls != nil {
		security = credentials.NewTLS(d.tls.Config())
	}
	target := "dns:///" + d.address
	if strings.HasPrefix(d.address, "unix:") {
		target = d.address
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
		return nil, fmt.Errorf("a client of %s: %w", d.address, err)
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
