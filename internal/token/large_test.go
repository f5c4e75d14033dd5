package token

import (
	"errors"
	"strings"
	"testing"
)

// large are claims of more values than are read unverified, with members before them.
func large(members string) string {
	return "{" + members + `,"a":[` + strings.Repeat("1,", 2*mostUnverified) + `1]}`
}

// TestSignatureOfLargeTokens: many claims are read once it is known who has written them,
// and are then looked at as any.
func TestSignatureOfLargeTokens(t *testing.T) {
	k := keys()
	set := NewSet(key(t, "one", "", k.secret))
	v := verifier(nil)
	v.Issuers = []Issuer{{Name: "ann", Keys: func() *Set { return nil }}, {Name: "joe", Audiences: []string{"api"}, Keys: func() *Set { return set }}}
	good := `"iss":"joe","aud":"api","exp":1700000300`
	for _, test := range []struct {
		what, claims string
		forged       bool
		want         error
	}{
		{"a good one", large(good), false, nil},
		{"a forged one", large(good), true, ErrSignature},
		{"one that has expired", large(`"iss":"joe","aud":"api","exp":1600000000`), false, ErrExpired},
		{"a forged one that has expired", large(`"iss":"joe","aud":"api","exp":1600000000`), true, ErrSignature},
		{"another audience", large(`"iss":"joe","aud":"web","exp":1700000300`), false, ErrAudience},
		{"a member twice", large(good + `,"exp":1700000300`), false, ErrMalformed},
		{"iss twice", large(good + `,"iss":"joe"`), false, ErrMalformed},
		{"another issuer", large(`"iss":"ann","exp":1700000300`), false, ErrNoKeys},
		{"an unknown issuer", large(`"iss":"bob","exp":1700000300`), false, ErrIssuer},
		{"iss in other case", large(`"ISS":"joe","aud":"api","exp":1700000300`), false, ErrIssuer},
		{"no issuer", large(`"exp":1700000300`), false, ErrIssuer},
		{"iss that is null", large(`"iss":null,"exp":1700000300`), false, ErrIssuer},
		{"iss that is a list", large(`"iss":["joe"],"exp":1700000300`), false, ErrMalformed},
		{"no JSON", large(good) + strings.Repeat(",", mostUnverified), false, ErrMalformed},
		{"more behind", large(good) + "{}", true, ErrMalformed},
	} {
		by := k.secret
		if test.forged {
			by = []byte(strings.Repeat("x", 64))
		}
		err := v.check(sign(t, "HS256", by, `{"alg":"HS256","kid":"one"}`, test.claims))
		if !errors.Is(err, test.want) || err == nil && test.want != nil {
			t.Errorf("%s: %v, want %v", test.what, err, test.want)
		}
	}
	header := `{"alg":"HS256","kid":"one","a":[` + strings.Repeat("1,", mostInHeader) + `1]}`
	if err := v.check(sign(t, "HS256", k.secret, header, "{"+good+"}")); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large header: %v", err)
	}
}

// BenchmarkForged is what a token of 15 KB costs that nobody has signed.
func BenchmarkForged(b *testing.B) {
	v := verifier(nil, key(b, "one", "", &keys().rsa.PublicKey))
	for name, item := range map[string]string{"numbers": "1,", "objects": "{},"} {
		b.Run(name, func(b *testing.B) {
			claims := `{"iss":"joe","exp":1700000300,"a":[` + strings.Repeat(item, 11_000/len(item)) + `1]}`
			text := sign(b, "RS256", keys().other, `{"alg":"RS256","kid":"one"}`, claims)
			for b.Loop() {
				if err := v.check(text); !errors.Is(err, ErrSignature) {
					b.Fatal(err)
				}
			}
		})
	}
}
