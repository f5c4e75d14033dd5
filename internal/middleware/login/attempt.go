package login

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

const (
	attemptInfix  = ".login."
	attemptIDSize = 8
	// attemptTime is how long somebody may take to log in.
	attemptTime = 10 * time.Minute
	// longestReturn bounds where somebody is sent back to, which is in a cookie.
	longestReturn = 2 << 10
)

// attempt is a log-in that has begun. The client keeps it, encrypted, in a cookie of its
// own, so that several tabs may log in at once. It is not changed.
type attempt struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v,omitempty"` // RFC 7636
	Redirect string `json:"u"`           // the redirect_uri
	Return   string `json:"r"`           // where the client wanted to go: a path with its query
	At       int64  `json:"t"`           // seconds since 1970
}

// encode writes & as it is: as HTML wants it, it is six bytes, and a query may have so many
// that the cookie is too large for browsers.
func (a *attempt) encode() []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(a); err != nil {
		panic("BUG: an attempt has no JSON: " + err.Error())
	}
	return out.Bytes()
}

// attemptID is by what the cookie of an attempt is found again.
func attemptID(state string) string {
	sum := sha256.Sum256([]byte(state))
	return hex.EncodeToString(sum[:attemptIDSize])
}

// isAttemptID tells whether a text is what attemptID returns of any state.
func isAttemptID(text string) bool {
	return len(text) == 2*attemptIDSize && strings.Trim(text, "0123456789abcdef") == ""
}

// openAttempt reads the cookie of an attempt; nil: it is none that is still good.
func (g *gate) openAttempt(c attemptCookie) *attempt {
	if len(c.value) > 2*chunkSize {
		return nil
	}
	data, err := g.sealer.open(purposeAttempt, "", c.name, c.value)
	if err != nil {
		return nil
	}
	a := &attempt{}
	if err := json.Unmarshal(data, a); err != nil {
		return nil
	}
	if age := g.now().Sub(time.Unix(a.At, 0)); age < -time.Minute || age >= attemptTime {
		return nil
	}
	return a
}

// challenge is of the scheme that browsers log in by. There is no registered one for
// cookies; RFC 9110 11.6.1 wants some challenge.
const challenge = `Cookie realm="gateway"`

var errNobody = errors.New("there is no session that is good")

// begin is the answer to a client that is not logged in: browsers that go somewhere are
// sent to the issuer, all others are told. What is left of an earlier session is cleared.
func (g *gate) begin(x *pipeline.Exchange, jar *jar) error {
	gone := jar.sessionCookies("", 0)
	if !navigates(x.Request) || jar.origin == "" {
		return unauthenticated(errNobody, gone)
	}
	m, err := g.current(x)
	if err != nil {
		return err
	}
	a := &attempt{State: random(), Nonce: random(), Redirect: jar.origin + g.RedirectPath, Return: g.returnTo(x.Request), At: g.now().Unix()}
	options := []oauth2.AuthCodeOption{oauth2.SetAuthURLParam("nonce", a.Nonce)}
	if g.PKCE {
		a.Verifier = oauth2.GenerateVerifier()
		options = append(options, oauth2.S256ChallengeOption(a.Verifier))
	}
	id := attemptID(a.State)
	set := slices.Concat(gone, g.makeRoom(jar), setCookies{jar.cookie(jar.name+attemptInfix+id, g.sealer.seal(purposeAttempt, "", id, a.encode()), attemptTime)})
	redirect(x, 302, g.oauth2(m, a.Redirect).AuthCodeURL(a.State, options...), set)
	return nil
}

// current is what the issuer tells of itself, or 503.
func (g *gate) current(x *pipeline.Exchange) (m *metadata, err error) {
	patience := longPatience
	if g.provider.last() != nil { // else it is not known where to send anybody
		patience = shortPatience
	}
	waitAtMost(x, patience, func(ctx context.Context) { m, err = g.provider.current(ctx) })
	switch {
	case err != nil && x.Context().Err() != nil:
		return nil, context.Cause(x.Context())
	case err != nil:
		return nil, unavailable(err)
	}
	return m, nil
}

// makeRoom ends the oldest attempts where a browser has many open. Where it has far more
// than it was given here, the next answers end the rest.
func (g *gate) makeRoom(jar *jar) (set setCookies) {
	type dated struct {
		name string
		at   int64
	}
	var all []dated
	for _, c := range jar.attempts {
		d := dated{name: c.name}
		if a := g.openAttempt(c); a != nil {
			d.at = a.At
		}
		all = append(all, d)
	}
	slices.SortStableFunc(all, func(a, b dated) int { return int(a.at - b.at) })
	for i, d := range all[:min(len(all), mostEndedAttempts)] {
		// Those that are too old or no attempts at all have no time, and are the first.
		if d.at == 0 || i <= len(all)-mostAttempts {
			set = append(set, jar.cookie(jar.name+attemptInfix+d.name, "", 0))
		}
	}
	return set
}

// navigates tells whether a request is that of a browser that goes somewhere, and would
// follow a redirect for people to see: as it says itself (Fetch Metadata), or as it wants
// HTML.
func navigates(r *message.Request) bool {
	if r.Method != "GET" && r.Method != "HEAD" || r.Fields.Has(message.Upgrade) {
		return false
	}
	if mode, told := r.Fields.Find("Sec-Fetch-Mode"); told {
		return mode == "navigate"
	}
	if with, _ := r.Fields.Find("X-Requested-With"); strings.EqualFold(with, "XMLHttpRequest") {
		return false
	}
	for value := range r.Fields.Values("Accept") {
		for member := range strings.SplitSeq(value, ",") {
			kind, _, _ := strings.Cut(member, ";")
			if strings.EqualFold(strings.Trim(kind, " \t"), "text/html") {
				return true
			}
		}
	}
	return false
}

// returnTo is where a client is sent once it is logged in: where it wanted to go, which is
// on the same host in any case.
func (g *gate) returnTo(r *message.Request) string {
	if to := r.Path + r.Query; isLocal(to) && r.Path != g.RedirectPath && r.Path != g.LogoutPath {
		return to
	}
	return "/"
}

// isLocal tells whether all browsers take a reference for a path of the host that it comes
// from: // and /\ begin another host, and control characters are left out by some.
func isLocal(to string) bool {
	if len(to) > longestReturn || !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") {
		return false
	}
	return !strings.ContainsFunc(to, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' })
}

// redirect answers with another place.
func redirect(x *pipeline.Exchange, status int, to string, set setCookies) {
	x.Response = &message.Response{Status: status}
	f := &x.Response.Fields
	f.Put(message.Location, to)
	f.Put(message.CacheControl, "no-store")
	f.Add("Referrer-Policy", "no-referrer") // the place may have a code in it
	set.add(f)
}

// unauthenticated is 401 with a challenge. The cause is for the log of the process alone.
func unauthenticated(cause error, set setCookies) *pipeline.Error {
	err := pipeline.NewError(pipeline.Unauthenticated, cause)
	err.Fields.Put(message.WWWAuthenticate, challenge)
	return uncached(err, set)
}

// uncached is an error that nobody remembers, with cookies.
func uncached(err *pipeline.Error, set setCookies) *pipeline.Error {
	err.Fields.Put(message.CacheControl, "no-store")
	set.add(&err.Fields)
	return err
}
