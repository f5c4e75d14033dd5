package token

import (
	"fmt"
	"slices"
	"time"
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
// checked, and no keys looked for. One of so many claims that reading them costs more than
// its signature has that looked at first.
func (v *Verifier) Verify(text string, now time.Time) (verified *Verified, issuer int, set *Set, err error) {
	p, err := parse(text, v.MaxBytes)
	if err != nil {
		return nil, 0, nil, err
	}
	name, ok, err := p.issuer()
	if err != nil {
		return nil, 0, nil, err
	}
	at := slices.IndexFunc(v.Issuers, func(i Issuer) bool { return i.Name == name })
	if !ok || at < 0 {
		return nil, 0, nil, ErrIssuer
	}
	by := &v.Issuers[at]
	algorithm, ok := algorithmNamed(p.header.algorithm)
	if !ok || !by.allows(algorithm) {
		return nil, at, nil, ErrAlgorithm
	}
	out := &Verified{Issuer: name, issuer: at}
	first, then := v.checkClaims, v.checkSignature
	if p.claims == nil {
		first, then = then, first
	}
	if err = first(out, p, by, algorithm, now); err == nil {
		err = then(out, p, by, algorithm, now)
	}
	if err != nil {
		return nil, at, out.set, err
	}
	return out, at, out.set, nil
}

// dear is how long others may wait for a token to be verified.
const dear = 250 * time.Microsecond

// Dear tells whether it may take long to verify a token, by the keys of now: with one of the
// larger curves or many of RSA, some milliseconds, which anybody can have spent.
func (v *Verifier) Dear() bool {
	for i := range v.Issuers {
		if set := v.Issuers[i].Keys(); set != nil && set.cost > dear {
			return true
		}
	}
	return false
}

// checkSignature looks at the signature, and notes the key that has made it.
func (*Verifier) checkSignature(out *Verified, p *parsed, by *Issuer, a algorithm, _ time.Time) (err error) {
	if out.set = by.Keys(); out.set == nil {
		return ErrNoKeys
	}
	out.key, err = out.set.verify(p, a)
	return err
}

func (i *Issuer) allows(a algorithm) bool {
	return i.Algorithms == nil || slices.ContainsFunc(i.Algorithms, a.is)
}

// checkClaims reads the claims, if nobody has yet, and looks at them.
func (v *Verifier) checkClaims(out *Verified, p *parsed, by *Issuer, _ algorithm, now time.Time) error {
	if err := p.read(); err != nil {
		return fmt.Errorf("claims: %w", err)
	}
	if out.Claims = p.claims; out.Claims["iss"] != by.Name {
		return ErrIssuer
	}
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
		input := []byte(p.input)
		for _, k := range candidates {
			if k.signs(a, input, p.signature) {
				return k, nil
			}
		}
	}
	if exact {
		return nil, ErrSignature
	}
	return nil, ErrUnknownKey
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
