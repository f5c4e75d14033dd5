package acme

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
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

	"github.com/caddyserver/certmagic"
	rfc8555 "github.com/mholt/acmez/v3/acme"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"sluice/internal/lease"
	"sluice/internal/model"
)

const domain = "api.example.com"

// obtained waits until a client that trusts the directory is content.
func obtained(t *testing.T, s *site, name string, roots *x509.CertPool) *x509.Certificate {
	t.Helper()
	var got *x509.Certificate
	waitFor(t, "a certificate of the directory is shown", func() bool {
		var err error
		got, err = s.handshake(name, roots)
		return err == nil
	})
	return got
}

func TestObtainByHTTP01Alone(t *testing.T) {
	s := newSite(t)
	listening := listeners(t)
	s.challenged = func() { // when certmagic's own solvers would listen
		if now := listeners(t); now != listening {
			t.Errorf("%d sockets listen, %d before", now, listening)
		}
	}
	tlsPort := s.tlsPort
	s.tlsPort = freePort(t) // where the directory finds nobody
	d := newDirectory(t, s, time.Hour)
	s.tlsPort = tlsPort
	d.start()
	listening = listeners(t)
	m, _ := s.serve(t, d.settings(t.TempDir(), domain), Options{HTTP01: true}, quick())

	got := obtained(t, s, domain, d.issuedBy())
	if s.byHTTP.Load() == 0 || s.byTLS.Load() != 0 {
		t.Errorf("%d challenges by HTTP, %d by TLS", s.byHTTP.Load(), s.byTLS.Load())
	}
	waitFor(t, "the status tells of it", func() bool {
		status := m.Status()
		return len(status) == 1 && status[0].Domain == domain && status[0].NotAfter.Equal(got.NotAfter) &&
			status[0].LastError == "" && status[0].NextTry.Before(got.NotAfter) && status[0].NextTry.After(got.NotBefore)
	})
	// The challenge is forgotten, in memory and in the storage.
	if list, err := m.storage.List(t.Context(), m.pending.prefix, true); len(list) > 0 {
		t.Errorf("still stored: %v, %v", list, err)
	}
	// A client that names no host gets the first name's; another name none.
	if cert, err := m.GetCertificate(&tls.ClientHelloInfo{}); err != nil || cert.Leaf.SerialNumber.Cmp(got.SerialNumber) != 0 {
		t.Errorf("without a name: %v", err)
	}
	if cert, err := m.GetCertificate(&tls.ClientHelloInfo{ServerName: "other.example.com"}); cert != nil || err != nil {
		t.Errorf("another name: %v, %v", cert, err)
	}
	if cert, err := m.GetCertificate(&tls.ClientHelloInfo{ServerName: "API.example.com."}); cert == nil || err != nil {
		t.Errorf("the same name in other letters: %v, %v", cert, err)
	}
}

func TestObtainByTLSALPN01Alone(t *testing.T) {
	s := newSite(t)
	d := newDirectory(t, s, time.Hour)
	d.start()
	listening := listeners(t)
	s.challenged = func() {
		if now := listeners(t); now != listening {
			t.Errorf("%d sockets listen, %d before", now, listening)
		}
	}
	m, _ := s.serve(t, d.settings(t.TempDir(), domain, "www.example.com"), Options{}, quick())
	roots := d.issuedBy()
	for _, name := range m.Names() {
		if got := obtained(t, s, name, roots); got.DNSNames[0] != name {
			t.Errorf("%s shows the certificate of %v", name, got.DNSNames)
		}
	}
	if s.byHTTP.Load() != 0 || s.byTLS.Load() < 2 {
		t.Errorf("%d challenges by HTTP, %d by TLS", s.byHTTP.Load(), s.byTLS.Load())
	}
	if d.issued() != 2 {
		t.Errorf("%d certificates were issued", d.issued())
	}
}

// A directory comes to the listener on its port, also for names of another one.
func TestTLSALPN01AtTheListenerOfOthers(t *testing.T) {
	s := newSite(t)
	d := newDirectory(t, s, time.Hour)
	ours, _ := s.serve(t, d.settings(t.TempDir(), domain), Options{}, quick())
	theirs, _ := s.serve(t, d.settings(t.TempDir(), "www.example.com"), Options{}, quick())
	s.other.Store(theirs)
	s.manager.Store(ours)
	d.start()
	waitFor(t, "both have a certificate", func() bool {
		return !ours.Status()[0].NotAfter.IsZero() && !theirs.Status()[0].NotAfter.IsZero()
	})
	if s.byHTTP.Load() != 0 || s.byTLS.Load() < 2 {
		t.Errorf("%d challenges by HTTP, %d by TLS", s.byHTTP.Load(), s.byTLS.Load())
	}
	hello := &tls.ClientHelloInfo{ServerName: "none.example.com"}
	if proof, err := Validation([]*Manager{ours, theirs})(hello); proof != nil || !errors.Is(err, errNoChallenge) {
		t.Errorf("a name of nobody: %v, %v", proof, err)
	}
}

// listeners counts the sockets of this process that listen.
func listeners(t *testing.T) int {
	t.Helper()
	listening := map[string]bool{}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile("/proc/self/net/" + table)
		if errors.Is(err, os.ErrNotExist) {
			t.Skip("the system does not tell of its sockets")
		}
		for line := range strings.Lines(string(text)) {
			if columns := strings.Fields(line); len(columns) > 9 && columns[3] == "0A" {
				listening["socket:["+columns[9]+"]"] = true
			}
		}
	}
	count := 0
	open, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, descriptor := range open {
		if target, err := os.Readlink(descriptor); err == nil && listening[target] {
			count++
		}
	}
	return count
}

func TestRenewal(t *testing.T) {
	s := newSite(t)
	// Pebble advises a time at random in the whole life of a short one.
	d := newDirectory(t, s, 10*time.Second)
	d.start()
	m, end := s.serve(t, d.settings(t.TempDir(), domain), Options{HTTP01: true}, quick())
	roots := d.issuedBy()
	first := obtained(t, s, domain, roots)
	told := s.journal.String()
	waitFor(t, "another certificate is shown", func() bool {
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
	waitFor(t, "another certificate is shown", func() bool {
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
	waitFor(t, "the status tells when it is due", func() bool {
		status := m.Status()[0]
		return !status.NextTry.IsZero() || status.NotAfter.After(first.NotAfter)
	})
	waitFor(t, "another certificate is shown", func() bool {
		return obtainedAtOnce(t, s).SerialNumber.Cmp(first.SerialNumber) != 0
	})
	due := first.NotAfter.Add(-life / 3)
	if issued := obtainedAtOnce(t, s).NotBefore; issued.Before(due.Add(-2 * time.Second)) {
		t.Errorf("renewed at %v, due at %v", issued, due)
	}
}

func TestDirectoryThatIsDownAtTheStart(t *testing.T) {
	s := newSite(t)
	d := newDirectory(t, s, 20*time.Second)
	storage := t.TempDir()
	begin := time.Now()
	m, end := s.serve(t, d.settings(storage, domain), Options{HTTP01: true}, quick())
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("the start took %v", took)
	}
	for range 20 {
		if _, err := s.handshake(domain, nil); err == nil {
			t.Fatal("a handshake without a certificate")
		}
	}
	waitFor(t, "the status tells of it", func() bool {
		status := m.Status()[0]
		return status.LastError != "" && status.NotAfter.IsZero() && status.NextTry.After(begin)
	})
	if told := s.journal.count("handshakes are refused"); told != 1 {
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
	waitFor(t, "a renewal fails", func() bool {
		status := m.Status()[0]
		return status.LastError != "" && status.NotAfter.Equal(first.NotAfter)
	})
	waitFor(t, "the log tells of it", func() bool { return s.journal.count("the certificate was not renewed") > 0 })
	obtainedAtOnce(t, s)

	// It comes back, and has forgotten the account.
	d.start()
	roots := d.issuedBy()
	if got := obtained(t, s, domain, roots); got.SerialNumber.Cmp(first.SerialNumber) == 0 {
		t.Error("the old certificate is of the new directory")
	}
	waitFor(t, "the error is forgotten", func() bool { return m.Status()[0].LastError == "" })
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
	waitFor(t, "the refusal is told", func() bool {
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
	writePEM(t, roots, "CERTIFICATE", page.Certificate().Raw)
	settings := model.ACME{Domains: []string{domain}, Directory: page.URL, CAFile: roots, Storage: t.TempDir()}
	m, end := s.serve(t, settings, Options{}, quick())
	defer end()
	waitFor(t, "the status tells of it", func() bool { return m.Status()[0].LastError != "" })
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
	waitFor(t, "an order fails", func() bool { return unlucky.Status()[0].LastError != "" })
	d.start()
	s.serve(t, d.settings(storage, domain), Options{}, quick())
	obtained(t, s, domain, d.issuedBy())
	waitFor(t, "the other one shows it", func() bool {
		cert, err := unlucky.GetCertificate(&tls.ClientHelloInfo{ServerName: domain})
		return err == nil && cert != nil && unlucky.Status()[0].LastError == ""
	})
	if d.issued() != 1 {
		t.Errorf("%d certificates were issued", d.issued())
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
	// As if the time had come at which the directory wants to be asked again.
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
	s.serve(t, d.settings(storage, domain), Options{}, quick())
	waitFor(t, "it is renewed", func() bool {
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
	m, _ = s.serve(t, d.settings(storage, domain), Options{}, quick())
	waitFor(t, "it was asked in vain", func() bool { return s.journal.count("when to renew is not known anew") > 0 })
	if got := obtainedAtOnce(t, s); got.SerialNumber.Cmp(first.SerialNumber) != 0 {
		t.Error("another certificate")
	}
	waitFor(t, "nothing is wrong", func() bool {
		status := m.Status()[0]
		return status.LastError == "" && status.NextTry.Equal(advice.SelectedTime)
	})
}

// A crash between writing a certificate and writing its key leaves a pair that
// is none.
func TestTornPair(t *testing.T) {
	s := newSite(t)
	d := newDirectory(t, s, time.Hour)
	d.start()
	storage := t.TempDir()
	m, end := s.serve(t, d.settings(storage, domain), Options{}, quick())
	first := obtained(t, s, domain, d.issuedBy())
	end()
	_, other := d.root.issue(t, t.TempDir())
	text, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.storage.Store(t.Context(), certmagic.StorageKeys.SitePrivateKey(m.issuer.IssuerKey(), domain), text); err != nil {
		t.Fatal(err)
	}
	s.serve(t, d.settings(storage, domain), Options{}, quick())
	if got := obtained(t, s, domain, d.issuedBy()); got.SerialNumber.Cmp(first.SerialNumber) == 0 {
		t.Error("the certificate without its key is shown")
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

func TestAcquire(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var registry lease.Registry
	log, _ := newLog(t)
	storage := filepath.Join(t.TempDir(), "acme")
	settings := model.ACME{Domains: []string{domain}, Directory: "https://127.0.0.1:1/dir", Storage: storage}
	set := registry.NewSet()
	m := Acquire(set, settings, Options{Log: log})
	again := registry.NewSet()
	if Acquire(again, settings, Options{Log: log}) != m {
		t.Error("equal settings, another manager")
	}
	other := settings
	other.Email = "ops@example.com"
	if Acquire(again, other, Options{Log: log}) == m {
		t.Error("other settings, the same manager")
	}
	if Acquire(again, settings, Options{Log: log, HTTP01: true}) == m {
		t.Error("other ways, the same manager")
	}
	shared := settings
	shared.Storage, shared.Store = "", "main"
	one, two := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer one.Close()
	defer two.Close()
	if Acquire(again, shared, Options{Log: log, Redis: one}) == Acquire(again, shared, Options{Log: log, Redis: two}) {
		t.Error("another Redis, the same manager")
	}
	if _, err := os.Stat(storage); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was made: %v", err)
	}
	if body, ok := m.HTTPChallenge(domain, ChallengePath+"x"); ok {
		t.Errorf("an answer before the start: %q", body)
	}
	if _, err := m.GetCertificate(&tls.ClientHelloInfo{ServerName: domain}); !errors.Is(err, errNotYet) {
		t.Errorf("a certificate before the start: %v", err)
	}
	set.Release()
	again.Release()
	if err := registry.Idle(); err != nil {
		t.Error(err)
	}
}

func TestSettingsThatCannotWork(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "file")
	if err := os.WriteFile(file, []byte("no PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		change func(*model.ACME)
		want   string
	}{
		"no CA file":             {func(m *model.ACME) { m.CAFile = filepath.Join(folder, "missing") }, "acme.ca_file"},
		"a CA file without CA":   {func(m *model.ACME) { m.CAFile = file }, "acme.ca_file"},
		"a storage that is none": {func(m *model.ACME) { m.Storage = file }, "acme.storage"},
	} {
		t.Run(name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			settings := model.ACME{Domains: []string{domain}, Directory: "https://127.0.0.1:1/dir", Storage: folder}
			test.change(&settings)
			log, _ := newLog(t)
			var registry lease.Registry
			set := registry.NewSet()
			Acquire(set, settings, Options{Log: log, Keep: func(<-chan struct{}) { t.Error("a store is kept for what does not start") }})
			if err := set.Commit(); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
			set.Release()
		})
	}
}

func TestImpossibleOptions(t *testing.T) {
	log, _ := newLog(t)
	for name, settings := range map[string]model.ACME{"neither": {}, "a store without its client": {Store: "main"}} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, "BUG:") {
					t.Errorf("panicked with %q", got)
				}
			}()
			build(settings, Options{Log: log}, quick())
		})
	}
}

func TestChallengesOfNobody(t *testing.T) {
	log, journal := newLog(t)
	m := build(model.ACME{Domains: []string{domain}, Storage: t.TempDir()}, Options{Log: log, HTTP01: true}, quick())
	storage, err := newDiskStorage(m.settings.Storage)
	if err != nil {
		t.Fatal(err)
	}
	m.pending.open(storage, "directory")
	asked := func(host, path string) {
		t.Helper()
		if body, ok := m.HTTPChallenge(host, path); ok {
			t.Errorf("%s%s is answered with %q", host, path, body)
		}
	}
	handshake := func(name string) {
		t.Helper()
		if cert, err := m.tlsChallenge(t.Context(), name); err == nil {
			t.Errorf("%s is answered with %v", name, cert)
		}
	}
	asked(domain, ChallengePath+"token")
	asked("other.example.com", ChallengePath+"token")
	handshake(domain)
	handshake("other.example.com")

	// Another instance has begun one of HTTP-01.
	stored := `{"type":"http-01","token":"token","keyAuthorization":"token.print","identifier":{"type":"dns","value":"` + domain + `"}}`
	if err := storage.Store(t.Context(), m.pending.key(domain), []byte(stored)); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{domain, domain + ":80", "API.Example.COM.:8080"} {
		if body, ok := m.HTTPChallenge(host, ChallengePath+"token"); !ok || body != "token.print" {
			t.Errorf("%s: got %q, %v", host, body, ok)
		}
	}
	asked(domain, ChallengePath+"other")
	asked(domain, "/token")
	handshake(domain)

	// What cannot be read is told.
	if err := storage.Store(t.Context(), m.pending.key(domain), []byte("{")); err != nil {
		t.Fatal(err)
	}
	asked(domain, ChallengePath+"token")
	handshake(domain)
	if told := journal.count("a challenge could not be looked up"); told != 2 {
		t.Errorf("told %d times", told)
	}

	// Without HTTP-01 among the ways there is nothing to say.
	m.options.HTTP01 = false
	if err := storage.Store(t.Context(), m.pending.key(domain), []byte(stored)); err != nil {
		t.Fatal(err)
	}
	asked(domain, ChallengePath+"token")
}

func TestBackoff(t *testing.T) {
	b := backoff{time.Second, 5 * time.Second}
	for failures, want := range []float64{1, 1, 2, 4, 5, 5} {
		if got := b.after(failures).Seconds(); got != want {
			t.Errorf("after %s failures: %v", strconv.Itoa(failures), got)
		}
	}
}
