package login

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/emmansun/gmsm/sm3"

	"sluice/internal/token"
)

// isHashOf tells whether an at_hash is that of an access token: the left half of its hash,
// by the hash of the algorithm that the ID token is signed with (OpenID Connect Core 1.0,
// 3.1.3.6). The ID token was verified.
func isHashOf(text, access, id string) bool {
	part, _, _ := strings.Cut(id, ".")
	data, err := base64.RawURLEncoding.DecodeString(part)
	var header struct {
		Algorithm string `json:"alg"`
	}
	if err != nil || json.Unmarshal(data, &header) != nil {
		return false
	}
	var sum []byte
	switch name := header.Algorithm; {
	case strings.HasSuffix(name, "256"):
		s := sha256.Sum256([]byte(access))
		sum = s[:]
	case strings.HasSuffix(name, "384"):
		s := sha512.Sum384([]byte(access))
		sum = s[:]
	case strings.HasSuffix(name, "512"), name == token.EdDSA, name == token.Ed25519: // Ed25519 has SHA-512 in it
		s := sha512.Sum512([]byte(access))
		sum = s[:]
	default: // what is left is SM2
		s := sm3.Sum([]byte(access))
		sum = s[:]
	}
	want := base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])
	return subtle.ConstantTimeCompare([]byte(want), []byte(text)) == 1
}
