package auth

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// issuing is an issuer that serves what keys it has, or nothing.
type issuing struct {
	*httptest.Server
	keys    atomic.Value // of string; empty: 500
	fetches atomic.Int64
}

func newIssuing(t *testing.T, keys string) *issuing {
	t.Helper()
	i := &issuing{}
	i.set(keys)
	i.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		if keys, _ := i.keys.Load().(string); keys != "" {
			fmt.Fprint(w, keys)
			return
		}
		w.WriteHeader(http.StatusInternalServerError)
	}))
	i.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	i.StartTLS()
	t.Cleanup(i.Close)
	return i
}

func (i *issuing) set(keys string) { i.keys.Store(keys) }

// options are those of a jwt that takes its tokens.
func (i *issuing) options(t *testing.T) (options string, files []string) {
	t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw})
	return issuer("jwks_url: '" + i.URL + "/keys', ca: ca.pem"), []string{"ca.pem", string(ca)}
}

func setOf(keys ...string) string { return `{"keys":[` + strings.Join(keys, ",") + `]}` }

func TestKeysByHTTP(t *testing.T) {
	k := tokenKeys()
	i := newIssuing(t, setOf(rsaJWK("k1", k.rsa)))
	options, files := i.options(t)
	b := newBed(t, JWT(), options, files...)
	// The first one waits for the keys.
	if p, err := b.serve(request("/", bearing(rs(k.rsa, "k1", claimsOf(nil))))); err != nil || p.Name != "u1" {
		t.Fatal(p, err)
	}
	_, err := b.serve(request("/", bearing(rs(k.other, "k2", claimsOf(nil)))))
	b.refused("a key that the issuer does not have", err, challengeToken)
	i.set(setOf(rsaJWK("k1", k.rsa), rsaJWK("k2", k.other)))
	if _, err := b.serve(request("/", bearing(rs(k.other, "k2", claimsOf(nil))))); err != nil {
		t.Errorf("a key that the issuer has by now: %v", err)
	}
	fetches := i.fetches.Load()
	_, err = b.serve(request("/", bearing(rs(k.other, "k1", claimsOf(nil)))))
	b.refused("another key under a known name", err, challengeToken)
	_, err = b.serve(request("/", bearing(rs(k.other, "k3", claimsOf(fields{"exp": 1})))))
	b.refused("an unknown key of a token that has expired", err, challengeToken)
	if n := i.fetches.Load(); n != fetches {
		t.Errorf("%d fetches that nobody needed", n-fetches)
	}
	i.set(setOf(rsaJWK("k2", k.other)))
	_, err = b.serve(request("/", bearing(rs(k.rsa, "k3", claimsOf(nil))))) // brings the new set
	b.refused("an unknown key", err, challengeToken)
	_, err = b.serve(request("/", bearing(rs(k.rsa, "k1", claimsOf(nil)))))
	b.refused("a key that was taken away", err, challengeToken)
}

func TestIssuerDown(t *testing.T) {
	k := tokenKeys()
	i := newIssuing(t, "")
	options, files := i.options(t)
	b := newBed(t, JWT(), options, files...)
	good := bearing(rs(k.rsa, "k1", claimsOf(nil)))
	for range 3 {
		_, err := b.serve(request("/", good))
		if err == nil || err.Word != pipeline.AuthUnavailable || err.Status != 503 || err.Fields.Get(message.RetryAfter) == "" {
			t.Fatalf("without keys: %+v", err)
		}
	}
	_, err := b.serve(request("/", bearing(rs(k.rsa, "k1", claimsOf(fields{"exp": 1})))))
	b.refused("a token that no key would help", err, challengeToken)
	i.set(setOf(rsaJWK("k1", k.rsa)))
	until(t, "tokens of the issuer, which is there again, pass", func() bool {
		_, err := b.serve(request("/", good))
		return err == nil
	})
	i.set("")
	for n := range 3 {
		if _, err := b.serve(request("/", bearing(rs(k.rsa, "k1", claimsOf(fields{"n": n}))))); err != nil {
			t.Errorf("a token by a key that is there: %v", err)
		}
	}
	if _, err := b.serve(request("/", bearing(rs(k.other, "k2", claimsOf(nil))))); err == nil || err.Word != pipeline.AuthUnavailable {
		t.Errorf("a key that the issuer may have by now: %v", err)
	}
}

// TestRotationUnderLoad: keys come and go; a token that is signed by a key which the
// issuer serves is never refused.
func TestRotationUnderLoad(t *testing.T) {
	k := tokenKeys()
	one, two := rsaJWK("k1", k.rsa), rsaJWK("k2", k.other)
	i := newIssuing(t, setOf(one))
	options, files := i.options(t)
	b := newBed(t, JWT(), options, files...)
	var served atomic.Int64
	serve := func(token string) error {
		r := request("/", bearing(token))
		if err := b.handler.Serve(exchange(t, r)); err != nil {
			return err
		}
		served.Add(1)
		return nil
	}
	b.handler = passing(t, b, options)
	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	by := atomic.Int64{} // which key signs for now
	by.Store(1)
	for c := range 4 {
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				token := rs(k.rsa, "k1", claimsOf(fields{"jti": fmt.Sprint(c, n)}))
				if by.Load() == 2 {
					token = rs(k.other, "k2", claimsOf(fields{"jti": fmt.Sprint(c, n)}))
				}
				for range 3 {
					if err := serve(token); err != nil {
						t.Errorf("a good token: %v", err)
						return
					}
				}
			}
		})
	}
	wait := func(n int64) {
		t.Helper()
		goal := served.Load() + n
		until(t, "the load goes on", func() bool { return served.Load() >= goal || t.Failed() })
	}
	wait(100)
	i.set(setOf(one, two)) // published, and at once used
	by.Store(2)
	wait(100)
	by.Store(1)
	wait(100)
	cancel()
	clients.Wait()
	if n := i.fetches.Load(); n > 5 {
		t.Errorf("%d fetches", n)
	}
}

// passing is the middleware of a bed in front of what notes nothing, for many at once.
func passing(t *testing.T, b *bed, options string) pipeline.Handler {
	t.Helper()
	gateway, problems := b.resolve(options)
	if problems != nil {
		t.Fatal(problems)
	}
	set := b.registry.NewSet()
	t.Cleanup(set.Release)
	route := gateway.Routes[0]
	site := &pipeline.Site{Leases: set, Gateway: gateway, Route: route, Step: &route.Chain[0], Log: slog.New(slog.DiscardHandler), ShowKeys: func(func() pipeline.KeysStatus) {}}
	step := b.kind.Build(site, route.Chain[0].Settings)
	if err := set.Commit(); err != nil {
		t.Fatal(err)
	}
	return pipeline.Chain(pipeline.HandlerFunc(func(*pipeline.Exchange) error { return nil }), step)
}

// TestClientLeavesWhileWaiting: what becomes of the exchange is not a matter of tokens.
func TestClientLeavesWhileWaiting(t *testing.T) {
	k := tokenKeys()
	i := newIssuing(t, setOf(rsaJWK("k1", k.rsa)))
	options, files := i.options(t)
	b := newBed(t, JWT(), options, files...)
	if _, err := b.serve(request("/", bearing(rs(k.rsa, "k1", claimsOf(nil))))); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(pipeline.ErrClientGone)
	x := exchange(t, request("/", bearing(rs(k.other, "k2", claimsOf(nil)))))
	x.Init(ctx, "")
	if err := b.handler.Serve(x); !errors.Is(err, pipeline.ErrClientGone) || pipeline.AsError(err).Word != pipeline.ClientClosed {
		t.Errorf("%v", err)
	}
}

// TestNoKeysInTime: who must be answered before an issuer is.
func TestNoKeysInTime(t *testing.T) {
	answer, outcome := make(chan struct{}), make(chan string, 1)
	i := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-answer:
			outcome <- "it was still asked"
		case <-r.Context().Done():
			outcome <- "it was asked no more"
		}
	}))
	t.Cleanup(i.Close)
	b := newBed(t, JWT(), issuer("jwks_url: '"+i.URL+"'"))
	x := exchange(t, request("/", bearing(rs(tokenKeys().rsa, "k1", claimsOf(nil)))))
	x.Until = time.Now()
	if _, err := b.serveExchange(x); err == nil || err.Word != pipeline.AuthUnavailable {
		t.Errorf("%v", err)
	}
	close(answer)
	if got := <-outcome; got != "it was still asked" {
		t.Error("the answer waited for the issuer: " + got)
	}
}
