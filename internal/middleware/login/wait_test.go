package login

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// silence is a store that does not answer.
type silence struct{ keeper }

func (silence) remote() bool { return true }

func (silence) sealed(ctx context.Context, _ string) (string, error) {
	<-ctx.Done()
	return "", storeFailure(ctx.Err())
}

func (silence) end(ctx context.Context, _ string) error {
	<-ctx.Done()
	return storeFailure(ctx.Err())
}

// TestWaitsEnd with the exchange's own time, where that is shorter than what there is
// patience for.
func TestWaitsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		wait     func(g *gate, x *pipeline.Exchange) error
		patience time.Duration
	}{
		"for the store":  {func(g *gate, x *pipeline.Exchange) error { _, err := g.sealed(x, "a"); return err }, storePatience},
		"for the end":    {func(g *gate, x *pipeline.Exchange) error { return g.endSession(x, "a") }, storePatience},
		"for the issuer": {func(g *gate, x *pipeline.Exchange) error { _, err := g.current(x); return err }, longPatience},
		"for one that is known": {func(g *gate, x *pipeline.Exchange) error {
			g.provider.known, g.provider.away = &metadata{}, true
			_, err := g.current(x)
			return err
		}, shortPatience},
		"for a refresh":    {func(g *gate, x *pipeline.Exchange) error { return awaited(g, x, -time.Minute) }, longPatience},
		"for an early one": {func(g *gate, x *pipeline.Exchange) error { return awaited(g, x, time.Minute) }, shortPatience},
	} {
		for _, bound := range []string{"the call's", "the route's", "none"} {
			t.Run(name+", "+bound, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &settings{secrets: []string{"0123456789abcdef"}}
					g := &gate{settings: s, keeper: silence{}, sessions: newSessions(), provider: newProvider(providerSettings{}, newRegistry(), slog.New(slog.DiscardHandler)), now: time.Now}
					x := pipeline.NewExchange(t.Context(), &message.Request{}, &model.Listener{}, peer, time.Now())
					want := c.patience
					switch bound {
					case "the call's":
						want = 100 * time.Millisecond
						x.Until = time.Now().Add(want)
					case "the route's":
						want = 100 * time.Millisecond
						x.Route = &model.Route{Timeouts: model.RouteTimeouts{Response: want}}
					}
					began := time.Now()
					err := c.wait(g, x)
					if took := time.Since(began); took != want || (err == nil) != (name == "for an early one") {
						t.Errorf("%v after %v, want it after %v", err, took, want)
					}
				})
			})
		}
	}
}

// awaited waits for a refresh that does not end, of a session that is good for so long.
func awaited(g *gate, x *pipeline.Exchange, good time.Duration) error {
	h := &held{session: &session{Until: time.Now().Add(good).Unix()}}
	g.sessions.flights[h.mark] = &flight{over: make(chan struct{})}
	_, err := g.await(x, h, "")
	return err
}
