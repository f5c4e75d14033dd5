package snapshot_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
	"weak"

	"sluice/internal/gatewaytest"
	"sluice/internal/lease"
	"sluice/internal/logtest"
	"sluice/internal/message"
	"sluice/internal/pipeline"
	"sluice/internal/server"
	"sluice/internal/snapshot"
	"sluice/internal/telemetry"
)

// engine is a snapshot that serves exchanges without a connection.
type engine struct {
	t        *testing.T
	current  snapshot.Current
	registry lease.Registry
	metrics  *telemetry.Metrics
	access   logtest.Buffer
	log      logtest.Buffer
	builder  snapshot.Builder
}

func newEngine(t *testing.T) *engine {
	t.Helper()
	e := &engine{t: t, metrics: telemetry.NewMetrics(0)}
	log := slog.New(slog.NewTextHandler(&e.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	e.builder = snapshot.Builder{
		Registry: &e.registry, Kinds: kinds(), Metrics: e.metrics, Log: log, Pseudonym: "test",
		Server:    server.Options{Service: &e.current, Log: log},
		AccessLog: telemetry.Options{Logger: log, Metrics: e.metrics, Stdout: &e.access, Stderr: &e.access},
	}
	return e
}

// load makes a configuration the serving one, and lets go of the one before.
func (e *engine) load(text string) {
	e.t.Helper()
	next := e.builder.Build(compile(e.t, text), snapshot.Revision{Number: 1})
	if err := next.Commit(); err != nil {
		e.t.Fatal(err)
	}
	for i, m := range next.Gateway.Listeners {
		next.Listeners[i].Serve(m, nil)
	}
	if before := e.current.Swap(next); before != nil {
		before.Release()
	}
}

// stop ends everything, and returns the lines of the access log.
func (e *engine) stop() (lines []map[string]any) {
	e.t.Helper()
	s := e.current.Load()
	ctx, cancel := context.WithTimeout(context.Background(), gatewaytest.Patience)
	defer cancel()
	for _, listener := range s.Listeners {
		if err := listener.Shutdown(ctx); err != nil {
			e.t.Error(err)
		}
	}
	s.Release()
	if err := s.WaitForLog(ctx); err != nil {
		e.t.Error(err)
	}
	if err := e.registry.Idle(); err != nil {
		e.t.Error(err)
	}
	for text := range strings.Lines(e.access.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			e.t.Fatal(err)
		}
		lines = append(lines, line)
	}
	return lines
}

// metric is the sum of a metric's samples with these labels, and of a
// histogram's counts.
func (e *engine) metric(name string, labels ...string) (sum float64) {
	e.t.Helper()
	families, err := e.metrics.Gatherer().Gather()
	if err != nil {
		e.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, sample := range family.GetMetric() {
			pairs := map[string]string{}
			for _, pair := range sample.GetLabel() {
				pairs[pair.GetName()] = pair.GetValue()
			}
			all := true
			for i := 0; i < len(labels); i += 2 {
				all = all && pairs[labels[i]] == labels[i+1]
			}
			if all {
				sum += sample.GetCounter().GetValue() + sample.GetGauge().GetValue() + float64(sample.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func (e *engine) exchange(method, path string) *pipeline.Exchange {
	request := &message.Request{Protocol: message.HTTP11, Method: method, Scheme: "http", Target: path, Host: "a.example.com", Path: path}
	request.Fields.Add("User-Agent", "it")
	return pipeline.NewExchange(e.t.Context(), request, e.current.Load().Gateway.Listeners[0], netip.MustParseAddrPort("192.0.2.1:5"), time.Now())
}

// run passes an exchange through, as an engine does.
func (e *engine) run(x *pipeline.Exchange) error {
	err := e.current.Serve(x)
	if err != nil {
		pipeline.Fail(x, err)
	}
	if err := x.Response.Close(); err != nil {
		e.t.Error(err)
	}
	e.current.Done(x)
	return err
}

func TestEveryExchangeIsObservedOnce(t *testing.T) {
	e := newEngine(t)
	e.load(listener + fmt.Sprintf(`
upstreams: {echo: {endpoints: [{url: %q, version: v1}]}, refused: {endpoints: [%q]}}
routes:
  - {id: fixed, match: {path: "/fixed/{id}"}, respond: {status: 201}}
  - {id: put, match: {path: /put, methods: [PUT]}, respond: {status: 204}}
  - {id: echo, match: {path: /echo}, upstream: echo}
  - {id: refused, match: {path: /refused}, upstream: refused}
`, gatewaytest.NewEcho(t, "echo"), gatewaytest.Refused(t)))
	for _, test := range []struct {
		name, method, path   string
		status               int
		word, route, pattern string
		upstream             string
		attempts             float64
		serve                func(x *pipeline.Exchange) error // nil: run
	}{
		{name: "a fixed response", method: "GET", path: "/fixed/7", status: 201, route: "fixed", pattern: "/fixed/{id}"},
		{name: "another spelling of the path", method: "GET", path: "//fixed/./7", status: 201, route: "fixed", pattern: "/fixed/{id}"},
		{name: "no route", method: "GET", path: "/nowhere", status: 404, word: "no_route"},
		{name: "another method", method: "GET", path: "/put", status: 405, word: "method_not_allowed"},
		{name: "a path that is refused", method: "GET", path: "/%00", status: 400, word: "bad_path"},
		{name: "an endpoint", method: "GET", path: "/echo", status: 200, route: "echo", pattern: "/echo", upstream: "echo", attempts: 1},
		{name: "an endpoint that is not there", method: "GET", path: "/refused", status: 502, word: "upstream_connect", route: "refused", pattern: "/refused", upstream: "refused", attempts: 1},
		{name: "never served", method: "GET", path: "/fixed/1", status: 503, word: "overloaded", serve: func(x *pipeline.Exchange) error {
			pipeline.Fail(x, pipeline.NewError(pipeline.Overloaded, nil))
			e.current.Done(x)
			return nil
		}},
		{name: "the client left before the response", method: "GET", path: "/fixed/1", status: 499, word: "client_closed", route: "fixed", pattern: "/fixed/{id}", serve: func(x *pipeline.Exchange) error {
			err := e.current.Serve(x)
			x.Response, x.Err = nil, pipeline.NewError(pipeline.ClientClosed, pipeline.ErrClientGone)
			e.current.Done(x)
			return err
		}},
		{name: "a break after the head", method: "GET", path: "/fixed/1", status: 201, word: "upstream_reset", route: "fixed", pattern: "/fixed/{id}", serve: func(x *pipeline.Exchange) error {
			err := e.current.Serve(x)
			x.Err = pipeline.NewError(pipeline.UpstreamReset, errors.New("it broke"))
			e.current.Done(x)
			return err
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			requests := []string{"gateway_requests_total", "route", test.route, "path", test.pattern, "method", "GET", "status", strconv.Itoa(test.status), "upstream", test.upstream}
			count := func() [5]float64 {
				return [5]float64{
					e.metric(requests[0], requests[1:]...),
					e.metric("gateway_request_duration_seconds"),
					e.metric("gateway_errors_total"),
					e.metric("gateway_errors_total", "route", test.route, "error", test.word),
					e.metric("gateway_upstream_duration_seconds", "upstream", test.upstream),
				}
			}
			before := count()
			x := e.exchange(test.method, test.path)
			x.Start = x.Start.Add(-time.Hour) // marks the line
			serve := test.serve
			if serve == nil {
				serve = func(x *pipeline.Exchange) error { _ = e.run(x); return nil } // the status tells
			}
			if err := serve(x); err != nil {
				t.Fatal(err)
			}
			failed := 0.0
			if test.word != "" {
				failed = 1
			}
			after := count()
			for i, by := range []float64{1, 1, failed, failed, test.attempts} {
				if after[i] != before[i]+by {
					t.Errorf("count %d went from %v to %v", i, before[i], after[i])
				}
			}
			if active := e.metric("gateway_active_requests"); active != 0 {
				t.Errorf("%v requests are active", active)
			}
			var line map[string]any
			gatewaytest.WaitFor(t, "the line is written", func() bool {
				for text := range strings.Lines(e.access.String()) {
					if strings.Contains(text, x.ID) && x.ID != "" {
						return json.Unmarshal([]byte(text), &line) == nil
					}
				}
				return false
			})
			version := ""
			if test.upstream == "echo" {
				version = "v1"
			}
			for key, want := range map[string]any{
				"status": float64(test.status), "error": test.word, "route": test.route, "upstream": test.upstream, "attempts": test.attempts, "version": version,
				"method": test.method, "host": "a.example.com", "client_ip": "192.0.2.1", "protocol": "HTTP/1.1", "user_agent": "it",
			} {
				if line[key] != want {
					t.Errorf("%s is %v in the log, want %v", key, line[key], want)
				}
			}
			if duration, ok := line["duration_ms"].(float64); !ok || duration < 3600_000 {
				t.Errorf("the duration is %v", line["duration_ms"])
			}
		})
	}
	if lines := e.stop(); len(lines) != 10 {
		t.Errorf("%d lines for 10 exchanges", len(lines))
	}
}

// TestCauses looks for what the access log has no field for.
func TestCauses(t *testing.T) {
	e := newEngine(t)
	e.load(listener + fmt.Sprintf("upstreams: {gone: {endpoints: [%q]}}\nroutes: [{match: {path: /gone}, upstream: gone}]\n", gatewaytest.Refused(t)))
	_ = e.run(e.exchange("GET", "/gone")) // the log tells
	x := e.exchange("GET", "/gone")
	pipeline.Fail(x, errors.New("it broke"))
	e.current.Done(x)
	_ = e.run(e.exchange("GET", "/nowhere")) // an error without a cause
	e.stop()
	var told []string
	for line := range strings.Lines(e.log.String()) {
		if strings.Contains(line, "an exchange failed") {
			told = append(told, line)
		}
	}
	if len(told) != 2 || !strings.Contains(told[0], "level=DEBUG") || !strings.Contains(told[0], "connection refused") || !strings.Contains(told[0], "upstream=gone") ||
		!strings.Contains(told[1], "level=ERROR") || !strings.Contains(told[1], `cause="it broke"`) || !strings.Contains(told[1], "request_id="+x.ID) {
		t.Errorf("the log has %q", told)
	}
}

// TestOneWorld lets an exchange begin under one configuration and end under
// another: it belongs to the first.
func TestOneWorld(t *testing.T) {
	e := newEngine(t)
	e.load(listener + "routes: [{id: before, match: {path: /x}, respond: {status: 201}}]\n")
	x := e.exchange("GET", "/x")
	if err := e.current.Serve(x); err != nil {
		t.Fatal(err)
	}
	e.load(listener + "routes: [{id: after, match: {path: /x}, respond: {status: 202}}]\n")
	e.current.Done(x)
	if err := e.run(e.exchange("GET", "/x")); err != nil {
		t.Fatal(err)
	}
	lines := e.stop()
	if len(lines) != 2 || lines[0]["route"] != "before" || lines[0]["status"] != 201.0 || lines[1]["route"] != "after" || lines[1]["status"] != 202.0 {
		t.Errorf("the lines are %v", lines)
	}
}

// TestALongExchangeKeepsNoSnapshot lets a stream outlast its configuration,
// whose table and documents may be large.
func TestALongExchangeKeepsNoSnapshot(t *testing.T) {
	e := newEngine(t)
	e.load(listener + "routes: [{id: stream, match: {path: /x}, respond: {status: 201}}]\n")
	x := e.exchange("GET", "/x")
	if err := e.current.Serve(x); err != nil {
		t.Fatal(err)
	}
	before := weak.Make(e.current.Load())
	e.load(listener + "routes: [{id: after, match: {path: /x}, respond: {status: 202}}]\n")
	gatewaytest.WaitFor(t, "the snapshot is gone", func() bool {
		runtime.GC()
		return before.Value() == nil
	})
	e.current.Done(x)
	if lines := e.stop(); len(lines) != 1 || lines[0]["route"] != "stream" {
		t.Errorf("the lines are %v", lines)
	}
}

func TestResponseTime(t *testing.T) {
	e := newEngine(t)
	e.load(listener + "routes: [{match: {path: /x}, respond: {status: 200}}]\nresponse_time_header: true\n")
	for _, path := range []string{"/x", "/nowhere", "/%00"} {
		x := e.exchange("GET", path)
		x.Start = time.Now().Add(-1500 * time.Millisecond)
		_ = e.run(x) // the response tells
		value, err := strconv.ParseFloat(x.Response.Fields.Get(message.XResponseTime), 64)
		if err != nil || value < 1500 || value > 1500+gatewaytest.Patience.Seconds()*1000 {
			t.Errorf("%s: the time is %q, %v", path, x.Response.Fields.Get(message.XResponseTime), err)
		}
	}
	e.load(listener + "routes: [{match: {path: /x}, respond: {status: 200}}]\n")
	x := e.exchange("GET", "/x")
	if err := e.run(x); err != nil || x.Response.Fields.Has(message.XResponseTime) {
		t.Errorf("%v, %v", err, x.Response.Fields)
	}
	e.stop()
}

func TestPathsThatAreOnlyReported(t *testing.T) {
	e := newEngine(t)
	e.load("listeners: {web: {address: \"127.0.0.1:0\", paths: {mode: report}}}\nadmin: {address: \"127.0.0.1:0\"}\nroutes: [{match: {path_prefix: /a}, respond: {status: 200}}]\n")
	if err := e.run(e.exchange("GET", "/a/..%2Fb")); err != nil {
		t.Error(err)
	}
	if err := e.run(e.exchange("GET", "/a/b")); err != nil {
		t.Error(err)
	}
	if n := strings.Count(e.log.String(), `msg="a path would be refused" listener=web violation="the path would gain a dot segment`); n != 1 {
		t.Errorf("told %d times:\n%s", n, e.log.String())
	}
	if lines := e.stop(); len(lines) != 2 || lines[0]["status"] != 200.0 {
		t.Errorf("the lines are %v", lines)
	}
}

func TestHistory(t *testing.T) {
	var history snapshot.History
	if list := history.List(); list == nil || len(list) != 0 {
		t.Errorf("an empty history is %v", list)
	}
	for n := 1; n <= 25; n++ {
		history.Add(snapshot.Revision{Number: n}, nil)
	}
	list := history.List()
	if len(list) != 20 || list[0].Number != 25 || list[19].Number != 6 {
		t.Errorf("it has %d, from %d to %d", len(list), list[0].Number, list[len(list)-1].Number)
	}
	for number, kept := range map[int]bool{5: false, 6: true, 25: true, 26: false, 0: false} {
		if entry, ok := history.Get(number); ok != kept || ok && entry.Number != number {
			t.Errorf("revision %d: %v, %v", number, entry, ok)
		}
	}
}
