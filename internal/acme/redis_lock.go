package acme

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"
)

// redisPoll is how often a lock that somebody has is tried.
const redisPoll = 250 * time.Millisecond

var errLost = errors.New("the lock was lost: it was not renewed in time")

// A lock is a key with a random token and a life (SET NX PX). Its holder renews
// it while it works, so that one that died loses it soon; and touches it only
// while the token is still its own. Redis gives no fencing: an instance that
// stands still for longer than the life may meet another one, and both order the
// certificate. That costs an order and nothing else.
const (
	renewScript  = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`
	unlockScript = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
)

// redisHold is a lock that this instance holds.
type redisHold struct {
	token string
	stop  context.CancelFunc
	ended chan struct{} // closed when nothing renews it any more
}

// Lock is a method of certmagic.Locker. It waits until the lock is free or ctx
// ends.
func (s *redisStorage) Lock(ctx context.Context, name string) error {
	return awaitLock(ctx, s, name, min(redisPoll, s.life))
}

// TryLock is a method of certmagic.TryLocker.
func (s *redisStorage) TryLock(ctx context.Context, name string) (bool, error) {
	bounded, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	token := rand.Text()
	ok, err := s.client.SetNX(bounded, redisLock+name, token, s.life).Result()
	if err != nil {
		// It may have been set, with an answer that did not come.
		s.giveBack(ctx, name, token)
		return false, redisError("lock", name, err)
	}
	if !ok {
		return false, nil
	}
	renewing, stop := context.WithCancel(context.WithoutCancel(ctx))
	hold := &redisHold{token: token, stop: stop, ended: make(chan struct{})}
	s.mu.Lock()
	s.held[name] = hold
	s.mu.Unlock()
	go s.keep(renewing, name, hold)
	return true, nil
}

// keep renews a lock until ctx ends or it is lost.
func (s *redisStorage) keep(ctx context.Context, name string, hold *redisHold) {
	defer close(hold.ended)
	ticker := time.NewTicker(s.life / 3)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		bounded, cancel := context.WithTimeout(ctx, redisTimeout)
		renewed, err := s.client.Eval(bounded, renewScript, []string{redisLock + name}, hold.token, s.life.Milliseconds()).Int()
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.log.Warn("acme: a lock was not renewed", "lock", name, "error", redisError("renew", name, err))
		case renewed == 0:
			s.log.Warn("acme: a lock was lost", "lock", name, "error", errLost)
			return
		}
	}
}

// Unlock is a method of certmagic.Locker. A lock that was lost meanwhile is an
// error; nobody else's is touched.
func (s *redisStorage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	hold := s.held[name]
	delete(s.held, name)
	s.mu.Unlock()
	if hold == nil {
		return fmt.Errorf("unlock %s: %w", name, errNotHeld)
	}
	hold.stop()
	<-hold.ended
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	deleted, err := s.client.Eval(ctx, unlockScript, []string{redisLock + name}, hold.token).Int()
	if err != nil {
		return redisError("unlock", name, err)
	}
	if deleted == 0 {
		return fmt.Errorf("unlock %s: %w", name, errLost)
	}
	return nil
}

// giveBack deletes a lock that may have been taken; if that fails too it ends by
// itself.
func (s *redisStorage) giveBack(ctx context.Context, name, token string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), redisTimeout)
	defer cancel()
	if err := s.client.Eval(ctx, unlockScript, []string{redisLock + name}, token).Err(); err != nil {
		s.log.Debug("acme: a lock was left to end by itself", "lock", name, "error", err)
	}
}
