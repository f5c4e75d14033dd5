package acme

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	rfc8555 "github.com/mholt/acmez/v3/acme"

	"sluice/internal/waittest"
)

func TestRenewal(t *testing.T) {
	s := newSite(t)
	// Pebble advises a time at random in the whole life of a short one.
	d := newDirectory(t, s, 10*time.Second)
	d.start()
	m, end := s.serve(t, d.settings(t.TempDir(), domain), Options{HTTP01: true}, quick())
	roots := d.issuedBy()
	first := obtained(t, s, domain, roots)
	told := s.journal.String()
	waittest.Until(t, "another certificate is shown", func() bool {
		return obtainedAtOnce(t, s).SerialNumber.Cmp(first.SerialNumber) != 0
	})
	obtained(t, s, domain, roots)
	if status := m.Status()[0]; !status.NotAfter.After(first.NotAfter) {
		t.Errorf("got %+v, of the first one %v", status, first.NotAfter)
	}
	end()
	if news := strings.TrimPrefix(s.journal.String(), told); strings.Contains(news, "level=ERROR") || strings.Contains(news, "level=WARN") {
		t.Error("a renewal in good order is told of as trouble")
	}
}

// A certificate that lives for seconds is renewed in time at the usual pace.
func TestRenewalOfShortLives(t *testing.T) {
	s := newSite(t)
	d := newDirectory(t, s, 15*time.Second)
	d.start()
	p := quick()
	p.check = usualPace().check
	m, _ := s.serve(t, d.settings(t.TempDir(), domain), Options{}, p)
	first := obtained(t, s, domain, d.issuedBy())
	waittest.Until(t, "another certificate is shown", func() bool {
		return obtainedAtOnce(t, s).SerialNumber.Cmp(first.SerialNumber) != 0
	})
	if second := obtainedAtOnce(t, s); second.NotBefore.After(first.NotAfter) || m.Status()[0].Expired {
		t.Errorf("the first ended at %v, the second began at %v", first.NotAfter, second.NotBefore)
	}
}

// How long a certificate is left alone.
func TestNextLook(t *testing.T) {
	now := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		begin, end, advised time.Duration // from now; 0: nothing is advised
		want                time.Duration
	}{
		"new, of 90 days":            {0, 2160 * time.Hour, 0, 720 * time.Hour},
		"of six days":                {-72 * time.Hour, 72 * time.Hour, 0, 24 * time.Hour},
		"new, of a minute":           {0, time.Minute, 0, 20 * time.Second},
		"soon due":                   {-35 * time.Second, 25 * time.Second, 0, 5 * time.Second},
		"soon advised":               {0, time.Minute, 10 * time.Second, 10 * time.Second},
		"due already":                {-50 * time.Second, 10 * time.Second, 0, 3 * time.Second},
		"advised to renew at once":   {0, 2160 * time.Hour, -time.Hour, 108 * time.Hour},
		"ended, as the clock has it": {-2160 * time.Hour, -time.Hour, 0, 2159 * time.Hour / 20},
		"of two seconds":             {0, 2 * time.Second, 0, time.Second},
	} {
		shown := &certificate{}
		shown.Leaf = &x509.Certificate{NotBefore: now.Add(c.begin), NotAfter: now.Add(c.end)}
		if c.advised != 0 {
			shown.renewal.SelectedTime = now.Add(c.advised)
		}
		if got := shown.next(now); got.Round(time.Second) != c.want.Round(time.Second) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Without advice of the directory the last third of a life is for renewal.
func TestRenewalWithoutAdvice(t *testing.T) {
	s := newSite(t)
	const life = 9 * time.Second
	d := newDirectory(t, s, life)
	d.start()
	storage := t.TempDir()
	m, end := s.serve(t, d.settings(storage, domain), Options{}, quick())
	obtained(t, s, domain, d.issuedBy())
	end()
	n := m.byName[domain]
	_, resource, err := n.storedAdvice(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := n.storeAdvice(t.Context(), resource, rfc8555.RenewalInfo{}); err != nil {
		t.Fatal(err)
	}
	m, _ = s.serve(t, d.settings(storage, domain), Options{}, quick())
	first := obtainedAtOnce(t, s)
	waittest.Until(t, "the status tells when it is due", func() bool {
		status := m.Status()[0]
		return !status.NextTry.IsZero() || status.NotAfter.After(first.NotAfter)
	})
	waittest.Until(t, "another certificate is shown", func() bool {
		return obtainedAtOnce(t, s).SerialNumber.Cmp(first.SerialNumber) != 0
	})
	due := first.NotAfter.Add(-life / 3)
	if issued := obtainedAtOnce(t, s).NotBefore; issued.Before(due.Add(-2 * time.Second)) {
		t.Errorf("renewed at %v, due at %v", issued, due)
	}
}

// The directory's advice about renewal (RFC 9773) is asked for anew, kept, and
// followed.
func TestDirectoryAdvisesToRenew(t *testing.T) {
	s := newSite(t)
	d := newDirectory(t, s, 24*time.Hour)
	d.start()
	storage := t.TempDir()
	m, end := s.serve(t, d.settings(storage, domain), Options{}, quick())
	roots := d.issuedBy()
	first := obtained(t, s, domain, roots)
	shown := m.byName[domain].shown.Load()
	if shown.renewal.UniqueIdentifier == "" {
		t.Fatal("the directory advises nothing")
	}
	chain, err := m.storage.Load(t.Context(), certmagic.StorageKeys.SiteCert(m.issuer.IssuerKey(), domain))
	if err != nil {
		t.Fatal(err)
	}
	end()

	past := func(hours int) string {
		return time.Now().Add(time.Duration(hours) * time.Hour).UTC().Format(time.RFC3339)
	}
	body := fmt.Sprintf(`{"Certificate":%q,"ARIResponse":%q}`, chain, fmt.Sprintf(`{"suggestedWindow":{"start":%q,"end":%q}}`, past(-2), past(-1)))
	if _, err := d.read(http.MethodPost, d.managed("/set-renewal-info/"), strings.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	staleAdvice(t, m)
	s.serve(t, d.settings(storage, domain), Options{}, quick())
	waittest.Until(t, "it is renewed", func() bool {
		now, err := s.handshake(domain, roots)
		return err == nil && now.SerialNumber.Cmp(first.SerialNumber) != 0
	})
}

// A directory that does not answer about renewal is asked later; what it said
// before holds.
func TestAdviceThatDoesNotCome(t *testing.T) {
	s := newSite(t)
	d := newDirectory(t, s, 24*time.Hour)
	d.start()
	storage := t.TempDir()
	m, end := s.serve(t, d.settings(storage, domain), Options{}, quick())
	first := obtained(t, s, domain, d.issuedBy())
	end()
	d.stop()
	renewal := staleAdvice(t, m)
	m, _ = s.serve(t, d.settings(storage, domain), Options{}, quick())
	waittest.Until(t, "it was asked in vain", func() bool { return s.journal.Count("when to renew is not known anew") > 0 })
	if got := obtainedAtOnce(t, s); got.SerialNumber.Cmp(first.SerialNumber) != 0 {
		t.Error("another certificate")
	}
	waittest.Until(t, "nothing is wrong", func() bool {
		status := m.Status()[0]
		return status.LastError == "" && status.NextTry.Equal(renewal)
	})
}

// staleAdvice has a manager's advice be as if the time had come at which the directory
// wants to be asked again. It returns when it says to renew.
func staleAdvice(t *testing.T, m *Manager) (renewal time.Time) {
	t.Helper()
	advice, resource, err := m.byName[domain].storedAdvice(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asked := time.Now().Add(-time.Minute)
	advice.RetryAfter = &asked
	advice.SelectedTime = time.Now().Add(20 * time.Hour)
	if err := m.byName[domain].storeAdvice(t.Context(), resource, advice); err != nil {
		t.Fatal(err)
	}
	return advice.SelectedTime
}
