package e2e

import (
	"bytes"
	"net"
	"runtime"
	"runtime/debug"
	"testing"

	"sluice/internal/gatewaytest"
)

// The budget of an exchange in the engine.
const (
	mostAllocations = 5
	mostBytes       = 4 << 10
)

// TestAllocations counts what a proxied request allocates: everything in this
// process, where neither the client nor the endpoint allocates anything.
func TestAllocations(t *testing.T) {
	if gatewaytest.Engine() == gatewaytest.Standard {
		t.Skip("net/http allocates what it does")
	}
	const answer = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"some\":\"it\"}"
	endpoint := replying(t, []byte(answer))
	gw := gatewaytest.Start(t, `
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
upstreams: {up: {endpoints: ["`+endpoint+`"]}}
routes: [{match: {path_prefix: /}, upstream: up}]
`)
	conn := gw.Dial("web")
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
	const times = 2000
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // its own work allocates, too
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	ask(times)
	runtime.ReadMemStats(&after)
	allocations := float64(after.Mallocs-before.Mallocs) / times
	size := float64(after.TotalAlloc-before.TotalAlloc) / times
	t.Logf("%.2f allocations of %.0f bytes for each request", allocations, size)
	if allocations > mostAllocations+0.5 || size > mostBytes { // the half is for what else runs now and then
		t.Errorf("%.2f allocations of %.0f bytes for each request; the budget is %d of %d", allocations, size, mostAllocations, mostBytes)
	}
}

// replying is an endpoint that answers each head with the same bytes, without
// allocating.
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
