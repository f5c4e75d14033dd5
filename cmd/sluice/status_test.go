package main

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/acme"
	"sluice/internal/certificate"
	"sluice/internal/pipeline"
	"sluice/internal/server"
	"sluice/internal/snapshot"
	"sluice/internal/upstream"
)

// TestStatusOfCertificates shows what listeners show over TLS, until when, and
// what is wrong with it.
func TestStatusOfCertificates(t *testing.T) {
	end := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	var text strings.Builder
	err := printStatus(&text, &status{Listeners: []snapshot.ListenerStatus{
		{Status: server.Status{Name: "plain"}},
		{
			Status: server.Status{Name: "web"},
			Certificates: []certificate.Status{
				{Kind: "certificate", Cert: "/c.pem", Names: []string{"a.test", "b.test"}, NotAfter: end},
				{Kind: "authorities", Cert: "/ca.pem", NotAfter: end, Error: "gone"},
				{Kind: "certificate", Cert: "/old.pem", Names: []string{"old.test"}, NotAfter: end, Expired: true},
				{Kind: "authorities", Cert: "/old-ca.pem", NotAfter: end, Certificates: 2, Expired: true},
			},
			ACME: []acme.Status{{Domain: "c.test", LastError: "refused"}, {Domain: "d.test", NotAfter: end, Expired: true, LastError: "unreachable"}},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	_, got, _ := strings.Cut(text.String(), "CERTIFICATE FOR")
	for _, want := range []string{
		"web a.test,b.test /c.pem 2030-01-02T03:04:05Z",
		"web (authorities of clients) /ca.pem 2030-01-02T03:04:05Z gone",
		"web c.test ACME none yet refused",
		"web old.test /old.pem 2030-01-02T03:04:05Z expired",
		"web (authorities of clients) /old-ca.pem 2030-01-02T03:04:05Z one has expired",
		"web d.test ACME 2030-01-02T03:04:05Z expired; unreachable",
	} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("%q is not in:\n%s", want, text.String())
		}
	}
	if strings.Contains(got, "plain") {
		t.Errorf("a listener without TLS has certificates:\n%s", got)
	}
}

// TestStatusOfWhatFails shows which endpoints get attempts and which circuit breakers
// are open, and why.
func TestStatusOfWhatFails(t *testing.T) {
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	probe := at.Add(30 * time.Second)
	var text strings.Builder
	err := printStatus(&text, &status{
		Upstreams: []upstream.Status{
			{Name: "users", Endpoints: []upstream.EndpointStatus{
				{URL: "http://a", Weight: 3, Version: "v1", Available: true, Health: "healthy", LatencyMS: 12.34, Active: 1, Requests: 9, Failures: 2},
				{URL: "http://b", Weight: 1, Health: "unhealthy", Fault: "status 500", Ejected: &at, Ejections: 2},
			}},
			{Name: "found"},
		},
		Breakers: []upstream.BreakerStatus{
			{Upstream: "users", State: "open", Since: &at, Reason: "5 failures in a row", Requests: 7, Failures: 6, Slow: 1, ProbeAt: &probe},
			{Upstream: "shop", Endpoint: "http://c", State: "closed"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	printed(t, text.String(),
		"UPSTREAM ENDPOINT WEIGHT VERSION STATE LATENCY ACTIVE REQUESTS FAILURES users http://a 3 v1 healthy 12.3ms 1 9 2 ",
		"users http://b 1 ejected until 2030-01-02T03:04:05Z, 2 in a row; unhealthy: status 500 0 0 0 found none found",
		"BREAKER OF ENDPOINT STATE SINCE NEXT PROBE REQUESTS FAILURES SLOW REASON users (all) open 2030-01-02T03:04:05Z 2030-01-02T03:04:35Z 7 6 1 5 failures in a row",
		"shop http://c closed 0 0 0",
	)
}

// printed holds a text to what it must have, however much space is between its words.
func printed(t *testing.T, text string, wanted ...string) {
	t.Helper()
	got := strings.Join(strings.Fields(text), " ")
	for _, want := range wanted {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, text)
		}
	}
}

// TestStatusOfLimits shows what limits let through, how they stand, and where they are
// kept.
func TestStatusOfLimits(t *testing.T) {
	var text strings.Builder
	err := printStatus(&text, &status{Limits: []pipeline.LimitStatus{
		{Limit: "upstream users", Kind: "upstream", Algorithm: "token_bucket", Rate: "1000/s", Burst: 2000, Keys: 1},
		{
			Limit: "per-client", Kind: "rate_limit", Algorithm: "sliding_window", Rate: "10/m", Mode: "shadow", Keys: 100, Evicted: 7,
			Store: &pipeline.LimitStoreStatus{Name: "main", Instances: 2, OnFailure: "local"},
		},
		{Limit: "reports concurrency_limit 0", Kind: "concurrency_limit", Max: 20, Keys: 1, Running: 20, Waiting: 3},
	}})
	if err != nil {
		t.Fatal(err)
	}
	printed(t, text.String(),
		"LIMIT KIND LETS THROUGH KEYS FORGOTTEN RUNNING WAITING KEPT IN upstream users upstream 1000/s, burst 2000, token_bucket 1 0 memory per-client",
		"per-client rate_limit 10/m, sliding_window, shadow 100 7 main cannot be used: local reports",
		"reports concurrency_limit 0 concurrency_limit 20 at once 1 0 20 3 memory",
	)
}

// TestExplanationOfWhatFails shows how it stands with where a request goes.
func TestExplanationOfWhatFails(t *testing.T) {
	var text strings.Builder
	err := printExplanation(&text, &snapshot.Explanation{
		Route:       "r",
		Destination: &snapshot.Destination{Kind: "upstream", Upstream: "u", Target: "http://a", Reason: "so", Breaker: "opens"},
		Upstreams:   []upstream.Status{{Name: "u", Endpoints: []upstream.EndpointStatus{{URL: "http://a", Weight: 1, Drained: true}, {URL: "http://b", Weight: 1}}}},
		Breakers:    []upstream.BreakerStatus{{Upstream: "u", Endpoint: "http://b", State: "open", Reason: "a failure"}, {Upstream: "u", State: "half_open", Reason: "rested"}, {Upstream: "u", State: "closed"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `because      so
breaker      opens
now          u http://a: drained
             u http://b: circuit breaker not closed
             u http://b: circuit breaker open, a failure
             u: circuit breaker half_open, rested
`
	if !strings.HasSuffix(text.String(), want) {
		t.Errorf("got\n%s", text.String())
	}
}
