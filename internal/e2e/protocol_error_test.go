package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

// refusal is what an error of the gateway's own looks like.
type refusal struct {
	status int
	word   string
	route  string
	closes bool // the connection ends, where it has no other exchange
	allow  string
}

// refuses checks the answer, its line in the access log, and the metrics.
func (s *voice) refuses(t *testing.T, r reply, want refusal) {
	t.Helper()
	var p problem
	if err := json.Unmarshal([]byte(r.body), &p); err != nil || r.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("%d without a problem document: %q", r.StatusCode, r.body)
	}
	id := r.Header.Get("X-Request-Id")
	if full := (problem{"about:blank", p.Title, want.status, p.Detail, want.word, id}); r.StatusCode != want.status || p != full || p.Title == "" || p.Detail == "" || id == "" {
		t.Errorf("got %d %+v, want %+v", r.StatusCode, p, full)
	}
	if allow := r.Header.Get("Allow"); allow != want.allow {
		t.Errorf("Allow is %q, want %q", allow, want.allow)
	}
	if closes := want.closes && !s.many; r.Close != closes {
		t.Errorf("the connection closes: %v, want %v", r.Close, closes)
	}
	line := s.LogLine(id)
	if line["error"] != want.word || line["status"] != float64(want.status) || line["route"] != want.route || line["protocol"] != s.protocol {
		t.Errorf("the log line is %v", line)
	}
	status := strconv.Itoa(want.status)
	gatewaytest.WaitFor(t, "the error is counted", func() bool {
		return s.counted("gateway_errors_total", "error", want.word, "route", want.route) > 0 && s.counted("gateway_requests_total", "status", status, "route", want.route) > 0
	})
}

func (s *voice) fails(t *testing.T) {
	// Of the same connection, if it has many.
	others := s.send(t, s.request(t, ask{target: "/streams/events"})) //nolint:bodyclose // send sees to that
	hear(t, others.Body, "data: 0\n\n")
	for _, test := range []struct {
		ask  ask
		want refusal
	}{
		{ask{target: "/nowhere"}, refusal{status: 404, word: "no_route"}},
		{ask{method: http.MethodDelete, target: "/reads"}, refusal{status: 405, word: "method_not_allowed", allow: "GET, HEAD"}},
		{ask{target: "/denied"}, refusal{status: 403, word: "forbidden", route: "denied"}},
		{ask{target: "/echo/..%2Fx"}, refusal{status: 400, word: "bad_path", closes: true}},
		{ask{target: "/echo/x", host: "x.test:port"}, refusal{status: 400, word: "bad_request", closes: true}},
		{ask{target: "/echo/x", header: map[string]string{"Via": strings.Repeat("1.1 polyglot, ", 11) + "1.1 y"}}, refusal{status: 508, word: "loop_detected", route: "echo"}},
		{ask{target: "/refused"}, refusal{status: 502, word: "upstream_connect", route: "refused"}},
		{ask{target: "/closes"}, refusal{status: 502, word: "upstream_reset", route: "closes"}},
		{ask{target: "/babbles"}, refusal{status: 502, word: "upstream_protocol", route: "babbles"}},
		{ask{target: "/silent"}, refusal{status: 504, word: "upstream_timeout", route: "silent"}},
		{ask{target: "/late"}, refusal{status: 504, word: "upstream_timeout", route: "late"}},
		{ask{method: http.MethodPost, target: "/late", body: "x"}, refusal{status: 504, word: "upstream_timeout", route: "late"}},
		{ask{target: "/idle"}, refusal{status: 504, word: "upstream_timeout", route: "idle"}},
		{ask{target: "/total"}, refusal{status: 504, word: "upstream_timeout", route: "total"}},
	} {
		t.Run(test.want.word+" "+test.ask.target, func(t *testing.T) {
			before := s.counted("gateway_errors_total", "error", test.want.word)
			s.refuses(t, s.do(t, test.ask), test.want)
			gatewaytest.WaitFor(t, "it is counted once", func() bool { return s.counted("gateway_errors_total", "error", test.want.word) == before+1 })
		})
	}
	hear(t, others.Body, "data: 1\n\ndata: 2\n\n")
}

func (s *voice) overloads(t *testing.T) {
	answer := begin(s, s.request(t, ask{target: "/narrow/hold"}))
	first := await(t, "the request that has the connection", s.held)
	s.refuses(t, s.do(t, ask{target: "/narrow/hold"}), refusal{status: 503, word: "overloaded", route: "narrow"})
	close(first.free)
	if r := await(t, "its answer", answer).whole(t); r.StatusCode != http.StatusOK || r.body != "held" {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
}

// breaksOff: a body that is not whole never looks so.
func (s *voice) breaksOff(t *testing.T) {
	for _, test := range []struct{ target, word string }{
		{"/cuts", "upstream_reset"},
		{"/stalls", "upstream_timeout"},
		{"/ends", "upstream_timeout"},
	} {
		name := s.name + " " + test.target
		response, err := s.RoundTrip(s.request(t, ask{target: test.target, header: map[string]string{"User-Agent": name}}))
		if err != nil && !s.forgets {
			t.Fatalf("%s: %v", name, err)
		}
		if err == nil {
			body, err := io.ReadAll(response.Body)
			response.Body.Close()
			if err == nil || string(body) != "half" && !s.forgets {
				t.Errorf("%s: %q, %v; want an error after half", name, body, err)
			}
		}
		line := s.LogLineWith("user_agent", name)
		if line["status"] != 200.0 || line["error"] != test.word || line["protocol"] != s.protocol || line["bytes_out"] != 4.0 {
			t.Errorf("%s: the log line is %v", name, line)
		}
	}
}

func (s *voice) observes(t *testing.T) {
	labels := []string{"route", "logged", "path", "/logged/{name}", "method", "PUT", "status", "200", "upstream", "parlour"}
	before := s.counted("gateway_requests_total", labels...)
	r := s.do(t, ask{method: http.MethodPut, target: "/logged/put?a=b", host: "Shop.test:81", body: "five!", header: map[string]string{"User-Agent": "speaker/2", "Traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}})
	r.echo(t)
	line := s.LogLine(r.Header.Get("X-Request-Id"))
	for name, want := range map[string]any{
		"protocol": s.protocol, "client_ip": "127.0.0.1", "method": "PUT", "host": "Shop.test:81", "path": "/logged/put", "status": 200.0, "bytes_in": 5.0, "bytes_out": float64(len(r.body)),
		"route": "logged", "upstream": "parlour", "endpoint": s.url, "attempts": 1.0, "user_agent": "speaker/2", "trace_id": "0af7651916cd43dd8448eb211c80319c",
	} {
		if line[name] != want {
			t.Errorf("the log has %s %v, want %v", name, line[name], want)
		}
	}
	gatewaytest.WaitFor(t, "it is counted once", func() bool { return s.counted("gateway_requests_total", labels...) == before+1 })
	gatewaytest.WaitFor(t, "nothing is under way", func() bool { return s.counted("gateway_active_requests") == 0 })
	if n := s.counted("gateway_downstream_connections", "listener", s.listener); n < 1 {
		t.Errorf("%v connections are counted", n)
	}
}
