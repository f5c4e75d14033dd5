//go:build linux

package main

import (
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestToken(t *testing.T) {
	made, err := makeToken(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(made.key)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(data)
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	end := strings.LastIndexByte(made.text, '.')
	signature, err := base64.RawURLEncoding.DecodeString(made.text[end+1:])
	if err != nil {
		t.Fatal(err)
	}
	digest := sha256.Sum256([]byte(made.text[:end]))
	public, ok := key.(*rsa.PublicKey)
	if !ok || rsa.VerifyPKCS1v15(public, crypto.SHA256, digest[:], signature) != nil {
		t.Error("the key does not fit the token")
	}
	if _, err := makeToken("/nonexistent"); err == nil {
		t.Error("written where nothing can be")
	}
}

// TestTokenIsShown to those that verify it, and to no others.
func TestTokenIsShown(t *testing.T) {
	program := compiledLoad(t)
	var shown atomic.Value // what the field is to be
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != shown.Load() || r.Host != host || len(r.Header["Accept"]) != 1 {
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = w.Write(make([]byte, 256))
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "http://")
	for _, p := range proxies() {
		c := load{connections: 1, path: "/", length: 256, secured: true}.by(p, token{text: strings.Repeat("x", 700)})
		shown.Store(map[bool]string{true: "Bearer " + strings.Repeat("x", 700)}[p.secured])
		if _, err := (client{program: program}).put(t.Context(), address, c, 0, 0, 50*time.Millisecond, nil, nil); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
	long := load{connections: 1, path: "/", length: 256, token: strings.Repeat("x", 8192)}
	_, err := client{program: program}.put(t.Context(), address, long, 0, 0, 50*time.Millisecond, nil, nil)
	holds(t, "a long one", err, "-h is too long")
}
