package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// dearOnes is a bed whose tokens take long to be verified, and one that nobody has signed.
func dearOnes(t *testing.T) (b *bed, bogus string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 132)
	signature[65], signature[131] = 1, 1
	return newBed(t, JWT(), issuer("public_key: "+inYAML(publicPEM(&key.PublicKey)))),
		bearing(part(fields{"alg": "ES512"}) + "." + part(claimsOf(nil)) + "." + base64.RawURLEncoding.EncodeToString(signature))
}

// TestDearTokensAside: tokens that take long hold nobody else up, also those that nobody has
// signed.
func TestDearTokensAside(t *testing.T) {
	b, bogus := dearOnes(t)
	aside := 0
	x := pipeline.NewExchange(engine{t.Context(), &aside}, request("/", bogus), &model.Listener{}, netip.AddrPort{}, time.Now())
	_, err := b.serveExchange(x)
	b.refused("a token that nobody has signed", err, challengeToken)
	if aside != 1 {
		t.Errorf("%d aside", aside)
	}
	if n := len(acquireAside(b.sets[0]).slots); n != 0 {
		t.Errorf("%d slots are taken", n)
	}
}

// TestTooManyDearTokens: what cannot be verified in time is not refused, and who leaves waits
// no more.
func TestTooManyDearTokens(t *testing.T) {
	b, bogus := dearOnes(t)
	slots := acquireAside(b.sets[0]).slots
	for range cap(slots) {
		slots <- struct{}{}
	}
	gone, leave := context.WithCancelCause(t.Context())
	leave(pipeline.ErrClientGone)
	x := exchange(t, request("/", bogus))
	x.Init(gone, "")
	if _, err := b.serveExchange(x); err == nil || err.Word != pipeline.ClientClosed {
		t.Errorf("a client that has left: %v", err)
	}
	x = exchange(t, request("/", bogus))
	x.Until = time.Now()
	if _, err := b.serveExchange(x); err == nil || err.Word != pipeline.AuthUnavailable || err.Fields.Get(message.RetryAfter) == "" {
		t.Errorf("one that must be answered: %v", err)
	}
	<-slots
	_, err := b.serve(request("/", bogus))
	b.refused("one that has a slot", err, challengeToken)
}

// TestDearTokensWait for as long as may be.
func TestDearTokensWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, bogus := dearOnes(t)
		slots := acquireAside(b.sets[0]).slots
		for range cap(slots) {
			slots <- struct{}{}
		}
		began := time.Now()
		if _, err := b.serve(request("/", bogus)); err == nil || err.Word != pipeline.AuthUnavailable || time.Since(began) != maxWait {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// TestAsideAfterPanics: what verifies and panics takes no place for good.
func TestAsideAfterPanics(t *testing.T) {
	b, _ := dearOnes(t)
	a, x := acquireAside(b.sets[0]), exchange(t, request("/"))
	x.Until = time.Now().Add(time.Minute)
	panicking := func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic is swallowed")
			}
		}()
		_ = a.do(x, func() { panic("a library has a fault") })
	}
	for range cap(a.slots) {
		panicking()
	}
	if n := len(a.slots); n > 0 {
		t.Errorf("%d of %d places are taken", n, cap(a.slots))
	}
}
