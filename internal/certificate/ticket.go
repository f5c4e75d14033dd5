package certificate

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"
)

const (
	// rotation is how long a key encrypts tickets. A ticket can be used until
	// its key has been replaced keptSecrets times: for a day at least.
	rotation    = 12 * time.Hour
	keptSecrets = 3
)

// tickets are the keys that session tickets are encrypted with (RFC 5077, RFC
// 8446 4.6.1). They never leave the memory of the process, and what was
// encrypted with one that is gone cannot be read by anybody.
type tickets struct {
	mu      sync.Mutex
	secrets []secret // the newest first
}

type secret struct {
	text [32]byte
	born time.Time
}

// keys returns the keys for sessions of a scope, the one to encrypt with first,
// and until when they are to be used. Those of two scopes have nothing in common.
func (t *tickets) keys(scope string, now time.Time) (keys [][32]byte, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.secrets) == 0 || now.Sub(t.secrets[0].born) >= rotation {
		fresh := secret{born: now}
		_, _ = rand.Read(fresh.text[:]) // it never fails
		kept := []secret{fresh}
		for _, s := range t.secrets {
			if len(kept) < keptSecrets && now.Sub(s.born) < keptSecrets*rotation {
				kept = append(kept, s)
			}
		}
		t.secrets = kept
	}
	for _, s := range t.secrets {
		mac := hmac.New(sha256.New, s.text[:])
		mac.Write([]byte(scope))
		keys = append(keys, [32]byte(mac.Sum(nil)))
	}
	return keys, t.secrets[0].born.Add(rotation)
}
