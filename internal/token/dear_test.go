package token

import (
	"crypto/rand"
	"crypto/rsa"
	"testing"
)

// TestDear: what anybody can have spent depends on the keys that a token may have tried.
func TestDear(t *testing.T) {
	k := keys()
	large, err := rsa.GenerateKey(rand.Reader, 2*shortestRSA)
	if err != nil {
		t.Fatal(err)
	}
	times := func(n int, material any) (all []*Key) {
		for range n {
			all = append(all, key(t, "", "", material))
		}
		return all
	}
	for _, test := range []struct {
		what string
		keys []*Key
		want bool
	}{
		{"none", nil, false},
		{"secrets", times(200, k.secret), false},
		{"as many of RSA as are tried", times(200, &k.rsa.PublicKey), false},
		{"two that are larger", times(2, &large.PublicKey), false},
		{"many that are larger", times(mostTried, &large.PublicKey), true},
		{"three of P-256", times(3, &k.ec["ES256"].PublicKey), false},
		{"many of Ed25519", times(mostTried, k.ed25519.Public()), true},
		{"many of SM2", times(mostTried, &k.sm2.PublicKey), true},
		{"kinds that no token can have tried both", append(times(3, k.ed25519.Public()), times(3, &k.ec["ES256"].PublicKey)...), false},
		{"one of P-384", times(1, &k.ec["ES384"].PublicKey), true},
		{"one of P-521", times(1, &k.ec["ES512"].PublicKey), true},
		{"one of P-521 behind others", append(times(20, k.secret), times(1, &k.ec["ES512"].PublicKey)...), true},
	} {
		set := NewSet(test.keys...)
		v := &Verifier{Issuers: []Issuer{{Keys: func() *Set { return nil }}, {Keys: func() *Set { return set }}}}
		if got := v.Dear(); got != test.want {
			t.Errorf("%s: %v, some %v", test.what, got, set.cost)
		}
	}
}
