package token

import (
	"bytes"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/emmansun/gmsm/smx509"
	"github.com/go-jose/go-jose/v4"
)

// mostKeys bounds the keys of a document.
const mostKeys = 200

// byteOrderMark is what some editors begin files with (RFC 8259 8.1).
const byteOrderMark = "\ufeff"

// Document is what a JWK set (RFC 7517 5) holds.
type Document struct {
	Set *Set
	// Unused says of each key that was left out why, by its place in the list.
	Unused []string
}

var errDocument = errors.New("is no JWK set: a JSON object with a list of keys")

// ReadDocument reads a JWK set. Keys that cannot be used are left out, as RFC 7517 5 asks
// for. Secrets are taken only from where they are not published.
func ReadDocument(data []byte, secrets bool) (*Document, error) {
	var document struct {
		Keys *[]json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(bytes.TrimPrefix(data, []byte(byteOrderMark)), &document); err != nil || document.Keys == nil {
		return nil, errDocument
	}
	if len(*document.Keys) > mostKeys {
		return nil, fmt.Errorf("has %d keys, and %d are the most", len(*document.Keys), mostKeys)
	}
	out := &Document{}
	var keys []*Key
	for i, raw := range *document.Keys {
		k, err := readJWK(raw, secrets)
		if err != nil {
			out.Unused = append(out.Unused, fmt.Sprintf("keys[%d] %v", i, err))
			continue
		}
		keys = append(keys, k)
	}
	out.Set = NewSet(keys...)
	return out, nil
}

// jwk is what of a JWK go-jose does not look at, or does not know.
type jwk struct {
	Kty    string    `json:"kty"`
	Crv    string    `json:"crv"`
	Kid    string    `json:"kid"`
	Alg    string    `json:"alg"`
	Use    *string   `json:"use"`
	KeyOps *[]string `json:"key_ops"`
	X      string    `json:"x"`
	Y      string    `json:"y"`
	D      string    `json:"d"`
}

// readJWK reads one key. Its errors say what the key "is" or "has".
func readJWK(raw []byte, secrets bool) (*Key, error) {
	var seen jwk
	if err := json.Unmarshal(raw, &seen); err != nil {
		return nil, errors.New("is no JWK")
	}
	_, known := algorithmNamed(seen.Alg)
	switch {
	case seen.Use != nil && *seen.Use != "sig":
		return nil, errors.New("is not for signatures, by its use")
	case seen.KeyOps != nil && !slices.Contains(*seen.KeyOps, "verify"):
		return nil, errors.New("is not for the verification of signatures, by its key_ops")
	case seen.Alg != "" && !known:
		return nil, errors.New("is for an algorithm that is not supported")
	case seen.Kty == "oct" && !secrets:
		return nil, errPublished
	case seen.D != "":
		return nil, errors.New("has its private part in it, which must not be published")
	case seen.Kty == "EC" && slices.Contains([]string{SM2, "sm2p256v1"}, seen.Crv):
		public, err := seen.sm2()
		if err != nil {
			return nil, err
		}
		return newKey(seen.Kid, seen.Alg, public)
	}
	bare, err := withoutCertificates(raw)
	if err != nil {
		return nil, errors.New("is no JWK")
	}
	var key jose.JSONWebKey
	if err := key.UnmarshalJSON(bare); err != nil {
		return nil, errors.New("cannot be used: " + strings.TrimPrefix(err.Error(), "go-jose/go-jose: "))
	}
	if _, secret := key.Key.([]byte); secret && !secrets { // names of members may differ by case alone
		return nil, errPublished
	}
	return newKey(seen.Kid, seen.Alg, key.Key)
}

// withoutCertificates is a JWK without what it says of certificates (RFC 7517 4.6 to 4.9).
// Those vouch for nothing here, and a key is no worse for one that Go does not read.
func withoutCertificates(raw []byte) ([]byte, error) {
	members, err := readObject(raw)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"x5u", "x5c", "x5t", "x5t#S256"} {
		delete(members, name)
	}
	return json.Marshal(members)
}

var errPublished = errors.New("is a secret, which must not be published")

// sm2Algorithm is what a key on the curve of SM2 is called in X.509 (GM/T 0006).
var sm2Algorithm = pkix.AlgorithmIdentifier{
	Algorithm:  asn1.ObjectIdentifier{1, 2, 840, 10045, 2, 1},
	Parameters: asn1.RawValue{FullBytes: []byte{0x06, 0x08, 0x2a, 0x81, 0x1c, 0xcf, 0x55, 0x01, 0x82, 0x2d}},
}

// sm2 is a public key on the curve of SM2, read by way of its DER.
func (k *jwk) sm2() (any, error) {
	const size = 32
	x, errX := base64.RawURLEncoding.Strict().DecodeString(k.X)
	y, errY := base64.RawURLEncoding.Strict().DecodeString(k.Y)
	if errX != nil || errY != nil || len(x) != size || len(y) != size {
		return nil, errors.New("has no x and y of 32 bytes in base64url")
	}
	der, err := asn1.Marshal(struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}{sm2Algorithm, asn1.BitString{Bytes: slices.Concat([]byte{4}, x, y), BitLength: 8 * (1 + 2*size)}})
	if err != nil {
		panic("BUG: a key has no DER: " + err.Error())
	}
	public, err := smx509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, errors.New("is no point on its curve")
	}
	return public, nil
}

// PublicKeys reads PEM: public keys, also in certificates, of which nothing else is
// looked at. Its errors are clauses about the text: "has …", "is …".
func PublicKeys(text string) (*Set, error) {
	if !strings.Contains(text, pemBegin) {
		return nil, errors.New(`is no PEM, which begins with "-----BEGIN PUBLIC KEY-----"`)
	}
	var keys []*Key
	for rest := []byte(strings.TrimPrefix(text, byteOrderMark)); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		public, err := publicKey(block)
		if err != nil {
			return nil, err
		}
		k, err := newKey("", "", public)
		if err != nil {
			return nil, fmt.Errorf("has a key that %w", err)
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 || len(keys) < strings.Count(text, pemBegin) {
		return nil, errors.New("has a PEM block that is broken or has no end")
	}
	if len(keys) > mostKeys {
		return nil, fmt.Errorf("has %d keys, and %d are the most", len(keys), mostKeys)
	}
	return NewSet(keys...), nil
}

func publicKey(block *pem.Block) (public any, err error) {
	switch block.Type {
	case "PUBLIC KEY":
		public, err = smx509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		public, err = smx509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		var c *smx509.Certificate
		if c, err = smx509.ParseCertificate(block.Bytes); err == nil {
			public = c.PublicKey
		}
	default:
		if strings.HasSuffix(block.Type, "PRIVATE KEY") {
			return nil, errors.New("has a private key, and the public one is enough: openssl pkey -pubout")
		}
		return nil, fmt.Errorf("has a %.40q where a public key is expected", block.Type)
	}
	if err != nil {
		return nil, errors.New("has a key that cannot be read: " + strings.TrimPrefix(err.Error(), "x509: "))
	}
	return public, nil
}
