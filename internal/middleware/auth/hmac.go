package auth

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"time"

	"github.com/emmansun/gmsm/sm3"

	"sluice/internal/config"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// HMACOptions are the options of hmac_auth.
type HMACOptions struct {
	Keys       []HMACKey                 `config:"keys" doc:"the keys that clients sign with"`
	KeysFile   *config.ListFile[HMACKey] `config:"keys_file" doc:"a YAML file with a list of more of them; taken up when it changes"`
	Algorithm  string                    `config:"algorithm" enum:"hmac-sha256|hmac-sha384|hmac-sha512|hmac-sm3" doc:"what they sign with"`
	Components []string                  `config:"components" doc:"what a signature must cover: @method, @path, @query, @authority, @scheme, @target-uri, @request-target, or names of header fields. @query is for requests that have one; a body is covered by content-digest in any case, and the time by created or date"`
	ClockSkew  config.Duration           `config:"clock_skew" doc:"how far the time of a signature may be from the gateway's, in either direction"`
	MaxBody    config.Size               `config:"max_body" doc:"how large the body of a request may be, which is held in memory until it is verified"`
	Nonce      *NonceOptions             `config:"nonce" doc:"{}: a signature needs a nonce, and is good once" default:"a signature is good for as long as its time is"`
}

// HMACKey is a key that a client signs with.
type HMACKey struct {
	ID       string        `config:"id,required" doc:"the keyid of signatures"`
	Secret   config.Secret `config:"secret,required" doc:"the key: a text, or base64: and what it is in base64; 16 bytes at least"`
	Consumer string        `config:"consumer" doc:"whose key it is" default:"id"`
	Tier     string        `config:"tier" doc:"the consumer's tier, for limits"`
	Groups   []string      `config:"groups" doc:"the groups that the consumer is in"`
}

// NonceOptions are where nonces are kept that were used.
type NonceOptions struct {
	Store config.StoreName `config:"store" doc:"memory, or a store that all instances share" default:"memory"`
	Max   *int             `config:"max" doc:"how many are kept in memory for each key; past it none of its requests passes until some have become too old to be used again" default:"1000000"`
}

// SetDefaults keeps nonces in memory.
func (o *NonceOptions) SetDefaults() { o.Store = config.Memory }

// hmacAuth is the settings of hmac_auth.
type hmacAuth struct {
	Keys       string // digest of table
	Algorithm  string
	Components []string
	ClockSkew  time.Duration
	MaxBody    int64
	Nonce      *nonceSettings // nil: nonces do not matter

	table     map[string]hmacKey
	challenge message.Fields
}

type hmacKey struct {
	secret    []byte
	principal *pipeline.Principal
}

// usualBody is the most of a body where nothing is said.
const usualBody = 1 << 20

// HMAC is the kind hmac_auth: a request without a good signature (RFC 9421, by a shared
// secret) is 401 unauthenticated. What is signed of a body is its digest (RFC 9530).
func HMAC() pipeline.Kind {
	kind := pipeline.NewKind("hmac_auth", func() *HMACOptions {
		return &HMACOptions{Algorithm: "hmac-sha256", Components: []string{"@method", "@path", "@query"}, ClockSkew: config.Duration(5 * time.Minute), MaxBody: usualBody}
	}, validateHMAC, func(site *pipeline.Site, h *hmacAuth) pipeline.Middleware {
		return (&hmacGate{h, newHash(h.Algorithm), newNonces(site, h.Nonce, h.table)}).middleware
	}).As(model.Authenticating)
	return pipeline.Warn(kind, (*hmacAuth).warn)
}

// warn reports a signature that would do for other requests, too.
func (h *hmacAuth) warn(report model.Report) {
	has := func(components ...string) bool {
		return slices.ContainsFunc(components, func(one string) bool { return slices.Contains(h.Components, one) })
	}
	var lacking []string
	if !has("@method") {
		lacking = append(lacking, "the method")
	}
	if !has("@path", "@request-target", "@target-uri") {
		lacking = append(lacking, "the path")
	}
	if !has("@query", "@request-target", "@target-uri") {
		lacking = append(lacking, "the query")
	}
	if lacking != nil {
		report("components", "signatures need not cover "+strings.Join(lacking, ", ")+": whoever has seen one can ask for something else with it",
			"list @method, and @path with @query, or @request-target, or @target-uri")
	}
}

// newHash returns what makes the hashes of an algorithm.
func newHash(algorithm string) func() hash.Hash {
	switch algorithm {
	case "hmac-sha384":
		return sha512.New384
	case "hmac-sha512":
		return sha512.New
	case "hmac-sm3":
		return sm3.New
	}
	return sha256.New
}

func validateHMAC(o *HMACOptions, report model.Report) *hmacAuth {
	h := &hmacAuth{
		Algorithm: o.Algorithm, Components: o.Components, ClockSkew: time.Duration(o.ClockSkew), MaxBody: int64(o.MaxBody),
		table: map[string]hmacKey{},
	}
	all := entries[HMACKey]{options: "keys", listed: o.Keys, file: "keys_file"}
	if o.KeysFile != nil {
		all.filed, all.where = o.KeysFile.Items, o.KeysFile.Where
	} else if len(o.Keys) == 0 {
		report("", "hmac_auth has no keys, so that nobody could pass", "write keys: [{id: NAME, secret: …}], or keys_file")
	}
	all.each(report, h.take)
	for i, component := range h.Components {
		checkComponent(h.Components[:i], component, func(message, hint string) { report(fmt.Sprintf("components[%d]", i), message, hint) })
	}
	if len(h.Components) == 0 {
		report("components", "components is empty, so that a signature would do for any request", "leave it out for [@method, @path, @query]")
	}
	switch {
	case h.ClockSkew < time.Second:
		report("clock_skew", fmt.Sprintf("clock_skew must be at least 1s, not %v", o.ClockSkew), "signatures count whole seconds")
	case h.ClockSkew > mostSkew:
		report("clock_skew", "clock_skew must be at most "+config.Duration(mostSkew).String(), "set the clocks: for that long whoever has seen a request can send it again")
	}
	if o.Nonce != nil {
		h.Nonce = validateNonce(o.Nonce, report)
		h.Nonce.Life = 2*h.ClockSkew + time.Second
	}
	h.Keys = model.Digest(o.Keys, all.filed)
	h.challenge.Put(message.WWWAuthenticate, "Signature")
	h.challenge.Add("Accept-Signature", h.accepted())
	return h
}

func validateNonce(o *NonceOptions, report model.Report) *nonceSettings {
	s := &nonceSettings{Max: mostNonces}
	if o.Store != config.Memory {
		s.Store = string(o.Store)
	}
	if o.Max == nil {
		return s
	}
	switch s.Max = *o.Max; {
	case s.Store != "":
		report("nonce.max", "max is about memory, and the nonces are in the store "+s.Store, "remove it")
	case s.Max < 1:
		report("nonce.max", fmt.Sprintf("max must be at least 1, not %d", s.Max), "")
	}
	return s
}

// mostNonces is how many are kept where nothing is said.
const mostNonces = 1_000_000

// mostSkew bounds for how long a signature is good.
const mostSkew = 24 * time.Hour

// leastSecret is how many bytes a secret has at least.
const leastSecret = 16

func (h *hmacAuth) take(entry *HMACKey, report func(key, message, hint string)) {
	secret := []byte(entry.Secret)
	if encoded, ok := strings.CutPrefix(string(entry.Secret), "base64:"); ok {
		var err error
		if secret, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			report("secret", "secret is not valid base64 after base64:", "")
			return
		}
	}
	name := entry.Consumer
	if name == "" {
		name = entry.ID
	}
	switch {
	case bytes.Contains(secret, []byte("-----BEGIN ")): // RFC 7468 2
		report("secret", "secret is PEM, which is no secret: whoever has the public key could sign", "openssl rand -base64 32 prints a good one")
	case len(secret) < leastSecret:
		report("secret", fmt.Sprintf("secret must have at least %d bytes", leastSecret), "openssl rand -base64 32 prints a good one")
	case h.table[entry.ID].principal != nil:
		report("id", "the key "+entry.ID+" is here twice", "remove one of them")
	case entry.ID == "" || strings.ContainsFunc(entry.ID, func(r rune) bool { return r < ' ' || r > '~' }):
		report("id", "id must be of visible ASCII characters and spaces", "")
	}
	h.table[entry.ID] = hmacKey{secret, consumerOf("consumer", name, entry.Tier, entry.Groups, report)}
}

// derived are the components that are no fields.
var derived = []string{"@method", "@path", "@query", "@authority", "@scheme", "@target-uri", "@request-target"}

// checkComponent reports what is wrong with a component after others.
func checkComponent(before []string, component string, report func(message, hint string)) {
	switch {
	case slices.Contains(before, component):
		report(component+" is here twice", "remove one of them")
	case slices.Contains(derived, component):
	case strings.HasPrefix(component, "@"):
		report(component+" is not a component that can be verified here", "known are "+strings.Join(derived, ", "))
	case component == "" || strings.Trim(component, "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~") != "":
		report("a component must be the name of a header field in lower case, or begin with @", "")
	}
}

// accepted tells clients what is wanted (RFC 9421 5.1).
func (h *hmacAuth) accepted() string {
	names := make([]string, len(h.Components))
	for i, component := range h.Components {
		names[i] = quoted(component)
	}
	return "sig=(" + strings.Join(names, " ") + ");created;alg=" + quoted(h.Algorithm)
}

// hmacGate is an hmac_auth in its place in a chain.
type hmacGate struct {
	*hmacAuth
	hash   func() hash.Hash
	nonces nonces // nil: they do not matter
}

func (g *hmacGate) middleware(next pipeline.Handler) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		principal, err := g.identify(x)
		if err != nil {
			return err
		}
		x.Authenticate(principal)
		return next.Serve(x)
	})
}

func (g *hmacGate) refuse(cause error) error {
	err := pipeline.NewError(pipeline.Unauthenticated, cause)
	err.Fields = g.challenge.Clone()
	return err
}

var (
	errSignatures = errors.New("there is no signature of a key that is known, or more than one")
	errCovered    = errors.New("the signature does not cover what it must")
	errAlgorithm  = errors.New("the signature is of another algorithm")
	errTime       = errors.New("the time of the signature is too far from now, or not told")
	errSignature  = errors.New("the signature is not that of the request")
	errDigest     = errors.New("the digest is not that of the body")
	errNonce      = errors.New("the signature has no nonce, or one that was used")
)

// identify verifies what is cheap before what is dear: a body is read for those who have
// a key only, and a nonce is used up by requests that are good.
func (g *hmacGate) identify(x *pipeline.Exchange) (*pipeline.Principal, error) {
	began := time.Now()
	sig := g.choose(signaturesOf(x.Request.Fields))
	if sig == nil {
		return nil, g.refuse(errSignatures)
	}
	// Without a key it is verified with none, so that it takes the same time.
	key := g.table[sig.key]
	genuine := g.genuine(x.Request, sig, key.secret)
	switch {
	case !genuine || key.principal == nil:
		return nil, g.refuse(errSignature)
	case sig.algorithm != "" && sig.algorithm != g.Algorithm:
		return nil, g.refuse(errAlgorithm)
	case !g.covers(x.Request, sig):
		return nil, g.refuse(errCovered)
	case !g.timely(x.Request, sig, x.Start):
		return nil, g.refuse(errTime)
	case g.nonces != nil && (sig.nonce == "" || len(sig.nonce) > pipeline.LongestName):
		return nil, g.refuse(errNonce)
	}
	if err := g.verifyBody(x, sig); err != nil {
		return nil, err
	}
	sig.dropAlike(x.Request)
	if g.nonces == nil {
		return key.principal, nil
	}
	// The body may have come slowly, and a nonce is kept only while a signature with it is
	// in time.
	now := x.Start.Add(time.Since(began))
	if !g.timely(x.Request, sig, now) {
		return nil, g.refuse(errTime)
	}
	fresh, err := g.nonces.use(x, sig.key, sig.nonce, now)
	switch {
	case err != nil:
		return nil, pipeline.NewError(pipeline.AuthUnavailable, err)
	case !fresh:
		return nil, g.refuse(errNonce)
	}
	return key.principal, nil
}

// choose returns the signature that counts: the only one, or the only one of a key that
// is known. Others may sign a request for others.
func (g *hmacGate) choose(all map[string]*signature) (chosen *signature) {
	for _, sig := range all {
		if _, known := g.table[sig.key]; len(all) > 1 && !known {
			continue
		}
		if chosen != nil {
			return nil
		}
		chosen = sig
	}
	return chosen
}

// genuine tells whether a signature is that of a secret over the request.
func (g *hmacGate) genuine(r *message.Request, sig *signature, secret []byte) (good bool) {
	for _, path := range pathsOf(r) {
		base, ok := sig.base(r, path)
		if !ok {
			return false
		}
		mac := hmac.New(g.hash, secret)
		mac.Write([]byte(base))
		if hmac.Equal(mac.Sum(nil), sig.mac) {
			good = true
		}
	}
	return good
}

// covers tells whether a signature covers what it must.
func (g *hmacGate) covers(r *message.Request, sig *signature) bool {
	for _, component := range g.Components {
		target := component == "@path" || component == "@query" || component == "@request-target"
		switch {
		case sig.has(component):
		case target && (sig.has("@target-uri") || sig.has("@request-target")):
		case (component == "@scheme" || component == "@authority") && sig.has("@target-uri"):
		case component == "@authority" && sig.has("host"):
		case component == "@query" && strings.TrimPrefix(r.Query, "?") == "":
		default:
			return false
		}
	}
	return true
}

// imfFixdate is the form of dates (RFC 9110 5.6.7).
const imfFixdate = "Mon, 02 Jan 2006 15:04:05 GMT"

// timely tells whether a signature was made about now: by its created, or else by a date
// that it covers.
func (g *hmacGate) timely(r *message.Request, sig *signature, now time.Time) bool {
	made := time.Unix(sig.created, 0)
	if !sig.hasCreated {
		text, _ := joined(r.Fields, "date")
		var err error
		if made, err = time.Parse(imfFixdate, text); err != nil || !sig.has("date") {
			return false
		}
	}
	age := now.Sub(made)
	return age <= g.ClockSkew && age >= -g.ClockSkew && (!sig.hasExpires || now.Before(time.Unix(sig.expires, 0)))
}
