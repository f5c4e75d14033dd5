package snapshot_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/internal/snapshot"
)

// TestStateForMetrics reads what the metrics tell of the serving snapshot.
func TestStateForMetrics(t *testing.T) {
	e := newEngine(t)
	if state := e.current.State(); state.Endpoints != nil || state.Breakers != nil || state.Certificates != nil {
		t.Errorf("before the first snapshot the state is %v", state)
	}
	dir := pair(t)
	built := e.builder.Build(compile(t, fmt.Sprintf(`
listeners:
  files: {address: "127.0.0.1:0", tls: {certificates: [{cert: %[1]s/own.pem, key: %[1]s/own.key}]}}
admin: {address: "127.0.0.1:0"}
upstreams:
  a: {endpoints: ["http://127.0.0.1:1", {url: "http://127.0.0.1:2", weight: 0}], circuit_breaker: {}}
routes: [{match: {path: /}, upstream: a}]
`, dir)), snapshot.Revision{Number: 1})
	defer built.Release()
	if err := built.Commit(); err != nil {
		t.Fatal(err)
	}
	e.current.Swap(built)
	built.Upstreams[0].Drain("http://127.0.0.1:1", true)

	state := e.current.State()
	if got := fmt.Sprint(state.Endpoints, state.Breakers); got != "[{a http://127.0.0.1:1 false} {a http://127.0.0.1:2 true}] [{a  0}]" {
		t.Errorf("the state is %s", got)
	}
	if len(state.Certificates) != 1 {
		t.Fatalf("the certificates are %v", state.Certificates)
	}
	c := state.Certificates[0]
	if left := time.Until(c.NotAfter); c.Listener != "files" || !strings.HasSuffix(c.Certificate, "/own.pem") || left < 3649*24*time.Hour || left > 3654*24*time.Hour {
		t.Errorf("the certificate is %v", c)
	}
}
