package token

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/emmansun/gmsm/smx509"
)

// Key is one that signatures are checked with: public, or a secret. It is not changed.
type Key struct {
	// ID is its kid; empty: it has none.
	ID string

	family   family
	material any    // []byte, *rsa.PublicKey, *ecdsa.PublicKey or ed25519.PublicKey
	only     string // the algorithm that it is for; empty: any that fits
	sum      [sha256.Size]byte
}

// newKey makes a key of what it is. Its errors say what the key "is".
func newKey(id, only string, material any) (*Key, error) {
	family, err := familyOf(material)
	if err != nil {
		return nil, err
	}
	k := &Key{ID: id, family: family, material: material, only: only}
	if only != "" && !k.fitsAny() {
		return nil, errors.New("is not of the kind that its alg needs")
	}
	var text []byte
	switch key := material.(type) {
	case []byte:
		text = key
	case ed25519.PublicKey:
		text = key
	case *rsa.PublicKey:
		text = fmt.Appendf(nil, "%x %d", key.N, key.E)
	case *ecdsa.PublicKey:
		if text, err = key.Bytes(); err != nil {
			text, err = smx509.MarshalPKIXPublicKey(key)
		}
		if err != nil {
			return nil, errKeyKind
		}
	}
	k.sum = sha256.Sum256(fmt.Appendf(nil, "%q %q %d %s", id, only, family, text))
	return k, nil
}

func (k *Key) fitsAny() bool {
	return slices.ContainsFunc(algorithms, k.fits)
}

// fits tells whether signatures of an algorithm may be checked with the key.
func (k *Key) fits(a algorithm) bool {
	if a.family != k.family || k.only != "" && !a.is(k.only) {
		return false
	}
	secret, ok := k.material.([]byte)
	return !ok || len(secret) >= a.leastSecret()
}

// cost is about how long it takes to check a signature with the key. The larger curves have
// no code of their own for the processors.
func (k *Key) cost() time.Duration {
	switch k.family {
	case familySecret:
		return time.Microsecond
	case familyRSA:
		if key, ok := k.material.(*rsa.PublicKey); ok {
			times := key.N.BitLen() / shortestRSA
			return time.Duration(30*times*times) * time.Microsecond
		}
	case familyP384:
		return time.Millisecond
	case familyP521:
		return 2 * time.Millisecond
	case familyP256, familyEd25519, familySM2:
	}
	return 70 * time.Microsecond
}

// Set is the keys of an issuer. It is not changed; other keys are another set.
type Set struct {
	keys []*Key
	held map[[sha256.Size]byte]bool
	cost time.Duration // of a token that has as many of them tried as it can, about
}

// NewSet returns a set of keys.
func NewSet(keys ...*Key) *Set {
	s := &Set{keys: keys, held: make(map[[sha256.Size]byte]bool, len(keys))}
	costs := make([][]time.Duration, familySM2+1)
	for _, k := range keys {
		s.held[k.sum] = true
		costs[k.family] = append(costs[k.family], k.cost())
	}
	for _, all := range costs {
		slices.Sort(all)
		sum := time.Duration(0)
		for _, cost := range all[max(0, len(all)-mostTried):] {
			sum += cost
		}
		s.cost = max(s.cost, sum)
	}
	return s
}

// Len is how many keys there are.
func (s *Set) Len() int { return len(s.keys) }

// Equal tells whether two sets have the same keys.
func (s *Set) Equal(other *Set) bool {
	if other == nil || len(s.held) != len(other.held) {
		return false
	}
	for sum := range s.held {
		if !other.held[sum] {
			return false
		}
	}
	return true
}

func (s *Set) holds(k *Key) bool { return s.held[k.sum] }

// Unfit returns the first of some algorithms that no key of the set fits; empty: there
// is none.
func (s *Set) Unfit(names []string) string {
	for _, name := range names {
		a, ok := algorithmNamed(name)
		if !ok || !slices.ContainsFunc(s.keys, func(k *Key) bool { return k.fits(a) }) {
			return name
		}
	}
	return ""
}

// mostTried bounds how many keys one token may have tried.
const mostTried = 8

// candidates are the keys that a token of this header may be signed with: those that its
// kid names, else those without one; all of them where it names none. exact says that
// its kid names one of the set, whether that fits or not: then newer keys would not help.
func (s *Set) candidates(h *header, a algorithm) (keys []*Key, exact bool) {
	named := h.named && slices.ContainsFunc(s.keys, func(k *Key) bool { return k.ID != "" && k.ID == h.keyID })
	for _, k := range s.keys {
		switch {
		case h.named && named && k.ID != h.keyID:
		case h.named && !named && k.ID != "":
		case k.fits(a) && len(keys) < mostTried:
			keys = append(keys, k)
		}
	}
	return keys, named
}

// Secret returns the key that a text is.
func Secret(text string) (*Set, error) {
	k, err := newKey("", "", []byte(text))
	if err != nil {
		return nil, err
	}
	return NewSet(k), nil
}
