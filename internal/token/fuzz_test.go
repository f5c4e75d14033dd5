package token

import (
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// FuzzToken: whatever a client sends, it does not pass unless it is a token that was
// signed, in its one spelling.
func FuzzToken(f *testing.F) {
	k := keys()
	set := NewSet(key(f, "one", "", k.secret), key(f, "two", "", &k.rsa.PublicKey), key(f, "", "", &k.ec["ES256"].PublicKey), key(f, "sm", "", &k.sm2.PublicKey))
	v := &Verifier{
		Issuers:  []Issuer{{Name: "joe", Audiences: []string{"a"}, Keys: func() *Set { return set }}},
		Required: []Required{{Name: "sub", Values: []string{"u"}}},
		Find:     func(claims map[string]any, name string) (any, bool) { value, ok := claims[name]; return value, ok },
		Leeway:   time.Second, MaxBytes: 4 << 10,
	}
	signed := map[string]bool{}
	for _, by := range []struct {
		algorithm string
		key       any
		kid       string
	}{{"HS256", k.secret, `,"kid":"one"`}, {"RS256", k.rsa, `,"kid":"two"`}, {"ES256", k.ec["ES256"], ``}, {SM2, k.sm2, `,"kid":"sm"`}} {
		text := sign(f, by.algorithm, by.key, `{"alg":"`+by.algorithm+`"`+by.kid+`}`, `{"iss":"joe","aud":["a"],"sub":"u","exp":1700000300,"nbf":1.5}`)
		if err := v.check(text); err != nil {
			f.Fatal(err)
		}
		signed[text] = true
		f.Add(text)
		f.Add(strings.Replace(text, ".", "..", 1))
	}
	f.Add(none)
	f.Add(encode(`{"alg":"none"}`) + "." + encode(claims) + ".")
	f.Fuzz(func(t *testing.T, text string) {
		verified, _, _, err := v.Verify(text, now)
		if (err == nil) != (verified != nil) {
			t.Fatalf("%v with %v", verified, err)
		}
		// An ECDSA signature has a second form, n-s, which is as good (RFC 7515 leaves
		// that open), so of those what is signed is compared.
		input := text[:max(0, strings.LastIndexByte(text, '.'))]
		for known := range signed {
			if known[:strings.LastIndexByte(known, '.')] == input {
				return
			}
		}
		if err == nil {
			t.Fatalf("%q passes", text)
		}
	})
}

// FuzzSignature holds every algorithm to another implementation of it: whatever comes as a
// signature, both say the same.
func FuzzSignature(f *testing.F) {
	names := Algorithms()
	for i, name := range names {
		private, _ := signer(f, name)
		text := sign(f, name, private, `{"alg":"`+name+`"}`, claims)
		signature, err := decodePart(text[strings.LastIndexByte(text, '.')+1:])
		if err != nil {
			f.Fatal(err)
		}
		for _, raw := range [][]byte{signature, signature[1:], append(signature, 0), make([]byte, len(signature)), nil} {
			f.Add(byte(i), raw, byte(0), byte(0))
		}
		f.Add(byte(i), []byte(nil), byte(7), byte(1))
	}
	f.Fuzz(func(t *testing.T, which byte, raw []byte, place, bits byte) {
		name := names[int(which)%len(names)]
		private, public := signer(t, name)
		text := sign(t, name, private, `{"alg":"`+name+`"}`, claims)
		dot := strings.LastIndexByte(text, '.')
		signature := raw
		if len(raw) == 0 { // a good one, with some bits changed
			signature, _ = decodePart(text[dot+1:])
			signature[int(place)%len(signature)] ^= bits
		}
		a, _ := algorithmNamed(name)
		got := key(t, "", "", public).signs(a, []byte(text[:dot]), signature)
		if len(raw) == 0 && got != (bits == 0) {
			t.Errorf("%s, %x: %v", name, signature, got)
		}
		if a.family == familySM2 || name == Ed25519 { // which go-jose does not know
			return
		}
		token, err := jose.ParseSignedCompact(text[:dot]+"."+encode(string(signature)), []jose.SignatureAlgorithm{jose.SignatureAlgorithm(name)})
		if err == nil {
			_, err = token.Verify(public)
		}
		if got != (err == nil) {
			t.Errorf("%s, %x: %v, and go-jose says %v", name, signature, got, err)
		}
	})
}

// FuzzDocument: no JWK set that an issuer may serve does harm.
func FuzzDocument(f *testing.F) {
	f.Add([]byte(rfcKeys), true)
	f.Add([]byte(`{"keys":[{"kty":"RSA","e":"AQAB","n":"AQAB","x5c":["AA"]}]}`), false)
	f.Fuzz(func(t *testing.T, data []byte, secrets bool) {
		document, err := ReadDocument(data, secrets)
		if err != nil {
			return
		}
		for _, k := range document.Set.keys {
			if !k.fitsAny() || !document.Set.holds(k) || k.family == familySecret && !secrets {
				t.Errorf("a key is taken that fits nothing, or is none: %+v", k)
			}
		}
	})
}
