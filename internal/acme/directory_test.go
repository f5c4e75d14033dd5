package acme

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
	"sluice/internal/waittest"
)

func TestDirectoryThatIsDownAtTheStart(t *testing.T) {
	s := newSite(t)
	d := newDirectory(t, s, 20*time.Second)
	storage := t.TempDir()
	p := quick()
	p.firstLoad = 2 * patience
	begin := time.Now()
	m, end := s.serve(t, d.settings(storage, domain), Options{HTTP01: true}, p)
	if took := time.Since(begin); took > patience {
		t.Errorf("the start took %v", took)
	}
	for range 20 {
		if _, err := s.handshake(domain, nil); err == nil {
			t.Fatal("a handshake without a certificate")
		}
	}
	waittest.Until(t, "the status tells of it", func() bool {
		status := m.Status()[0]
		return status.LastError != "" && status.NotAfter.IsZero() && status.NextTry.After(begin)
	})
	if told := s.journal.Count("handshakes are refused"); told != 1 {
		t.Errorf("told %d times that handshakes are refused", told)
	}
	if !strings.Contains(s.journal.String(), `level=ERROR msg="acme: no certificate" domain=api.example.com error=`) {
		t.Error("nobody tells that there is no certificate")
	}

	d.start()
	obtained(t, s, domain, d.issuedBy())
	if status := m.Status()[0]; status.NotAfter.IsZero() {
		t.Errorf("got %+v", status)
	}
	end()
	first := obtainedAtOnce(t, s) // Pebble may have advised to renew at once
	d.stop()

	// Without the directory the stored certificate is shown as soon as the
	// manager is there; it becomes due, and that this fails is told.
	m, _ = s.serve(t, d.settings(storage, domain), Options{HTTP01: true}, quick())
	if got := obtainedAtOnce(t, s); got.SerialNumber.Cmp(first.SerialNumber) != 0 {
		t.Error("another certificate than the stored one")
	}
	waittest.Until(t, "a renewal fails", func() bool {
		status := m.Status()[0]
		return status.LastError != "" && status.NotAfter.Equal(first.NotAfter)
	})
	waittest.Until(t, "the log tells of it", func() bool { return s.journal.Count("the certificate was not renewed") > 0 })
	obtainedAtOnce(t, s)

	// It comes back, and has forgotten the account.
	d.start()
	roots := d.issuedBy()
	if got := obtained(t, s, domain, roots); got.SerialNumber.Cmp(first.SerialNumber) == 0 {
		t.Error("the old certificate is of the new directory")
	}
	waittest.Until(t, "the error is forgotten", func() bool { return m.Status()[0].LastError == "" })
}

// obtainedAtOnce is the certificate that is shown now, whoever issued it.
func obtainedAtOnce(t *testing.T, s *site) *x509.Certificate {
	t.Helper()
	m := s.manager.Load()
	cert, err := m.GetCertificate(&tls.ClientHelloInfo{ServerName: domain})
	if err != nil || cert == nil {
		t.Fatalf("no certificate is shown: %v", err)
	}
	return cert.Leaf
}

func TestDirectoryThatRefuses(t *testing.T) {
	s := newSite(t)
	d := newDirectory(t, s, time.Hour)
	d.start()
	p := quick()
	p.refused = backoff{time.Hour, time.Hour}
	m, _ := s.serve(t, d.settings(t.TempDir(), "www.blocked.example", domain), Options{HTTP01: true}, p)
	obtained(t, s, domain, d.issuedBy()) // one name's trouble is not the others'
	waittest.Until(t, "the refusal is told", func() bool {
		status := m.Status()[0]
		return strings.Contains(status.LastError, "rejectedIdentifier") && time.Until(status.NextTry) > 50*time.Minute
	})
}

// A URL that leads to something else is told of in plain words.
func TestDirectoryThatIsNone(t *testing.T) {
	s := newSite(t)
	page := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<p>welcome")
	}))
	defer page.Close()
	roots := filepath.Join(t.TempDir(), "roots.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: page.Certificate().Raw})
	if err := os.WriteFile(roots, text, 0o600); err != nil {
		t.Fatal(err)
	}
	settings := model.ACME{Domains: []string{domain}, Directory: page.URL, CAFile: roots, Storage: t.TempDir()}
	m, end := s.serve(t, settings, Options{}, quick())
	defer end()
	waittest.Until(t, "the status tells of it", func() bool { return m.Status()[0].LastError != "" })
	want := page.URL + `: register an account: this is not the URL of an ACME directory: it answers with "text/html", not with application/json`
	if got := m.Status()[0].LastError; !strings.Contains(got, want) {
		t.Errorf("got %s", got)
	}
}

// While orders fail, another instance's certificate is taken from the storage.
func TestCertificateOfAnotherInstanceWhileOrdersFail(t *testing.T) {
	s := newSite(t)
	d := newDirectory(t, s, time.Hour)
	storage := t.TempDir()
	p := quick()
	p.unreached = backoff{time.Hour, time.Hour}
	unlucky, _ := s.serve(t, d.settings(storage, domain), Options{}, p)
	waittest.Until(t, "an order fails", func() bool { return unlucky.Status()[0].LastError != "" })
	d.start()
	s.serve(t, d.settings(storage, domain), Options{}, quick())
	obtained(t, s, domain, d.issuedBy())
	waittest.Until(t, "the other one shows it", func() bool {
		cert, err := unlucky.GetCertificate(&tls.ClientHelloInfo{ServerName: domain})
		return err == nil && cert != nil && unlucky.Status()[0].LastError == ""
	})
	if d.issued() != 1 {
		t.Errorf("%d certificates were issued", d.issued())
	}
}

// A directory that takes connections and says nothing holds nobody up.
func TestReleaseBreaksAnOrderOff(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s := newSite(t)
	settings := model.ACME{Domains: []string{domain}, Directory: "https://" + silent.Addr().String() + "/dir", Storage: t.TempDir()}
	m, end := s.serve(t, settings, Options{}, quick())
	conn, err := silent.Accept() // the order is under way
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	begin := time.Now()
	end()
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("the end took %v", took)
	}
	if status := m.Status()[0]; status.LastError != "" {
		t.Errorf("an end is no error: %s", status.LastError)
	}
	// The lock is free.
	other, err := newDiskStorage(settings.Storage)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := other.TryLock(t.Context(), "issue_cert_"+domain); !ok || err != nil {
		t.Errorf("the lock: %v, %v", ok, err)
	}
	if err := other.Unlock(t.Context(), "issue_cert_"+domain); err != nil {
		t.Error(err)
	}
}

func TestBackoff(t *testing.T) {
	b := backoff{time.Second, 5 * time.Second}
	for failures, want := range []float64{1, 1, 2, 4, 5, 5} {
		if got := b.after(failures).Seconds(); got != want {
			t.Errorf("after %s failures: %v", strconv.Itoa(failures), got)
		}
	}
}
