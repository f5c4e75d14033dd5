package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/lease"
	"sluice/internal/pipeline"
	"sluice/internal/store"
)

// nonceSettings are where nonces are kept, and for how long at least: until what has one
// could not be used again anyway.
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

// newNonces returns what has been used of some keys; it outlives reloads. It is of the
// keys and not of a place in a chain: what is good in one place is good wherever else the
// key is known, also where a reload puts it. nil: nonces do not matter.
func newNonces(site *pipeline.Site, s *nonceSettings, keys map[string]hmacKey) nonces {
	if s == nil {
		return nil
	}
	life := lease.Acquire(site.Leases, "life of nonces\n"+s.Store, func() *longest { return &longest{} })
	life.atLeast(s.Life)
	for _, m := range site.Gateway.Stores {
		if m.Name == s.Store {
			shared := &sharedNonces{store.Acquire(site.Leases, m), life, map[string]string{}}
			for id, key := range keys {
				shared.prefixes[id] = "sluice:nonce:" + key.digest(id) + ":"
			}
			return shared
		}
	}
	own := &ownNoncesOf{s.Max, life, map[string]*ownNonces{}}
	for id, key := range keys {
		own.keys[id] = lease.Acquire(site.Leases, "nonces\n"+key.digest(id), func() *ownNonces { return &ownNonces{} })
	}
	return own
}

// digest stands for a key with its id.
func (k *hmacKey) digest(id string) string {
	mac := hmac.New(sha256.New, k.secret)
	mac.Write([]byte("nonces of " + id))
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// longest is the longest time that any place asks for: a nonce that is used in one may
// come again in another.
type longest struct{ nanoseconds atomic.Int64 }

func (l *longest) atLeast(d time.Duration) {
	for {
		was := l.nanoseconds.Load()
		if int64(d) <= was || l.nanoseconds.CompareAndSwap(was, int64(d)) {
			return
		}
	}
}

func (l *longest) get() time.Duration { return time.Duration(l.nanoseconds.Load()) }

// used stands for a nonce.
type used [sha256.Size]byte

// ownNonces are those of a key. They are kept in memory, in two generations: the older one is dropped when each of
// its nonces has been there for a life.
type ownNonces struct {
	mu         sync.Mutex
	young, old map[used]struct{}
	began      time.Time     // young
	longest    time.Duration // of the lives that were asked for
}

// Linger is how long what was used could be used again. It is for the registry of leases:
// a reload that takes the key away may be undone by the next one.
func (n *ownNonces) Linger() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.longest
}

var errNonces = errors.New("there is no room for more nonces")

// use notes a nonce for a life. Where most are there it fails: to forget another one
// would let that be used again.
func (n *ownNonces) use(nonce string, now time.Time, life time.Duration, most int) (fresh bool, err error) {
	id := used(sha256.Sum256([]byte(nonce)))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.longest = max(n.longest, life)
	life = n.longest // what it was asked for before it lingered, too
	switch age := now.Sub(n.began); {
	case age >= 2*life:
		n.young, n.old, n.began = map[used]struct{}{}, nil, now
	case age >= life:
		n.young, n.old, n.began = map[used]struct{}{}, n.young, now
	}
	if _, ok := n.young[id]; ok {
		return false, nil
	}
	if _, ok := n.old[id]; ok {
		return false, nil
	}
	if len(n.young)+len(n.old) >= most {
		return false, errNonces
	}
	n.young[id] = struct{}{}
	return true, nil
}

// ownNoncesOf are the ownNonces of keys by their ids, in one place of a chain.
type ownNoncesOf struct {
	most int // of each key
	life *longest
	keys map[string]*ownNonces
}

func (n *ownNoncesOf) use(_ *pipeline.Exchange, key, nonce string, now time.Time) (fresh bool, err error) {
	return n.keys[key].use(nonce, now, n.life.get(), n.most)
}

// sharedNonces are kept in a store.
type sharedNonces struct {
	store    *store.Store
	life     *longest
	prefixes map[string]string // by ids of keys
}

// maxStoreWait is how long a store may take.
const maxStoreWait = time.Second

func (n *sharedNonces) use(x *pipeline.Exchange, key, nonce string, _ time.Time) (fresh bool, err error) {
	sum := sha256.Sum256([]byte(nonce))
	name := n.prefixes[key] + hex.EncodeToString(sum[:])
	until := x.WaitUntil(maxStoreWait)
	x.Wait(func() {
		// A client that leaves does not end it: the nonce may be used already.
		ctx, cancel := context.WithDeadline(context.WithoutCancel(x.Context()), until)
		defer cancel()
		fresh, err = n.store.Redis.SetNX(ctx, name, "", n.life.get()).Result()
	})
	return fresh, err
}
