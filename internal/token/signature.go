package token

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rsa"
	_ "crypto/sha256" // as crypto.SHA256
	_ "crypto/sha512" // as crypto.SHA384 and SHA512
	"encoding/asn1"
	"math/big"
	"strings"

	"github.com/emmansun/gmsm/sm2"
)

// signs tells whether a signature of an algorithm that fits the key is the key's over an
// input: the header and the claims as they came (RFC 7515 5.2). That is all that a library
// for JWS would be asked, and one reads the header, too: it refuses tokens for what they say
// of keys.
func (k *Key) signs(a algorithm, input, signature []byte) bool {
	switch key := k.material.(type) {
	case []byte: // RFC 7518 3.2
		mac := hmac.New(a.hash.New, key)
		mac.Write(input)
		return hmac.Equal(mac.Sum(nil), signature)
	case *rsa.PublicKey:
		if strings.HasPrefix(a.name, "PS") { // 3.5
			return rsa.VerifyPSS(key, a.hash, hashOf(a.hash, input), signature, nil) == nil
		}
		return rsa.VerifyPKCS1v15(key, a.hash, hashOf(a.hash, input), signature) == nil // 3.3
	case *ecdsa.PublicKey: // 3.4
		encoded, ok := pairOf(signature, (key.Curve.Params().BitSize+7)/8)
		switch {
		case !ok:
			return false
		case k.family == familySM2:
			return sm2.VerifyASN1WithSM2(key, nil, input, encoded)
		}
		return ecdsa.VerifyASN1(key, hashOf(a.hash, input), encoded)
	case ed25519.PublicKey: // RFC 8037 3.1
		return ed25519.Verify(key, input, signature)
	}
	return false
}

func hashOf(hash crypto.Hash, input []byte) []byte {
	h := hash.New()
	h.Write(input)
	return h.Sum(nil)
}

// pairOf is a signature that is r and s of a size each, one behind the other, as those who
// verify it take it.
func pairOf(signature []byte, size int) (encoded []byte, ok bool) {
	if len(signature) != 2*size {
		return nil, false
	}
	encoded, err := asn1.Marshal(struct{ R, S *big.Int }{new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:])})
	return encoded, err == nil
}
