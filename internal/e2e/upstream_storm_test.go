package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

// crowd is so many clients, each of which asks as soon as it has its answer.
type crowd struct {
	asked atomic.Int64
	mu    sync.Mutex
	by    map[int]int // answers by status; 0: there was none
	stop  func()

	retryLater int // answers that tell to come back after a second
}

func startCrowd(t *testing.T, clients int, url string) *crowd {
	t.Helper()
	c := &crowd{by: map[int]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}, Timeout: gatewaytest.Patience}
	var running sync.WaitGroup
	for range clients {
		running.Go(func() {
			for ctx.Err() == nil {
				c.asked.Add(1)
				status, retry := statusAt(client, url)
				c.mu.Lock()
				c.by[status]++
				if retry == "1" {
					c.retryLater++
				}
				c.mu.Unlock()
			}
		})
	}
	c.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		client.CloseIdleConnections()
	})
	t.Cleanup(c.stop)
	return c
}

// statusAt is the status of the answer at a URL, 0 for none, and its Retry-After.
func statusAt(client *http.Client, url string) (status int, retryAfter string) {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		return 0, ""
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, ""
	}
	_, err = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	if err != nil {
		return 0, ""
	}
	return response.StatusCode, response.Header.Get("Retry-After")
}

// TestRetryBudget has all endpoints fail under many clients: what is tried again
// stays a share of what is in flight, so that the upstream gets little more than
// its clients ask for.
func TestRetryBudget(t *testing.T) {
	const clients, inFlight, requests = 100, 60, 3_000
	var served atomic.Int64
	var urls [3]any
	for i := range urls {
		urls[i] = gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			served.Add(1)
			select { // so that there are as many exchanges in flight as clients
			case <-time.After(50 * time.Millisecond):
			case <-r.Context().Done():
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		}))
	}
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
upstreams: {up: {endpoints: [%q, %q, %q]}}
routes: [{id: up, match: {path_prefix: /}, upstream: up, retry: {attempts: 3}}]
`, urls[:]...))
	c := startCrowd(t, clients, gw.URL("web")+"/x")
	gatewaytest.WaitFor(t, "many exchanges are in flight", func() bool { return statusOfUpstream(t, gw, "up").InFlight > inFlight })
	asked, attempts := c.asked.Load(), served.Load()
	gatewaytest.WaitFor(t, "enough was asked", func() bool { return c.asked.Load()-asked >= requests })
	status := statusOfUpstream(t, gw, "up")
	asked, attempts = c.asked.Load()-asked, served.Load()-attempts
	c.stop()
	ratio := float64(attempts) / float64(asked)
	exhausted := gw.Metric("gateway_retry_budget_exhausted_total", "upstream", "up")
	t.Logf("clients asked %d times and the upstream was asked %d times: %.3f; %d in flight and %d repeated at the end; the budget forbade %v", asked, attempts, ratio, status.InFlight, status.Repeating, exhausted)
	if ratio > 1.3 {
		t.Errorf("the upstream gets %.3f times what clients ask for", ratio)
	}
	if ratio < 1.02 || exhausted == 0 {
		t.Errorf("nothing was to be forbidden: the ratio is %.3f, and the budget forbade %v", ratio, exhausted)
	}
	if len(c.by) != 1 || c.by[http.StatusServiceUnavailable] == 0 {
		t.Errorf("clients got %v, by status", c.by)
	}
}

// gated is an endpoint that holds requests until they are let go, all at once.
type gated struct {
	url  string
	came atomic.Int64
	well atomic.Bool // else its answers are failures
	gate atomic.Pointer[chan struct{}]
}

func newGated(t *testing.T) *gated {
	t.Helper()
	g := &gated{}
	g.letGo()
	g.url = gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gate := *g.gate.Load()
		g.came.Add(1)
		select {
		case <-gate:
		case <-r.Context().Done():
		}
		if !g.well.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	return g
}

// hold has the endpoint hold what comes from now on, and returns what lets that
// go.
func (g *gated) hold() (release func()) {
	gate := make(chan struct{})
	g.gate.Store(&gate)
	return func() { close(gate) }
}

// letGo has it answer at once.
func (g *gated) letGo() { g.hold()() }

// TestBreakerProbes opens a circuit breaker. After its time exactly as many requests
// of many clients reach the upstream at once as it is to be probed with, while all
// others are refused; the same again where these fail; and it closes when they
// succeed.
func TestBreakerProbes(t *testing.T) {
	const clients, probes = 20, 3
	endpoint := newGated(t)
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
upstreams: {up: {endpoints: [%q], circuit_breaker: {consecutive_failures: 5, open_for: 300ms, half_open: {max_concurrent: %d, successes: %d}}}}
routes: [{id: up, match: {path_prefix: /}, upstream: up}]
`, endpoint.url, probes, probes))
	state := func() string { return breakersOf(t, gw, "up")[0].State }
	conn := gw.Dial("web")
	for range 5 {
		if r := (ask{target: "/x"}).on(t, conn); r.StatusCode != 503 || r.word() != "" {
			t.Fatalf("before the breaker opens a client gets %d %s", r.StatusCode, r.body)
		}
	}
	if now := state(); now != "open" {
		t.Fatalf("after 5 failures in a row the breaker is %s", now)
	}
	release := endpoint.hold()
	came := endpoint.came.Load()
	c := startCrowd(t, clients, gw.URL("web")+"/x")
	for round := range 3 {
		gatewaytest.WaitFor(t, "the probes are there", func() bool { return endpoint.came.Load() >= came+probes })
		before := c.asked.Load()
		gatewaytest.WaitFor(t, "many others are refused", func() bool { return c.asked.Load() > before+200 })
		if b := breakersOf(t, gw, "up")[0]; b.State != "half_open" || b.Probing != probes {
			t.Errorf("while it is probed the breaker is %s with %d probes", b.State, b.Probing)
		}
		if n := endpoint.came.Load() - came; n != probes {
			t.Errorf("%d probes came, not %d", n, probes)
		}
		came += probes
		let := release
		if round == 2 {
			endpoint.well.Store(true)
			endpoint.letGo()
		} else {
			release = endpoint.hold()
		}
		let()
	}
	gatewaytest.WaitFor(t, "the breaker is closed", func() bool { return state() == "closed" })
	served := endpoint.came.Load()
	gatewaytest.WaitFor(t, "all are served", func() bool { return endpoint.came.Load() > served+clients })
	c.stop()
	t.Logf("answers by status %v", c.by)
	if failed := 2 * probes; len(c.by) != 2 || c.by[200] == 0 || c.by[503] != c.retryLater+failed {
		t.Errorf("clients got statuses %v, and %d times when to come back: all but the %d that were answered with 503 should", c.by, c.retryLater, failed)
	}
	if opened := gw.Metric("gateway_breaker_transitions_total", "upstream", "up"); opened != 7 {
		t.Errorf("%v transitions are counted: it opened three times, was half open three times, and closed", opened)
	}
}
