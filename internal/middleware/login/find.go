package login

import (
	"context"
	"errors"
	"strings"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

const (
	// storePatience is how long a store may take.
	storePatience = time.Second
	// shortPatience is how long a request waits for the refresh of a session that is still
	// good, and for an issuer that is known and did not answer last; longPatience for what
	// nothing goes on without.
	shortPatience = 2 * time.Second
	longPatience  = flightTime + time.Second
	// mostRefreshes bounds how often one request goes on to the session of after a refresh.
	mostRefreshes = 4
)

// find returns the session that a client has, and whether it has to be told of another
// text for it; nil: there is none that is good.
func (g *gate) find(x *pipeline.Exchange, text string) (h *held, renewed bool, err error) {
	if text == "" {
		return nil, false, nil
	}
	sealed, err := g.sealed(x, text)
	if err != nil {
		return nil, false, err
	}
	if sealed == "" {
		return nil, false, nil
	}
	if h, err = g.opened(text, sealed); err != nil {
		return nil, false, nil //nolint:nilerr // it is as good as none
	}
	for range mostRefreshes {
		now := g.now().Unix()
		switch {
		case g.left(h.session) <= 0, g.sessions.leftBy(h.Login), h.Refresh == "" && now >= h.Until:
			return nil, false, nil
		case h.Refresh == "" || now < h.Due:
			return h, h.text != text, nil
		}
		next, err := g.await(x, h, sealed)
		if err != nil || next == nil || next == h {
			return next, next != nil && next.text != text, err
		}
		h, sealed = next, next.sealed
	}
	return nil, false, unavailable(errAway)
}

// sealed is the session as it is kept.
func (g *gate) sealed(x *pipeline.Exchange, text string) (sealed string, err error) {
	if !g.keeper.remote() {
		return text, nil
	}
	waitAtMost(x, storePatience, func(ctx context.Context) { sealed, err = g.keeper.sealed(ctx, text) })
	switch {
	case err != nil && x.Context().Err() != nil:
		return "", context.Cause(x.Context())
	case err != nil:
		return "", unavailable(err)
	}
	return sealed, nil
}

// opened is what a session as it is kept comes to.
func (g *gate) opened(text, sealed string) (*held, error) {
	m := markOf(text, sealed)
	if h := g.known.find(m, sealed); h != nil {
		return h, nil
	}
	s, err := g.keeper.open(text, sealed)
	if err != nil {
		return nil, err
	}
	user, err := g.userOf(s)
	if err != nil {
		return nil, err
	}
	// A text is a part of the request's fields, all of which would stay in memory with it.
	h := &held{session: s, user: user, text: strings.Clone(text), sealed: sealed, mark: m}
	if sealed == text {
		h.sealed = h.text
	}
	g.known.remember(h)
	return h, nil
}

// await waits for the refresh of a session. It returns the session itself where it is
// good without one, and nil where it has ended.
func (g *gate) await(x *pipeline.Exchange, h *held, sealed string) (*held, error) {
	good := g.now().Unix() < h.Until
	f := g.sessions.join(h.mark, g.now, func() (*held, error) { return g.refresh(h, sealed) })
	over := false
	if f != nil {
		select {
		case <-f.over:
			over = true
		default:
			patience := longPatience
			if good {
				patience = shortPatience
			}
			waitAtMost(x, patience, func(ctx context.Context) { over = isOver(ctx, f.over) })
		}
	}
	switch {
	case over && f.err == nil:
		// Another gate may have begun it, which tells other things of people.
		next, err := g.opened(f.held.text, f.held.sealed)
		if err != nil {
			return nil, nil //nolint:nilnil,nilerr // as any that cannot be opened
		}
		return next, nil
	case over && ended(f.err) != nil:
		return nil, nil //nolint:nilnil,nilerr // it has ended, which is no error
	case x.Context().Err() != nil:
		return nil, context.Cause(x.Context())
	case good:
		return h, nil
	}
	return nil, unavailable(errAway)
}

// waitAtMost has an exchange wait for what may take so long, and no longer than the
// exchange itself may.
func waitAtMost(x *pipeline.Exchange, patience time.Duration, block func(ctx context.Context)) {
	until := x.WaitUntil(patience)
	x.Wait(func() {
		ctx, cancel := context.WithDeadline(x.Context(), until)
		defer cancel()
		block(ctx)
	})
}

// isOver waits for the end of something, and tells whether it came.
func isOver(ctx context.Context, over <-chan struct{}) bool {
	select {
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}

// refresh gets a session anew. It goes on when the client that has asked first leaves:
// the others wait for it, and its refresh token is spent.
func (g *gate) refresh(h *held, sealed string) (*held, error) {
	ctx, cancel := context.WithTimeout(context.Background(), flightTime)
	defer cancel()
	var got *session // what the issuer has given: if nobody keeps it, it is to be good for nothing
	text, next, err := g.keeper.renew(ctx, h.text, sealed, func(ctx context.Context, s *session) (*session, error) {
		m, err := g.provider.everTold(ctx)
		if err != nil {
			return nil, err
		}
		t, err := g.again(ctx, m, s)
		if err != nil {
			return nil, err
		}
		began := time.Unix(s.Began, 0)
		fresh := newSession(t, began, g.now())
		fresh.Login, fresh.Nonce = s.Login, s.Nonce
		if fresh.IDToken == "" {
			fresh.IDToken = s.IDToken
		}
		got = fresh
		_, err = g.userOf(fresh)
		return fresh, err
	})
	if err == nil {
		var fresh *held
		if fresh, err = g.opened(text, next); err == nil {
			return fresh, nil
		}
	}
	if cause := ended(err); cause != nil {
		g.log.Info("a session has ended: it could not be refreshed", "issuer", g.Provider.Issuer, "error", cause)
		if err := g.keeper.end(ctx, h.text); err != nil {
			if times := g.sessions.stays.due(g.now()); times > 0 {
				g.log.Warn("a session that has ended stays in its store until its time is over", "error", err, "times", times)
			}
		}
		if got != nil {
			g.revokeLater(func(context.Context) *session { return got })
		}
		return nil, err
	}
	if times := g.sessions.stale.due(g.now()); times > 0 {
		g.log.Warn("sessions cannot be refreshed for now", "issuer", g.Provider.Issuer, "error", err, "times", times)
	}
	return nil, err
}

// ended returns why a session is over for good, as a failed refresh has it; nil: it is
// not, or there was no failure. Nobody knows whether a session is good that the issuer
// does not answer for, or that a store does not give.
func ended(err error) error {
	for _, away := range []error{errAway, errSetUp, errStore, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, away) {
			return nil
		}
	}
	return err
}

// unavailable is 503: nobody can tell for now who the client is.
func unavailable(cause error) *pipeline.Error {
	err := pipeline.NewError(pipeline.AuthUnavailable, cause)
	err.Fields.Put(message.RetryAfter, "1")
	return err
}
