package token

import "testing"

// BenchmarkFirst is the first use of a token: all of it is verified.
func BenchmarkFirst(b *testing.B) {
	for _, algorithm := range []string{"RS256", "ES256", "HS256", "EdDSA", SM2} {
		b.Run(algorithm, func(b *testing.B) {
			private, public := signer(b, algorithm)
			v := verifier(nil, key(b, "one", "", public))
			text := sign(b, algorithm, private, `{"alg":"`+algorithm+`","typ":"JWT","kid":"one"}`, `{"iss":"joe","sub":"u1","aud":"api","exp":1700000300,"iat":1700000000,"roles":["user"]}`)
			b.ReportAllocs()
			for b.Loop() {
				if _, _, _, err := v.Verify(text, now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSecond is every later use, by the cache.
func BenchmarkSecond(b *testing.B) {
	private, public := signer(b, "RS256")
	v := verifier(nil, key(b, "one", "", public))
	text := sign(b, "RS256", private, `{"alg":"RS256","typ":"JWT","kid":"one"}`, `{"iss":"joe","sub":"u1","aud":"api","exp":1700000300,"iat":1700000000,"roles":["user"]}`)
	c := NewCache[int](1000, v.Leeway)
	digest := DigestOf(text)
	verified, _, _, err := v.Verify(text, now)
	if err != nil {
		b.Fatal(err)
	}
	c.Put(&digest, verified, 0, 0, now)
	b.ReportAllocs()
	for b.Loop() {
		digest := DigestOf(text)
		verified, _, ok := c.Get(&digest, now)
		if !ok || v.Still(verified, now) != nil {
			b.Fatal("it is not remembered")
		}
	}
}
