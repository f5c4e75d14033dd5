package acme

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3"
	rfc8555 "github.com/mholt/acmez/v3/acme"
)

// ChallengePath is what every path of HTTP-01 begins with (RFC 8555, 8.3).
const ChallengePath = "/.well-known/acme-challenge/"

// lookUp is how long a challenge waits for the storage.
const lookUp = 5 * time.Second

var errNoChallenge = errors.New("no challenge is under way")

// pending are the challenges that the directory may ask about: those that this
// instance began, in memory, and those of other instances, in the storage. For
// one name at most one is under way at a time, since orders hold the name's lock.
type pending struct {
	mu      sync.RWMutex
	own     map[string]challenge
	storage certmagic.Storage // nil before open
	prefix  string
}

type challenge struct {
	rfc8555.Challenge
	certificate *tls.Certificate // of TLS-ALPN-01
}

// open begins to look at challenges of other instances. They lie where
// certmagic has them.
func (p *pending) open(storage certmagic.Storage, issuerKey string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.storage, p.prefix = storage, path.Join("acme", certmagic.StorageKeys.Safe(issuerKey), "challenge_tokens")
}

func (p *pending) key(domain string) string {
	return path.Join(p.prefix, certmagic.StorageKeys.Safe(domain)+".json")
}

// find returns the challenge of this type that is under way for a name.
func (p *pending) find(ctx context.Context, domain, kind string) (challenge, error) {
	p.mu.RLock()
	found, ok := p.own[domain]
	storage := p.storage
	p.mu.RUnlock()
	if ok && found.Type == kind {
		return found, nil
	}
	if storage == nil {
		return challenge{}, errNoChallenge
	}
	ctx, cancel := context.WithTimeout(ctx, lookUp)
	defer cancel()
	text, err := storage.Load(ctx, p.key(domain))
	if errors.Is(err, fs.ErrNotExist) {
		return challenge{}, errNoChallenge
	}
	if err != nil {
		return challenge{}, err
	}
	var stored rfc8555.Challenge
	if err := json.Unmarshal(text, &stored); err != nil {
		return challenge{}, fmt.Errorf("%s: %w", p.key(domain), err)
	}
	if stored.Type != kind || canonicalHost(stored.Identifier.Value) != domain {
		return challenge{}, errNoChallenge
	}
	return challenge{Challenge: stored}, nil
}

// Present makes a challenge answerable, here and by other instances. It is a
// method of acmez.Solver.
func (p *pending) Present(ctx context.Context, asked rfc8555.Challenge) error {
	own := challenge{Challenge: asked}
	if asked.Type == rfc8555.ChallengeTypeTLSALPN01 {
		var err error
		if own.certificate, err = acmez.TLSALPN01ChallengeCert(asked); err != nil {
			return err
		}
	}
	text, err := json.Marshal(asked)
	if err != nil {
		return err
	}
	domain := canonicalHost(asked.Identifier.Value)
	if err := p.storage.Store(ctx, p.key(domain), text); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.own == nil {
		p.own = map[string]challenge{}
	}
	p.own[domain] = own
	return nil
}

// CleanUp forgets a challenge, also where its order was broken off. It is a
// method of acmez.Solver.
func (p *pending) CleanUp(ctx context.Context, asked rfc8555.Challenge) error {
	domain := canonicalHost(asked.Identifier.Value)
	p.mu.Lock()
	delete(p.own, domain)
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookUp)
	defer cancel()
	return p.storage.Delete(ctx, p.key(domain))
}

// HTTPChallenge answers a GET of HTTP-01 (RFC 8555, 8.3) with the body of a 200;
// not ok, it is a request as any other. host may have a port. Ask before routing,
// on every listener of cleartext HTTP: a path that is no challenge's, or a name
// that is not managed, costs next to nothing. A challenge that another instance
// began is looked up in the storage, for up to five seconds.
func (m *Manager) HTTPChallenge(host, path string) (body string, ok bool) {
	if !m.options.HTTP01 || !strings.HasPrefix(path, ChallengePath) {
		return "", false
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	domain := canonicalHost(host)
	if m.byName[domain] == nil {
		return "", false
	}
	found, err := m.pending.find(context.Background(), domain, rfc8555.ChallengeTypeHTTP01)
	if err != nil {
		m.toldChallenge(domain, err)
		return "", false
	}
	if path != found.HTTP01ResourcePath() {
		return "", false
	}
	return found.KeyAuthorization, true
}

// tlsChallenge is the certificate of a TLS-ALPN-01 challenge (RFC 8737, 3) of one
// of its names.
func (m *Manager) tlsChallenge(ctx context.Context, domain string) (*tls.Certificate, error) {
	found, err := m.pending.find(ctx, domain, rfc8555.ChallengeTypeTLSALPN01)
	if err == nil && found.certificate == nil {
		found.certificate, err = acmez.TLSALPN01ChallengeCert(found.Challenge)
	}
	if err != nil {
		m.toldChallenge(domain, err)
		return nil, err
	}
	return found.certificate, nil
}

// toldChallenge logs why a challenge was not answered. Anybody may ask, so that
// a question without a challenge says nothing.
func (m *Manager) toldChallenge(domain string, err error) {
	if errors.Is(err, errNoChallenge) || errors.Is(err, context.Canceled) {
		m.options.Log.Debug("acme: asked for a challenge", "domain", domain, "error", err)
		return
	}
	m.options.Log.Warn("acme: a challenge could not be looked up", "domain", domain, "error", err)
}
