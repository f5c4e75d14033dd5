package login

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/oauth2"

	"sluice/internal/keyset"
	"sluice/internal/lease"
	"sluice/internal/pemfile"
	"sluice/internal/pipeline"
	"sluice/internal/token"
)

// providerSettings say who the issuer is.
type providerSettings struct {
	Issuer string
	CA     string // PEM; empty: the system's authorities
}

const (
	askTime = 5 * time.Second // one request to the issuer
	// fresh is for how long an issuer that has answered is taken to be there.
	fresh = 10 * time.Second
	// usual is how often it is asked without a need.
	usual      = 5 * time.Minute
	maxWaiters = 256 // how many may wait for one answer
	// maxConnections is how many connections to the issuer there are: when it is back after
	// an outage as many sessions may be due as there are people.
	maxConnections = 256
	// longestURL bounds URLs of the issuer, which go into answers to browsers.
	longestURL = 2 << 10
)

// metadata is what an issuer tells of itself (OpenID Connect Discovery 1.0, 3).
type metadata struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	EndSession    string   `json:"end_session_endpoint"`
	Revocation    string   `json:"revocation_endpoint"` // RFC 8414 2
	JWKS          string   `json:"jwks_uri"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	RevokeMethods []string `json:"revocation_endpoint_auth_methods_supported"`
	TellsIssuer   bool     `json:"authorization_response_iss_parameter_supported"` // RFC 9207 3
}

// check holds what an issuer tells to who it is, and to the way it was asked.
func (m *metadata) check(issuer string) error {
	if m.Issuer != issuer {
		return fmt.Errorf("it calls itself %.200q", m.Issuer)
	}
	for _, e := range []struct {
		name, url string
		optional  bool
	}{
		{"authorization_endpoint", m.Authorization, false}, {"token_endpoint", m.Token, false},
		{"jwks_uri", m.JWKS, false}, {"end_session_endpoint", m.EndSession, true},
	} {
		if e.optional && e.url == "" {
			continue
		}
		if !m.usable(e.url) {
			return fmt.Errorf("its %s is not a URL that can be used: %.200q", e.name, e.url)
		}
	}
	return nil
}

// usable tells whether a URL is one that an issuer may name: by TLS where it is asked so
// itself.
func (m *metadata) usable(text string) bool {
	u, err := url.Parse(text)
	return err == nil && len(text) <= longestURL && u.Host != "" && u.User == nil && !strings.Contains(text, "#") &&
		(u.Scheme == "https" || u.Scheme == "http" && !strings.HasPrefix(m.Issuer, "https:"))
}

// style is how the gateway says who it is (OpenID Connect Core 1.0, 9) to an endpoint that
// takes these methods: as the secret of Basic unless it takes the other way alone.
func style(methods []string, secret string) oauth2.AuthStyle {
	switch {
	case secret == "":
		return oauth2.AuthStyleInParams
	case methods == nil, slices.Contains(methods, "client_secret_basic"), !slices.Contains(methods, "client_secret_post"):
		return oauth2.AuthStyleInHeader
	}
	return oauth2.AuthStyleInParams
}

// errAway says that the issuer does not answer, or with nothing that helps.
var errAway = errors.New("the issuer does not answer for now")

// provider is an issuer: what it tells of itself, and its keys. It is asked in the
// background, and whenever somebody wants to log in and it was not heard of lately.
type provider struct {
	settings providerSettings
	http     *http.Client // for tokens
	asking   *http.Client // for what the issuer tells, which no crowd of the other holds up
	registry *lease.Registry
	log      *slog.Logger
	wanted   chan struct{}
	ended    chan struct{} // it is asked no more
	cancel   context.CancelFunc

	remote atomic.Pointer[keyset.Remote]

	mu      sync.Mutex
	known   *metadata // nil: it was never heard of
	heard   time.Time
	away    bool   // it did not answer last
	round   *round // that is under way, or will come
	waiting int
}

// round is one question.
type round struct {
	over chan struct{}
	err  error
}

func newProvider(s providerSettings, registry *lease.Registry, log *slog.Logger) *provider {
	return &provider{
		settings: s, registry: registry, log: log.With("issuer", s.Issuer), http: newClient(s, maxConnections), asking: newClient(s, 1),
		wanted: make(chan struct{}, 1), ended: make(chan struct{}),
	}
}

// newClient returns what asks an issuer by so many connections at most.
func newClient(s providerSettings, connections int) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: askTime}).DialContext,
			TLSClientConfig:        (&pemfile.Client{CA: s.CA}).Config(),
			ForceAttemptHTTP2:      true,
			MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConnsPerHost:    16,
			MaxConnsPerHost:        connections,
			IdleConnTimeout:        30 * time.Second,
		},
		// Nobody is sent a secret whom the issuer has not named.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       askTime,
	}
}

// Start begins to ask. It is for the registry of leases.
func (p *provider) Start() error {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go p.run(ctx)
	return nil
}

// Release ends that.
func (p *provider) Release() { p.cancel() }

// status tells how its keys are; a status without a URL: it was never heard of.
func (p *provider) status() (status pipeline.KeysStatus) {
	if remote := p.remote.Load(); remote != nil {
		status = remote.Status()
	}
	return status
}

// keys are those that the issuer signs with; nil: they are not there yet.
func (p *provider) keys() *token.Set {
	if remote := p.remote.Load(); remote != nil {
		return remote.Keys()
	}
	return nil
}

// last is what the issuer has told last, however long ago; nil: nothing.
func (p *provider) last() *metadata {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known
}

// everTold is what the issuer has told last, however long ago, for which it waits if it has told
// nothing yet: that may be so when the gateway has just started.
func (p *provider) everTold(ctx context.Context) (*metadata, error) {
	if m := p.last(); m != nil {
		return m, nil
	}
	return p.current(ctx)
}

// current is what the issuer tells of itself. Where it answered last nobody waits: it is
// asked again beside that if it was not for some seconds. Where it did not, or was never
// heard of, all wait for one question, and the error is errAway if that has no answer.
func (p *provider) current(ctx context.Context) (*metadata, error) {
	p.mu.Lock()
	switch {
	case p.known != nil && !p.away:
		defer p.mu.Unlock()
		if time.Since(p.heard) >= fresh {
			p.want()
		}
		return p.known, nil
	case p.waiting >= maxWaiters:
		defer p.mu.Unlock()
		return nil, errAway
	}
	p.waiting++
	this := p.want()
	p.mu.Unlock()
	var err error
	select {
	case <-this.over:
		err = this.err
	case <-p.ended:
		err = errAway
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
	return p.known, err
}

// want has the issuer asked as soon as may be. It is called with the lock held.
func (p *provider) want() *round {
	if p.round == nil {
		p.round = &round{over: make(chan struct{})}
	}
	select {
	case p.wanted <- struct{}{}:
	default:
	}
	return p.round
}

// lost says that a request to the issuer has failed: whether it is there has to be asked.
func (p *provider) lost() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = true
}

func (p *provider) run(ctx context.Context) {
	defer p.http.CloseIdleConnections()
	defer p.asking.CloseIdleConnections()
	held := p.registry.NewSet()
	defer func() { held.Release() }()
	defer close(p.ended)
	keyset.Repeat(ctx, p.wanted, func(failures int) (time.Duration, error) {
		p.mu.Lock()
		this := p.want()
		<-p.wanted // it is met by this one
		p.mu.Unlock()
		told, err := p.ask(ctx)
		if ctx.Err() != nil {
			return 0, err
		}
		if err == nil {
			held, err = p.adopt(held, told)
		}
		p.tell(err, failures)
		p.settle(this, told, err)
		return usual, err
	})
}

// settle ends a round.
func (p *provider) settle(this *round, told *metadata, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		this.err, p.away = errAway, true
	} else {
		p.known, p.heard, p.away = told, time.Now(), false
	}
	p.round = nil
	close(this.over)
	select {
	case <-p.wanted: // by one who has waited for this round
	default:
	}
}

// adopt has the keys fetched from where the issuer says they are; held holds those of
// before, and is given back if they are the same.
func (p *provider) adopt(held *lease.Set, told *metadata) (*lease.Set, error) {
	next := p.registry.NewSet()
	remote := keyset.Acquire(next, keyset.Settings{URL: told.JWKS, CA: p.settings.CA}, p.log)
	if err := next.Commit(); err != nil {
		next.Release()
		return held, err
	}
	p.remote.Store(remote)
	held.Release()
	return next, nil
}

func (p *provider) tell(err error, failures int) {
	switch {
	case err != nil && failures == 0:
		p.log.Warn("the issuer does not tell of itself; nobody can log in until it does, and sessions go on", "error", err)
	case err == nil && failures > 0:
		p.log.Info("the issuer tells of itself again", "failures", failures)
	}
}

// ask asks the issuer what it tells of itself.
func (p *provider) ask(ctx context.Context) (*metadata, error) {
	where := strings.TrimSuffix(p.settings.Issuer, "/") + "/.well-known/openid-configuration"
	data, _, err := keyset.Get(ctx, p.asking, where, "application/json")
	if err != nil {
		return nil, err
	}
	m := &metadata{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, errors.New("the body is no JSON, or not of the form that is expected")
	}
	if err := m.check(p.settings.Issuer); err != nil {
		return nil, err
	}
	return m, nil
}
