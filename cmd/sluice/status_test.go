package main

import (
	"strings"
	"testing"
	"time"

	"sluice/internal/acme"
	"sluice/internal/certificate"
	"sluice/internal/server"
	"sluice/internal/snapshot"
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
			},
			ACME: []acme.Status{{Domain: "c.test", LastError: "refused"}},
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
	} {
		if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
			t.Errorf("%q is not in:\n%s", want, text.String())
		}
	}
	if strings.Contains(got, "plain") {
		t.Errorf("a listener without TLS has certificates:\n%s", got)
	}
}
