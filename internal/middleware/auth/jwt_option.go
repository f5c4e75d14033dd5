package auth

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/internal/config"
	"sluice/internal/keyset"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pemfile"
	"sluice/internal/token"
)

// The bounds of what may be set.
const (
	mostLeeway = time.Hour
	mostToken  = 1 << 20
)

func validateJWT(o *JWTOptions, report model.Report) *jwt {
	j := &jwt{
		Leeway: time.Duration(o.Leeway), MaxBytes: int(o.MaxBytes), Optional: o.Optional, MaxCached: o.MaxCached,
		Identity: NewIdentity(o.ConsumerClaim, o.TierClaim, o.GroupsClaim, o.ClaimsToHeaders, report),
	}
	if len(o.Issuers) == 0 {
		report("issuers", "issuers is empty, so that no token would be good", "write [{issuer: NAME, jwks_url: URL}]")
	}
	for i := range o.Issuers {
		path := fmt.Sprintf("issuers[%d]", i)
		issuer := issuerOf(&o.Issuers[i], path, report)
		if slices.ContainsFunc(j.Issuers, func(other jwtIssuer) bool { return other.Name == issuer.Name }) {
			report(path+".issuer", fmt.Sprintf("the issuer %q is here twice", issuer.Name), "put all of its keys and audiences into one")
		}
		j.Issuers = append(j.Issuers, issuer)
	}
	j.From = placesOf(o.From, report)
	for _, c := range o.RequiredClaims {
		j.Required = append(j.Required, token.Required{Name: c.Name, Values: c.Values})
	}
	switch {
	case j.Leeway > mostLeeway:
		report("leeway", "leeway must be at most "+config.Duration(mostLeeway).String(), "set the clocks")
	case o.MaxBytes < 1 || o.MaxBytes > mostToken:
		report("max_bytes", "max_bytes must be from 1 to "+config.Size(mostToken).String(), "")
	case j.MaxCached < 0:
		report("max_cached", "max_cached must not be negative", "write 0 to remember none")
	}
	return j
}

// placesOf are the places of tokens. In Authorization they have a scheme.
func placesOf(from config.Several[FromOptions], report model.Report) []place {
	usual := place{Header: message.Authorization.String(), Scheme: "Bearer"}
	if from == nil {
		return []place{usual}
	}
	if len(from) == 0 {
		report("from", "from is empty, so that no request would have a token", "name a place, or leave the key out")
	}
	var places []place
	for i := range from {
		path := "from"
		if len(from) > 1 {
			path = fmt.Sprintf("from[%d]", i)
		}
		p := placeOf(&from[i], usual, path, report)
		if message.Lookup(p.Header) == message.Authorization && p.Scheme == "" {
			p.Scheme = usual.Scheme
		}
		if slices.ContainsFunc(places, func(other place) bool {
			return other.Cookie == p.Cookie && other.Query == p.Query && strings.EqualFold(other.Header, p.Header)
		}) {
			report(path, "the same place is here twice", "remove one of them")
		}
		places = append(places, p)
	}
	return places
}

// issuerOf is what the options of an issuer mean.
func issuerOf(o *JWTIssuer, path string, report model.Report) jwtIssuer {
	issuer := jwtIssuer{Name: o.Issuer, Audiences: o.Audiences, Algorithms: o.Algorithms}
	if o.Issuer == "" {
		report(path+".issuer", "issuer is empty", "write what the iss of its tokens is")
	}
	for i, audience := range o.Audiences {
		if audience == "" {
			report(fmt.Sprintf("%s.audiences[%d]", path, i), "an audience is empty", "")
		}
	}
	if o.Audiences != nil && len(o.Audiences) == 0 {
		report(path+".audiences", "audiences is empty, so that no token would be good", "leave it out where aud does not matter")
	}
	known := checkAlgorithms(o.Algorithms, path, report)
	var ways []string
	for _, way := range []struct {
		key   string
		there bool
	}{{"jwks_file", o.JWKSFile != nil}, {"jwks_url", o.JWKSURL != ""}, {"public_key", o.PublicKey != ""}, {"secret", o.Secret != ""}} {
		if way.there {
			ways = append(ways, way.key)
		}
	}
	switch {
	case len(ways) == 0:
		report(path, "the issuer has no keys", "write jwks_url, jwks_file, public_key or secret")
		return issuer
	case len(ways) > 1:
		report(path+"."+ways[1], fmt.Sprintf("the issuer has both %s and %s", ways[0], ways[1]), "leave one of them out")
		return issuer
	case o.CA != nil && !strings.HasPrefix(o.JWKSURL, "https:"):
		report(path+".ca", "ca is for a jwks_url of https", "remove it")
	}
	path += "." + ways[0]
	if o.JWKSURL != "" {
		issuer.Remote = remoteOf(o, path, report)
		return issuer
	}
	set, unused, err := fixedKeys(o)
	if err != nil {
		report(path, ways[0]+" "+err.Error(), hintOf(ways[0], err))
		return issuer
	}
	issuer.keys, issuer.unused = set, unused
	issuer.Digest = model.Digest(o.Secret, o.PublicKey, textOf(o.JWKSFile))
	if unfit := set.Unfit(o.Algorithms); known && unfit != "" {
		report(path, fmt.Sprintf("%s has no key that %s fits", ways[0], unfit), unfitHint(unfit))
	}
	return issuer
}

func unfitHint(algorithm string) string {
	switch algorithm {
	case "HS256", "HS384", "HS512":
		return "it needs a secret that is as long as its hash, at least: 32, 48 or 64 bytes"
	}
	return "the kind of the key decides: RS and PS for RSA, ES256 for P-256, EdDSA for Ed25519"
}

func hintOf(way string, err error) string {
	switch {
	case errors.Is(err, token.ErrPEM):
		return "write a public key as public_key"
	case way == "public_key":
		return "write '${file:PATH}' for what is in a file"
	case way == "secret":
		return "openssl rand -base64 48 prints one that is long enough for HS512"
	}
	return ""
}

func textOf(f *config.File) string {
	if f == nil {
		return ""
	}
	return string(f.Data)
}

// fixedKeys are the keys of an issuer that has no URL, and what is wrong with others.
func fixedKeys(o *JWTIssuer) (set *token.Set, unused []string, err error) {
	switch {
	case o.PublicKey != "":
		set, err = token.PublicKeys(o.PublicKey)
		return set, nil, err
	case o.Secret != "":
		set, err = token.Secret(string(o.Secret))
		return set, nil, err
	}
	document, err := token.ReadDocument(o.JWKSFile.Data, true)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case document.Set.Len() > 0:
		return document.Set, document.Unused, nil
	case len(document.Unused) > 0:
		return nil, nil, errors.New("has no key that can be used: " + document.Unused[0])
	}
	return nil, nil, errors.New("has no key that can be used: the list is empty")
}

// checkAlgorithms tells whether all of some names are of algorithms.
func checkAlgorithms(names []string, path string, report model.Report) (known bool) {
	known = true
	for i, name := range names {
		path := fmt.Sprintf("%s.algorithms[%d]", path, i)
		switch {
		case strings.EqualFold(name, "none"):
			report(path, "none is no algorithm: anybody could write such tokens", "")
		case !slices.Contains(token.Algorithms(), name):
			report(path, fmt.Sprintf("there is no algorithm %q", name), "there are "+strings.Join(token.Algorithms(), ", "))
		default:
			continue
		}
		known = false
	}
	if names != nil && len(names) == 0 {
		report(path+".algorithms", "algorithms is empty, so that no token would be good", "leave it out for all that fit the keys")
		known = false
	}
	return known
}

// remoteOf is where an issuer serves its keys.
func remoteOf(o *JWTIssuer, path string, report model.Report) *keyset.Settings {
	u, err := url.Parse(o.JWKSURL)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.Fragment != "":
		report(path, "jwks_url must be an http or https URL", "write https://HOST/PATH")
	case u.User != nil:
		report(path, "jwks_url must not have a user or a password", "the keys of an issuer are public")
	}
	for i, name := range o.Algorithms {
		if strings.HasPrefix(name, "HS") {
			report(fmt.Sprintf("%s.algorithms[%d]", strings.TrimSuffix(path, ".jwks_url"), i), name+" needs a secret, and a jwks_url has public keys", "remove it, or use secret")
		}
	}
	settings := &keyset.Settings{URL: o.JWKSURL, CA: textOf(o.CA)}
	if strings.HasPrefix(o.JWKSURL, "https:") && o.CA != nil {
		if _, fault := pemfile.Authorities(o.CA.Data); fault != nil {
			report(strings.TrimSuffix(path, "jwks_url")+"ca", "ca: "+fault.Message, fault.Hint)
		}
	}
	return settings
}
