package acme

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/waittest"
)

const domain = "api.example.com"

// obtained waits until a client that trusts the directory is content.
func obtained(t *testing.T, s *site, name string, roots *x509.CertPool) *x509.Certificate {
	t.Helper()
	var got *x509.Certificate
	waittest.Until(t, "a certificate of the directory is shown", func() bool {
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
	waittest.Until(t, "the status tells of it", func() bool {
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
	waittest.Until(t, "both have a certificate", func() bool {
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
	_, other := d.root.Issue().Write(t.TempDir(), "other")
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
	if told := journal.Count("a challenge could not be looked up"); told != 2 {
		t.Errorf("told %d times", told)
	}

	// Without HTTP-01 among the ways there is nothing to say.
	m.options.HTTP01 = false
	if err := storage.Store(t.Context(), m.pending.key(domain), []byte(stored)); err != nil {
		t.Fatal(err)
	}
	asked(domain, ChallengePath+"token")
}
