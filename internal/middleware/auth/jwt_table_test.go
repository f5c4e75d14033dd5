package auth

import (
	"crypto/rsa"
	"strings"
	"testing"
	"time"
)

// TestTokensThatAreRefused: each is 401 with a challenge that says no more than
// invalid_token (RFC 6750 3.1), and the cause for the log has nothing of the token.
func TestTokensThatAreRefused(t *testing.T) {
	k := tokenKeys()
	now := time.Now().Unix()
	byPEM := publicPEM(&k.rsa.PublicKey)
	set := `{"keys":[` + rsaJWK("k1", k.rsa) + `]}`
	beds := map[string]*bed{
		"hs":   newBed(t, JWT(), secretly("required_claims: {sub: [u1, u2], 'realm.roles': user}")),
		"pem":  newBed(t, JWT(), issuer("public_key: "+inYAML(byPEM))),
		"jwks": newBed(t, JWT(), issuer("jwks_file: keys.json"), "keys.json", set),
		"ec":   newBed(t, JWT(), issuer("public_key: "+inYAML(publicPEM(&k.ec.PublicKey)))),
		"ed":   newBed(t, JWT(), issuer("public_key: "+inYAML(publicPEM(k.ed25519.Public())))),
		"sm":   newBed(t, JWT(), issuer("public_key: "+inYAML(publicPEM(&k.sm2.PublicKey)))),
		"two":  newBed(t, JWT(), `{issuers: [{issuer: one, public_key: `+inYAML(byPEM)+`}, {issuer: two, audiences: [b], algorithms: [HS256], secret: `+jwtSecret+`}]}`),
	}
	roles := fields{"roles": []string{"user"}}
	with := func(more fields) string { // good but for one thing
		more["realm"] = roles
		return hs(claimsOf(more))
	}
	head := func(header any) string { return signed(jwtSecret, header, claimsOf(fields{"realm": roles})) }
	raw := func(claims string) string { return hs(claims) }
	plain := claimsOf(nil)
	good := map[string]string{
		"hs": with(fields{}), "pem": rs(k.rsa, "any", plain), "jwks": rs(k.rsa, "k1", plain), "ec": signed(k.ec, fields{"alg": "ES256"}, plain),
		"ed": signed(k.ed25519, fields{"alg": "EdDSA"}, plain), "sm": signed(k.sm2, fields{"alg": "SM2"}, plain), "two": rs(k.rsa, "", claimsOf(fields{"iss": "one"})),
	}
	for name, b := range beds {
		for range 2 { // the second time by the cache
			if _, err := b.serve(request("/", bearing(good[name]))); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	parts := strings.Split(good["hs"], ".")
	none := func(alg string) string { return part(fields{"alg": alg}) + "." + parts[1] + "." }
	embedded := func(more fields) string {
		header := fields{"alg": "RS256", "kid": "k1"}
		for name, value := range more {
			header[name] = value
		}
		return signed(k.other, header, plain)
	}
	type refusal struct{ bed, name, token string }
	table := []refusal{
		{"hs", "nothing", ""}, {"hs", "no token", "abc"}, {"hs", "two parts", parts[0] + "." + parts[1]}, {"hs", "four parts", good["hs"] + ".x"},
		{"hs", "a dot behind", good["hs"] + "."}, {"hs", "no signature", parts[0] + "." + parts[1] + "."}, {"hs", "no header", "." + parts[1] + "." + parts[2]},
		{"hs", "no claims", parts[0] + ".." + parts[2]}, {"hs", "two tokens", good["hs"] + " " + good["hs"]}, {"hs", "two tokens and a comma", good["hs"] + "," + good["hs"]},
		{"hs", "quotes", `"` + good["hs"] + `"`}, {"hs", "padding", good["hs"] + "="}, {"hs", "signature cut", good["hs"][:len(good["hs"])-4]},
		{"hs", "signature of another token", parts[0] + "." + parts[1] + "." + strings.Split(with(fields{"sub": "u2"}), ".")[2]},
		{"hs", "claims changed", parts[0] + "." + part(claimsOf(fields{"sub": "root", "realm": roles})) + "." + parts[2]},
		{"hs", "header changed", part(fields{"alg": "HS256", "kid": "x"}) + "." + parts[1] + "." + parts[2]},
		{"hs", "JSON in place of a token", `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`},
		{"hs", "five parts, as JWE has", "a.b.c.d.e"}, {"hs", "huge", with(fields{"x": strings.Repeat("y", 30000)})}, {"hs", "a megabyte", strings.Repeat("a", 1<<20)},
		{"hs", "dots", strings.Repeat(".", 1000)}, {"hs", "control characters", "a\x01.b\x02.c\x03"}, {"hs", "not ASCII", "ä.ö.ü"},

		{"hs", "none", none("none")}, {"hs", "None", none("None")}, {"hs", "NONE", none("NONE")}, {"hs", "nOnE", none("nOnE")}, {"pem", "none by PEM", none("none")},
		{"hs", "none with a signature", head(fields{"alg": "none"})}, {"hs", "no alg", head(fields{"typ": "JWT"})}, {"hs", "an empty alg", head(fields{"alg": ""})},
		{"hs", "alg null", head(fields{"alg": nil})}, {"hs", "alg a list", head(fields{"alg": []string{"HS256"}})}, {"hs", "alg in lower case", head(fields{"alg": "hs256"})},
		{"hs", "alg twice", head(`{"alg":"HS256","alg":"HS256"}`)}, {"hs", "another alg by the same hash", head(fields{"alg": "HS384"})}, {"hs", "an unknown alg", head(fields{"alg": "ES256K"})},
		{"hs", "crit", head(`{"alg":"HS256","crit":["x"],"x":1}`)}, {"hs", "crit of exp", head(`{"alg":"HS256","crit":["exp"],"exp":1}`)}, {"hs", "crit empty", head(`{"alg":"HS256","crit":[]}`)},
		{"hs", "b64", head(`{"alg":"HS256","b64":false,"crit":["b64"]}`)}, {"hs", "zip", head(`{"alg":"HS256","zip":"DEF"}`)}, {"hs", "kid a number", head(`{"alg":"HS256","kid":1}`)},
		{"hs", "a header with more behind", head(`{"alg":"HS256"}{}`)}, {"hs", "a header that is a list", head(`["HS256"]`)},

		{"hs", "another secret", signed(jwtSecret+"x", fields{"alg": "HS256"}, plain)}, {"hs", "an empty secret", signed("", fields{"alg": "HS256"}, plain)},
		{"hs", "RS256 where there is a secret", rs(k.rsa, "k1", plain)},
		{"pem", "HS256 by the PEM", signed(byPEM, fields{"alg": "HS256"}, plain)}, {"pem", "HS256 by the PEM without its end", signed(strings.TrimSpace(byPEM), fields{"alg": "HS256"}, plain)},
		{"jwks", "HS256 by the PEM", signed(byPEM, fields{"alg": "HS256", "kid": "k1"}, plain)}, {"jwks", "HS256 by the set", signed(set, fields{"alg": "HS256", "kid": "k1"}, plain)},
		{"jwks", "HS256 by the modulus", signed(string(k.rsa.N.Bytes()), fields{"alg": "HS256", "kid": "k1"}, plain)}, {"ec", "HS256 by the PEM of EC", signed(publicPEM(&k.ec.PublicKey), fields{"alg": "HS256"}, plain)},
		{"ed", "HS256 by the key of Ed25519", signed(string(k.ed25519[32:]), fields{"alg": "HS256"}, plain)},
		{"pem", "another key", rs(k.other, "", plain)}, {"jwks", "another key under a known kid", rs(k.other, "k1", plain)}, {"jwks", "an unknown kid", rs(k.rsa, "k2", plain)},
		{"jwks", "an empty kid", rs(k.rsa, "", plain)}, {"jwks", "a kid in another case", rs(k.rsa, "K1", plain)}, {"jwks", "a kid with a path", rs(k.other, "../k1", plain)},
		{"ec", "RS256 where the key is EC", rs(k.rsa, "", plain)}, {"ed", "RS256 where the key is Ed25519", rs(k.rsa, "", plain)}, {"pem", "ES256 where the key is RSA", signed(k.ec, fields{"alg": "ES256"}, plain)},
		{"ec", "EdDSA where the key is EC", signed(k.ed25519, fields{"alg": "EdDSA"}, plain)}, {"ec", "SM2 where the key is P-256", signed(k.sm2, fields{"alg": "SM2"}, plain)},
		{"sm", "ES256 where the key is SM2", signed(k.ec, fields{"alg": "ES256"}, plain)}, {"sm", "SM2 called ES256", signed(k.sm2, fields{"alg": "ES256"}, plain)},
		{"ec", "an ES256 signature of zeros", part(fields{"alg": "ES256"}) + "." + part(plain) + "." + part(strings.Repeat("\x00", 64))},
		{"sm", "an SM2 signature of zeros", part(fields{"alg": "SM2"}) + "." + part(plain) + "." + part(strings.Repeat("\x00", 64))},
		{"ed", "an EdDSA signature of zeros", part(fields{"alg": "EdDSA"}) + "." + part(plain) + "." + part(strings.Repeat("\x00", 64))},
		{"pem", "an RS256 signature of zeros", part(fields{"alg": "RS256"}) + "." + part(plain) + "." + part(strings.Repeat("\x00", 256))},
		{"jwks", "PS256 where the key is for RS256", signed(k.rsa, fields{"alg": "PS256", "kid": "k1"}, plain)},
		{"jwks", "jwk", embedded(fields{"jwk": jwkOf(k.other)})}, {"jwks", "jwk without kid", signed(k.other, fields{"alg": "RS256", "jwk": jwkOf(k.other)}, plain)},
		{"jwks", "jku", embedded(fields{"jku": "http://127.0.0.1:1/x"})}, {"jwks", "x5u", embedded(fields{"x5u": "http://127.0.0.1:1/x"})}, {"jwks", "x5c", embedded(fields{"x5c": []string{"MIIB"}})},

		{"hs", "expired", with(fields{"exp": now - 100})}, {"hs", "exp 0", with(fields{"exp": 0})}, {"hs", "exp below 0", with(fields{"exp": -1})}, {"hs", "without exp", with(fields{"exp": nil})},
		{"hs", "exp a text", with(fields{"exp": "soon"})}, {"hs", "exp a number as text", with(fields{"exp": "9999999999"})}, {"hs", "exp true", with(fields{"exp": true})}, {"hs", "exp a list", with(fields{"exp": []int{1 << 40}})},
		{"hs", "exp far beyond", raw(`{"iss":"https://issuer.test","aud":"api","sub":"u1","realm":{"roles":"user"},"exp":1e300}`)}, {"hs", "exp overflowing", raw(`{"iss":"https://issuer.test","aud":"api","sub":"u1","realm":{"roles":"user"},"exp":18446744073709551616}`)},
		{"hs", "too early", with(fields{"nbf": now + 100})}, {"hs", "nbf a text", with(fields{"nbf": "now"})}, {"hs", "issued in the future", with(fields{"iat": now + 100})}, {"hs", "iat a text", with(fields{"iat": "now"})},
		{"hs", "another issuer", with(fields{"iss": "https://evil.test"})}, {"hs", "the issuer and a slash", with(fields{"iss": "https://issuer.test/"})}, {"hs", "no issuer", with(fields{"iss": nil})}, {"hs", "a list of issuers", with(fields{"iss": []string{"https://issuer.test"}})},
		{"hs", "another audience", with(fields{"aud": "other"})}, {"hs", "other audiences", with(fields{"aud": []string{"a", "b"}})}, {"hs", "no audience", with(fields{"aud": nil})}, {"hs", "an empty list of audiences", with(fields{"aud": []string{}})},
		{"hs", "the audience within a text", with(fields{"aud": "api other"})}, {"hs", "the audience in another case", with(fields{"aud": "API"})}, {"hs", "an audience that is an object", with(fields{"aud": fields{"api": 1}})}, {"hs", "audiences with a number", with(fields{"aud": []any{"api", 1}})},
		{"hs", "without a required claim", with(fields{"sub": nil})}, {"hs", "another value of it", with(fields{"sub": "u3"})}, {"hs", "a nested one missing", hs(plain)}, {"hs", "a nested one of another value", hs(claimsOf(fields{"realm": fields{"roles": []string{"admin"}}}))},
		{"hs", "a claim twice", raw(`{"iss":"https://issuer.test","aud":"api","sub":"u1","realm":{"roles":"user"},"exp":1,"exp":9999999999}`)}, {"hs", "a nested claim twice", raw(`{"iss":"https://issuer.test","aud":"api","sub":"u1","realm":{"roles":"user","roles":"user"},"exp":9999999999}`)},
		{"hs", "claims that are a list", raw(`[1,2]`)}, {"hs", "claims that are a text", raw(`"x"`)}, {"hs", "claims that are null", raw(`null`)}, {"hs", "claims with more behind", raw(`{"exp":9999999999} {}`)}, {"hs", "claims that are no UTF-8", raw("{\"sub\":\"\xff\"}")},
		{"hs", "nested without end", raw(strings.Repeat(`{"a":`, 3000))}, {"hs", "a consumer with a newline", with(fields{"sub": "u1\nu2"})}, {"hs", "a consumer that is too long", with(fields{"sub": strings.Repeat("u", 300)})},

		{"two", "of one by the secret of two", hs(claimsOf(fields{"iss": "one"}))}, {"two", "of two by the key of one", rs(k.rsa, "", claimsOf(fields{"iss": "two", "aud": "b"}))},
		{"two", "of two for another audience", hs(claimsOf(fields{"iss": "two"}))}, {"two", "of neither", hs(claimsOf(fields{"iss": "three", "aud": "b"}))},
	}
	if len(table) < 80 {
		t.Errorf("the table has %d tokens", len(table))
	}
	for _, r := range table {
		for _, second := range []string{"", ", the second time"} {
			_, err := beds[r.bed].serve(request("/", bearing(r.token)))
			beds[r.bed].refused(r.name+second, err, challengeToken)
			if err != nil && len(r.token) > 20 && strings.Contains(err.Error(), r.token[:20]) {
				t.Errorf("%s: the log has the token: %v", r.name, err)
			}
		}
	}
	t.Logf("%d tokens were refused", len(table))
}

func jwkOf(key *rsa.PrivateKey) fields {
	return fields{"kty": "RSA", "e": "AQAB", "n": part(string(key.N.Bytes()))}
}
