package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"sluice/internal/lease"
	"sluice/internal/pipeline"
	"sluice/internal/store"
)

// nonceSettings are where nonces are kept, and for how long: until what has one could
// not be used again anyway.
type nonceSettings struct {
	Store string // a name of Gateway.Stores; empty: memory
	Max   int    // in memory
	Life  time.Duration
}

// nonces tell whether a nonce of a key comes for the first time. Where that cannot be
// told they fail.
type nonces interface {
	use(x *pipeline.Exchange, key, nonce string, now time.Time) (fresh bool, err error)
}

// newNonces returns the nonces of a place in a chain; they outlive reloads. nil: they do
// not matter.
func newNonces(site *pipeline.Site, s *nonceSettings) nonces {
	if s == nil {
		return nil
	}
	for _, m := range site.Gateway.Stores {
		if m.Name == s.Store {
			sum := sha256.Sum256([]byte(site.Identity()))
			return &sharedNonces{store.Acquire(site.Leases, m), "sluice:nonce:" + hex.EncodeToString(sum[:8]) + ":", s.Life}
		}
	}
	memory := lease.Acquire(site.Leases, "nonces\n"+site.Identity(), func() *ownNonces { return &ownNonces{} })
	return &ownNoncesOf{memory, s}
}

// used stands for a nonce of a key.
type used [sha256.Size]byte

// usedOf puts the length of the key before it, so that no two pairs are one.
func usedOf(key, nonce string) used {
	return sha256.Sum256(append([]byte{byte(len(key)), byte(len(key) >> 8)}, key+nonce...))
}

// ownNonces are kept in memory, in two generations: the older one is dropped when each of
// its nonces has been there for a life.
type ownNonces struct {
	mu         sync.Mutex
	young, old map[used]struct{}
	began      time.Time     // young
	life       time.Duration // the longest that was asked for
}

var errNonces = errors.New("there is no room for more nonces")

// use notes a nonce. Where there is no room it fails: to forget another one would let
// that be used again.
func (n *ownNonces) use(id used, now time.Time, s *nonceSettings) (fresh bool, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.life = max(n.life, s.Life)
	switch age := now.Sub(n.began); {
	case age >= 2*n.life:
		n.young, n.old, n.began = map[used]struct{}{}, nil, now
	case age >= n.life:
		n.young, n.old, n.began = map[used]struct{}{}, n.young, now
	}
	if _, ok := n.young[id]; ok {
		return false, nil
	}
	if _, ok := n.old[id]; ok {
		return false, nil
	}
	if len(n.young)+len(n.old) >= s.Max {
		return false, errNonces
	}
	n.young[id] = struct{}{}
	return true, nil
}

// ownNoncesOf are ownNonces with the settings of a snapshot.
type ownNoncesOf struct {
	*ownNonces
	settings *nonceSettings
}

func (n *ownNoncesOf) use(_ *pipeline.Exchange, key, nonce string, now time.Time) (fresh bool, err error) {
	return n.ownNonces.use(usedOf(key, nonce), now, n.settings)
}

// sharedNonces are kept in a store.
type sharedNonces struct {
	store  *store.Store
	prefix string
	life   time.Duration
}

// storePatience is how long a store may take.
const storePatience = time.Second

func (n *sharedNonces) use(x *pipeline.Exchange, key, nonce string, _ time.Time) (fresh bool, err error) {
	id := usedOf(key, nonce)
	x.Wait(func() {
		// A client that leaves does not end it: the nonce may be used already.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(x.Context()), storePatience)
		defer cancel()
		fresh, err = n.store.Redis.SetNX(ctx, n.prefix+hex.EncodeToString(id[:]), "", n.life).Result()
	})
	return fresh, err
}
