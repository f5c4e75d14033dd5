package snapshot_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

// The process log tells why an endpoint is not reached, once for all exchanges.
func TestEndpointThatIsNotReachedIsToldOf(t *testing.T) {
	e := newEngine(t)
	endpoint := gatewaytest.Refused(t)
	e.load(listener + fmt.Sprintf(`
upstreams: {refused: {endpoints: [%q]}}
routes: [{id: refused, match: {path: /refused}, upstream: refused}]
`, endpoint))
	for range 3 {
		if err := e.run(e.exchange("GET", "/refused")); err == nil {
			t.Error("somebody answers")
		}
	}
	e.stop()
	log := e.log.String()
	line := fmt.Sprintf("level=WARN msg=\"no connection to an endpoint\" upstream=refused endpoint=%s cause=", endpoint)
	if strings.Count(log, line) != 1 || !strings.Contains(log, "connection refused") {
		t.Error(log)
	}
}
