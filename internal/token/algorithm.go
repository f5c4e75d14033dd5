package token

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"slices"

	"github.com/emmansun/gmsm/sm2"
	"github.com/golang-jwt/jwt/v5"
)

// SM2 is the algorithm of GM/T 0003: SM2 signatures over SM3, by the identity
// 1234567812345678 (GM/T 0009), as r and s of 32 bytes each, as ES256 has them. JWA has
// no name for it; SGD_SM3_SM2, as GM/T 0006 calls it, is understood as well.
const (
	SM2    = "SM2"
	sm2Too = "SGD_SM3_SM2"
)

// EdDSA is the one that RFC 9864 calls Ed25519 here, where no keys of Ed448 are.
const (
	EdDSA   = "EdDSA"
	Ed25519 = "Ed25519"
)

// family is what algorithms need of a key.
type family int

const (
	familySecret family = iota
	familyRSA
	familyP256
	familyP384
	familyP521
	familyEd25519
	familySM2
)

// algorithm is one that tokens may be signed with.
type algorithm struct {
	name   string
	family family
	method jwt.SigningMethod // checks signatures; nil: gmsm does
	// means is the algorithm that this is a second name of; empty: it is a first one.
	means string
}

// is tells whether an algorithm is the one of a name, by whichever of its own.
func (a *algorithm) is(name string) bool { return name == a.name || name == a.means && name != "" }

// leastSecret is how long a secret must be (RFC 7518 3.2); 0: the algorithm has none.
func (a *algorithm) leastSecret() int {
	if method, ok := a.method.(*jwt.SigningMethodHMAC); ok {
		return method.Hash.Size()
	}
	return 0
}

// algorithms are all that there are. none is not among them.
var algorithms = []algorithm{
	{"HS256", familySecret, jwt.SigningMethodHS256, ""},
	{"HS384", familySecret, jwt.SigningMethodHS384, ""},
	{"HS512", familySecret, jwt.SigningMethodHS512, ""},
	{"RS256", familyRSA, jwt.SigningMethodRS256, ""},
	{"RS384", familyRSA, jwt.SigningMethodRS384, ""},
	{"RS512", familyRSA, jwt.SigningMethodRS512, ""},
	{"PS256", familyRSA, jwt.SigningMethodPS256, ""},
	{"PS384", familyRSA, jwt.SigningMethodPS384, ""},
	{"PS512", familyRSA, jwt.SigningMethodPS512, ""},
	{"ES256", familyP256, jwt.SigningMethodES256, ""},
	{"ES384", familyP384, jwt.SigningMethodES384, ""},
	{"ES512", familyP521, jwt.SigningMethodES512, ""},
	{EdDSA, familyEd25519, jwt.SigningMethodEdDSA, ""},
	{Ed25519, familyEd25519, jwt.SigningMethodEdDSA, EdDSA},
	{SM2, familySM2, nil, ""},
	{sm2Too, familySM2, nil, SM2},
}

// Algorithms are the names of all algorithms, as headers have them.
func Algorithms() []string {
	names := make([]string, len(algorithms))
	for i := range algorithms {
		names[i] = algorithms[i].name
	}
	return names
}

func algorithmNamed(name string) (algorithm, bool) {
	at := slices.IndexFunc(algorithms, func(a algorithm) bool { return a.name == name })
	if at < 0 {
		return algorithm{}, false
	}
	return algorithms[at], true
}

// shortestRSA is how many bits a key of RSA has at least (RFC 7518 3.3); longestRSA is
// more than anybody uses, and bounds what a check costs.
const (
	shortestRSA = 2048
	longestRSA  = 8192
)

var (
	errKeyKind = errors.New("is of a kind that no algorithm uses; RSA, EC on P-256, P-384 or P-521, Ed25519 and SM2 are")
	errRSA     = errors.New("is RSA of fewer than 2048 or more than 8192 bits")
	errSecret  = errors.New("is a secret of fewer than 32 bytes, which is too short for HS256")
)

// ErrPEM is a secret that is PEM. A public key in the place of a secret is known to all,
// so that anybody could sign with it.
var ErrPEM = errors.New("is PEM, which is no secret: whoever has the public key could write tokens")

// pemBegin is how PEM begins (RFC 7468 2).
const pemBegin = "-----BEGIN "

// familyOf returns what a key can be used for. Its errors say what a key "is".
func familyOf(material any) (family, error) {
	switch key := material.(type) {
	case []byte:
		switch {
		case bytes.Contains(key, []byte(pemBegin)):
			return 0, ErrPEM
		case len(key) < algorithms[0].leastSecret():
			return 0, errSecret
		}
		return familySecret, nil
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits < shortestRSA || bits > longestRSA {
			return 0, errRSA
		}
		return familyRSA, nil
	case ed25519.PublicKey:
		return familyEd25519, nil
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return familyP256, nil
		case elliptic.P384():
			return familyP384, nil
		case elliptic.P521():
			return familyP521, nil
		case sm2.P256():
			return familySM2, nil
		}
	}
	return 0, errKeyKind
}
