package login

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/oauth2"

	"sluice/internal/keyset"
	"sluice/internal/token"
)

// tokens are what the issuer has given, verified.
type tokens struct {
	id       string
	expires  time.Time // of id; zero: it is that of before
	refresh  string
	lifetime time.Duration // of the access token; 0: not told
}

// Why the issuer gives no tokens, beside errAway.
var (
	// errGrant: what the gateway has to show for them is not good, or not any more.
	errGrant = errors.New("the issuer does not take the code or the refresh token")
	// errSetUp: it does not take the gateway.
	errSetUp  = errors.New("the issuer does not take the gateway's request")
	errIDLess = errors.New("the issuer gave no ID token")
	errLarge  = errors.New("a token of the issuer is too large")
	errParty  = errors.New("the ID token is for another party (azp)")
	errSub    = errors.New("the ID token has no subject, or another one than before")
	errNonce  = errors.New("the ID token has another nonce")
	errHash   = errors.New("the ID token is not of the access token (at_hash)")
)

// oauth2 is the client as the library has it.
func (g *gate) oauth2(m *metadata, redirect string) *oauth2.Config {
	return &oauth2.Config{
		ClientID: g.ClientID, ClientSecret: g.clientSecret, RedirectURL: redirect, Scopes: g.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: m.Authorization, TokenURL: m.Token, AuthStyle: style(m.AuthMethods, g.clientSecret)},
	}
}

// exchange gets the tokens of a code (RFC 6749 4.1.3).
func (g *gate) exchange(ctx context.Context, m *metadata, code string, a *attempt) (*tokens, error) {
	var options []oauth2.AuthCodeOption
	if a.Verifier != "" {
		options = append(options, oauth2.VerifierOption(a.Verifier))
	}
	got, err := g.oauth2(m, a.Redirect).Exchange(context.WithValue(ctx, oauth2.HTTPClient, g.provider.http), code, options...)
	if err != nil {
		return nil, g.failure(ctx, err)
	}
	return g.verify(ctx, got, nil, a.Nonce)
}

// again gets new tokens for a session (RFC 6749 6).
func (g *gate) again(ctx context.Context, m *metadata, s *session) (*tokens, error) {
	before, err := claimsOf(s.IDToken)
	if err != nil {
		return nil, err
	}
	got, err := g.oauth2(m, "").TokenSource(context.WithValue(ctx, oauth2.HTTPClient, g.provider.http), &oauth2.Token{RefreshToken: s.Refresh}).Token()
	if err != nil {
		return nil, g.failure(ctx, err)
	}
	nonce := s.Nonce
	if nonce == "" { // of an older version
		nonce, _ = before["nonce"].(string)
	}
	return g.verify(ctx, got, before, nonce)
}

// failure is what an error of the library means. Nothing that the issuer has written is in
// it but the code of the error, and no URL.
func (g *gate) failure(ctx context.Context, err error) error {
	var refused *oauth2.RetrieveError
	var unreached *url.Error
	switch {
	case errors.As(err, &refused):
		status := refused.Response.StatusCode
		switch {
		case status == http.StatusTooManyRequests || status >= 500:
			return fmt.Errorf("%w: the status is %d", errAway, status)
		case refused.ErrorCode == "invalid_grant":
			return errGrant
		}
		return fmt.Errorf("%w: status %d, error %.40q", errSetUp, status, refused.ErrorCode)
	case errors.As(err, &unreached):
		if ctx.Err() == nil { // else it is the client that has left or has no more time
			g.provider.lost()
		}
		return fmt.Errorf("%w: %w", errAway, unreached.Err)
	}
	return fmt.Errorf("%w: its answer is of another form", errAway)
}

// verify holds what the issuer has given to what it should be (OpenID Connect Core 1.0,
// 3.1.3.7 and 3.1.3.8), and to the nonce of the log-in. before are the claims of the session
// that is refreshed (12.2): then an ID token may be missing, and so may its nonce. nil: it is
// a log-in.
func (g *gate) verify(ctx context.Context, got *oauth2.Token, before map[string]any, nonce string) (*tokens, error) {
	t := &tokens{refresh: got.RefreshToken}
	if seconds := got.ExpiresIn; seconds > 0 {
		t.lifetime = time.Duration(min(seconds, int64(mostTTL/time.Second))) * time.Second
	}
	id, there := got.Extra("id_token").(string)
	switch {
	case len(t.refresh) > longestRefresh || len(id) > longestToken:
		return nil, errLarge
	case (!there || id == "") && before == nil:
		return nil, errIDLess
	case !there || id == "":
		return t, nil
	}
	verified, err := g.verifyToken(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := g.checkClaims(verified.Claims, before, nonce); err != nil {
		return nil, err
	}
	if hash, there := verified.Claims["at_hash"]; there {
		if text, ok := hash.(string); !ok || !isHashOf(text, got.AccessToken, id) {
			return nil, errHash
		}
	}
	t.id, t.expires = id, verified.Expires()
	if !t.expires.After(g.now()) {
		// It was taken for the leeway: the issuer's clock is behind, and a session that has
		// ended as it begins would have the browser log in for ever.
		t.expires = t.expires.Add(g.Leeway)
	}
	return t, nil
}

// verifyToken verifies an ID token as such, with newer keys if that is what it takes.
func (g *gate) verifyToken(ctx context.Context, id string) (*token.Verified, error) {
	verified, _, set, err := g.verifier.Verify(id, g.now())
	if !errors.Is(err, token.ErrUnknownKey) && !errors.Is(err, token.ErrNoKeys) {
		return verified, err
	}
	remote := g.provider.remote.Load()
	if remote == nil {
		return nil, errAway
	}
	newer, failure := remote.Newer(ctx, set)
	switch {
	case errors.Is(failure, keyset.ErrUnavailable), errors.Is(failure, keyset.ErrCrowded):
		return nil, fmt.Errorf("%w: %w", errAway, failure)
	case failure != nil:
		return nil, failure
	case newer == set:
		return nil, err
	}
	verified, _, _, err = g.verifier.Verify(id, g.now())
	return verified, err
}

// checkClaims looks at what is particular to ID tokens.
func (g *gate) checkClaims(claims, before map[string]any, nonce string) error {
	party, there := claims["azp"]
	if list, _ := claims["aud"].([]any); (there || len(list) > 1) && party != g.ClientID {
		return errParty
	}
	subject, _ := claims["sub"].(string)
	if _, ok := claims["iat"]; !ok {
		return token.ErrTime
	}
	if subject == "" || len(subject) > 255 {
		return errSub
	}
	if before == nil {
		told, _ := claims["nonce"].(string)
		if subtle.ConstantTimeCompare([]byte(told), []byte(nonce)) != 1 {
			return errNonce
		}
		return nil
	}
	if before["sub"] != subject {
		return errSub
	}
	if told, there := claims["nonce"]; there && told != nonce {
		return errNonce
	}
	return nil
}
