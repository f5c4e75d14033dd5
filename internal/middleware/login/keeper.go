package login

import (
	"context"
	"errors"
	"time"
)

// renewal gets a session anew from the issuer.
type renewal func(ctx context.Context, s *session) (*session, error)

// keeper is where sessions are kept. text is what a client has, and comes from outside.
type keeper interface {
	// sealed returns the session as it is kept, empty where there is none.
	sealed(ctx context.Context, text string) (string, error)
	// open reads what sealed has returned.
	open(text, sealed string) (*session, error)
	// save keeps a new session for so long, and returns what the client is to have.
	save(ctx context.Context, s *session, life time.Duration) (text string, err error)
	// renew has a session refreshed that is kept as sealed, unless somebody else does so,
	// and returns what is kept and what the client is to have then. errGone: it has ended
	// meanwhile.
	renew(ctx context.Context, text, sealed string, refresh renewal) (newText, newSealed string, err error)
	// end forgets a session.
	end(ctx context.Context, text string) error
	// remote tells whether any of this may take long.
	remote() bool
}

// errGone says that a session has ended.
var errGone = errors.New("the session has ended")

// errStore says that a store does not answer.
var errStore = errors.New("the store of sessions does not answer")

// errRoom says that a session fits into no cookies.
var errRoom = errors.New("the session is larger than cookies may be: session.store keeps larger ones")

// cookieKeeper has the client keep its session, encrypted. It knows nothing of those that
// are out: each is good until it says itself that it has ended.
type cookieKeeper struct{ seal *sealer }

func (k *cookieKeeper) sealed(_ context.Context, text string) (string, error) { return text, nil }

func (k *cookieKeeper) open(_, sealed string) (*session, error) {
	data, err := k.seal.open(purposeSession, "", "", sealed)
	if err != nil {
		return nil, err
	}
	return decodeSession(data)
}

func (k *cookieKeeper) save(_ context.Context, s *session, _ time.Duration) (string, error) {
	text := k.seal.seal(purposeSession, "", "", s.encode())
	if len(text) > mostChunks*chunkSize {
		return "", errRoom
	}
	return text, nil
}

func (k *cookieKeeper) renew(ctx context.Context, text, sealed string, refresh renewal) (newText, newSealed string, err error) {
	s, err := k.open(text, sealed)
	if err != nil {
		return "", "", err
	}
	if s, err = refresh(ctx, s); err != nil {
		return "", "", err
	}
	text, err = k.save(ctx, s, 0)
	return text, text, err
}

func (k *cookieKeeper) end(context.Context, string) error { return nil }

func (k *cookieKeeper) remote() bool { return false }
