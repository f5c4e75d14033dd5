package login

import (
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"time"

	"sluice/internal/canonical"
	"sluice/internal/config"
	"sluice/internal/lease"
	"sluice/internal/middleware/auth"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/store"
	"sluice/internal/token"
)

// Options are the options of oidc.
type Options struct {
	Issuer          string             `config:"issuer,required" doc:"the URL of the issuer, exactly as it calls itself"`
	CA              *config.File       `config:"ca" doc:"a PEM file: the authorities that the issuer's certificate must come from" default:"the system's"`
	ClientID        string             `config:"client_id,required" doc:"what the issuer knows the gateway as"`
	ClientSecret    config.Secret      `config:"client_secret" doc:"the secret that goes with it" default:"none, as for a public client"`
	RedirectPath    string             `config:"redirect_path" doc:"where the issuer sends people back to; scheme and host are those of the request. The issuer has to know the URL"`
	Scopes          []string           `config:"scopes" doc:"what is asked for; openid is in any case. Many issuers give a refresh token for offline_access alone"`
	PKCE            bool               `config:"pkce" doc:"false: for an issuer that does not bear a code challenge"`
	Session         SessionOptions     `config:"session" doc:"how a log-in is remembered"`
	ClaimsToHeaders config.Map[string] `config:"claims_to_headers" doc:"fields that the destination gets, each with the claim of the ID token that it tells; what clients send under these names is dropped in any case"`
	LogoutPath      string             `config:"logout_path" doc:"where people log out" default:"nowhere"`
	PostLogoutPath  string             `config:"post_logout_path" doc:"where they are sent then"`
	Leeway          config.Duration    `config:"leeway" doc:"how much the clock of the issuer may differ from the gateway's"`
	ConsumerClaim   string             `config:"consumer_claim" doc:"the claim that names the consumer"`
	TierClaim       string             `config:"tier_claim" doc:"the claim that names the consumer's tier, for limits" default:"none"`
	GroupsClaim     string             `config:"groups_claim" doc:"the claim that lists the groups that the consumer is in"`
}

// SessionOptions are how a log-in is remembered.
type SessionOptions struct {
	Store  config.SessionStore           `config:"store" doc:"cookie: in cookies, encrypted; or a store, and a cookie has the key to it" default:"cookie"`
	Cookie string                        `config:"cookie" doc:"the name of the cookie, before which __Host- stands where the client speaks TLS"`
	TTL    config.Duration               `config:"ttl" doc:"how long after a log-in people have to log in again, whatever they do"`
	Secret config.Several[config.Secret] `config:"secret" doc:"what sessions are encrypted with, 32 bytes at least; of several the first one encrypts, and all decrypt" default:"derived from client_secret"`
}

// Kind is the kind oidc: whoever is not logged in is sent to the issuer, or, where that
// is of no use, told 401 unauthenticated.
func Kind() pipeline.Kind {
	kind := pipeline.NewKind("oidc", func() *Options {
		return &Options{
			RedirectPath: "/oauth2/callback", Scopes: []string{"openid", "profile", "email"}, PKCE: true, PostLogoutPath: "/",
			Session: SessionOptions{Store: config.InCookie, Cookie: "sluice_session", TTL: config.Duration(12 * time.Hour)},
			Leeway:  config.Duration(30 * time.Second), ConsumerClaim: "sub", GroupsClaim: "groups",
		}
	}, validate, build).As(model.Authenticating)
	kind.Together = together
	return pipeline.Warn(kind, (*settings).warn)
}

// warn reports an issuer that is asked over a network as nobody vouches for it.
func (s *settings) warn(report model.Report) {
	if canonical.InClear(s.Provider.Issuer) {
		report("issuer", "the issuer is asked in clear: whoever is in between can put in its answers, and log in as anybody", "use https")
	}
}

// settings are those of oidc.
type settings struct {
	auth.Identity

	Provider       providerSettings
	ClientID       string
	RedirectPath   string
	Scopes         []string
	PKCE           bool
	LogoutPath     string // empty: nowhere
	PostLogoutPath string
	Leeway         time.Duration
	Store          string // a name of Gateway.Stores; empty: cookies
	Cookie         string
	TTL            time.Duration
	Imprint        string // of the secrets, which are no part of a text

	clientSecret string
	secrets      []string
}

// gate is oidc in its place in a chain.
type gate struct {
	*settings

	provider *provider
	verifier *token.Verifier
	sealer   *sealer
	sessions *sessions
	known    *opened
	keeper   keeper
	log      *slog.Logger
	now      func() time.Time
}

func build(site *pipeline.Site, s *settings) pipeline.Middleware {
	return newGate(site, s, time.Now).middleware
}

func newGate(site *pipeline.Site, s *settings, now func() time.Time) *gate {
	g := &gate{settings: s, log: site.Log, now: now}
	g.provider = lease.Acquire(site.Leases, "issuer of oidc\n"+model.Text(s.Provider), func() *provider {
		return newProvider(s.Provider, site.Leases.Registry(), site.Log)
	})
	site.ShowKeys(g.provider.status)
	g.verifier = &token.Verifier{
		Issuers: []token.Issuer{{Name: s.Provider.Issuer, Audiences: []string{s.ClientID}, Keys: g.provider.keys}},
		Leeway:  s.Leeway, MaxBytes: longestToken,
	}
	g.sealer = newSealer(s)
	g.keeper = &cookieKeeper{g.sealer}
	var where *model.Store
	for _, m := range site.Gateway.Stores {
		if m.Name == s.Store {
			where = m
			g.keeper = &storeKeeper{g.sealer, store.Acquire(site.Leases, m)}
		}
	}
	// Behind the store: they are released before that one, which they may still need.
	g.sessions = lease.Acquire(site.Leases, "sessions of oidc\n"+digest(s.Provider.Issuer, s.ClientID, s.Cookie, where), newSessions)
	g.known = lease.Acquire(site.Leases, "opened sessions of oidc\n"+digest(s.Provider.Issuer, s.ClientID, s.Cookie, where, s.Identity, s.Imprint), func() *opened {
		return newOpened(s, site.Log)
	})
	if kept, ok := g.keeper.(*storeKeeper); ok {
		kept.store.Keep(g.sessions.idle)
	}
	return g
}

// digest is an identity by all that makes it.
func digest(parts ...any) string {
	sum := sha256.Sum256([]byte(model.Text(parts)))
	return hex.EncodeToString(sum[:])
}

func (g *gate) middleware(next pipeline.Handler) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error { return g.serve(x, next) })
}

func (g *gate) serve(x *pipeline.Exchange, next pipeline.Handler) error {
	jar := g.readJar(x)
	switch x.Request.Path {
	case g.RedirectPath:
		return g.callback(x, jar)
	case g.LogoutPath:
		return g.logout(x, jar)
	}
	h, renewed, err := g.find(x, jar.text())
	if err != nil {
		return err
	}
	if h == nil {
		return g.begin(x, jar)
	}
	g.Pass(x, h.user)
	g.dropCookies(&x.Request.Fields)
	if !renewed {
		return next.Serve(x)
	}
	err = next.Serve(x)
	var set setCookies
	if !g.sessions.isReplaced(h.mark) { // else an answer that took less time has told a newer one
		set = jar.sessionCookies(h.text, g.left(h.session))
	}
	if err != nil {
		e := *pipeline.AsError(err) // it may be somebody's who returns it again
		e.Fields = e.Fields.Clone()
		set.add(&e.Fields)
		return &e
	}
	set.add(&x.Response.Fields)
	return nil
}
