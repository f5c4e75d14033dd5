package token

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/emmansun/gmsm/smx509"
)

const claims = `{"iss":"joe","exp":1700000300}`

// signer is what signs with an algorithm, and what checks that.
func signer(t testing.TB, algorithm string) (private, public any) {
	t.Helper()
	k := keys()
	switch {
	case strings.HasPrefix(algorithm, "HS"):
		return k.secret, k.secret
	case strings.HasPrefix(algorithm, "RS"), strings.HasPrefix(algorithm, "PS"):
		return k.rsa, &k.rsa.PublicKey
	case strings.HasPrefix(algorithm, "ES"):
		return k.ec[algorithm], &k.ec[algorithm].PublicKey
	case algorithm == EdDSA, algorithm == Ed25519:
		return k.ed25519, k.ed25519.Public()
	}
	return k.sm2, &k.sm2.PublicKey
}

// TestAlgorithms holds every algorithm to every kind of key: a token passes where its
// algorithm is allowed and the key is the one it was signed with, and nowhere else.
func TestAlgorithms(t *testing.T) {
	for _, signed := range Algorithms() {
		private, _ := signer(t, signed)
		text := sign(t, signed, private, `{"alg":"`+signed+`"}`, claims)
		for _, other := range Algorithms() {
			_, public := signer(t, other)
			err := verifier(nil, key(t, "", "", public)).check(text)
			a, _ := algorithmNamed(signed)
			b, _ := algorithmNamed(other)
			if want := a.family == b.family; (err == nil) != want {
				t.Errorf("%s by the key of %s: %v", signed, other, err)
			}
			_, own := signer(t, signed)
			err = verifier([]string{other}, key(t, "", "", own)).check(text)
			if want := signed == other || other == SM2 && signed == sm2Too || other == EdDSA && signed == Ed25519; (err == nil) != want || !want && !errors.Is(err, ErrAlgorithm) {
				t.Errorf("%s where %s is allowed: %v", signed, other, err)
			}
		}
	}
}

// TestConfusion has secrets made of what is public.
func TestConfusion(t *testing.T) {
	k := keys()
	der, err := x509.MarshalPKIXPublicKey(&k.rsa.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	set, err := PublicKeys(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string][]byte{"PEM": text, "PEM without its end": text[:len(text)-1], "DER": der, "the modulus": k.rsa.N.Bytes()} {
		for _, algorithm := range []string{"HS256", "HS384", "HS512"} {
			forged := sign(t, algorithm, secret, `{"alg":"`+algorithm+`"}`, claims)
			for _, allowed := range [][]string{nil, {"RS256"}, {"RS256", algorithm}} {
				v := verifier(allowed)
				v.Issuers[0].Keys = func() *Set { return set }
				if err := v.check(forged); err == nil {
					t.Errorf("%s by %s as the secret passes where %v is allowed", algorithm, name, allowed)
				}
			}
		}
	}
}

func TestKeyIDs(t *testing.T) {
	k := keys()
	one, two := key(t, "one", "", &k.rsa.PublicKey), key(t, "two", "RS256", &k.other.PublicKey)
	bare := key(t, "", "", &k.other.PublicKey)
	rs := func(header string, by *rsa.PrivateKey) string {
		return sign(t, "RS256", by, `{"alg":"RS256"`+header+`}`, claims)
	}
	for _, test := range []struct {
		name, text string
		keys       []*Key
		want       error
	}{
		{"the key that it names", rs(`,"kid":"one"`, k.rsa), []*Key{one, two}, nil},
		{"none named", rs(``, k.other), []*Key{one, two}, nil},
		{"an empty name", rs(`,"kid":""`, k.other), []*Key{one, two}, ErrUnknownKey},
		{"another key under a known name", rs(`,"kid":"one"`, k.other), []*Key{one, two}, ErrSignature},
		{"an unknown name", rs(`,"kid":"three"`, k.rsa), []*Key{one, two}, ErrUnknownKey},
		{"the name in another case", rs(`,"kid":"ONE"`, k.rsa), []*Key{one, two}, ErrUnknownKey},
		{"a name, and a key without one", rs(`,"kid":"three"`, k.other), []*Key{one, bare}, nil},
		{"a known name, and a key without one", rs(`,"kid":"one"`, k.other), []*Key{one, bare}, ErrSignature},
		{"none named, no key", rs(``, k.rsa), []*Key{two}, ErrUnknownKey},
		{"no keys", rs(``, k.rsa), nil, ErrUnknownKey},
		{"a key for another algorithm", sign(t, "PS256", k.other, `{"alg":"PS256","kid":"two"}`, claims), []*Key{one, two}, ErrSignature},
		{"a key for its algorithm", rs(`,"kid":"two"`, k.other), []*Key{one, two}, nil},
	} {
		if err := verifier(nil, test.keys...).check(test.text); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", test.name, err, test.want)
		}
	}
}

// TestTriedKeys bounds what a token costs that names no key.
func TestTriedKeys(t *testing.T) {
	var many []*Key
	for i := range 20 {
		many = append(many, key(t, fmt.Sprint(i), "", []byte(strings.Repeat("x", 40+i))))
	}
	set := NewSet(many...)
	a, _ := algorithmNamed("HS256")
	if candidates, exact := set.candidates(&header{}, a); len(candidates) != mostTried || exact {
		t.Errorf("%d keys would be tried", len(candidates))
	}
}

func TestSeveralIssuers(t *testing.T) {
	k := keys()
	first, second := NewSet(key(t, "", "", &k.rsa.PublicKey)), NewSet(key(t, "", "", &k.other.PublicKey))
	v := &Verifier{MaxBytes: 4 << 10, Issuers: []Issuer{
		{Name: "one", Audiences: []string{"a"}, Keys: func() *Set { return first }},
		{Name: "two", Audiences: []string{"b"}, Algorithms: []string{"PS256"}, Keys: func() *Set { return second }},
		{Name: "three", Keys: func() *Set { return nil }},
	}}
	for _, test := range []struct {
		algorithm string
		by        *rsa.PrivateKey
		claims    string
		issuer    int
		want      error
	}{
		{"RS256", k.rsa, `{"iss":"one","aud":"a","exp":1700000300}`, 0, nil},
		{"PS256", k.other, `{"iss":"two","aud":"b","exp":1700000300}`, 1, nil},
		{"PS256", k.other, `{"iss":"one","aud":"a","exp":1700000300}`, 0, ErrUnknownKey},
		{"PS256", k.rsa, `{"iss":"two","aud":"b","exp":1700000300}`, 1, ErrUnknownKey},
		{"RS256", k.other, `{"iss":"two","aud":"b","exp":1700000300}`, 1, ErrAlgorithm},
		{"PS256", k.other, `{"iss":"two","aud":"a","exp":1700000300}`, 1, ErrAudience},
		{"RS256", k.rsa, `{"iss":"One","aud":"a","exp":1700000300}`, 0, ErrIssuer},
		{"RS256", k.rsa, `{"iss":["one"],"aud":"a","exp":1700000300}`, 0, ErrIssuer},
		{"RS256", k.rsa, `{"aud":"a","exp":1700000300}`, 0, ErrIssuer},
		{"RS256", k.rsa, `{"iss":"three","exp":1700000300}`, 2, ErrNoKeys},
	} {
		_, issuer, _, err := v.Verify(sign(t, test.algorithm, test.by, `{"alg":"`+test.algorithm+`"}`, test.claims), now)
		if !errors.Is(err, test.want) || issuer != test.issuer {
			t.Errorf("%s %s: issuer %d, %v, want %v", test.algorithm, test.claims, issuer, err, test.want)
		}
	}
}

func TestStill(t *testing.T) {
	k := keys()
	set := NewSet(key(t, "one", "", k.secret))
	v := verifier(nil)
	v.Issuers[0].Keys = func() *Set { return set }
	verified, _, _, err := v.Verify(sign(t, "HS256", k.secret, `{"alg":"HS256","kid":"one"}`, `{"iss":"joe","exp":1700000300,"nbf":1700000000}`), now)
	if err != nil {
		t.Fatal(err)
	}
	for after, want := range map[time.Duration]error{
		0: nil, 329 * time.Second: nil, 330 * time.Second: ErrExpired, 300 * time.Hour: ErrExpired, -30 * time.Second: nil, -31 * time.Second: ErrEarly,
	} {
		if err := v.Still(verified, now.Add(after)); !errors.Is(err, want) {
			t.Errorf("after %v: %v, want %v", after, err, want)
		}
	}
	for name, test := range map[string]struct {
		set  *Set
		want error
	}{
		"the same key in another set": {NewSet(key(t, "two", "", k.secret), key(t, "one", "", k.secret)), nil},
		"another key":                 {NewSet(key(t, "one", "", append([]byte("x"), k.secret...))), ErrUntrusted},
		"the key under another name":  {NewSet(key(t, "two", "", k.secret)), ErrUntrusted},
		"no key":                      {NewSet(), ErrUntrusted},
		"nobody knows":                {nil, ErrUntrusted},
	} {
		set = test.set
		if err := v.Still(verified, now); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

func TestPublicKeys(t *testing.T) {
	k := keys()
	block := func(kind string, der []byte, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	pkix := func(public any) string {
		der, err := smx509.MarshalPKIXPublicKey(public)
		return block("PUBLIC KEY", der, err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1)} // of a time long gone, by nobody, for nothing
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &k.rsa.PublicKey, k.rsa)
	for name, text := range map[string]string{
		"RS384": block("CERTIFICATE", certificate, err),
		"RS256": pkix(&k.rsa.PublicKey), "PS512": block("RSA PUBLIC KEY", x509.MarshalPKCS1PublicKey(&k.rsa.PublicKey), nil),
		"ES384": pkix(&k.ec["ES384"].PublicKey), "EdDSA": pkix(k.ed25519.Public()), "SM2": pkix(&k.sm2.PublicKey),
		"ES256": "\ufeff" + pkix(k.ed25519.Public()) + "a comment\n" + pkix(&k.ec["ES256"].PublicKey),
	} {
		set, err := PublicKeys(text)
		if err != nil {
			t.Fatal(name, err)
		}
		v := verifier([]string{name})
		v.Issuers[0].Keys = func() *Set { return set }
		private, _ := signer(t, name)
		if err := v.check(sign(t, name, private, `{"alg":"`+name+`","kid":"whatever"}`, claims)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if unfit := set.Unfit([]string{name, "HS256"}); unfit != "HS256" {
			t.Errorf("%s: no key fits %q", name, unfit)
		}
	}
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(k.rsa)
	for want, text := range map[string]string{
		`is no PEM, which begins with "-----BEGIN PUBLIC KEY-----"`:             "MIIB",
		"has a PEM block that is broken or has no end":                          "-----BEGIN PUBLIC KEY-----\nMIIB\n",
		"has a key that cannot be read: ":                                       block("PUBLIC KEY", []byte("x"), nil),
		"has a key that cannot be read: malformed certificate":                  block("CERTIFICATE", []byte("x"), nil),
		"has 201 keys, and 200 are the most":                                    strings.Repeat(pkix(k.ed25519.Public()), mostKeys+1),
		"has a private key, and the public one is enough: openssl pkey -pubout": block("PRIVATE KEY", private, err),
		`has a "PARAMETERS" where a public key is expected`:                     block("PARAMETERS", []byte("x"), nil),
		"has a key that is RSA of fewer than 2048 or more than 8192 bits":       pkix(&short.PublicKey),
	} {
		if _, err := PublicKeys(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestEqual: sets are equal that have the same keys, in whatever order.
func TestEqual(t *testing.T) {
	key := func(id string) *Key {
		k, err := newKey(id, "", []byte(strings.Repeat("k", 32)))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	a, b, c := key("a"), key("b"), key("c")
	set := NewSet(a, b)
	for _, test := range []struct {
		other *Set
		want  bool
	}{{NewSet(b, a), true}, {NewSet(a, c), false}, {NewSet(a), false}, {NewSet(a, b, c), false}, {nil, false}} {
		if got := set.Equal(test.other); got != test.want {
			t.Errorf("%+v: %v", test.other, got)
		}
	}
}

func TestDocument(t *testing.T) {
	k := keys()
	n := base64.RawURLEncoding.EncodeToString(k.rsa.N.Bytes())
	rsaKey := func(more string) string { return `{"kty":"RSA","e":"AQAB","n":"` + n + `"` + more + `}` }
	read := func(keys ...string) *Document {
		t.Helper()
		document, err := ReadDocument([]byte(`{"other":1,"keys":[`+strings.Join(keys, ",")+`]}`), false)
		if err != nil {
			t.Fatal(err)
		}
		return document
	}
	for _, good := range []string{"", `,"kid":"a"`, `,"alg":"RS256"`, `,"use":"sig"`, `,"key_ops":["verify"]`, `,"key_ops":["sign","verify"]`, `,"x5t":"","more":[1]`, `,"x5t":"AAAA","x5t#S256":"!"`, `,"x5c":["MIIB"]`, `,"x5c":7,"x5u":"::"`} {
		if d := read(rsaKey(good)); d.Set.Len() != 1 || d.Unused != nil {
			t.Errorf("%s: %v", good, d.Unused)
		}
	}
	for key, want := range map[string]string{
		rsaKey(`,"use":"enc"`):                "is not for signatures, by its use",
		rsaKey(`,"use":""`):                   "is not for signatures, by its use",
		rsaKey(`,"key_ops":[]`):               "is not for the verification of signatures, by its key_ops",
		rsaKey(`,"key_ops":["encrypt"]`):      "is not for the verification of signatures, by its key_ops",
		rsaKey(`,"alg":"RSA-OAEP"`):           "is for an algorithm that is not supported",
		rsaKey(`,"alg":"none"`):               "is for an algorithm that is not supported",
		rsaKey(`,"alg":"ES256"`):              "is not of the kind that its alg needs",
		rsaKey(`,"alg":"HS256"`):              "is not of the kind that its alg needs",
		rsaKey(`,"d":"AQAB"`):                 "has its private part in it, which must not be published",
		rsaKey(`,"kid":7`):                    "is no JWK",
		rsaKey(`,"more":1,"more":2`):          "is no JWK",
		`7`:                                   "is no JWK",
		`{"kty":"RSA","e":"AQAB","n":"AQAB"}`: "is RSA of fewer than 2048 or more than 8192 bits",
		`{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}`:                   "is a secret, which must not be published",
		`{"kty":"oct","KTY":"RSA","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow"}`:       "is a secret, which must not be published",
		`{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}`:                                                                             "cannot be used: ",
		`{"kty":"EC","crv":"secp256k1","x":"AAAA","y":"AAAA"}`:                                                                         "cannot be used: ",
		`{"kty":"EC","crv":"SM2","x":"AAAA","y":"AAAA"}`:                                                                               "has no x and y of 32 bytes in base64url",
		`{"kty":"EC","crv":"SM2","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}`: "is no point on its curve",
		`{"kty":"OKP","crv":"X25519","x":"AAAA"}`:                                                                                      "cannot be used: ",
		`{}`: "cannot be used: ",
	} {
		d := read(rsaKey(""), key)
		if len(d.Unused) != 1 || !strings.HasPrefix(d.Unused[0], "keys[1] "+want) || d.Set.Len() != 1 {
			t.Errorf("%s: %q, want %s", key, d.Unused, want)
		}
	}
	many, err := json.Marshal(map[string]any{"keys": make([]int, mostKeys+1)})
	for text, want := range map[string]string{
		"": errDocument.Error(), "[]": errDocument.Error(), "{}": errDocument.Error(), `{"keys":7}`: errDocument.Error(), `{"keys":null}`: errDocument.Error(),
		string(many): "has 201 keys, and 200 are the most",
	} {
		if _, got := ReadDocument([]byte(text), true); err != nil || got == nil || got.Error() != want {
			t.Errorf("%.40s: %v, want %s", text, got, want)
		}
	}
	if document, err := ReadDocument([]byte("\ufeff"+`{"keys":[`+rsaKey("")+`]}`), false); err != nil || document.Set.Len() != 1 {
		t.Errorf("behind a byte order mark: %+v, %v", document, err)
	}
	if a, b := read(rsaKey(""), rsaKey(`,"kid":"a"`)), read(rsaKey(`,"kid":"a"`), rsaKey("")); !a.Set.Equal(b.Set) || a.Set.Equal(read(rsaKey("")).Set) || a.Set.Equal(nil) {
		t.Error("sets are equal that are not, or the other way round")
	}
}

func TestSecret(t *testing.T) {
	for length, unfit := range map[int]string{31: "refused", 32: "HS384", 48: "HS512", 64: ""} {
		set, err := Secret(strings.Repeat("x", length))
		if err != nil {
			if unfit != "refused" {
				t.Error(length, err)
			}
			continue
		}
		if got := set.Unfit([]string{"HS256", "HS384", "HS512"}); got != unfit {
			t.Errorf("%d bytes do not fit %q, want %q", length, got, unfit)
		}
	}
}

// TestSecretThatIsPEM refuses what others may know, in whichever form it comes.
func TestSecretThatIsPEM(t *testing.T) {
	text := "# ours\r\n-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----\n"
	if _, err := Secret(text); !errors.Is(err, ErrPEM) {
		t.Errorf("a secret: %v", err)
	}
	set := `{"keys":[{"kty":"oct","k":"` + base64.RawURLEncoding.EncodeToString([]byte(text)) + `"}]}`
	document, err := ReadDocument([]byte(set), true)
	if err != nil || document.Set.Len() > 0 || len(document.Unused) != 1 || !strings.Contains(document.Unused[0], "is PEM") {
		t.Errorf("a JWK: %+v, %v", document, err)
	}
}
