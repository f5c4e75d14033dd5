package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

// TestBodiesAreDecidedOn on every engine: the service is told the beginning of a body, and
// the destination gets all of it, also when it comes in chunks.
func TestBodiesAreDecidedOn(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || strings.Contains(string(body), "DROP") || len(body) > 1<<10 {
			w.WriteHeader(http.StatusForbidden)
		}
		w.Header().Set("X-Told", fmt.Sprint(len(body), " ", r.Header.Get("X-Envoy-Auth-Partial-Body")))
	}))
	t.Cleanup(service.Close)
	g := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
upstreams: {up: {endpoints: [%q]}}
routes:
  - {match: {path: /whole}, upstream: up, middleware: [{external_auth: {http: {url: %[2]q, response_headers: [X-Told]}, body: {max: 1KiB}}}]}
  - {match: {path: /part}, upstream: up, middleware: [{external_auth: {http: {url: %[2]q, response_headers: [X-Told]}, body: {max: 1KiB, partial: true}}}]}
`, gatewaytest.NewEcho(t, "a"), service.URL))
	large := strings.Repeat("x", 100_000)
	for _, way := range decidedWays() {
		client := newSiteClient(t, way, g.Addr("web").String(), nil)
		for _, test := range []struct {
			path, body, told string // no told: it does not pass
			status           int
		}{
			{"/whole", "hello", "5 false", 200},
			{"/whole", "", "0 false", 200},
			{"/whole", "DROP TABLE", "", 403},
			{"/whole", large, "", 413},
			{"/part", "hello", "5 false", 200},
			{"/part", large, "1024 true", 200},
			{"/part", "DROP" + large, "", 403},
			{"/part", large + "DROP", "1024 true", 200},
		} {
			for _, chunked := range []bool{false, true} {
				r := asking(t, client, "POST", test.path, test.body)
				if chunked {
					r.Body, r.ContentLength = io.NopCloser(strings.NewReader(test.body)), -1
				}
				status, _, echo := answerOf(t, client, r)
				if status != test.status || status == http.StatusOK && (echo.Body != test.body || strings.Join(echo.Header["X-Told"], "|") != test.told) {
					t.Errorf("%s: %s, %d bytes, in chunks: %v: %d, told %s, %d bytes went on", way, test.path, len(test.body), chunked, status, echo.Header["X-Told"], len(echo.Body))
				}
			}
		}
	}
}
