package login

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"sluice/internal/canonical"
	"sluice/internal/config"
	"sluice/internal/middleware/auth"
	"sluice/internal/model"
	"sluice/internal/pemfile"
)

// The bounds of what may be set.
const (
	mostLeeway  = time.Hour
	leastTTL    = time.Second
	mostTTL     = 400 * 24 * time.Hour // browsers keep no cookie for longer (RFC 6265bis 5.5)
	leastSecret = 32
	longestName = 64 // of the cookie
)

func validate(o *Options, report model.Report) *settings {
	s := &settings{
		Identity: auth.NewIdentity(o.ConsumerClaim, o.TierClaim, o.GroupsClaim, o.ClaimsToHeaders, report),
		Provider: providerSettings{Issuer: o.Issuer},
		ClientID: o.ClientID, RedirectPath: o.RedirectPath, Scopes: slices.Clone(o.Scopes), PKCE: o.PKCE,
		LogoutPath: o.LogoutPath, PostLogoutPath: o.PostLogoutPath, Leeway: time.Duration(o.Leeway),
		Cookie: o.Session.Cookie, TTL: time.Duration(o.Session.TTL), clientSecret: string(o.ClientSecret),
	}
	if o.Session.Store != config.InCookie {
		s.Store = string(o.Session.Store)
	}
	validateIssuer(o, s, report)
	if o.ClientID == "" {
		report("client_id", "client_id is empty", "write what the issuer knows the gateway as")
	}
	if !slices.Contains(s.Scopes, "openid") {
		s.Scopes = append([]string{"openid"}, s.Scopes...)
	}
	for i, scope := range o.Scopes {
		if !isScope(scope) {
			report(fmt.Sprintf("scopes[%d]", i), fmt.Sprintf("the scope %q is not valid", scope), "write each scope as an item of its own")
		}
	}
	validatePaths(o, report)
	validateSession(o, s, report)
	if s.Leeway > mostLeeway {
		report("leeway", "leeway must be at most "+config.Duration(mostLeeway).String(), "set the clocks")
	}
	sum := sha256.Sum256([]byte(model.Text([]any{s.clientSecret, s.secrets})))
	s.Imprint = hex.EncodeToString(sum[:])
	return s
}

func validateIssuer(o *Options, s *settings, report model.Report) {
	u, err := url.Parse(o.Issuer)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.RawQuery != "" || u.ForceQuery || strings.Contains(o.Issuer, "#"):
		report("issuer", "issuer must be an http or https URL without a query", "write https://HOST/PATH, as the issuer does")
	case u.User != nil:
		report("issuer", "issuer must not have a user or a password", "the gateway is known by client_id and client_secret")
	case o.CA != nil && u.Scheme != "https":
		report("ca", "ca is for an issuer of https", "remove it")
	case o.CA != nil:
		if _, fault := pemfile.Authorities(o.CA.Data); fault != nil {
			report("ca", "ca: "+fault.Message, fault.Hint)
		}
		s.Provider.CA = string(o.CA.Data)
	}
}

// isScope tells whether a text is a scope-token (RFC 6749 3.3).
func isScope(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' })
}

func validatePaths(o *Options, report model.Report) {
	for _, p := range []struct {
		key, path string
		optional  bool
	}{{"redirect_path", o.RedirectPath, false}, {"logout_path", o.LogoutPath, true}, {"post_logout_path", o.PostLogoutPath, false}} {
		if p.path == "" && p.optional {
			continue
		}
		form, violation := canonical.Path(p.path, canonical.Options{})
		switch {
		case !strings.HasPrefix(p.path, "/") || violation != nil || strings.ContainsAny(p.path, "?#"):
			report(p.key, fmt.Sprintf("%s must be a path such as /oauth2/callback, not %q", p.key, p.path), "")
		case form != p.path:
			report(p.key, fmt.Sprintf("%s is not as the paths of requests are: it would never match", p.key), fmt.Sprintf("write %s", form))
		}
	}
	if o.LogoutPath == o.RedirectPath {
		report("logout_path", "logout_path is the same as redirect_path", "write another one")
	}
	if o.PostLogoutPath == o.RedirectPath || o.PostLogoutPath == o.LogoutPath {
		report("post_logout_path", "post_logout_path is where people log in or out", "write another one")
	}
}

// isCookieName tells whether a cookie can be called so. Names have no dots: what stands
// behind one tells the parts of a session, so that another session's name could be a part's.
func isCookieName(name string) bool {
	return name != "" && len(name) <= longestName && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

func validateSession(o *Options, s *settings, report model.Report) {
	switch {
	case !isCookieName(s.Cookie):
		report("session.cookie", fmt.Sprintf("session.cookie must be a name of at most %d letters, digits, - and _, not %q", longestName, s.Cookie), "")
	case strings.HasPrefix(s.Cookie, "__"):
		report("session.cookie", "session.cookie must not begin with __", "__Host- is put before it where it can be")
	}
	if s.TTL < leastTTL || s.TTL > mostTTL {
		report("session.ttl", fmt.Sprintf("session.ttl must be from %v to %v", config.Duration(leastTTL), config.Duration(mostTTL)), "")
	}
	for i, secret := range o.Session.Secret {
		path := "session.secret"
		if len(o.Session.Secret) > 1 {
			path = fmt.Sprintf("session.secret[%d]", i)
		}
		if len(secret) < leastSecret {
			report(path, fmt.Sprintf("session.secret has fewer than %d bytes", leastSecret), "openssl rand -base64 32 prints one")
		}
	}
	for _, secret := range o.Session.Secret {
		s.secrets = append(s.secrets, string(secret))
	}
	if len(s.secrets) == 0 {
		if o.ClientSecret == "" {
			report("session", "without client_secret, session needs a secret", "openssl rand -base64 32 prints one")
		}
		s.secrets = []string{s.clientSecret}
	}
}
