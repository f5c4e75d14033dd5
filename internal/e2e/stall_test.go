package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

const (
	sleepFor      = 100 * time.Millisecond
	sleepEvery    = 10 // requests
	stallClients  = 8
	stallRequests = 100 // of each client in a round
	stallRounds   = 10  // at most; a machine under load may spoil some
	stallP99      = 50 * time.Millisecond
)

// sleeper is a kind of middleware that waits for something slow, on every tenth
// request, and says so in the response.
func sleeper() pipeline.Kind {
	type none struct{}
	return pipeline.NewKind("sleeper", func() *none { return &none{} },
		func(*none, model.Report) none { return none{} },
		func(*pipeline.Site, none) pipeline.Middleware {
			var requests atomic.Int64
			return func(next pipeline.Handler) pipeline.Handler {
				return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
					slept := requests.Add(1)%sleepEvery == 0
					if slept {
						x.Wait(func() { <-time.After(sleepFor) })
					}
					err := next.Serve(x)
					if err == nil && slept {
						x.Response.Fields.Add("X-Slept", "yes")
					}
					return err
				})
			}
		})
}

// TestWaitHoldsUpNobody has a middleware wait on every tenth request: the others
// are as quick as without it.
func TestWaitHoldsUpNobody(t *testing.T) {
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
upstreams: {up: {endpoints: [%q]}}
routes:
  - {match: {path: /with}, middleware: [sleeper: {}], upstream: up}
  - {match: {path: /without}, upstream: up}
`, gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))), sleeper())
	for round := range stallRounds {
		without, none := stallRound(t, gw, "/without")
		with, slept := stallRound(t, gw, "/with")
		if t.Failed() {
			return
		}
		usual, p99 := quantile(without, 0.99), quantile(with, 0.99)
		t.Logf("round %d: p99 %v without the sleeper, %v with it, which slept %d times; p50 %v and %v", round+1, usual, p99, len(slept), quantile(without, 0.5), quantile(with, 0.5))
		if len(none) > 0 || len(slept) != stallClients*stallRequests/sleepEvery || slept[0] < sleepFor {
			t.Fatalf("%d and %d requests had to wait, the shortest %v", len(none), len(slept), slept[0])
		}
		if p99 < stallP99 { // were they held up, no round would be so quick
			return
		}
	}
	t.Errorf("p99 was never under %v with the sleeper", stallP99)
}

// stallRound has some clients ask for a path, and returns how long the answers
// took, sorted: of requests that were not held up, and of those that were.
func stallRound(t *testing.T, gw *gatewaytest.Gateway, path string) (prompt, slept []time.Duration) {
	t.Helper()
	var mu sync.Mutex
	var running sync.WaitGroup
	for range stallClients {
		running.Go(func() {
			conn, err := net.DialTimeout("tcp", gw.Addr("web").String(), gatewaytest.Patience)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(gatewaytest.Patience))
			in := bufio.NewReader(conn)
			for range stallRequests {
				began := time.Now()
				if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: x.test\r\n\r\n"); err != nil {
					t.Error(err)
					return
				}
				response, err := http.ReadResponse(in, nil)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				took := time.Since(began)
				if err != nil || response.StatusCode != http.StatusOK || string(body) != "hello" {
					t.Errorf("status %d %q, %v", response.StatusCode, body, err)
					return
				}
				mu.Lock()
				if response.Header.Get("X-Slept") != "" {
					slept = append(slept, took)
				} else {
					prompt = append(prompt, took)
				}
				mu.Unlock()
				<-time.After(time.Millisecond) // the gateway is not to be busy
			}
		})
	}
	running.Wait()
	slices.Sort(prompt)
	slices.Sort(slept)
	return prompt, slept
}

const (
	saturateClients = 16
	adminCalls      = 100 // three times as many in the long form
	adminP99        = 50 * time.Millisecond
	adminMedian     = time.Second // on a machine of which nobody knows what else it does
)

// TestAdminWhileSaturated asks the admin API while clients send as fast as the
// gateway takes it.
func TestAdminWhileSaturated(t *testing.T) {
	gw := gatewaytest.StartProcess(t, built(t, sluiceBinary), `
listeners: {web: {address: "127.0.0.1:0"}}
access_log: {output: none}
routes: [{match: {path: /}, respond: {body: hello}}]
`)
	// Each client writes without end and takes what comes, so that there is
	// always something to do.
	batch := []byte(strings.Repeat("GET / HTTP/1.1\r\nHost: x.test\r\n\r\n", 64))
	var running sync.WaitGroup
	conns := make([]net.Conn, saturateClients)
	for n := range conns {
		conn, err := net.DialTimeout("tcp", gw.Addr("web"), gatewaytest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		conns[n] = conn
		running.Go(func() {
			for {
				if _, err := conn.Write(batch); err != nil {
					return // the test is over
				}
			}
		})
		running.Go(func() { _, _ = io.Copy(io.Discard, conn) })
	}
	stop := sync.OnceFunc(func() {
		for _, conn := range conns {
			conn.Close()
		}
		running.Wait()
	})
	defer stop()

	served := func() float64 { return gw.Metric("gateway_requests_total") }
	gatewaytest.WaitFor(t, "the gateway is busy", func() bool { return served() > 1000 })
	busy := func() float64 { return gw.Metric("process_cpu_seconds_total") }
	began, before, cpu := time.Now(), served(), busy()
	calls := adminCalls
	if *long {
		calls *= 3
	}
	took := make([]time.Duration, calls)
	for n := range took {
		var list []any
		call := time.Now()
		gw.Admin(oneAfterAnother(n, "/_gateway/listeners", "/_gateway/upstreams", "/_gateway/routes"), &list)
		took[n] = time.Since(call)
	}
	lasted := time.Since(began)
	slices.Sort(took)
	t.Logf("%d admin calls: p50 %v, p99 %v, at most %v; meanwhile %.0f requests a second, and %.0f%% of a processor for the gateway",
		len(took), quantile(took, 0.5), quantile(took, 0.99), took[len(took)-1], (served()-before)/lasted.Seconds(), 100*(busy()-cpu)/lasted.Seconds())
	if median := quantile(took, 0.5); median > adminMedian {
		t.Errorf("half of the admin calls take %v", median)
	}
	if p99 := quantile(took, 0.99); *long && p99 > adminP99 {
		t.Errorf("an admin call takes %v, %v are allowed", p99, adminP99)
	}
}
