//go:build linux

package main

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// token is what clients of secured gateways show, and the file with the key that it is
// verified by: one of RSA, made for this run.
type token struct {
	text string
	key  string // PEM
}

// issuer is who signs the token.
const issuer = "https://" + host + "/"

// makeToken signs a token by RS256 and writes the public key into the directory. It is made
// by the standard library alone, so that what verifies it cannot agree with itself.
func makeToken(directory string) (token, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return token{}, err
	}
	encode := base64.RawURLEncoding.EncodeToString
	now := time.Now().Unix()
	signed := encode([]byte(`{"alg":"RS256","typ":"JWT","kid":"bench"}`)) + "." +
		encode(fmt.Appendf(nil, `{"iss":%q,"sub":"user-4711","aud":"bench","iat":%d,"exp":%d,"roles":["user","editor"],"tenant":"one"}`, issuer, now, now+7*24*3600))
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, digest[:])
	if err != nil {
		return token{}, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return token{}, err
	}
	t := token{text: signed + "." + encode(signature), key: filepath.Join(directory, "issuer.pem")}
	return t, os.WriteFile(t.key, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}), 0o600)
}

// authorization is the field that has the token; empty where there is none.
func (l load) authorization() string {
	if l.token == "" {
		return ""
	}
	return "Bearer " + l.token
}
