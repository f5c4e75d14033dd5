package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

// fewFiles is how many descriptors the gateway may have that is filled.
const fewFiles = 256

// A gateway whose connections have taken all the descriptors that they may is
// still to be asked how it is.
func TestAdminWhileDescriptorsAreExhausted(t *testing.T) {
	limited := filepath.Join(t.TempDir(), "limited")
	script := fmt.Sprintf("#!/bin/sh\nulimit -n %d && exec %q \"$@\"\n", fewFiles, built(t, sluiceBinary))
	if err := os.WriteFile(limited, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	gw := gatewaytest.StartProcess(t, limited, `
listeners: {web: {address: "127.0.0.1:0"}}
routes: [{id: all, match: {path_prefix: /}, respond: {body: pong}}]
`)
	address := gw.Addr("web")
	gw.CloseIdle() // so that it holds none for later
	var refused int
	for clients := 0; refused < 10; clients++ {
		if clients > 2*fewFiles {
			t.Fatalf("%d clients of %d were refused", refused, clients)
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		got := exchangeOrBreak(conn)
		if got == "" || strings.HasPrefix(got, "HTTP/1.1 503 ") {
			refused++
		}
	}
	for range 5 {
		for _, path := range []string{"/_gateway/health", "/_gateway/ready", "/_gateway/listeners", "/_gateway/upstreams"} {
			gw.CloseIdle()
			var answer any
			gw.Admin(path, &answer)
		}
		gw.CloseIdle()
		if open := gw.Metric("gateway_downstream_connections", "listener", "web"); open < fewFiles/2 {
			t.Fatalf("%v connections are open", open)
		}
	}
}

// exchangeOrBreak asks, and returns the beginning of what comes; nothing, if the
// connection breaks.
func exchangeOrBreak(conn net.Conn) string {
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: x.test\r\n\r\n")); err != nil {
		return ""
	}
	got := make([]byte, 64)
	n, err := conn.Read(got)
	if err != nil {
		return ""
	}
	return string(got[:n])
}
