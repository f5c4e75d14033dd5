package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"sluice/internal/gatewaytest"
)

// TestSlowHealth has all health checks take too long, while requests are served as
// ever: with a panic threshold the site stays up, and it is what does that.
func TestSlowHealth(t *testing.T) {
	var slow atomic.Bool
	var urls [3]any
	for i := range urls {
		urls[i] = gatewaytest.NewHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/health" && slow.Load() {
				<-r.Context().Done() // the check's time-out
			}
		}))
	}
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
upstreams:
  strict: {endpoints: [%[1]q, %[2]q, %[3]q], health_check: {interval: 500ms}, panic_threshold: 0%%}
  panics: {endpoints: [%[1]q, %[2]q, %[3]q], health_check: {interval: 500ms}}
routes:
  - {match: {path_prefix: /strict}, upstream: strict}
  - {match: {path_prefix: /panics}, upstream: panics}
`, urls[:]...))
	load := startLoad(t, 50, gets(t, gw.URL("web")+"/panics"))
	_ = load.after(time.Now(), 20)
	slow.Store(true)
	unwell := func(name string) bool {
		for _, e := range statusOfUpstream(t, gw, name).Endpoints {
			if e.Health != "unhealthy" {
				return false
			}
		}
		return true
	}
	gatewaytest.WaitFor(t, "all endpoints are unhealthy by their checks", func() bool { return unwell("panics") && unwell("strict") })
	status := statusOfUpstream(t, gw, "panics")
	if !status.Panicking {
		t.Errorf("the upstream does not panic: %+v", status)
	}
	for _, e := range status.Endpoints {
		if !e.Available || !strings.Contains(e.Fault, "no answer within 500ms") {
			t.Errorf("an endpoint is %+v", e)
		}
	}
	_ = load.after(time.Now(), 60)
	if r := (ask{target: "/strict"}).on(t, gw.Dial("web")); r.StatusCode != 503 || r.word() != "no_endpoint" {
		t.Errorf("without a panic threshold a client gets %d %s", r.StatusCode, r.word())
	}
	slow.Store(false)
	gatewaytest.WaitFor(t, "all endpoints are healthy", func() bool { return allWell(t, gw, "panics") && allWell(t, gw, "strict") })
	load.none()
}

// TestChecksPerEndpoint has a thousand routes lead to twenty endpoints, and counts
// health checks: they are as many as endpoints need, before a reload and after it.
func TestChecksPerEndpoint(t *testing.T) {
	const endpoints, routes = 20, 1_000
	const interval, rounds = 300 * time.Millisecond, 5
	var checks [endpoints]atomic.Int64
	urls := make([]string, endpoints)
	for i := range urls {
		urls[i] = gatewaytest.NewHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/health" {
				checks[i].Add(1)
			}
		}))
	}
	config := func(routes int) string {
		var text strings.Builder
		fmt.Fprintf(&text, `
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
upstreams: {up: {endpoints: ["%s"], health_check: {interval: %v}}}
routes:
`, strings.Join(urls, `", "`), interval)
		for n := range routes {
			fmt.Fprintf(&text, "  - {id: route-%[1]d, match: {path_prefix: /%[1]d}, upstream: up}\n", n)
		}
		return text.String()
	}
	// None comes sooner after the one before than the least time that jitter leaves,
	// but the first may come at any time, and one may be late and the next not.
	judge := func(name string) {
		t.Helper()
		var before [endpoints]int64
		for i := range checks {
			before[i] = checks[i].Load()
		}
		began := time.Now()
		gatewaytest.WaitFor(t, "all endpoints are checked some times", func() bool {
			for i := range checks {
				if checks[i].Load() < before[i]+rounds {
					return false
				}
			}
			return true
		})
		took := time.Since(began)
		most := int64(took/(interval*9/10)) + 2
		for i := range checks {
			if n := checks[i].Load() - before[i]; n > most {
				t.Errorf("%s: endpoint %d was checked %d times in %v, not at most %d", name, i, n, took, most)
			}
		}
	}
	gw := gatewaytest.Start(t, config(routes))
	gatewaytest.WaitFor(t, "all endpoints are healthy", func() bool { return allWell(t, gw, "up") })
	judge("with a thousand routes")
	gw.Load(config(routes + 1))
	judge("after a reload")
}

// TestHealthOfCalls checks endpoints by gRPC's own health service, of which calls
// then tell who is served.
func TestHealthOfCalls(t *testing.T) {
	if gatewaytest.Engine() == gatewaytest.Standard {
		t.Skip("net/http's own server is there for HTTP/1.1 alone")
	}
	type server struct {
		*grpc.Server
		health *health.Server
		url    string
	}
	start := func() server {
		t.Helper()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := server{grpc.NewServer(), health.NewServer(), "http://" + listener.Addr().String()}
		healthpb.RegisterHealthServer(s.Server, s.health)
		done := make(chan error, 1)
		go func() { done <- s.Serve(listener) }()
		t.Cleanup(func() {
			s.Stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		return s
	}
	a, b := start(), start()
	const service = "test.Orders"
	const serving, not = healthpb.HealthCheckResponse_SERVING, healthpb.HealthCheckResponse_NOT_SERVING
	a.health.SetServingStatus(service, serving)
	b.health.SetServingStatus(service, not)
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
upstreams:
  up: {protocol: h2c, endpoints: [%[1]q, %[2]q], health_check: {type: grpc, service: %[3]s, interval: 500ms, healthy_after: 1, unhealthy_after: 2}, panic_threshold: 0%%}
  whole: {protocol: h2c, endpoints: [%[1]q, %[2]q], health_check: {type: grpc, interval: 500ms, healthy_after: 1, unhealthy_after: 2}}
routes:
  - {id: up, match: {path_prefix: /}, upstream: up}
  - {id: whole, match: {path_prefix: /whole}, upstream: whole}
`, a.url, b.url, service))
	becomes := func(s server, upstream, health, fault string) {
		t.Helper()
		gatewaytest.WaitFor(t, "an endpoint is "+health+" "+fault, func() bool {
			e := endpointOf(t, gw, upstream, s.url)
			return e.Health == health && strings.Contains(e.Fault, fault)
		})
	}
	conn, err := grpc.NewClient(gw.Addr("web").String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := healthpb.NewHealthClient(conn)
	goesTo := func(s, other server) {
		t.Helper()
		before := [2]int64{endpointOf(t, gw, "up", s.url).Requests, endpointOf(t, gw, "up", other.url).Requests}
		for range 6 {
			ctx, cancel := context.WithTimeout(context.Background(), gatewaytest.Patience)
			response, err := client.Check(ctx, &healthpb.HealthCheckRequest{Service: service})
			cancel()
			if err != nil || response.Status != serving {
				t.Fatalf("a call came to %v, %v", response, err)
			}
		}
		after := [2]int64{endpointOf(t, gw, "up", s.url).Requests, endpointOf(t, gw, "up", other.url).Requests}
		if after != [2]int64{before[0] + 6, before[1]} {
			t.Errorf("the calls went elsewhere: attempts were %v, then %v", before, after)
		}
	}
	becomes(a, "up", "healthy", "")
	becomes(b, "up", "unhealthy", "not serving, but 2")
	becomes(a, "whole", "healthy", "")
	becomes(b, "whole", "healthy", "") // but for that service it serves
	goesTo(a, b)
	b.health.SetServingStatus(service, serving)
	a.health.SetServingStatus(service, healthpb.HealthCheckResponse_SERVICE_UNKNOWN)
	becomes(b, "up", "healthy", "")
	becomes(a, "up", "unhealthy", "not serving, but 3")
	goesTo(b, a)
	a.health.SetServingStatus(service, serving)
	becomes(a, "up", "healthy", "")
	b.Stop()
	becomes(b, "up", "unhealthy", "connect")
	becomes(b, "whole", "unhealthy", "connect")
	goesTo(a, b)
	a.health.Shutdown() // nothing of it serves any more
	becomes(a, "up", "unhealthy", "not serving")
	becomes(a, "whole", "unhealthy", "not serving")
}
