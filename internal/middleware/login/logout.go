package login

import (
	"context"
	"errors"
	"net/url"

	"sluice/internal/pipeline"
)

// longestHint bounds an ID token that goes into a URL.
const longestHint = 4 << 10

var errForeign = errors.New("another site asks for the log-out")

// logout ends a session, and sends the client to the issuer to end its own. It is asked for
// by a link or a form of the site itself: browsers send the session's cookies with no form
// of another one (SameSite), and tell by Sec-Fetch-Site whose link it is.
func (g *gate) logout(x *pipeline.Exchange, jar *jar) error {
	status := 302
	switch x.Request.Method {
	case "GET":
	case "POST":
		status = 303
	default:
		return notAllowed("GET, POST")
	}
	if from, _ := x.Request.Fields.Find("Sec-Fetch-Site"); from == "cross-site" {
		return uncached(pipeline.NewError(pipeline.Forbidden, errForeign), nil)
	}
	text := jar.text()
	hint, err := g.forget(x, text)
	if err != nil {
		return err
	}
	set := jar.sessionCookies("", 0)
	for _, c := range jar.attempts[:min(len(jar.attempts), mostEndedAttempts)] {
		set = append(set, jar.cookie(jar.name+attemptInfix+c.name, "", 0))
	}
	redirect(x, status, g.afterLogout(jar, hint), set)
	return nil
}

// forget ends a session, and returns its ID token, empty where there was none.
func (g *gate) forget(x *pipeline.Exchange, text string) (hint string, err error) {
	if text == "" {
		return "", nil
	}
	sealed, err := g.sealed(x, text)
	if err != nil || sealed == "" {
		return "", err
	}
	h, err := g.opened(text, sealed)
	if err == nil {
		hint = h.IDToken
		g.sessions.leave(h.Login)
	}
	if g.keeper.remote() {
		// A session that stays behind would be as good as before: the client is told.
		if err := g.endSession(x, text); err != nil {
			if x.Context().Err() != nil {
				return "", context.Cause(x.Context())
			}
			return "", unavailable(err)
		}
	}
	if h != nil && h.Refresh != "" {
		g.revokeLater(func(ctx context.Context) *session { return g.sessions.newest(ctx, h).session })
	}
	return hint, nil
}

// afterLogout is where a client goes then: to the issuer, which ends its own session and
// sends it back (OpenID Connect RP-Initiated Logout 1.0, 2), or, where the issuer has no
// such place or was not heard of yet, back at once.
func (g *gate) afterLogout(jar *jar, hint string) string {
	m := g.provider.last()
	if m == nil || m.EndSession == "" {
		return g.PostLogoutPath
	}
	to, err := url.Parse(m.EndSession)
	if err != nil {
		panic("BUG: a URL that was checked is none: " + err.Error())
	}
	query := to.Query()
	query.Set("client_id", g.ClientID)
	if hint != "" && len(hint) <= longestHint {
		query.Set("id_token_hint", hint)
	}
	if jar.origin != "" {
		query.Set("post_logout_redirect_uri", jar.origin+g.PostLogoutPath)
	}
	to.RawQuery = query.Encode()
	return to.String()
}
