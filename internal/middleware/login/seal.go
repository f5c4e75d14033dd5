package login

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"

	"golang.org/x/crypto/chacha20poly1305"
)

// What is sealed. One can never be taken for another.
const (
	purposeSession = "session"
	purposeStored  = "stored session"
	purposeAttempt = "attempt"
)

// sealer encrypts what clients and stores keep for the gateway (XChaCha20-Poly1305, whose
// nonces are long enough to be random), so that nobody reads it and nobody makes it. What
// it has sealed belongs to one client of one issuer, and to one name of a cookie: no other
// gateway opens it, even with the same secret.
type sealer struct {
	secrets []string
	context []string
	usual   []cipher.AEAD // by secret
}

func newSealer(s *settings) *sealer {
	l := &sealer{secrets: s.secrets, context: []string{s.Provider.Issuer, s.ClientID, s.Cookie}}
	for _, secret := range l.secrets {
		l.usual = append(l.usual, newAEAD(secret, ""))
	}
	return l
}

// newAEAD derives a key (RFC 5869) from a secret, and from what only the client has, if
// anything.
func newAEAD(secret, salt string) cipher.AEAD {
	key, err := hkdf.Key(sha256.New, []byte(secret), []byte(salt), "sluice oidc 1", chacha20poly1305.KeySize)
	if err != nil {
		panic("BUG: no key can be derived: " + err.Error())
	}
	aead, err := chacha20poly1305.NewX(key)
	if err != nil {
		panic("BUG: a derived key is of no use: " + err.Error())
	}
	return aead
}

// bound is what a sealed text is bound to beside its key (the associated data).
func (l *sealer) bound(purpose, id string) []byte {
	data, err := json.Marshal(append([]string{purpose, id}, l.context...))
	if err != nil {
		panic("BUG: texts have no JSON: " + err.Error())
	}
	return data
}

// seal encrypts data. salt is what only the client has, id what the place is called where
// it is kept; both may be empty.
func (l *sealer) seal(purpose, salt, id string, data []byte) string {
	aead := l.aead(0, salt)
	nonce := make([]byte, chacha20poly1305.NonceSizeX, chacha20poly1305.NonceSizeX+len(data)+aead.Overhead())
	_, _ = rand.Read(nonce) // it never fails
	return base64.RawURLEncoding.EncodeToString(aead.Seal(nonce, nonce, data, l.bound(purpose, id)))
}

func (l *sealer) aead(secret int, salt string) cipher.AEAD {
	if salt == "" {
		return l.usual[secret]
	}
	return newAEAD(l.secrets[secret], salt)
}

var errSealed = errors.New("it is sealed by somebody else, or changed")

// open decrypts what seal has made with the same arguments, by any of the secrets.
func (l *sealer) open(purpose, salt, id, text string) ([]byte, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(sealed) < chacha20poly1305.NonceSizeX {
		return nil, errSealed
	}
	bound := l.bound(purpose, id)
	for i := range l.secrets {
		if data, err := l.aead(i, salt).Open(nil, sealed[:chacha20poly1305.NonceSizeX], sealed[chacha20poly1305.NonceSizeX:], bound); err == nil {
			return data, nil
		}
	}
	return nil, errSealed
}

// random is a text that nobody guesses.
func random() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails
	return base64.RawURLEncoding.EncodeToString(b[:])
}
