package e2e

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// tokenIssuer signs tokens, and serves the keys that it says it does.
type tokenIssuer struct {
	*httptest.Server
	name    string
	keys    map[string]crypto.Signer
	served  atomic.Pointer[[]byte] // nil: it is down
	fetches atomic.Int64
	failed  atomic.Int64 // fetches while it was down
}

// rsaKey is made once: it takes a while.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// newTokenIssuer starts an issuer whose key rsa is served; it has more: one, two, three.
func newTokenIssuer(t *testing.T) *tokenIssuer {
	t.Helper()
	i := &tokenIssuer{name: "https://issuer.test/", keys: map[string]crypto.Signer{}}
	key, err := rsaKey()
	if err != nil {
		t.Fatal(err)
	}
	i.keys["rsa"] = key
	for _, kid := range []string{"one", "two", "three"} {
		if i.keys[kid], err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			t.Fatal(err)
		}
	}
	i.serve(t, "rsa")
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		set := i.served.Load()
		if set == nil {
			i.failed.Add(1)
			panic(http.ErrAbortHandler) // the connection is gone
		}
		w.Header().Set("Cache-Control", "max-age=1") // which is asked for once in a minute all the same
		_, _ = w.Write(*set)                         // whoever does not want it may leave
	}))
	t.Cleanup(i.Close)
	return i
}

// serve has it serve these keys from now on; without any it is down.
func (i *tokenIssuer) serve(t *testing.T, kids ...string) {
	t.Helper()
	if len(kids) == 0 {
		i.served.Store(nil)
		return
	}
	var set jose.JSONWebKeySet
	for _, kid := range kids {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: i.keys[kid].Public(), KeyID: kid, Use: "sig"})
	}
	text, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	i.served.Store(&text)
}

// token is one by a key, with claims besides those that any has.
func (i *tokenIssuer) token(kid string, more map[string]any) (string, error) {
	algorithm := jose.ES256
	if kid == "rsa" {
		algorithm = jose.RS256
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: i.keys[kid]}, (&jose.SignerOptions{}).WithHeader("kid", kid))
	if err != nil {
		return "", err
	}
	claims := map[string]any{"iss": i.name, "aud": "api", "sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(claims, more)
	text, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(text)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// bearer is the field of a token, which can be made.
func (i *tokenIssuer) bearer(t *testing.T, kid string, more map[string]any) string {
	t.Helper()
	text, err := i.token(kid, more)
	if err != nil {
		t.Fatal(err)
	}
	return "Bearer " + text
}

// options are those of a jwt that takes its tokens.
func (i *tokenIssuer) options(more string) string {
	return fmt.Sprintf("{issuers: [{issuer: %q, audiences: [api], jwks_url: %q}]%s}", i.name, i.URL+"/keys", more)
}
