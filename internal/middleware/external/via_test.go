package external_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"sluice/internal/pipeline"
)

// TestServiceBehindItself: a service whose questions are asked about in turn is found out
// soon, and not by the time that it takes.
func TestServiceBehindItself(t *testing.T) {
	var m pipeline.Middleware
	var count atomic.Int32
	url := decider(t, func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		x := asked(r.Context(), "GET /check", "Via: "+r.Header.Get("Via"))
		if _, err := serve(m, x); err != nil {
			w.WriteHeader(pipeline.AsError(err).Status)
			return
		}
		w.WriteHeader(x.Response.Status)
	})
	m, _ = newBed(t).build(`{http: {url: "` + url + `"}, timeout: 1m}`)
	x := asked(t.Context(), "GET /")
	if reached, err := serve(m, x); err != nil || reached != nil || x.Response.Status != 508 {
		t.Errorf("%v, %+v", err, x.Response)
	}
	if n := count.Load(); n != 11 {
		t.Errorf("asked %d times", n)
	}
	_, err := serve(m, asked(t.Context(), "GET /", "Via: "+strings.Repeat("1.1 sluice-external-auth, ", 6), "via: 1.1 edge,"+strings.Repeat("2  sluice-external-auth,", 5)))
	if word(err) != pipeline.LoopDetected {
		t.Error(err)
	}
	count.Store(0)
	_, err = serve(m, asked(t.Context(), "GET /", "Via: "+strings.Repeat("1.1 other-external-auth, ", 11)))
	if err != nil || count.Load() == 0 {
		t.Errorf("by the way of others: %v, asked %d times", err, count.Load())
	}
}

// TestWayOfAQuestion tells the way that the request came, by both protocols, and counts as
// no difference between requests.
func TestWayOfAQuestion(t *testing.T) {
	const want = "1.1 edge, 1.1 sluice-external-auth"
	var count atomic.Int32
	url := decider(t, func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		_, _ = io.WriteString(w, "yes")
		if got := strings.Join(r.Header.Values("Via"), "|"); got != want {
			t.Errorf("by HTTP: %s", got)
		}
	})
	m, _ := newBed(t).build(`{http: {url: "` + url + `"}, cache: {ttl: 1h}}`)
	for _, via := range []string{"1.1 edge", "2 other, 1.1 edge"} {
		if reached, err := serve(m, asked(t.Context(), "GET /", "Via: "+via)); err != nil || reached == nil {
			t.Error(err)
		}
	}
	if count.Load() != 1 {
		t.Errorf("asked %d times", count.Load())
	}
	address, _ := authorizer(t, "tcp", "127.0.0.1:0", func(ctx context.Context, _ *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		told, _ := metadata.FromIncomingContext(ctx)
		if got := strings.Join(told.Get("via"), "|"); got != want {
			t.Errorf("by gRPC: %s", got)
		}
		return &authv3.CheckResponse{Status: code(codes.OK)}, nil
	})
	m, _ = newBed(t).build(`{grpc: {address: "` + address + `"}}`)
	if reached, err := serve(m, asked(t.Context(), "GET /", "Via: 1.1 edge")); err != nil || reached == nil {
		t.Error(err)
	}
}
