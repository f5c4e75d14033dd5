package gatewaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// admin reads a gateway's admin API.
type admin struct {
	t      testing.TB
	client *http.Client
}

// newAdmin returns a reader of the admin API at whatever address it has when it
// is asked.
func newAdmin(t testing.TB, address func() net.Addr) admin {
	t.Helper()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, address().Network(), address().String())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return admin{t: t, client: &http.Client{Transport: transport, Timeout: Patience}}
}

// Admin decodes the JSON at a path of the admin API.
func (a *admin) Admin(path string, into any) {
	a.t.Helper()
	if err := json.Unmarshal(a.read(path), into); err != nil {
		a.t.Fatalf("%s: %v", path, err)
	}
}

// Metric is the sum of the samples of a name whose labels include these, given
// as name, value, name, value.
func (a *admin) Metric(name string, labels ...string) float64 {
	a.t.Helper()
	sample := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `(?:\{(.*)\})? (\S+)$`)
	total := 0.0
	for _, match := range sample.FindAllStringSubmatch(string(a.read("/metrics")), -1) {
		all := true
		for i := 0; i < len(labels); i += 2 {
			all = all && strings.Contains(","+match[1]+",", fmt.Sprintf(",%s=%q,", labels[i], labels[i+1]))
		}
		if value, err := strconv.ParseFloat(match[2], 64); all && err == nil {
			total += value
		}
	}
	return total
}

// read returns what the admin API has at a path.
func (a *admin) read(path string) []byte {
	a.t.Helper()
	response, err := a.client.Get("http://127.0.0.1" + path)
	if err != nil {
		a.t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // read to its end, or broken
	if err != nil || response.StatusCode != http.StatusOK {
		a.t.Fatalf("%s: status %d, %v: %s", path, response.StatusCode, err, body)
	}
	return body
}

// CloseIdle closes the connections to the admin API.
func (a *admin) CloseIdle() { a.client.CloseIdleConnections() }

// Collect has the gateway collect its garbage: a profile of the heap begins so.
func (a *admin) Collect() { a.read("/debug/pprof/heap?gc=1") }
