package auth

import (
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"
)

func TestProblemsOfJWT(t *testing.T) {
	k := tokenKeys()
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	byPEM := "public_key: " + inYAML(publicPEM(&k.rsa.PublicKey))
	b := &bed{t: t, kind: JWT(), dir: t.TempDir()}
	b.write("empty.json", `{"keys":[]}`, "enc.json", `{"keys":[{"kty":"RSA","use":"enc"}]}`, "text", "hello", "keys.json", `{"keys":[`+rsaJWK("a", k.rsa)+`]}`)
	one := func(keys string) string { return `{issuers: [{issuer: a, ` + keys + `}]}` }
	more := func(options string) string {
		return `{issuers: [{issuer: a, secret: ` + jwtSecret + `}], ` + options + `}`
	}
	for options, want := range map[string]string{
		"{}":            "jwt needs the key issuers",
		"{issuers: []}": "issuers is empty, so that no token would be good",
		"{issuers: [{secret: " + jwtSecret + "}]}": "issuers[0] needs the key issuer",
		one("issuer: b"): "the key issuer is here twice",
		"{issuers: [{issuer: '', " + byPEM + "}]}":                              "issuer is empty",
		"{issuers: [{issuer: a}]}":                                              "the issuer has no keys (write jwks_url, jwks_file, public_key or secret)",
		one(byPEM + ", secret: x"):                                              "the issuer has both public_key and secret",
		one("secret: short"):                                                    "secret is a secret of fewer than 32 bytes, which is too short for HS256",
		one("secret: " + inYAML(publicPEM(&k.rsa.PublicKey))):                   "secret is PEM, which is no secret: whoever has the public key could write tokens (write a public key as public_key)",
		one("algorithms: [HS512], secret: " + jwtSecret):                        "secret has no key that HS512 fits (it needs a secret that is as long as its hash",
		one("algorithms: [RS256], secret: " + jwtSecret):                        "secret has no key that RS256 fits",
		one("algorithms: [HS256], " + byPEM):                                    "public_key has no key that HS256 fits",
		one("algorithms: [ES256], " + byPEM):                                    "public_key has no key that ES256 fits",
		one("algorithms: [none], " + byPEM):                                     "none is no algorithm: anybody could write such tokens",
		one("algorithms: [None], " + byPEM):                                     "none is no algorithm",
		one("algorithms: [RS255], " + byPEM):                                    `there is no algorithm "RS255" (there are HS256, `,
		one("algorithms: [], " + byPEM):                                         "algorithms is empty",
		one("audiences: [], " + byPEM):                                          "audiences is empty",
		one("audiences: [''], " + byPEM):                                        "an audience is empty",
		one("public_key: k1.pem"):                                               "public_key is no PEM",
		one("public_key: " + inYAML(publicPEM(&short.PublicKey))):               "public_key has a key that is RSA of fewer than 2048",
		one("public_key: " + inYAML(pkcs8(t, k.rsa))):                           "public_key has a private key",
		one("jwks_file: nowhere.json"):                                          "jwks_file cannot be read: the file does not exist",
		one("jwks_file: text"):                                                  "jwks_file is no JWK set",
		one("jwks_file: empty.json"):                                            "jwks_file has no key that can be used: the list is empty",
		one("jwks_file: enc.json"):                                              "jwks_file has no key that can be used: keys[0] is not for signatures, by its use",
		one("jwks_url: issuer.test/keys"):                                       "jwks_url must be an http or https URL",
		one("jwks_url: 'ftp://issuer.test/keys'"):                               "jwks_url must be an http or https URL",
		one("jwks_url: 'https:///keys'"):                                        "jwks_url must be an http or https URL",
		one("jwks_url: 'https://a:b@issuer.test/keys'"):                         "jwks_url must not have a user or a password",
		one("jwks_url: 'https://issuer.test/keys', algorithms: [RS256, HS256]"): "HS256 needs a secret, and a jwks_url has public keys",
		one("jwks_url: 'http://issuer.test/keys', ca: text"):                    "ca is for a jwks_url of https",
		one("jwks_url: 'https://issuer.test/keys', ca: text"):                   "ca: the file has no certificate",
		one(byPEM + ", ca: text"):                                               "ca is for a jwks_url of https",
		`{issuers: [{issuer: a, secret: ` + jwtSecret + `}, {issuer: a, secret: ` + jwtSecret + `}]}`: `the issuer "a" is here twice`,
		more("leeway: 2h"):                                 "leeway must be at most 1h",
		more("max_bytes: 0"):                               "max_bytes must be from 1 to 1MiB",
		more("max_bytes: 2MiB"):                            "max_bytes must be from 1 to 1MiB",
		more("max_cached: -1"):                             "max_cached must not be negative",
		more("consumer_claim: ''"):                         "consumer_claim is empty",
		more("from: []"):                                   "from is empty, so that no request would have a token",
		more("from: {}"):                                   "from must name one place",
		more("from: {header: A, cookie: b}"):               "from must name one place",
		more("from: [{header: A}, {header: a}]"):           "the same place is here twice",
		more("from: [{header: A}, {query: b, scheme: X}]"): "scheme is for header fields",
		more("claims_to_headers: {'X A': sub}"):            `the field name "X A" is not valid`,
		more("claims_to_headers: {Content-Length: sub}"):   "the field Content-Length belongs to the connection",
		more("claims_to_headers: {Host: sub}"):             "the field Host belongs to the connection",
		more("claims_to_headers: {X-Forwarded-For: sub}"):  "the field X-Forwarded-For is set by the gateway",
		more("claims_to_headers: {X-Request-ID: sub}"):     "the field X-Request-ID is set by the gateway",
		more("claims_to_headers: {x_forwarded_for: sub}"):  "the field x_forwarded_for is set by the gateway",
		more("claims_to_headers: {Content_Length: sub}"):   "the field Content_Length belongs to the connection",
		more("claims_to_headers: {X-A: ''}"):               "the field X-A tells no claim",
		more("claims_to_headers: {X-A: sub, x_a: sub}"):    "the field x_a is here twice",
		more("required_claims: [a, a]"):                    "the claim a is here twice",
		more("required_claims: {a: []}"):                   "a has no value that would do",
		more("required_claims: {a: [b, '']}"):              "is empty",
	} {
		_, problems := b.resolve(options)
		if len(problems) != 1 || !strings.Contains(problems[0], want) {
			t.Errorf("%s:\n got %q\nwant %s", options, problems, want)
		}
		for _, problem := range problems {
			if strings.Contains(problem, jwtSecret) {
				t.Errorf("%s: the secret is told: %s", options, problem)
			}
		}
	}
}
