package token

import (
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer is one whose tokens are taken.
type Issuer struct {
	Name string // as iss has it
	// Audiences are those of which a token names one; nil: any, or none, will do.
	Audiences []string
	// Algorithms are those that are allowed; nil: all that fit the keys.
	Algorithms []string
	// Keys returns the keys that it signs with for now; nil: nobody knows yet.
	Keys func() *Set
}

// Verifier tells whether tokens are good. It is not changed once it is used, and safe
// for concurrent use.
type Verifier struct {
	Issuers  []Issuer
	Required []Required
	Find     Find          // how claims are found by their names
	Leeway   time.Duration // how much clocks may differ
	MaxBytes int           // of a token
}

// Verify tells whether a token is good at a time. Its errors are those of this package.
// After ErrUnknownKey and ErrNoKeys newer keys may make it good; set is then what was
// looked into, and issuer whose it is, by its place.
//
// What costs the least is looked at first: a token that has expired has no signature
// checked, and no keys looked for.
func (v *Verifier) Verify(text string, now time.Time) (verified *Verified, issuer int, set *Set, err error) {
	p, err := parse(text, v.MaxBytes)
	if err != nil {
		return nil, 0, nil, err
	}
	name, ok := p.claims["iss"].(string)
	at := slices.IndexFunc(v.Issuers, func(i Issuer) bool { return i.Name == name })
	if !ok || at < 0 {
		return nil, 0, nil, ErrIssuer
	}
	by := &v.Issuers[at]
	algorithm, ok := algorithmNamed(p.header.algorithm)
	if !ok || !by.allows(algorithm) {
		return nil, at, nil, ErrAlgorithm
	}
	out := &Verified{Claims: p.claims, Issuer: name, issuer: at}
	if err := v.checkClaims(out, by, now); err != nil {
		return nil, at, nil, err
	}
	if out.set = by.Keys(); out.set == nil {
		return nil, at, nil, ErrNoKeys
	}
	if out.key, err = out.set.verify(p, algorithm); err != nil {
		return nil, at, out.set, err
	}
	return out, at, out.set, nil
}

func (i *Issuer) allows(a algorithm) bool {
	return i.Algorithms == nil || slices.ContainsFunc(i.Algorithms, func(name string) bool {
		return name == a.name || name == SM2 && a.name == sm2Too
	})
}

func (v *Verifier) checkClaims(out *Verified, by *Issuer, now time.Time) error {
	if err := v.checkTimes(out, now); err != nil {
		return err
	}
	if err := checkAudience(out.Claims, by.Audiences); err != nil {
		return err
	}
	for i := range v.Required {
		if !v.Required[i].has(out.Claims, v.Find) {
			return ErrClaim
		}
	}
	return nil
}

// verify returns the key that has signed a token.
func (s *Set) verify(p *parsed, a algorithm) (*Key, error) {
	candidates, exact := s.candidates(&p.header, a)
	if len(candidates) > 0 {
		signed, err := jose.ParseSignedCompact(p.text, josed)
		if err != nil {
			return nil, ErrMalformed
		}
		for _, k := range candidates {
			if _, err := signed.Verify(k.verifier()); err == nil {
				return k, nil
			}
		}
	}
	if exact {
		return nil, ErrSignature
	}
	return nil, ErrUnknownKey
}

// verifier is the key as go-jose takes it.
func (k *Key) verifier() any {
	if public, ok := k.sm2(); ok {
		return sm2Verifier{public}
	}
	return k.material
}

// Still tells whether a token that was good is so at a later time: it has not expired,
// and the key that signed it is still its issuer's.
func (v *Verifier) Still(t *Verified, now time.Time) error {
	if err := v.inTime(t, now); err != nil {
		return err
	}
	if set := v.Issuers[t.issuer].Keys(); set != t.set && (set == nil || !set.holds(t.key)) {
		return ErrUntrusted
	}
	return nil
}
