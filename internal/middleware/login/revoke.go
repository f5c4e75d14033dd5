package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/oauth2"
)

// longestRevoked bounds what is read of an answer to a revocation, which says nothing: it
// is read so that the connection can be used again.
const longestRevoked = 4 << 10

var (
	errErrands    = errors.New("too many tokens are being revoked")
	errRevocation = errors.New("its revocation_endpoint is not a URL that can be used")
)

// revokeLater has the issuer forget the refresh token of a session that has ended, beside
// whatever request ends it: whoever has a copy of the session can refresh it no more. That
// the issuer cannot be told is logged, and nobody's fault who logs out. which may wait.
func (g *gate) revokeLater(which func(ctx context.Context) *session) {
	m := g.provider.last()
	if m == nil || m.Revocation == "" {
		return
	}
	begun := g.sessions.aside(func() {
		ctx, cancel := context.WithTimeout(context.Background(), flightTime+askTime)
		defer cancel()
		if s := which(ctx); s.Refresh != "" {
			g.unrevoked(g.revoke(ctx, m, s.Refresh))
		}
	})
	if !begun {
		g.unrevoked(errErrands)
	}
}

// unrevoked logs an error of a revocation, if it is one.
func (g *gate) unrevoked(err error) {
	if err != nil {
		if times := g.sessions.unrevoked.due(g.now()); times > 0 {
			g.log.Warn("refresh tokens of sessions that have ended stay good at the issuer", "issuer", g.Provider.Issuer, "error", err, "times", times)
		}
	}
}

// revoke has the issuer forget a refresh token (RFC 7009 2.1).
func (g *gate) revoke(ctx context.Context, m *metadata, refresh string) error {
	if !m.usable(m.Revocation) {
		return errRevocation
	}
	form := url.Values{"token": {refresh}, "token_type_hint": {"refresh_token"}}
	methods := m.RevokeMethods
	if methods == nil {
		methods = m.AuthMethods
	}
	basic := style(methods, g.clientSecret) == oauth2.AuthStyleInHeader
	if !basic {
		form.Set("client_id", g.ClientID)
		if g.clientSecret != "" {
			form.Set("client_secret", g.clientSecret)
		}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.Revocation, strings.NewReader(form.Encode()))
	if err != nil {
		return errRevocation
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if basic {
		request.SetBasicAuth(url.QueryEscape(g.ClientID), url.QueryEscape(g.clientSecret)) // RFC 6749 2.3.1
	}
	response, err := g.provider.http.Do(request)
	if err != nil {
		var unreached *url.Error
		if errors.As(err, &unreached) {
			err = unreached.Err // without the URL
		}
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, longestRevoked))
	err = errors.Join(err, response.Body.Close())
	if response.StatusCode != http.StatusOK { // RFC 7009 2.2
		err = fmt.Errorf("the status is %d", response.StatusCode)
	}
	return err
}
