// Package acme obtains the certificates of a listener from an ACME directory
// (RFC 8555), renews them before they expire, and answers the directory's
// challenges. It keeps certificates where other instances find them, on a disk
// or in a Redis, and orders each of them once, whoever asks first.
//
// It opens no listener: HTTP-01 is answered by whoever serves cleartext HTTP,
// through HTTPChallenge, and TLS-ALPN-01 by whoever makes TLS handshakes,
// through Validation. It reads no certificate files of an operator; those
// are internal/certificate's. Which names it may order is configuration's.
//
// The work is certmagic's: the layout of the storage, keys, orders under a lock,
// when to renew; and acmez's: the protocol. Of certmagic neither the timers, the
// jobs nor the ACME issuer are used. They keep state of the whole process, try
// to bind the challenges' ports, and hold a lock for as long as they wait to try
// again; a goroutine for each name does what they would (name.go), and an issuer
// of our own talks to the directory (issuer.go).
package acme

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	certificatefile "sluice/internal/certificate"
	"sluice/internal/lease"
	"sluice/internal/model"
)

// LetsEncrypt is the directory where the model names none.
const LetsEncrypt = certmagic.LetsEncryptProductionCA

// adviceEarly is how long before the time that a directory advises certmagic takes
// it to have come: the time between its own looks, of which nothing else depends.
const adviceEarly = 5 * time.Second

// Options are what a Manager needs from outside.
type Options struct {
	Log *slog.Logger
	// Redis is the store that model.ACME names; nil without one. Whoever made it
	// closes it, and not before the Manager is Done.
	Redis redis.UniversalClient
	// Keep, if not nil, is told by a Start that succeeds until when Redis is
	// needed: until Done. A Manager that never starts needs nothing and is never
	// done.
	Keep func(done <-chan struct{})
	// HTTP01 says that a listener answers cleartext HTTP through HTTPChallenge.
	// TLS-ALPN-01 is always among the ways, for certificates are shown by TLS.
	HTTP01 bool
}

// Manager has the certificates of a listener's names. It is safe for concurrent
// use, and for HTTPChallenge, Validation and GetCertificate also before Start.
type Manager struct {
	settings model.ACME
	options  Options
	pace     pace

	names   []*name // in the order of the settings
	byName  map[string]*name
	pending pending

	// What Start makes.
	storage certmagic.Storage
	issuer  *issuer
	cache   *certmagic.Cache // empty at all times; certmagic.Config insists on one
	config  *certmagic.Config
	slots   chan struct{} // bounds the orders at once
	cancel  context.CancelFunc
	running sync.WaitGroup
	done    chan struct{}
}

// Acquire returns the Manager of these settings from the set's registry, a new
// one where no live set holds it. Equal settings with the same Redis mean the
// same Manager, which goes on with its certificates and its timers. It begins
// its work when the set commits.
func Acquire(set *lease.Set, m model.ACME, options Options) *Manager {
	// A client of another store, or of another address, is another object.
	key := fmt.Sprintf("acme %s http-01=%t", model.Text(m), options.HTTP01)
	if options.Redis != nil {
		key += fmt.Sprintf(" redis=%p", options.Redis)
	}
	return lease.Acquire(set, key, func() *Manager { return build(m, options, usualPace()) })
}

// build makes a Manager that does nothing yet.
func build(m model.ACME, options Options, p pace) *Manager {
	if (m.Store != "") != (options.Redis != nil) || (m.Store != "") == (m.Storage != "") {
		panic("BUG: certificates are kept either in a directory or in a Redis")
	}
	if m.Directory == "" {
		m.Directory = LetsEncrypt
	}
	manager := &Manager{
		settings: m, options: options, pace: p,
		byName: make(map[string]*name, len(m.Domains)),
		slots:  make(chan struct{}, p.orders),
		done:   make(chan struct{}),
	}
	for _, domain := range m.Domains {
		if domain = canonicalHost(domain); manager.byName[domain] == nil {
			n := newName(manager, domain)
			manager.names = append(manager.names, n)
			manager.byName[domain] = n
		}
	}
	return manager
}

// Start opens the storage, shows the certificates that it has, and begins to
// obtain and renew. It returns once stored certificates are shown, or after a
// few seconds without the storage, which is then read later. Only settings that
// cannot work are an error: an unreadable CA file, a directory that cannot be
// made.
func (m *Manager) Start() error {
	material, err := certificatefile.ReadMaterial(&model.ClientTLS{CA: m.settings.CAFile})
	if err != nil {
		return fmt.Errorf("acme.ca_file: %w", err)
	}
	m.storage, err = m.openStorage()
	if err != nil {
		return err
	}
	core := newCore(m.options.Log)
	zapLog := zap.New(core)
	m.issuer = newIssuer(m, material.Config(), slog.New(core.handler))
	var idle *certmagic.Config
	m.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return idle, nil },
		RenewCheckInterval: min(m.pace.check, adviceEarly),
		Logger:             zapLog,
	})
	config := certmagic.Config{
		Storage: m.storage,
		Issuers: []certmagic.Issuer{m.issuer},
		Logger:  zapLog,
		OCSP:    certmagic.OCSPConfig{DisableStapling: true},
	}
	m.config = certmagic.New(m.cache, config)
	// For what certmagic's own maintenance may find in the cache while a
	// certificate is loaded: it leaves such a config's certificates alone.
	config.OnDemand = &certmagic.OnDemandConfig{}
	idle = certmagic.New(m.cache, config)
	m.pending.open(m.storage, m.issuer.IssuerKey())

	if m.options.Keep != nil {
		m.options.Keep(m.done)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m.cancel = cancel
	for _, n := range m.names {
		m.running.Go(func() { n.run(ctx) })
	}
	patience := time.NewTimer(m.pace.firstLoad)
	defer patience.Stop()
	for _, n := range m.names {
		select {
		case <-n.looked:
		case <-patience.C:
			m.options.Log.Warn("acme: the storage does not answer; certificates are loaded when it does", "storage", m.storagePlace())
			return nil
		}
	}
	return nil
}

// Release ends the work. Orders under way are broken off and their locks given
// back; Done tells when nothing is left. Certificates stay to be shown to
// handshakes that come late.
func (m *Manager) Release() {
	m.cancel()
	go func() {
		m.running.Wait()
		m.cache.Stop()
		m.issuer.close()
		close(m.done)
	}()
}

// Status is how it stands with one certificate.
type Status struct {
	Domain string `json:"domain"`
	// NotAfter is the end of the certificate that is shown; zero: there is none.
	NotAfter time.Time `json:"not_after,omitzero"`
	// Expired says that this is over.
	Expired bool `json:"expired,omitempty"`
	// LastError is why the last try to load, obtain or renew it failed; empty
	// once one succeeds.
	LastError string `json:"last_error,omitempty"`
	// NextTry is when it will be tried again, or when it is due for renewal.
	NextTry time.Time `json:"next_try,omitzero"`
}

// Status tells how it stands with each name, in the order of Names.
func (m *Manager) Status() []Status {
	all := make([]Status, len(m.names))
	for i, n := range m.names {
		all[i] = n.status()
	}
	return all
}

// GetCertificate is for tls.Config. It answers with the certificate of the
// name, or of the first name where the client tells none. A name that is not
// managed yields nil and no error, so that crypto/tls looks on; one whose
// certificate is not there yet yields an error. It returns at once. Challenges are
// not its own to answer: ask Validation.
func (m *Manager) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	domain := canonicalHost(hello.ServerName)
	n := m.byName[domain]
	if domain == "" && len(m.names) > 0 {
		n = m.names[0]
	}
	if n == nil {
		return nil, nil
	}
	return n.certificate()
}

// Validation returns what answers the TLS-ALPN-01 challenges of all names of
// several Managers, for tls.Config: a directory comes to the listener on its port,
// whichever listener's the name is. A name without a challenge yields an error.
//
// It returns at once, but for a challenge that another instance began: that one is
// looked up in the storage, for up to five seconds.
func Validation(managers []*Manager) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		domain := canonicalHost(hello.ServerName)
		var failures []error
		for _, m := range managers {
			if m.byName[domain] == nil {
				continue
			}
			proof, err := m.tlsChallenge(hello.Context(), domain)
			if err == nil {
				return proof, nil
			}
			failures = append(failures, err)
		}
		if failures == nil {
			failures = append(failures, errNoChallenge)
		}
		return nil, fmt.Errorf("acme: %s: %w", domain, errors.Join(failures...))
	}
}

func (m *Manager) openStorage() (certmagic.Storage, error) {
	if m.options.Redis != nil {
		return newRedisStorage(m.options.Redis, m.pace.lock, m.options.Log), nil
	}
	storage, err := newDiskStorage(m.settings.Storage)
	if err != nil {
		return nil, fmt.Errorf("acme.storage: %w", err)
	}
	return storage, nil
}

// storagePlace is what people call the storage.
func (m *Manager) storagePlace() string {
	if m.settings.Store != "" {
		return m.settings.Store
	}
	return m.settings.Storage
}

// canonicalHost is a name as this package compares it.
func canonicalHost(host string) string {
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
