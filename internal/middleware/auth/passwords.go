package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"runtime"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"sluice/internal/keyed"
	"sluice/internal/lease"
	"sluice/internal/pipeline"
)

const (
	// mostVerified is how many passwords are remembered that were right.
	mostVerified = 20_000
	// maxWaiters is how many checks may wait for a processor, and maxWait how long.
	// What is more cannot be told in time.
	maxWaiters = 256
	maxWait    = 5 * time.Second
)

// passwords checks passwords. That takes long on purpose, so those that were right are
// remembered, by a digest that means nothing outside of this process; and only some of
// the processors ever check, so that guesses cannot take the gateway down. All
// basic_auth share it, over reloads: what it knows is of a hash and a password, so that
// it knows nothing of a hash that has changed.
type passwords struct {
	secret  [sha256.Size]byte
	compare func(hash, password []byte) error
	slots   chan struct{} // has as many as may check at once

	right *keyed.Cache[struct{}] // by digests of a hash with a password

	mu      sync.Mutex
	waiting int
	running map[keyed.Digest]*check
}

// check is one that somebody makes, and that others wait for.
type check struct {
	done chan struct{}
	made bool // false: it was given up
	good bool
}

func acquirePasswords(set *lease.Set) *passwords {
	return lease.Acquire(set, "passwords", func() *passwords { return newPasswords(max(1, runtime.GOMAXPROCS(0)/2)) })
}

func newPasswords(atOnce int) *passwords {
	p := &passwords{compare: bcrypt.CompareHashAndPassword, slots: make(chan struct{}, atOnce), right: keyed.NewCache[struct{}](mostVerified), running: map[keyed.Digest]*check{}}
	_, _ = rand.Read(p.secret[:]) // it never fails
	return p
}

var (
	errWaiters = errors.New("too many passwords wait to be checked")
	errNoHash  = errors.New("a hash cannot be read")
)

// attempt is a password that somebody tries.
type attempt struct {
	name     string // whose it should be
	password string
	hash     string // of the one that is right
	cost     int    // what it costs at least to refuse it, as that of a hash
}

// check tells whether a password is that of a hash. It fails with 503 auth_unavailable
// where there is too much to check, and where the client has left.
func (p *passwords) check(x *pipeline.Exchange, a *attempt) (good bool, err error) {
	id := p.digest(a)
	if p.known(id) {
		return true, nil
	}
	until := x.WaitUntil(maxWait)
	x.Wait(func() {
		ctx, cancel := context.WithDeadlineCause(x.Context(), until, pipeline.NewError(pipeline.AuthUnavailable, errWaiters))
		defer cancel()
		good, err = p.decide(ctx, id, a)
	})
	return good, err
}

// digest stands for an attempt. The name is in it as those who are not there have one
// hash: two of them would share a check as no two others do, and show by that who is not.
func (p *passwords) digest(a *attempt) (id keyed.Digest) {
	mac := hmac.New(sha256.New, p.secret[:])
	mac.Write([]byte(a.hash + "\x00" + a.name + "\x00" + a.password)) // none of them has a zero
	mac.Sum(id[:0])
	return id
}

func (p *passwords) known(id keyed.Digest) bool {
	_, ok := p.right.Get(&id, time.Time{})
	return ok
}

func (p *passwords) remember(id keyed.Digest) { p.right.Put(&id, struct{}{}, time.Time{}, time.Time{}) }

// decide makes a check, or waits for who makes the same one, until the context ends.
func (p *passwords) decide(ctx context.Context, id keyed.Digest, a *attempt) (bool, error) {
	for {
		c, mine, err := p.join(id)
		switch {
		case err != nil:
			return false, err
		case c == nil:
			return true, nil
		case mine:
			return p.make(ctx, c, id, a)
		}
		select {
		case <-c.done:
			if c.made {
				return c.good, nil
			}
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// join returns the check that is to be waited for, or a new one, which is the caller's
// to make; nil where the password is known to be right.
func (p *passwords) join(id keyed.Digest) (c *check, mine bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known(id) {
		return nil, false, nil
	}
	if running := p.running[id]; running != nil {
		return running, false, nil
	}
	if p.waiting >= maxWaiters {
		return nil, false, pipeline.NewError(pipeline.AuthUnavailable, errWaiters)
	}
	p.waiting++
	c = &check{done: make(chan struct{})}
	p.running[id] = c
	return c, true, nil
}

// make makes a check once a processor may.
func (p *passwords) make(ctx context.Context, c *check, id keyed.Digest, a *attempt) (bool, error) {
	var failure error
	select {
	case p.slots <- struct{}{}:
		err := p.compare([]byte(a.hash), []byte(a.password))
		if err != nil {
			p.prolong(a)
		}
		<-p.slots
		c.made, c.good = true, err == nil
		if err != nil && !errors.Is(err, bcrypt.ErrMismatchedHashAndPassword) {
			failure = pipeline.NewError(pipeline.Internal, errNoHash)
		}
	case <-ctx.Done():
		failure = context.Cause(ctx)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting--
	delete(p.running, id)
	if c.good {
		p.remember(id)
	}
	close(c.done)
	return c.good, failure
}

// prolong makes the refusal of an attempt as dear as that of any other. Each step of a
// cost doubles it, so that one check at each of the costs from a hash's own on adds what
// it lacks.
func (p *passwords) prolong(a *attempt) {
	cost, _ := costOf(a.hash)
	for ; cost > 0 && cost < a.cost; cost++ {
		_ = p.compare([]byte(unmatched(cost)), []byte(a.password)) // nothing matches it
	}
}
