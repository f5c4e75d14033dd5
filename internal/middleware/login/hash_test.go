package login

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"testing"

	"github.com/emmansun/gmsm/sm3"

	"sluice/internal/token"
)

// TestHashes: the hash is that of the algorithm, of which each has one.
func TestHashes(t *testing.T) {
	const access = "an access token"
	half := map[string]string{}
	s256, s384, s512, s3 := sha256.Sum256([]byte(access)), sha512.Sum384([]byte(access)), sha512.Sum512([]byte(access)), sm3.Sum([]byte(access))
	for sum, names := range map[string][]string{
		string(s256[:16]): {"HS256", "RS256", "PS256", "ES256"}, string(s384[:24]): {"HS384", "RS384", "PS384", "ES384"},
		string(s512[:32]): {"HS512", "RS512", "PS512", "ES512", "EdDSA", "Ed25519"}, string(s3[:16]): {"SM2", "SGD_SM3_SM2"},
	} {
		for _, name := range names {
			half[name] = sum
		}
	}
	for _, algorithm := range token.Algorithms() {
		id := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"`+algorithm+`"}`)) + ".e30.AA"
		for name, sum := range half {
			want := sum == half[algorithm]
			if got := isHashOf(base64.RawURLEncoding.EncodeToString([]byte(sum)), access, id); got != want {
				t.Errorf("the hash of %s with %s: %v", name, algorithm, got)
			}
		}
	}
}
