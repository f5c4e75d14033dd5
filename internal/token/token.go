// Package token reads JSON Web Tokens (RFC 7519) in the compact form of JWS (RFC 7515)
// and tells whether they are good: their form, their signature, what they claim. It does
// no I/O: keys come in as sets, and it is told the time. Signatures are golang-jwt's work
// and gmsm's, keys that are JSON go-jose's.
//
// It is stricter than the RFCs where those leave a choice, as RFC 8725 asks for: one
// spelling of each part, JSON without duplicate members, exp in every token, algorithms
// that fit their keys, and keys from the configuration alone. What a token says of keys
// by itself (jwk, jku, x5c, x5u) is never used.
package token

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"sluice/internal/keyed"
)

// What is wrong with a token. Clients are told none of it but that the token is not
// valid; the texts have nothing of the token in them.
var (
	ErrMalformed = errors.New("the token is malformed")
	ErrTooLarge  = errors.New("the token is too large")
	ErrCritical  = errors.New("the token has a header that must be understood and is not")
	ErrAlgorithm = errors.New("the algorithm of the token is not allowed")
	ErrIssuer    = errors.New("the token is of no issuer that is known")
	ErrAudience  = errors.New("the token is for another audience")
	ErrExpired   = errors.New("the token has expired")
	ErrEarly     = errors.New("the token is not valid yet")
	ErrTime      = errors.New("a time in the token is missing or no number")
	ErrClaim     = errors.New("the token lacks a required claim")
	ErrSignature = errors.New("the signature of the token fits no key")
	ErrUntrusted = errors.New("the key of the token is not among the issuer's any more")
	// ErrUnknownKey: no key was tried that the token could mean. Newer keys may have it.
	ErrUnknownKey = errors.New("the key of the token is not among the issuer's")
	// ErrNoKeys: the issuer's keys are not there yet.
	ErrNoKeys = errors.New("the keys of the issuer are not there yet")
)

// DigestOf returns the digest of a token as it came.
func DigestOf(text string) keyed.Digest {
	var room [2 << 10]byte // on the stack: nearly all tokens fit
	return sha256.Sum256(append(room[:0], text...))
}

// header is what of a JOSE header matters.
type header struct {
	algorithm string
	keyID     string
	named     bool // there is a kid, maybe an empty one
}

// parsed is a token whose form is right, and nothing else is known.
type parsed struct {
	header    header
	payload   []byte         // the JSON of its claims
	claims    map[string]any // nil: they were not read
	input     string         // what is signed: all before the last dot
	signature []byte
}

// To read JSON costs by its values, of which a few KiB may have thousands. A header never
// has many; claims that have are read once their signature was good.
const (
	mostInHeader   = 128
	mostUnverified = 256
)

// values is how many values JSON has at most, whether it is any or not. To count takes no
// time beside reading.
func values(data []byte) int {
	return 1 + bytes.Count(data, []byte{','}) + bytes.Count(data, []byte{'['}) + bytes.Count(data, []byte{'{'})
}

// decodePart reads base64url without padding, and with no bits left over, so that a token
// has one text (RFC 7515 2).
func decodePart(part string) ([]byte, error) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil || strings.ContainsAny(part, "\r\n") { // which the package skips
		return nil, ErrMalformed
	}
	return data, nil
}

// parse reads a token of at most so many bytes.
func parse(text string, most int) (*parsed, error) {
	if len(text) > most {
		return nil, ErrTooLarge
	}
	head, rest, _ := strings.Cut(text, ".")
	payload, last, three := strings.Cut(rest, ".")
	if !three || head == "" || payload == "" || last == "" || strings.Contains(last, ".") {
		return nil, ErrMalformed
	}
	signature, err := decodePart(last)
	if err != nil {
		return nil, err
	}
	p := &parsed{input: text[:len(head)+len(".")+len(payload)], signature: signature}
	if p.header, err = headerOf(head); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if p.payload, err = textPart(payload); err == nil && values(p.payload) <= mostUnverified {
		err = p.read()
	}
	if err != nil {
		return nil, fmt.Errorf("claims: %w", err)
	}
	return p, nil
}

// read reads the claims, if that was not done.
func (p *parsed) read() (err error) {
	if p.claims == nil {
		p.claims, err = readObject(p.payload)
	}
	return err
}

// issuer is what the claims say in iss; of claims that were not read yet, what they seem
// to say. ok says that it is a text.
func (p *parsed) issuer() (name string, ok bool, err error) {
	if p.claims != nil {
		name, ok = p.claims["iss"].(string)
		return name, ok, nil
	}
	var seen struct {
		Iss *string `json:"iss"`
	}
	if err := json.Unmarshal(p.payload, &seen); err != nil {
		return "", false, ErrMalformed
	}
	if seen.Iss == nil {
		return "", false, nil
	}
	return *seen.Iss, true, nil
}

// textPart reads a part that is JSON in UTF-8.
func textPart(part string) ([]byte, error) {
	data, err := decodePart(part)
	if err == nil && (!utf8.Valid(data) || halved(data)) {
		err = ErrMalformed
	}
	return data, err
}

// headerOf takes what matters of a header. Nothing that it may call critical is
// understood here (RFC 7515 4.1.11); b64 would change what is signed (RFC 7797) and is
// refused without being called so, too.
func headerOf(part string) (h header, err error) {
	data, err := textPart(part)
	if err != nil {
		return h, err
	}
	if values(data) > mostInHeader {
		return h, ErrTooLarge
	}
	fields, err := readObject(data)
	if err != nil {
		return h, err
	}
	for _, name := range []string{"crit", "b64", "enc", "zip"} {
		if _, there := fields[name]; there {
			return h, ErrCritical
		}
	}
	var ok bool
	if h.algorithm, ok = fields["alg"].(string); !ok {
		return h, ErrMalformed
	}
	if kid, there := fields["kid"]; there {
		if h.keyID, ok = kid.(string); !ok {
			return h, ErrMalformed
		}
		h.named = true
	}
	return h, nil
}

// Verified is a token that was good once. It is not changed.
type Verified struct {
	Claims map[string]any // numbers are json.Number
	Issuer string

	set       *Set // in which key was found
	key       *Key
	issuer    int
	notBefore time.Time // zero: never too early
	expires   time.Time
}

// Expires is when the token ends, without leeway.
func (v *Verified) Expires() time.Time { return v.expires }
