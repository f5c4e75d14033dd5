package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"encoding/asn1"
	"encoding/base64"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emmansun/gmsm/sm2"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// now is when the tests take place.
var now = time.Unix(1_700_000_000, 0)

// keys are made once: those of RSA take a while.
var keys = sync.OnceValue(func() (k struct {
	secret  []byte
	rsa     *rsa.PrivateKey
	other   *rsa.PrivateKey
	ec      map[string]*ecdsa.PrivateKey
	ed25519 ed25519.PrivateKey
	sm2     *sm2.PrivateKey
}) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	var err error
	k.secret = []byte(strings.Repeat("0123456789abcdef", 4))
	k.rsa, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	k.other, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	k.ec = map[string]*ecdsa.PrivateKey{}
	for name, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(), "ES512": elliptic.P521()} {
		k.ec[name], err = ecdsa.GenerateKey(curve, rand.Reader)
		must(err)
	}
	_, k.ed25519, err = ed25519.GenerateKey(rand.Reader)
	must(err)
	k.sm2, err = sm2.GenerateKey(rand.Reader)
	must(err)
	return k
})

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// sign makes a token, by the standard library alone.
func sign(t testing.TB, algorithm string, key any, header, claims string) string {
	t.Helper()
	return signRaw(t, algorithm, key, encode(header)+"."+encode(claims))
}

// signRaw signs what stands before the last dot, whatever it is.
func signRaw(t testing.TB, algorithm string, key any, input string) string {
	t.Helper()
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[algorithm[max(0, len(algorithm)-3):]]
	var digest []byte
	if hash != 0 {
		h := hash.New()
		h.Write([]byte(input))
		digest = h.Sum(nil)
	}
	var signature []byte
	var err error
	switch key := key.(type) {
	case []byte:
		mac := hmac.New(hash.New, key)
		mac.Write([]byte(input))
		signature = mac.Sum(nil)
	case *rsa.PrivateKey:
		if strings.HasPrefix(algorithm, "PS") {
			signature, err = rsa.SignPSS(rand.Reader, key, hash, digest, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		} else {
			signature, err = rsa.SignPKCS1v15(rand.Reader, key, hash, digest)
		}
	case *ecdsa.PrivateKey:
		r, s, failure := ecdsa.Sign(rand.Reader, key, digest)
		size := (key.Curve.Params().BitSize + 7) / 8
		signature, err = append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...), failure
	case ed25519.PrivateKey:
		signature = ed25519.Sign(key, []byte(input))
	case *sm2.PrivateKey:
		encoded, failure := key.SignWithSM2(rand.Reader, nil, []byte(input))
		var parts struct{ R, S *big.Int }
		if _, err := asn1.Unmarshal(encoded, &parts); failure != nil || err != nil {
			t.Fatal(failure, err)
		}
		signature = append(parts.R.FillBytes(make([]byte, 32)), parts.S.FillBytes(make([]byte, 32))...)
	default:
		t.Fatalf("nobody signs with a %T", key)
	}
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + encode(string(signature))
}

// key returns a key with a kid.
func key(t testing.TB, id, only string, material any) *Key {
	t.Helper()
	k, err := newKey(id, only, material)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// verifier takes the tokens of one issuer with some keys.
func verifier(algorithms []string, keys ...*Key) *Verifier {
	set := NewSet(keys...)
	return &Verifier{
		Issuers: []Issuer{{Name: "joe", Algorithms: algorithms, Keys: func() *Set { return set }}},
		Find:    func(claims map[string]any, name string) (any, bool) { value, ok := claims[name]; return value, ok },
		Leeway:  30 * time.Second, MaxBytes: 16 << 10,
	}
}

func (v *Verifier) check(text string) error {
	_, _, _, err := v.Verify(text, now)
	return err
}
