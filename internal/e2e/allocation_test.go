package e2e

import (
	"bytes"
	"net"
	"testing"

	"sluice/internal/gatewaytest"
)

// The budget of an exchange in the engine.
const (
	mostAllocations = 5
	mostBytes       = 4 << 10
)

// TestAllocations counts what a proxied request allocates, by the gateway's own
// metrics.
func TestAllocations(t *testing.T) {
	if gatewaytest.Engine() == gatewaytest.Standard {
		t.Skip("net/http allocates what it does")
	}
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"some\":\"it\"}"
	endpoint := replying(t, []byte(answer))
	// Built without the race detector, which keeps pools from keeping anything.
	gw := gatewaytest.StartProcess(t, built(t, sluiceBinary), `
listeners: {web: {address: "127.0.0.1:0"}}
access_log: {output: none}
upstreams: {up: {endpoints: ["`+endpoint+`"]}}
routes: [{match: {path_prefix: /}, upstream: up}]
`)
	conn, err := net.Dial("tcp", gw.Addr("web"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	request := []byte("GET /some/path?with=query HTTP/1.1\r\nHost: shop.test\r\nUser-Agent: test/1.0\r\nAccept: */*\r\nAccept-Encoding: gzip\r\nCookie: session=12345\r\n\r\n")
	buffer := make([]byte, 4096)
	ask := func(times int) {
		for range times {
			if _, err := conn.Write(request); err != nil {
				t.Fatal(err)
			}
			for n := 0; !bytes.HasSuffix(buffer[:n], []byte("it\"}")); {
				more, err := conn.Read(buffer[n:])
				if err != nil {
					t.Fatal(err)
				}
				n += more
			}
		}
	}
	ask(200)
	const times = 20_000 // to which what else runs now and then adds next to nothing
	counters := func() (mallocs, bytes float64) {
		return gw.Metric("go_memstats_mallocs_total"), gw.Metric("go_memstats_alloc_bytes_total")
	}
	mallocs, size := counters()
	ask(times)
	after, sizeAfter := counters()
	allocations := (after - mallocs) / times
	size = (sizeAfter - size) / times
	t.Logf("%.2f allocations of %.0f bytes for each request", allocations, size)
	if allocations > mostAllocations+0.5 || size > mostBytes { // the half is for what else runs now and then
		t.Errorf("%.2f allocations of %.0f bytes for each request; the budget is %d of %d", allocations, size, mostAllocations, mostBytes)
	}
}

// replying is an endpoint that answers each head with the same bytes.
func replying(t *testing.T, answer []byte) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				buffer := make([]byte, 4096)
				for n := 0; ; {
					more, err := conn.Read(buffer[n:])
					if err != nil {
						return
					}
					if n += more; bytes.HasSuffix(buffer[:n], []byte("\r\n\r\n")) {
						if _, err := conn.Write(answer); err != nil {
							return
						}
						n = 0
					}
				}
			}()
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	return "http://" + listener.Addr().String()
}
