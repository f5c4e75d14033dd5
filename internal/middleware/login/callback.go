package login

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// longestCode bounds what the issuer may hand over by way of the browser.
const longestCode = 4 << 10

var (
	errAttempt  = errors.New("the client has begun no log-in that has this state, or too long ago")
	errAnswer   = errors.New("the answer of the issuer is malformed")
	errDenied   = errors.New("the issuer refuses the log-in")
	errOther    = errors.New("the answer is of another issuer (iss)")
	errRedirect = errors.New("the log-in was begun at another host")
)

// answer is what the issuer tells by way of the browser (RFC 6749 4.1.2).
type answer struct{ code, state, failure, issuer string }

// readAnswer reads it from a query. A name that is there twice makes it malformed.
func readAnswer(query string) (*answer, error) {
	a := &answer{}
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(strings.TrimPrefix(query, "?"), "&") {
		key, value, _ := strings.Cut(pair, "=")
		name := message.DecodeParameter(key)
		into := map[string]*string{"code": &a.code, "state": &a.state, "error": &a.failure, "iss": &a.issuer}[name]
		if into == nil {
			continue
		}
		if seen[name] || len(value) > longestCode {
			return nil, errAnswer
		}
		seen[name] = true
		*into = message.DecodeParameter(value)
	}
	if a.state == "" || (a.code == "") == (a.failure == "") {
		return nil, errAnswer
	}
	return a, nil
}

// callback ends a log-in: the issuer has sent the browser back.
func (g *gate) callback(x *pipeline.Exchange, jar *jar) error {
	if x.Request.Method != "GET" {
		return notAllowed("GET")
	}
	got, err := readAnswer(x.Request.Query)
	if err != nil {
		return unauthenticated(err, nil)
	}
	id := attemptID(got.state)
	if !slices.ContainsFunc(jar.attempts, func(c attemptCookie) bool { return c.name == id }) {
		return unauthenticated(errAttempt, nil)
	}
	over := setCookies{jar.cookie(jar.name+attemptInfix+id, "", 0)} // whatever comes of it
	a := g.attemptOf(jar, id)
	switch {
	case a == nil || subtle.ConstantTimeCompare([]byte(a.State), []byte(got.state)) != 1:
		return unauthenticated(errAttempt, over)
	case a.Redirect != jar.origin+g.RedirectPath:
		return unauthenticated(errRedirect, over)
	}
	m, err := g.current(x)
	if err != nil {
		return err // the attempt is still good, and so is the code
	}
	switch {
	case got.issuer != "" && got.issuer != m.Issuer, got.issuer == "" && m.TellsIssuer:
		return unauthenticated(errOther, over)
	case got.failure != "":
		return refused(got.failure, over)
	}
	text, s, err := g.logIn(x, m, got.code, a)
	switch {
	case err == nil:
		redirect(x, 302, a.Return, append(over, jar.sessionCookies(text, g.left(s))...))
	case x.Context().Err() != nil:
		return context.Cause(x.Context())
	case ended(err) == nil:
		if times := g.sessions.loginless.due(g.now()); times > 0 {
			g.log.Warn("people cannot log in for now", "issuer", g.Provider.Issuer, "error", err, "times", times)
		}
		return uncached(unavailable(err), over)
	case errors.Is(err, errRoom):
		return uncached(pipeline.NewError(pipeline.Internal, err), over)
	default:
		return unauthenticated(err, over)
	}
	// The session of before, if there was one, is of no use any more.
	if old := jar.text(); old != "" && g.keeper.remote() {
		if err := g.endSession(x, old); err != nil {
			if times := g.sessions.stays.due(g.now()); times > 0 {
				g.log.Warn("a session that another one has replaced stays in its store until its time is over", "error", err, "times", times)
			}
		}
	}
	return nil
}

// attemptOf is the attempt with an id; nil: there is none. Without TLS others can put a
// cookie of the name before it.
func (g *gate) attemptOf(jar *jar, id string) *attempt {
	for _, c := range jar.attempts {
		if c.name != id {
			continue
		}
		if a := g.openAttempt(c); a != nil {
			return a
		}
	}
	return nil
}

// logIn gets a session for a code. It is a new one in any case: what a client had before
// is never taken up.
func (g *gate) logIn(x *pipeline.Exchange, m *metadata, code string, a *attempt) (text string, s *session, err error) {
	waitAtMost(x, flightTime, func(ctx context.Context) {
		var t *tokens
		if t, err = g.exchange(ctx, m, code, a); err != nil {
			return
		}
		now := g.now()
		s = newSession(t, now, now)
		s.Login, s.Nonce = random(), a.Nonce
		if _, err = g.userOf(s); err != nil {
			return
		}
		text, err = g.keeper.save(ctx, s, g.TTL)
	})
	return text, s, err
}

// endSession forgets a session in its store, and tells whether that worked.
func (g *gate) endSession(x *pipeline.Exchange, text string) (err error) {
	waitAtMost(x, storePatience, func(ctx context.Context) { err = g.keeper.end(ctx, text) })
	return err
}

// refused is what the issuer's error comes to (RFC 6749 4.1.2.1; OpenID Connect Core 1.0,
// 3.1.2.6). Its text comes by way of the browser, so from anybody: none of it goes on.
func refused(code string, set setCookies) error {
	cause := fmt.Errorf("%w: error %.40q", errDenied, code)
	switch code {
	case "access_denied", "unauthorized_client":
		return uncached(pipeline.NewError(pipeline.Forbidden, cause), set)
	case "server_error", "temporarily_unavailable":
		return uncached(unavailable(cause), set)
	}
	return unauthenticated(cause, set)
}

// notAllowed is 405.
func notAllowed(methods string) error {
	err := pipeline.NewError(pipeline.MethodNotAllowed, nil)
	err.Fields.Put(message.Allow, methods)
	return uncached(err, nil)
}
