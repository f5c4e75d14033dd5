package login

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"sluice/internal/middleware/auth"
)

// The bounds of what issuers give.
const (
	longestToken   = 16 << 10
	longestRefresh = 8 << 10
)

// session is what is known of somebody who has logged in. It is not changed. Times are
// seconds since 1970.
type session struct {
	IDToken string `json:"i"` // that was verified when it came
	Refresh string `json:"r,omitempty"`
	Began   int64  `json:"b"` // the log-in
	Due     int64  `json:"d"` // from then on it is refreshed
	Until   int64  `json:"u"` // what the issuer said is good until then
	// Login names the log-in that it came of, in all of its refreshes. Sessions of older
	// versions have none.
	Login string `json:"l,omitempty"`
	// Nonce is that of the log-in: ID tokens of refreshes may have it, each or some. Alike.
	Nonce string `json:"n,omitempty"`
}

// held is a session that a client has. It is not changed.
type held struct {
	*session

	user *auth.ClaimedUser
	text string // what the client has: the session, sealed, or the key to it in a store
	// sealed is the session as it is kept.
	sealed string
	mark   mark
}

// left is how long a session may go on, refreshed or not.
func (g *gate) left(s *session) time.Duration {
	return time.Unix(s.Began, 0).Add(g.TTL).Sub(g.now())
}

var errClaims = errors.New("the claims of an ID token cannot be read")

// claimsOf are the claims of a token that was verified.
func claimsOf(text string) (map[string]any, error) {
	_, rest, _ := strings.Cut(text, ".")
	payload, _, _ := strings.Cut(rest, ".")
	data, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil {
		return nil, errClaims
	}
	var claims map[string]any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&claims); err != nil || claims == nil {
		return nil, errClaims
	}
	return claims, nil
}

// userOf is who has logged in.
func (g *gate) userOf(s *session) (*auth.ClaimedUser, error) {
	claims, err := claimsOf(s.IDToken)
	if err != nil {
		return nil, err
	}
	return g.UserOf(claims)
}

func (s *session) encode() []byte {
	data, err := json.Marshal(s)
	if err != nil {
		panic("BUG: a session has no JSON: " + err.Error())
	}
	return data
}

var errSession = errors.New("a session cannot be read")

func decodeSession(data []byte) (*session, error) {
	s := &session{}
	if err := json.Unmarshal(data, s); err != nil || s.IDToken == "" || s.Until == 0 {
		return nil, errSession
	}
	return s, nil
}

const (
	// longestMargin is how long before the end of what the issuer gave a session is
	// refreshed; a fifth of its time where that is less.
	longestMargin = time.Minute
	// untold is how long an access token is good for where the issuer does not say.
	untold = 5 * time.Minute
)

// newSession is what tokens come to that were verified at a time.
func newSession(t *tokens, began, now time.Time) *session {
	s := &session{IDToken: t.id, Refresh: t.refresh, Began: began.Unix()}
	until := t.expires
	if t.refresh != "" || until.IsZero() {
		// Claims are as old as the last refresh: that comes by the earlier end of both.
		access := now.Add(untold)
		if t.lifetime > 0 {
			access = now.Add(t.lifetime)
		}
		if until.IsZero() || access.Before(until) {
			until = access
		}
	}
	margin := min(longestMargin, until.Sub(now)/5)
	s.Until = until.Unix()
	s.Due = until.Add(-margin).Unix()
	return s
}
