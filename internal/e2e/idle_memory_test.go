package e2e

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"

	"sluice/internal/gatewaytest"
)

var idleConnections = flag.Int("idle", 1_000, "how many idle connections the memory is measured with")

// TestIdleMemory tells what an idle connection takes: one that has had an answer
// and may ask again.
func TestIdleMemory(t *testing.T) {
	needFiles(t, uint64(*idleConnections)+spareFiles)
	budget := int64(12 << 10) // DESIGN 6
	if gatewaytest.Engine() == gatewaytest.Loop {
		budget = 2 << 10
	}
	if !*long {
		budget += budget / 2 // of what few connections need, some is not theirs
	}
	url := gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	gw := gatewaytest.StartProcess(t, built(t, sluiceBinary), fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0", timeouts: {idle: 10m}}}
access_log: {output: none}
routes: [{match: {path: /}, upstream: %q}]
`, url))

	// Warm: it has served as many requests, over some connections at a time.
	const crowd = 50
	for range *idleConnections / crowd {
		for _, conn := range openIdle(t, gw, crowd) {
			conn.Close()
		}
	}
	open := func(n int) {
		t.Helper()
		gatewaytest.WaitFor(t, fmt.Sprintf("%d connections are open", n), func() bool {
			return gw.Metric("gateway_downstream_connections") == float64(n)
		})
	}
	open(0)
	// What lives is known after a collection only. A profile of the heap begins
	// with one.
	lives := func() int64 {
		t.Helper()
		for range 2 { // what finalizers and pools held
			gw.Collect()
		}
		return int64(gw.Metric("go_memstats_heap_alloc_bytes") + gw.Metric("go_memstats_stack_inuse_bytes"))
	}
	before, resident := lives(), gw.Memory("VmRSS")
	conns := openIdle(t, gw, *idleConnections)
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	open(*idleConnections)
	after := lives()
	each, residentEach := (after-before)/int64(len(conns)), (gw.Memory("VmRSS")-resident)/int64(len(conns))
	t.Logf("%d idle connections take %d bytes each of heap and stacks, %d of resident memory (%d KiB before)", len(conns), each, residentEach, resident>>10)
	if each > budget {
		t.Errorf("an idle connection takes %d bytes of heap and stacks, %d are allowed", each, budget)
	}
	if *long && residentEach > budget {
		t.Errorf("an idle connection takes %d bytes of resident memory, %d are allowed", residentEach, budget)
	}
	// They are still good.
	for n, conn := range conns {
		if n%(1+len(conns)/100) == 0 {
			if r := (ask{target: "/"}).on(t, conn); r.body != "hello" {
				t.Errorf("connection %d: status %d %q", n, r.StatusCode, r.body)
			}
		}
	}
}

// openIdle opens connections, each of which gets an answer.
func openIdle(t *testing.T, gw *gatewaytest.Process, n int) []net.Conn {
	t.Helper()
	address := gw.Addr("web")
	conns := make([]net.Conn, n)
	var running sync.WaitGroup
	for worker := range 20 {
		running.Go(func() {
			for i := worker; i < n; i += 20 {
				conn, err := net.DialTimeout("tcp", address, gatewaytest.Patience)
				if err != nil {
					t.Error(err)
					return
				}
				conns[i] = conn
				if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x.test\r\n\r\n"); err != nil {
					t.Error(err)
				} else if err := answered(conn, "hello"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return conns
}
