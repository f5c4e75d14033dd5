package auth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emmansun/gmsm/sm2"
	"github.com/emmansun/gmsm/smx509"
)

const jwtSecret = "a-secret-of-at-least-thirty-two-bytes!"

// tokenKeys are made once: those of RSA take a while.
var tokenKeys = sync.OnceValue(func() (k struct {
	rsa, other *rsa.PrivateKey
	ec         *ecdsa.PrivateKey
	ed25519    ed25519.PrivateKey
	sm2        *sm2.PrivateKey
}) {
	var errs [5]error
	k.rsa, errs[0] = rsa.GenerateKey(rand.Reader, 2048)
	k.other, errs[1] = rsa.GenerateKey(rand.Reader, 2048)
	k.ec, errs[2] = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, k.ed25519, errs[3] = ed25519.GenerateKey(rand.Reader)
	k.sm2, errs[4] = sm2.GenerateKey(rand.Reader)
	for _, err := range errs {
		if err != nil {
			panic(err)
		}
	}
	return k
})

func part(value any) string {
	text, ok := value.(string)
	if !ok {
		data, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		text = string(data)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(text))
}

type fields map[string]any

// claimsOf are good claims, with more, or without those that are nil.
func claimsOf(more fields) fields {
	now := time.Now().Unix()
	claims := fields{"iss": "https://issuer.test", "aud": "api", "sub": "u1", "iat": now, "nbf": now, "exp": now + 300}
	maps.Copy(claims, more)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

// signed makes a token by the standard library. header and claims are JSON, or values.
func signed(key, header, claims any) string {
	input := part(header) + "." + part(claims)
	digest := sha256.Sum256([]byte(input))
	var signature []byte
	var err error
	switch key := key.(type) {
	case string:
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(input))
		signature = mac.Sum(nil)
	case *rsa.PrivateKey:
		signature, err = rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	case *ecdsa.PrivateKey:
		r, s, failure := ecdsa.Sign(rand.Reader, key, digest[:])
		signature, err = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...), failure
	case ed25519.PrivateKey:
		signature = ed25519.Sign(key, []byte(input))
	case *sm2.PrivateKey:
		var encoded []byte
		var parts struct{ R, S *big.Int }
		if encoded, err = key.SignWithSM2(rand.Reader, nil, []byte(input)); err == nil {
			_, err = asn1.Unmarshal(encoded, &parts)
		}
		signature = append(parts.R.FillBytes(make([]byte, 32)), parts.S.FillBytes(make([]byte, 32))...)
	default:
		panic(fmt.Sprintf("nobody signs with a %T", key))
	}
	if err != nil {
		panic(err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// hs and rs are tokens with good headers.
func hs(claims any) string { return signed(jwtSecret, fields{"alg": "HS256", "typ": "JWT"}, claims) }

func rs(key *rsa.PrivateKey, kid string, claims any) string {
	return signed(key, fields{"alg": "RS256", "typ": "JWT", "kid": kid}, claims)
}

func publicPEM(public any) string {
	der, err := smx509.MarshalPKIXPublicKey(public)
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

func rsaJWK(kid string, key *rsa.PrivateKey) string {
	return fmt.Sprintf(`{"kty":"RSA","kid":%q,"alg":"RS256","use":"sig","e":"AQAB","n":%q}`, kid, part(string(key.N.Bytes())))
}

// inYAML is a text as a scalar.
func inYAML(text string) string {
	data, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// issuer is the options of one, with its keys.
func issuer(keys string) string {
	return `{issuers: [{issuer: "https://issuer.test", audiences: [api], ` + keys + `}]}`
}

// secretly is what the options of most tests are.
func secretly(more ...string) string {
	options := issuer("secret: " + jwtSecret)
	return strings.TrimSuffix(options, "}") + strings.Join(append([]string{""}, more...), ", ") + "}"
}

func bearing(token string) string { return "Authorization: Bearer " + token }

func pkcs8(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
