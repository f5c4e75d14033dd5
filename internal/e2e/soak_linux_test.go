package e2e

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/gatewaytest"
)

var (
	soakRequests = flag.Int("soak", 6_000, "how many requests are broken off at random, on either side")
	soakSeed     = flag.Uint64("seed", 0, "what these requests are drawn from; 0: the time")
)

const (
	soakClients  = 24
	soakPipeline = 4 // requests at most
)

// replayable is how many bytes a body can have for it to be sent again for sure:
// of a larger one, some may be gone when the connection turns out to be dead.
func replayable() int {
	if gatewaytest.Engine() == gatewaytest.Standard {
		return 8 << 10
	}
	return 64 << 10
}

// files is how many descriptors this process has.
func files(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// heap is what lives on the heap.
func heap() uint64 {
	var m runtime.MemStats
	debug.FreeOSMemory()
	debug.FreeOSMemory() // what finalizers and pools held
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// TestSoak sends many requests of which either side breaks off some: no byte of
// one turns up in another, every exchange ends as its plan says, no POST is
// carried out twice, and nothing is left behind.
func TestSoak(t *testing.T) {
	const keptPipes = 2 * 16 // descriptors of pipes that each executor keeps
	began := time.Now()
	seed := *soakSeed
	if seed == 0 {
		seed = uint64(began.UnixNano())
	}
	http.DefaultClient.CloseIdleConnections() // of tests before
	ignored, filesBefore := goleak.IgnoreCurrent(), files(t)

	t.Run("requests", func(t *testing.T) {
		t.Logf("-seed %d", seed)
		var wrong faults
		ids := *soakRequests + soakClients*soakPipeline
		endpoint := newSoakEndpoint(t, &wrong, ids)
		gw := gatewaytest.Start(t, fmt.Sprintf(`
# A client that this machine does not let run is no slow one.
listeners: {web: {address: "127.0.0.1:0", timeouts: {min_body_rate: 0}}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
upstreams:
  many: {endpoints: [%[1]q], pool: {idle_timeout: 1s}, timeouts: {connect: 30s}}
  few: {endpoints: [%[1]q], pool: {idle_timeout: 1s, max_connections_per_endpoint: 3}, timeouts: {connect: 30s}}
routes:
  - {match: {path_prefix: /many}, upstream: many}
  - {match: {path_prefix: /few}, upstream: few}
`, endpoint.url))
		atRest := files(t)
		var count soakCount
		var next atomic.Uint64
		run := func(until int) {
			var running sync.WaitGroup
			for n := range soakClients {
				running.Go(func() {
					c := &soakClient{
						address: gw.Addr("web").String(), faults: &wrong, count: &count, rng: rand.New(rand.NewPCG(seed, uint64(until)+uint64(n))),
					}
					defer c.close()
					for next.Load() < uint64(until) && !wrong.enough() {
						plans := make([]soakPlan, 1)
						if c.rng.IntN(20) == 0 {
							plans = make([]soakPlan, 2+c.rng.IntN(soakPipeline-1))
						}
						for i := range plans {
							plans[i] = draw(c.rng, next.Add(1)-1, len(plans) > 1)
						}
						if err := c.round(plans); err != nil {
							wrong.add("%v", err)
							c.close()
						}
					}
				})
			}
			running.Wait()
		}
		quiet := func() {
			gatewaytest.WaitFor(t, "nothing is open", func() bool {
				return gw.Metric("gateway_active_requests") == 0 && gw.Metric("gateway_downstream_connections") == 0 &&
					gw.Metric("gateway_upstream_active_connections") == 0
			})
			gw.CloseIdle()
			gatewaytest.WaitFor(t, "no connection is left", func() bool { return files(t) <= atRest+keptPipes*runtime.GOMAXPROCS(0) && endpoint.open.Load() == 0 })
		}
		run(*soakRequests / 4)
		quiet()
		warm, goroutines := heap(), runtime.NumGoroutine()
		run(*soakRequests)
		quiet()
		settled := heap()
		excused := endpoint.judge(count.doubts)
		t.Logf("%d requests in %v, %d reached the endpoint; %d whole, %d left by clients, %d broken off, %d were 502, %d of them swallowed; %d dropped, %d behind a torn one; %d MiB up, %d MiB down",
			next.Load(), time.Since(began).Round(time.Millisecond), endpoint.served.Load(), count.whole.Load(), count.left.Load(), count.broken.Load(),
			count.refused.Load()+int64(len(count.doubts)), excused, count.dropped.Load(), count.torn.Load(), count.bytesOut.Load()>>20, count.bytesIn.Load()>>20)
		t.Logf("%d KiB on the heap after a quarter, %d KiB after all; %d goroutines, then %d", warm>>10, settled>>10, goroutines, runtime.NumGoroutine())
		if settled > warm+warm/4+4<<20 {
			t.Error("the heap grows")
		}
		for _, fault := range wrong.list {
			t.Error(fault)
		}
	})
	gatewaytest.WaitFor(t, "no descriptor is left", func() bool { return files(t) <= filesBefore })
	if err := goleak.Find(ignored); err != nil {
		t.Error(err)
	}
}
