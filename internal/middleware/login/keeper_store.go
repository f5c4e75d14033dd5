package login

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/store"
)

const (
	// lockTime is for how long one instance may refresh a session alone.
	lockTime = 2 * flightTime
	// lookTime is how often another one looks whether it has.
	lookTime = 50 * time.Millisecond
	idLength = 43 // of what random returns
)

// storeKeeper keeps sessions in a store; the client has the key to one. The store knows a
// hash of that alone, and what it keeps is encrypted by a key that needs it: who reads the
// store, or writes to it, can neither read a session nor use or make one.
type storeKeeper struct {
	seal  *sealer
	store *store.Store
}

// place is what a session is called in the store. The braces have a cluster keep all that
// is of one session on one server.
func (k *storeKeeper) place(text string) string {
	sum := sha256.Sum256([]byte("sluice oidc session\n" + text))
	return "sluice:session:{" + hex.EncodeToString(sum[:]) + "}"
}

func (k *storeKeeper) sealed(ctx context.Context, text string) (string, error) {
	if len(text) != idLength {
		return "", nil
	}
	sealed, err := k.store.Redis.Get(ctx, k.place(text)).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return sealed, storeFailure(err)
}

// storeFailure says of an error that it is the store's.
func storeFailure(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errStore, err)
}

func (k *storeKeeper) open(text, sealed string) (*session, error) {
	data, err := k.seal.open(purposeStored, text, k.place(text), sealed)
	if err != nil {
		return nil, err
	}
	return decodeSession(data)
}

func (k *storeKeeper) sealFor(text string, s *session) string {
	return k.seal.seal(purposeStored, text, k.place(text), s.encode())
}

func (k *storeKeeper) save(ctx context.Context, s *session, life time.Duration) (string, error) {
	text := random()
	return text, storeFailure(k.store.Redis.Set(ctx, k.place(text), k.sealFor(text, s), life).Err())
}

// unlock gives a lock back that is still one's own.
var unlock = redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)

func (k *storeKeeper) renew(ctx context.Context, text, sealed string, refresh renewal) (newText, newSealed string, err error) {
	place, own := k.place(text), random()
	lock := place + ":lock"
	for {
		mine, err := k.store.Redis.SetNX(ctx, lock, own, lockTime).Result()
		if err != nil {
			return "", "", storeFailure(err)
		}
		now, err := k.sealed(ctx, text)
		if err == nil && now == sealed && mine {
			now, err = k.renewAlone(ctx, text, sealed, refresh)
		} else if err == nil && now == sealed { // another instance is at it
			if err := pause(ctx, lookTime); err != nil {
				return "", "", err
			}
			continue
		}
		if mine {
			_ = unlock.Run(ctx, k.store.Redis, []string{lock}, own).Err() // else it ends by itself
		}
		if err == nil && now == "" {
			err = errGone
		}
		return text, now, err
	}
}

// renewAlone refreshes a session while nobody else does. It does not come back once
// somebody has ended it meanwhile.
func (k *storeKeeper) renewAlone(ctx context.Context, text, sealed string, refresh renewal) (string, error) {
	s, err := k.open(text, sealed)
	if err != nil {
		return "", err
	}
	if s, err = refresh(ctx, s); err != nil {
		return "", err
	}
	next := k.sealFor(text, s)
	for {
		// The refresh token of before is spent: the session is lost unless this is kept.
		err := k.store.Redis.SetArgs(ctx, k.place(text), next, redis.SetArgs{Mode: "XX", KeepTTL: true}).Err()
		switch {
		case err == nil:
			return next, nil
		case errors.Is(err, redis.Nil):
			return "", errGone
		}
		if late := pause(ctx, lookTime); late != nil {
			return "", storeFailure(err)
		}
	}
}

// pause waits a little.
func pause(ctx context.Context, long time.Duration) error {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (k *storeKeeper) end(ctx context.Context, text string) error {
	if len(text) != idLength {
		return nil
	}
	return storeFailure(k.store.Redis.Del(ctx, k.place(text)).Err())
}

func (k *storeKeeper) remote() bool { return true }
