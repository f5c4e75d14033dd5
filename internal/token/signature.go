package token

import (
	"crypto/ecdsa"
	"encoding/asn1"
	"math/big"

	"github.com/emmansun/gmsm/sm2"
)

// signs tells whether a signature of an algorithm that fits the key is the key's over an
// input: the header and the claims as they came (RFC 7515 5.2). Libraries are asked for
// that alone: those that read whole tokens read the header, too, and refuse some for what
// they say of keys.
func (k *Key) signs(a algorithm, input, signature []byte) bool {
	if a.method == nil {
		return signsSM2(k.material.(*ecdsa.PublicKey), input, signature)
	}
	return a.method.Verify(string(input), signature, k.material) == nil
}

// sm2Size is how long r and s of a signature by SM2 are each.
const sm2Size = 32

func signsSM2(key *ecdsa.PublicKey, input, signature []byte) bool {
	if len(signature) != 2*sm2Size {
		return false
	}
	r, s := new(big.Int).SetBytes(signature[:sm2Size]), new(big.Int).SetBytes(signature[sm2Size:])
	encoded, err := asn1.Marshal(struct{ R, S *big.Int }{r, s})
	return err == nil && sm2.VerifyASN1WithSM2(key, nil, input, encoded)
}
