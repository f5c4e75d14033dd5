package auth

import (
	"context"
	"errors"
	"time"

	"sluice/internal/config"
	"sluice/internal/keyset"
	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/token"
)

// JWTOptions are the options of jwt.
type JWTOptions struct {
	Issuers         []JWTIssuer                 `config:"issuers,required" doc:"whose tokens are good; a token goes to the one that its iss names"`
	From            config.Several[FromOptions] `config:"from" doc:"where a request has its token: one place, or several of which it uses one" default:"{header: Authorization, scheme: Bearer}"`
	ClaimsToHeaders config.Map[string]          `config:"claims_to_headers" doc:"fields that the destination gets, each with the claim that it tells; what clients send under these names is dropped in any case"`
	RequiredClaims  config.RequiredClaims       `config:"required_claims" doc:"claims that a token must have: names, or names with the value, or the values, one of which it must have" default:"none but exp"`
	Leeway          config.Duration             `config:"leeway" doc:"how much the clocks of issuers may differ from the gateway's"`
	MaxBytes        config.Size                 `config:"max_bytes" doc:"how long a token may be"`
	Optional        bool                        `config:"optional" doc:"true: a request without a token passes, as nobody; a bad one does not"`
	ConsumerClaim   string                      `config:"consumer_claim" doc:"the claim that names the consumer"`
	TierClaim       string                      `config:"tier_claim" doc:"the claim that names the consumer's tier, for limits" default:"none"`
	GroupsClaim     string                      `config:"groups_claim" doc:"the claim that lists the groups that the consumer is in"`
	MaxCached       int                         `config:"max_cached" doc:"how many tokens that were good are remembered until they expire; 0: none"`
}

// JWTIssuer is an issuer of tokens, and the keys that it signs with.
type JWTIssuer struct {
	Issuer     string        `config:"issuer,required" doc:"its name, exactly as iss has it"`
	Audiences  []string      `config:"audiences" doc:"a token must name one of them as its aud" default:"aud is not looked at"`
	JWKSURL    string        `config:"jwks_url" doc:"where it serves its keys: a JWK set, fetched in the background"`
	CA         *config.File  `config:"ca" doc:"with jwks_url: a PEM file: the authorities that its certificate must come from" default:"the system's"`
	JWKSFile   *config.File  `config:"jwks_file" doc:"instead: a file with a JWK set; taken up when it changes"`
	PublicKey  string        `config:"public_key" doc:"instead: its public keys in PEM, or certificates with them"`
	Secret     config.Secret `config:"secret" doc:"instead: a secret that it shares with the gateway"`
	Algorithms []string      `config:"algorithms" doc:"the algorithms that are allowed" default:"those that fit the keys"`
}

// JWT is the kind jwt: a request without a token that is good is 401 unauthenticated.
func JWT() pipeline.Kind {
	kind := pipeline.NewKind("jwt", func() *JWTOptions {
		return &JWTOptions{Leeway: config.Duration(30 * time.Second), MaxBytes: 16 << 10, ConsumerClaim: "sub", GroupsClaim: "groups", MaxCached: 10_000}
	}, validateJWT, buildJWT).As(model.Authenticating)
	return pipeline.Warn(kind, (*jwt).warn)
}

// jwt is the settings of jwt.
type jwt struct {
	Identity

	Issuers   []jwtIssuer
	From      []place
	Required  []token.Required
	Leeway    time.Duration
	MaxBytes  int
	Optional  bool
	MaxCached int
}

// jwtIssuer has its keys either from Remote or in keys.
type jwtIssuer struct {
	Name       string
	Audiences  []string
	Algorithms []string
	Remote     *keyset.Settings
	Digest     string // of keys, which are no part of a text

	keys   *token.Set
	unused []string // of jwks_file: what is wrong with keys that are not in keys
}

// bearer is a jwt in its place in a chain.
type bearer struct {
	*jwt
	verifier *token.Verifier
	remotes  []*keyset.Remote           // by issuer; nil: its keys are fixed
	cache    *token.Cache[*ClaimedUser] // nil: none
	aside    *aside
}

func buildJWT(site *pipeline.Site, j *jwt) pipeline.Middleware {
	b := &bearer{jwt: j, aside: acquireAside(site.Leases), verifier: &token.Verifier{
		Required: j.Required, Find: find, Leeway: j.Leeway, MaxBytes: j.MaxBytes,
	}}
	for i := range j.Issuers {
		in := &j.Issuers[i]
		issuer := token.Issuer{Name: in.Name, Audiences: in.Audiences, Algorithms: in.Algorithms, Keys: func() *token.Set { return in.keys }}
		var remote *keyset.Remote
		if in.Remote != nil {
			remote = keyset.Acquire(site.Leases, *in.Remote, site.Log)
			issuer.Keys = remote.Keys
			site.ShowKeys(remote.Status)
		}
		b.remotes = append(b.remotes, remote)
		b.verifier.Issuers = append(b.verifier.Issuers, issuer)
	}
	if j.MaxCached > 0 {
		b.cache = lease.Acquire(site.Leases, "tokens of jwt\n"+model.Digest(j), func() *token.Cache[*ClaimedUser] {
			return token.NewCache[*ClaimedUser](j.MaxCached, j.Leeway)
		})
	}
	return b.middleware
}

// find is how claims are found by their names, here as everywhere.
func find(claims map[string]any, name string) (value any, there bool) {
	return (&pipeline.Principal{Claims: claims}).Claim(name)
}

// The challenges of RFC 6750 3. Where a request has no token nothing is said of one.
const (
	challengeAbsent  = `Bearer realm="gateway"`
	challengeRequest = challengeAbsent + `, error="invalid_request"`
	challengeToken   = challengeAbsent + `, error="invalid_token"`
)

func (b *bearer) middleware(next pipeline.Handler) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		user, err := b.identify(x)
		if err != nil {
			return err
		}
		b.Pass(x, user)
		return next.Serve(x)
	})
}

// identify returns who the client is; nil where it has no token and needs none.
func (b *bearer) identify(x *pipeline.Exchange) (*ClaimedUser, error) {
	text, there, err := b.credential(x.Request)
	switch {
	case err != nil:
		return nil, unauthenticated(challengeRequest, err)
	case !there && b.Optional:
		return nil, nil //nolint:nilnil // nobody, which is allowed
	case !there:
		return nil, unauthenticated(challengeAbsent, errAbsent)
	case len(text) > b.MaxBytes: // before it is hashed
		return nil, unauthenticated(challengeToken, token.ErrTooLarge)
	}
	now := time.Now()
	if b.cache == nil {
		user, _, err := b.verify(x, text, now)
		return user, err
	}
	digest := token.DigestOf(text)
	if verified, user, ok := b.cache.Get(&digest, now); ok && b.verifier.Still(verified, now) == nil {
		return user, nil
	}
	user, verified, err := b.verify(x, text, now)
	if err == nil {
		b.cache.Put(&digest, verified, user, user.size(), now)
	}
	return user, err
}

// credential is the token of a request, in one place of those where it may be.
func (b *bearer) credential(r *message.Request) (text string, there bool, err error) {
	for i := range b.From {
		found, ok, err := b.From[i].find(r)
		switch {
		case err != nil:
			return "", false, err
		case ok && there:
			return "", false, errSeveral
		case ok:
			text, there = found, true
		}
	}
	return text, there, nil
}

// verify verifies a token, with newer keys of its issuer if that is what it takes.
func (b *bearer) verify(x *pipeline.Exchange, text string, now time.Time) (*ClaimedUser, *token.Verified, error) {
	said, err := b.judge(x, text, now)
	if err != nil {
		return nil, nil, err
	}
	if errors.Is(said.fault, token.ErrUnknownKey) || errors.Is(said.fault, token.ErrNoKeys) {
		if remote := b.remotes[said.issuer]; remote != nil {
			newer, failure := await(x, remote, said.set)
			switch {
			case errors.Is(failure, keyset.ErrUnavailable), errors.Is(failure, keyset.ErrCrowded):
				return nil, nil, unavailable(failure)
			case failure != nil: // the client has left
				return nil, nil, failure
			case newer != said.set:
				if said, err = b.judge(x, text, now); err != nil {
					return nil, nil, err
				}
			}
		}
	}
	if said.fault != nil {
		return nil, nil, unauthenticated(challengeToken, said.fault)
	}
	verified := said.verified
	user, err := b.UserOf(verified.Claims)
	if err != nil {
		return nil, nil, unauthenticated(challengeToken, err)
	}
	return user, verified, nil
}

// longOnes are tokens of more bytes than these, which are verified aside, as others wait for
// as long as it takes.
const longOnes = 8 << 10

// verdict is what the verifier says of a token.
type verdict struct {
	verified *token.Verified
	issuer   int
	set      *token.Set
	fault    error // of the token
}

// judge is what the verifier says. It fails where that cannot be told.
func (b *bearer) judge(x *pipeline.Exchange, text string, now time.Time) (v verdict, err error) {
	verify := func() { v.verified, v.issuer, v.set, v.fault = b.verifier.Verify(text, now) }
	if len(text) > longOnes || b.verifier.Dear() {
		err = b.aside.do(x, verify)
	} else {
		verify()
	}
	return v, err
}

// await waits for newer keys, no longer than the exchange may.
func await(x *pipeline.Exchange, remote *keyset.Remote, set *token.Set) (newer *token.Set, err error) {
	until := x.WaitUntil(keyset.MaxWait)
	x.Wait(func() {
		ctx, cancel := context.WithDeadline(x.Context(), until)
		defer cancel()
		newer, err = remote.Newer(ctx, set)
		if x.Context().Err() != nil {
			err = context.Cause(x.Context())
		}
	})
	return newer, err
}

// unavailable is 503: nobody can tell whether a token is good.
func unavailable(cause error) *pipeline.Error {
	err := pipeline.NewError(pipeline.AuthUnavailable, cause)
	err.Fields.Put(message.RetryAfter, "1")
	return err
}
