package e2e

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"testing"

	"sluice/internal/gatewaytest"
)

// TestLogLineAfterReload: an exchange that goes on over a reload which changes
// the access log leaves its line in the new one.
func TestLogLineAfterReload(t *testing.T) {
	release := make(chan struct{})
	slow := gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-release
	}))
	config := func(log string) string {
		return fmt.Sprintf(`
listeners: {web: {address: 127.0.0.1:0}}
admin: {address: 127.0.0.1:0}
access_log: {output: %s}
routes: [{id: slow, match: {path: /}, upstream: %q}]
`, log, slow)
	}
	gw := gatewaytest.Start(t, config(filepath.Join(t.TempDir(), "before.log")))
	response, err := http.Get(gw.URL("web"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	gw.Load(config("stdout"))
	close(release)
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	if line := gw.LogLine(response.Header.Get("X-Request-ID")); line["route"] != "slow" || line["status"] != 200.0 {
		t.Errorf("the line is %v", line)
	}
}
