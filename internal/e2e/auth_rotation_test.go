package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

// caravan is clients that go on asking with tokens of one key at a time: fresh ones, and
// each once more. Every answer must be 200.
type caravan struct {
	*signedIn
	by    atomic.Value // the key that signs
	stop  context.CancelFunc
	over  sync.WaitGroup
	turns []atomic.Int64 // of each client, with the key that signs since the last change
}

func (s *signedIn) sendCaravan(t *testing.T, by string) *caravan {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c := &caravan{signedIn: s, stop: cancel, turns: make([]atomic.Int64, 6)}
	c.by.Store(by)
	ways := s.ways()
	for n := range c.turns {
		client := s.client(t, ways[n%len(ways)])
		c.over.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				kid, _ := c.by.Load().(string)
				if err := c.once(ctx, client, kid, fmt.Sprint(n, ".", turn)); err != nil {
					t.Errorf("a token by the key %s: %v", kid, err)
					return
				}
				if c.by.Load() == kid {
					c.turns[n].Add(1)
				}
			}
		})
	}
	t.Cleanup(c.end) // before the clients' connections are closed
	return c
}

// once shows a fresh token twice.
func (c *caravan) once(ctx context.Context, client *siteClient, kid, id string) error {
	token, err := c.issuer.token(kid, map[string]any{"jti": id})
	if err != nil {
		return err
	}
	for range 2 {
		r, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodGet, client.base+"/who", http.NoBody)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+token)
		came := try(client.Transport, r)
		if came.err != nil {
			return came.err
		}
		if came.StatusCode != http.StatusOK {
			return fmt.Errorf("%d: %s", came.StatusCode, came.body)
		}
	}
	return nil
}

// sign changes the key that signs.
func (c *caravan) sign(by string) {
	c.by.Store(by)
	for n := range c.turns {
		c.turns[n].Store(0)
	}
}

// goesOn waits until each client has made so many turns.
func (c *caravan) goesOn(t *testing.T, turns int64) {
	t.Helper()
	for n := range c.turns {
		gatewaytest.WaitFor(t, fmt.Sprint("client ", n, " has gone on"), func() bool { return t.Failed() || c.turns[n].Load() >= turns })
	}
	if t.Failed() {
		t.FailNow()
	}
}

func (c *caravan) end() {
	c.stop()
	c.over.Wait()
}

// TestKeysRotateUnderLoad: keys come, sign from the moment in which they are served, and
// go, without one token refused that is good, over reloads as well. A key that was withdrawn is
// good for nothing, also for a token that was good before.
func TestKeysRotateUnderLoad(t *testing.T) {
	once(t)
	s := startSignedIn(t)
	s.issuer.serve(t, "one")
	reload := s.reloads(t)
	reload()
	c := s.sendCaravan(t, "one")
	c.goesOn(t, 5)
	client := s.client(t, "h1")
	gone := s.issuer.bearer(t, "two", nil)
	ask := func() int {
		status, _, _ := answerOf(t, client, asking(t, client, "GET", "/who", "", "Authorization: "+gone))
		return status
	}
	for _, keys := range [][2]string{{"one", "two"}, {"two", "three"}, {"three", "one"}} {
		s.issuer.serve(t, keys[0], keys[1])
		c.sign(keys[1])
		c.goesOn(t, 5)
		if status := ask(); (status == http.StatusOK) != (keys[0] == "two" || keys[1] == "two") {
			t.Errorf("a token by the key two, while %v are served: %d", keys, status)
		}
		fetches := s.issuer.fetches.Load()
		for range 3 {
			reload()
			c.goesOn(t, 2)
		}
		if n := s.issuer.fetches.Load(); n != fetches {
			t.Errorf("reloads have the keys fetched %d times", n-fetches)
		}
	}
	c.end()
	if n := s.issuer.fetches.Load(); n > 10 {
		t.Errorf("%d fetches", n)
	}
}

// reloads returns what changes the configuration, each time.
func (s *signedIn) reloads(t *testing.T) func() {
	t.Helper()
	n := 0
	return func() {
		n++
		s.Load(s.document + fmt.Sprintf("  - {match: {path: /more%d}, respond: {status: 200}}\n", n))
	}
}

// TestIssuerIsDown: tokens by keys that are known are good for as long as it lasts, also
// over reloads; one by another key is 503 until the issuer is back. With -long that is
// for longer than the time after which keys are asked for again.
func TestIssuerIsDown(t *testing.T) {
	once(t)
	s := startSignedIn(t)
	c := s.sendCaravan(t, "rsa")
	c.goesOn(t, 2)
	began := time.Now()
	s.issuer.serve(t)
	client := s.client(t, "h1")
	other := s.issuer.bearer(t, "one", nil)
	ask := func() int {
		status, header, _ := answerOf(t, client, asking(t, client, "GET", "/who", "", "Authorization: "+other))
		if status == http.StatusServiceUnavailable && header.Get("Retry-After") == "" {
			t.Error("nobody is told when to come again")
		}
		return status
	}
	reload := s.reloads(t)
	for s.issuer.failed.Load() < 3 || *long && time.Since(began) < 80*time.Second {
		if status := ask(); status != http.StatusServiceUnavailable {
			t.Fatalf("a token that nobody can judge: %d", status)
		}
		c.goesOn(t, 2)
		if reload(); t.Failed() {
			return
		}
		c.sign("rsa") // the turns count anew
	}
	lasted, tries := time.Since(began), s.issuer.failed.Load()
	url := s.issuer.URL + "/keys"
	if failures := s.Metric("gateway_jwks_fetches_total", "url", url, "result", "failure"); failures < 3 {
		t.Errorf("%v fetches that failed are counted, of %d", failures, tries)
	}
	if n := s.Metric("gateway_jwks_keys", "url", url); n != 1 {
		t.Errorf("%v keys are counted", n)
	}
	if float64(tries) > lasted.Seconds()+2 {
		t.Errorf("%d tries in %v", tries, lasted)
	}
	s.issuer.serve(t, "rsa", "one")
	gatewaytest.WaitFor(t, "the other key is known", func() bool { return ask() == http.StatusOK })
	c.goesOn(t, 2)
	c.end()
	if last := s.Metric("gateway_jwks_last_success_timestamp_seconds", "url", url); last < float64(began.Add(lasted).UnixNano())/1e9 {
		t.Errorf("the last success was at %v, before the end of the outage", last)
	}
	t.Logf("down for %v, asked %d times", lasted.Round(time.Millisecond), tries)
}
