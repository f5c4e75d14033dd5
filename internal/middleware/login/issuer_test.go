package login

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// issuer is a scripted OpenID provider. What it does can be changed while it runs, with
// the lock held.
type issuer struct {
	*httptest.Server

	t   *testing.T
	now func() time.Time

	mu        sync.Mutex
	key       *ecdsa.PrivateKey
	kid       int
	codes     map[string]*grant
	refreshes map[string]*grant // by refresh tokens that are good
	spent     map[string]*grant // by those that are not any more
	noted

	life      time.Duration                  // of tokens
	metadata  map[string]any                 // beside what it tells anyway; nil removes
	claims    map[string]any                 // alike
	answer    map[string]any                 // of the token endpoint, alike
	refuse    func(http.ResponseWriter) bool // before the token endpoint; true: it has answered
	hold      func(path string)              // before anything else, without the lock
	revoking  http.HandlerFunc               // answers to a revocation, without the lock
	offline   bool                           // it gives no refresh tokens
	fixed     bool                           // refresh tokens stay the same
	meanwhile func()                         // is called while it refreshes, without the lock
	forge     func(token string) string
}

// noted is what it has seen so far.
type noted struct {
	asked     int // for tokens
	refreshed int
	last      url.Values // what the token endpoint was asked last
	user      string     // of Basic
	revoked   []url.Values
}

func (i *issuer) seen() noted {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.noted
}

// grant is what a log-in was asked for.
type grant struct{ nonce, challenge, redirect string }

func newIssuer(t *testing.T, now func() time.Time) *issuer {
	t.Helper()
	i := &issuer{t: t, now: now, codes: map[string]*grant{}, refreshes: map[string]*grant{}, spent: map[string]*grant{}, life: time.Hour}
	i.rotate()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	mux.HandleFunc("GET /keys", i.keys)
	mux.HandleFunc("POST /token", i.token)
	mux.HandleFunc("POST /revoke", i.revoke)
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		hold := i.hold
		i.mu.Unlock()
		if hold != nil {
			hold(r.URL.Path)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(i.Close)
	return i
}

// change changes what it does.
func (i *issuer) change(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
}

// rotate has it sign with another key.
func (i *issuer) rotate() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.change(func() { i.key, i.kid = key, i.kid+1 })
}

func merged(own, changes map[string]any) map[string]any {
	maps.Copy(own, changes)
	maps.DeleteFunc(own, func(_ string, value any) bool { return value == nil })
	return own
}

func reply(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client may have left
}

func (i *issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	reply(w, 200, merged(map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize?tenant=1", "token_endpoint": i.URL + "/token",
		"jwks_uri": i.URL + "/keys", "end_session_endpoint": i.URL + "/end?tenant=1", "revocation_endpoint": i.URL + "/revoke",
	}, i.metadata))
}

func (i *issuer) keys(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	reply(w, 200, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &i.key.PublicKey, KeyID: fmt.Sprint(i.kid), Algorithm: "ES256", Use: "sig"}}})
}

// authorize is what a browser does there: it returns where it is sent back to.
func (i *issuer) authorize(to string) string {
	i.t.Helper()
	u, err := url.Parse(to)
	if err != nil {
		i.t.Fatal(err)
	}
	q := u.Query()
	code := random()
	i.change(func() { i.codes[code] = &grant{q.Get("nonce"), q.Get("code_challenge"), q.Get("redirect_uri")} })
	return q.Get("redirect_uri") + "?" + url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
}

func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked++
	if err := r.ParseForm(); err != nil {
		reply(w, 400, map[string]any{"error": "invalid_request"})
		return
	}
	i.last = r.PostForm
	i.user, _, _ = r.BasicAuth()
	if i.refuse != nil && i.refuse(w) {
		return
	}
	if r.PostForm.Get("grant_type") == "refresh_token" && i.meanwhile != nil {
		i.mu.Unlock()
		i.meanwhile()
		i.mu.Lock()
	}
	g, fresh := i.granted(r.PostForm)
	if g == nil {
		reply(w, 400, map[string]any{"error": "invalid_grant", "error_description": "<script>no</script>"})
		return
	}
	access := random()
	sum := sha256.Sum256([]byte(access))
	claims := map[string]any{
		"iss": i.URL, "sub": "ann", "aud": "gateway", "iat": i.now().Unix(), "exp": i.now().Add(i.life).Unix(), "nonce": g.nonce,
		"at_hash": base64.RawURLEncoding.EncodeToString(sum[:16]), "email": "ann@example.com", "groups": []string{"staff", "ops"}, "n": i.asked,
	}
	if !fresh {
		delete(claims, "nonce")
	}
	answer := map[string]any{"access_token": access, "token_type": "Bearer", "expires_in": int(i.life / time.Second), "id_token": i.sign(merged(claims, i.claims))}
	if !i.offline {
		refresh := r.PostForm.Get("refresh_token")
		if refresh == "" || !i.fixed {
			refresh = random()
		}
		i.refreshes[refresh] = g
		answer["refresh_token"] = refresh
	}
	reply(w, 200, merged(answer, i.answer))
}

// revoke notes what it is asked, and has refresh tokens good for nothing.
func (i *issuer) revoke(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil {
		i.t.Error(err)
	}
	i.mu.Lock()
	instead := i.revoking
	i.mu.Unlock()
	if instead != nil {
		instead(w, r)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if user, _, basic := r.BasicAuth(); basic {
		r.PostForm.Set("basic", user)
	}
	i.revoked = append(i.revoked, r.PostForm)
	delete(i.refreshes, r.PostForm.Get("token"))
}

// good is how many refresh tokens are.
func (i *issuer) good() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.refreshes)
}

// granted spends what a request has to show.
func (i *issuer) granted(form url.Values) (g *grant, fresh bool) {
	if form.Get("grant_type") == "refresh_token" {
		i.refreshed++
		text := form.Get("refresh_token")
		g = i.refreshes[text]
		if g != nil && !i.fixed {
			delete(i.refreshes, text)
			i.spent[text] = g
		}
		if stolen := i.spent[text]; g == nil && stolen != nil { // somebody has it twice: all of the family end
			maps.DeleteFunc(i.refreshes, func(_ string, other *grant) bool { return other == stolen })
		}
		return g, false
	}
	code := form.Get("code")
	g = i.codes[code]
	delete(i.codes, code)
	if g == nil || g.redirect != form.Get("redirect_uri") {
		return nil, false
	}
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	if g.challenge != "" && g.challenge != base64.RawURLEncoding.EncodeToString(sum[:]) {
		return nil, false
	}
	return g, true
}

func (i *issuer) sign(claims map[string]any) string {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: fmt.Sprint(i.kid)}}, nil)
	if err != nil {
		i.t.Error(err)
		return ""
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		i.t.Error(err)
		return ""
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		i.t.Error(err)
		return ""
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		i.t.Error(err)
	}
	if i.forge != nil {
		text = i.forge(text)
	}
	return text
}
