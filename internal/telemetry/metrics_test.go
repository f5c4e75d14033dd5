package telemetry

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
)

// exposition is everything in the text format.
func exposition(t *testing.T, m *Metrics) string {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Error(err)
	}
	var out strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
			t.Error(err)
		}
	}
	return out.String()
}

// samples are the lines of the gateway's own metrics, without buckets.
func samples(t *testing.T, m *Metrics) (lines []string) {
	t.Helper()
	for line := range strings.Lines(exposition(t, m)) {
		if strings.HasPrefix(line, "gateway_") && !strings.Contains(line, "_bucket{") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestMetrics(t *testing.T) {
	m := NewMetrics(100)
	users := m.Route("users", "/users/{id}")
	users.Observe("GET", 200, "u", "v1", 2*time.Second)
	users.Observe("GET", 200, "u", "v1", time.Second)
	users.Observe("BREW", 418, "u", "", time.Second)
	users.Error("upstream_reset")
	users.Error("upstream_reset")
	m.Route("", "").Observe("POST", 404, "", "", 0)
	m.Route("", "").Error("no_route")
	u := m.Upstream("u")
	u.ConnectionOpened()
	u.ConnectionOpened()
	u.ConnectionReused()
	u.ConnectionReused()
	u.ConnectionClosed()
	u.Observe(250 * time.Millisecond)
	u.Repeated()
	u.Repeated()
	u.BudgetExhausted()
	web := m.Listener("web")
	web.ConnectionOpened()
	web.ConnectionOpened()
	web.ConnectionClosed()
	web.PathViolation()
	m.RequestStarted()
	m.RequestStarted()
	m.RequestEnded()
	m.ConfigServed(7, time.Unix(1_700_000_000, 500_000_000))
	m.ConfigRefused()
	m.ConfigRefused()

	want := `gateway_access_log_dropped_total 0
gateway_access_log_errors_total 0
gateway_active_requests 1
gateway_config_last_success_timestamp_seconds 1.7000000005e+09
gateway_config_reloads_total{result="failure"} 2
gateway_config_reloads_total{result="success"} 1
gateway_config_revision 7
gateway_downstream_connections{listener="web"} 1
gateway_errors_total{error="no_route",route=""} 1
gateway_errors_total{error="upstream_reset",route="users"} 2
gateway_path_violations_total{listener="web"} 1
gateway_request_duration_seconds_sum{method="GET",path="/users/{id}",route="users",upstream="u"} 3
gateway_request_duration_seconds_count{method="GET",path="/users/{id}",route="users",upstream="u"} 2
gateway_request_duration_seconds_sum{method="POST",path="",route="",upstream=""} 0
gateway_request_duration_seconds_count{method="POST",path="",route="",upstream=""} 1
gateway_request_duration_seconds_sum{method="_OTHER",path="/users/{id}",route="users",upstream="u"} 1
gateway_request_duration_seconds_count{method="_OTHER",path="/users/{id}",route="users",upstream="u"} 1
gateway_requests_total{method="GET",path="/users/{id}",route="users",status="200",upstream="u",version="v1"} 2
gateway_requests_total{method="POST",path="",route="",status="404",upstream="",version=""} 1
gateway_requests_total{method="_OTHER",path="/users/{id}",route="users",status="418",upstream="u",version=""} 1
gateway_retries_total{upstream="u"} 2
gateway_retry_budget_exhausted_total{upstream="u"} 1
gateway_upstream_active_connections{upstream="u"} 1
gateway_upstream_connections_total{reused="false",upstream="u"} 2
gateway_upstream_connections_total{reused="true",upstream="u"} 2
gateway_upstream_duration_seconds_sum{upstream="u"} 0.25
gateway_upstream_duration_seconds_count{upstream="u"} 1`
	if got := strings.Join(samples(t, m), "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestMethodLabel(t *testing.T) {
	for method, want := range map[string]string{
		"GET": "GET", "HEAD": "HEAD", "POST": "POST", "PUT": "PUT", "PATCH": "PATCH", "DELETE": "DELETE", "OPTIONS": "OPTIONS", "TRACE": "TRACE", "CONNECT": "CONNECT",
		"get": "_OTHER", "": "_OTHER", "PROPFIND": "_OTHER", "GETS": "_OTHER",
	} {
		if got := methodLabel(method); got != want {
			t.Errorf("%q: %q", method, got)
		}
	}
}

func TestMetricsHaveRuntimeAndProcess(t *testing.T) {
	text := exposition(t, NewMetrics(0))
	for _, name := range []string{"go_goroutines", "process_open_fds", "process_resident_memory_bytes"} {
		if !regexp.MustCompile(`(?m)^` + name + ` [0-9]`).MatchString(text) {
			t.Errorf("no %s", name)
		}
	}
}

func TestHistogramBuckets(t *testing.T) {
	m := NewMetrics(0)
	m.Route("r", "").Observe("GET", 200, "", "", 30*time.Second)
	text := exposition(t, m)
	for bound, want := range map[string]string{"0.0005": "0", "10": "0", "30": "1", "+Inf": "1"} {
		if line := fmt.Sprintf("gateway_request_duration_seconds_bucket{method=\"GET\",path=\"\",route=\"r\",upstream=\"\",le=%q} %s\n", bound, want); !strings.Contains(text, line) {
			t.Errorf("no %s", line)
		}
	}
}

func TestSeriesAreBounded(t *testing.T) {
	m := NewMetrics(10)
	for i := range 50 {
		m.Route(fmt.Sprint("r", i), "/").Observe("GET", 200, "u", "", time.Millisecond)
		m.Route(fmt.Sprint("r", i), "/").Error("internal")
		m.Upstream(fmt.Sprint("u", i)).ConnectionReused()
		m.Listener(fmt.Sprint("l", i)).ConnectionOpened()
	}
	count := map[string]int{}
	for _, line := range samples(t, m) {
		name, _, _ := strings.Cut(line, "{")
		count[name]++
	}
	for _, name := range []string{
		"gateway_requests_total", "gateway_request_duration_seconds_count", "gateway_errors_total",
		"gateway_upstream_connections_total", "gateway_upstream_active_connections", "gateway_downstream_connections",
	} {
		if count[name] != 11 { // ten and the other one
			t.Errorf("%s has %d series", name, count[name])
		}
	}
	for sample, want := range map[string]string{
		`gateway_requests_total{method="_other",path="_other",route="_other",status="_other",upstream="_other",version="_other"}`: "40",
		`gateway_errors_total{error="_other",route="_other"}`:                                                                     "40",
		`gateway_downstream_connections{listener="_other"}`:                                                                       "40",
		`gateway_upstream_duration_seconds_count{upstream="_other"}`:                                                              "0",
	} {
		if got := metric(t, m, sample); got != want {
			t.Errorf("%s is %q", sample, got)
		}
	}
}

func TestTheBoundChangesAtRuntime(t *testing.T) {
	m := NewMetrics(1)
	a, b := m.Route("a", ""), m.Route("b", "")
	a.Error("internal")
	b.Error("internal")
	m.SetMaxSeries(2)
	b.Error("internal")                // resolved before: stays
	m.Route("b", "").Error("internal") // the next snapshot's
	m.SetMaxSeries(1)
	m.Route("b", "").Error("internal") // is there already
	m.Route("c", "").Error("internal")
	m.SetMaxSeries(0)
	m.Route("d", "").Error("internal")
	for route, want := range map[string]string{"a": "1", "b": "2", "c": "", "d": "1"} {
		if got := metric(t, m, `gateway_errors_total{error="internal",route="`+route+`"}`); got != want {
			t.Errorf("%s is %q", route, got)
		}
	}
	if got := metric(t, m, `gateway_errors_total{error="_other",route="_other"}`); got != "3" {
		t.Errorf("the other one is %q", got)
	}
}

func TestLabelsThatAreNotUTF8(t *testing.T) {
	m := NewMetrics(0)
	m.Route("a\xff", "/\xc3").Observe("GET", 200, "", "v\xfe", 0)
	if got := metric(t, m, "gateway_requests_total{method=\"GET\",path=\"/\ufffd\",route=\"a\ufffd\",status=\"200\",upstream=\"\",version=\"v\ufffd\"}"); got != "1" {
		t.Errorf("got %q", got)
	}
}

func TestMetricsAreIndependent(t *testing.T) {
	a, b := NewMetrics(0), NewMetrics(0)
	a.RequestStarted()
	if got := metric(t, b, "gateway_active_requests"); got != "0" {
		t.Errorf("got %q", got)
	}
	gathered, err := a.Gatherer().Gather()
	if err != nil || len(gathered) == 0 {
		t.Errorf("%d, %v", len(gathered), err)
	}
}

func TestObserveDoesNotAllocate(t *testing.T) {
	m := NewMetrics(0)
	route, upstream, listener := m.Route("r", "/"), m.Upstream("u"), m.Listener("l")
	versions := []string{"", "v1"}
	i := 0
	if n := testing.AllocsPerRun(1000, func() {
		i++
		route.Observe("GET", 200+i%2, "u", versions[i%2], time.Millisecond)
		route.Observe("PROPFIND", 207, "u", "", time.Millisecond)
		route.Error("no_route")
		m.RequestStarted()
		m.RequestEnded()
		upstream.ConnectionReused()
		upstream.ConnectionOpened()
		upstream.ConnectionClosed()
		upstream.Observe(time.Millisecond)
		listener.ConnectionOpened()
		listener.ConnectionClosed()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestMetricsConcurrently(t *testing.T) {
	m := NewMetrics(20)
	const goroutines, each = 8, 300
	var wg sync.WaitGroup
	shared := m.Route("shared", "/")
	for range goroutines {
		wg.Go(func() {
			for i := range each {
				shared.Observe("GET", 200+i%5, "u", "", time.Millisecond)
				m.Route(fmt.Sprint("r", i), "/").Error("internal")
				if i%100 == 0 {
					exposition(t, m)
				}
			}
		})
	}
	wg.Wait()
	total := 0
	for status := range 5 {
		var n int
		if _, err := fmt.Sscan(metric(t, m, fmt.Sprintf(`gateway_requests_total{method="GET",path="/",route="shared",status="20%d",upstream="u",version=""}`, status)), &n); err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if total != goroutines*each {
		t.Errorf("%d of %d", total, goroutines*each)
	}
	if got := metric(t, m, `gateway_errors_total{error="_other",route="_other"}`); got != fmt.Sprint(goroutines*(each-20)) {
		t.Errorf("the other one is %s", got)
	}
}

func BenchmarkObserve(b *testing.B) {
	route := NewMetrics(0).Route("r", "/")
	b.ReportAllocs()
	for b.Loop() {
		route.Observe("GET", 200, "u", "v1", time.Millisecond)
	}
}
