package auth

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
	"sluice/internal/redistest"
)

func nonced(nonce string) *message.Request {
	return signing{params: fmt.Sprintf(";nonce=%q", nonce)}.sign(request("/"))
}

func TestNonce(t *testing.T) {
	options := fmt.Sprintf(hmacOptions, ", nonce: {}")
	b := newBed(t, HMAC(), options)
	if _, err := b.at(nonced("one"), signedAt); err != nil {
		t.Fatal(err)
	}
	if _, err := b.at(nonced("two"), signedAt); err != nil {
		t.Error(err)
	}
	b.load(options) // as a reload does
	for what, r := range map[string]*message.Request{
		"once more": nonced("one"),
		"none":      signing{}.sign(request("/")),
		"empty":     nonced(""),
		"long":      nonced(fmt.Sprintf("%0257d", 1)),
	} {
		_, err := b.at(r, signedAt)
		b.refused(what, err, hmacChallenge)
	}
	// Whoever only pretends uses nothing up, nor does a request that is not good.
	_, err := b.at(signing{key: "shop", secret: "another", params: `;nonce="three"`}.sign(request("/")), signedAt)
	b.refused("another secret", err, hmacChallenge)
	r := signing{components: []string{"@method", "@path", "content-digest"}, params: `;nonce="three"`}.sign(body(request("/"), "hello", true))
	_, err = b.at(bare(r, "hullo", true), signedAt)
	b.refused("another body", err, hmacChallenge)
	if _, err := b.at(nonced("three"), signedAt); err != nil {
		t.Error(err)
	}
	// The same nonce of another key is another one.
	if _, err := b.at(signing{key: "app-1", secret: "another-secret-of-an-app", params: `;nonce="one"`}.sign(request("/")), signedAt); err != nil {
		t.Error(err)
	}
}

// TestNonceOnce: of many who come with one nonce at once one passes.
func TestNonceOnce(t *testing.T) {
	n := &ownNonces{}
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if fresh, err := n.use("n", signedAt, time.Minute, 10); fresh && err == nil {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	if passed.Load() != 1 {
		t.Errorf("%d passed", passed.Load())
	}
}

// TestNoncesAreKept for as long as they could be used, and not for good.
func TestNoncesAreKept(t *testing.T) {
	const life = time.Minute
	const most = 1_000_000
	n, last := &ownNonces{}, map[int]time.Duration{}
	for i := range 2000 {
		now := time.Duration(i) * time.Second
		if fresh, err := n.use(fmt.Sprint(i), signedAt.Add(now), life, most); !fresh || err != nil {
			t.Fatal(i, fresh, err)
		}
		last[i] = now
		for back := 0; back <= 60 && back <= i; back++ {
			if fresh, err := n.use(fmt.Sprint(i-back), signedAt.Add(now), life, most); fresh || err != nil {
				t.Fatalf("the nonce of %d s before passes again: %v", back, err)
			}
		}
		if kept := len(n.young) + len(n.old); kept > 121 {
			t.Fatalf("%d are kept", kept)
		}
	}
	if fresh, _ := n.use("0", signedAt.Add(time.Hour), life, most); !fresh || len(n.old) != 0 {
		t.Error("after a long time nothing is forgotten")
	}
}

// TestNoncesOverARollback: what was used is not forgotten by a reload that takes the key
// away, since the next one may undo that; nor is it kept for good.
func TestNoncesOverARollback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		with := fmt.Sprintf(hmacOptions, ", nonce: {}, clock_skew: 10s")
		without := "{keys: [{id: shop, secret: a-secret-of-another-time}], nonce: {}, clock_skew: 10s}"
		b := newBed(t, HMAC(), with)
		serve := func() error {
			now := time.Now()
			_, err := b.at(signing{params: fmt.Sprintf(`;created=%d;nonce="one"`, now.Unix())}.sign(request("/")), now)
			if err != nil {
				return err
			}
			return nil
		}
		reload := func(options string, wait time.Duration) {
			b.load(options)
			b.sets[0].Release()
			b.sets = b.sets[1:]
			time.Sleep(wait)
		}
		if err := serve(); err != nil {
			t.Fatal(err)
		}
		reload(without, 19*time.Second)
		reload(with, 0)
		if err := serve(); err == nil {
			t.Error("a nonce passes again")
		}
		reload(without, 22*time.Second)
		reload(with, 0)
		if err := serve(); err != nil {
			t.Errorf("a nonce is kept for too long: %v", err)
		}
	})
}

// TestNoncesOfAShorterLife: a place that asks for less does not have forgotten what another
// one may see again.
func TestNoncesOfAShorterLife(t *testing.T) {
	n := &ownNonces{}
	for _, use := range []struct {
		nonce string
		after time.Duration
		life  time.Duration
		fresh bool
	}{{"a", 0, time.Hour, true}, {"b", 10 * time.Minute, time.Minute, true}, {"a", 50 * time.Minute, time.Minute, false}, {"a", 3 * time.Hour, time.Minute, true}} {
		if fresh, err := n.use(use.nonce, signedAt.Add(use.after), use.life, 10); fresh != use.fresh || err != nil {
			t.Errorf("%+v: %v, %v", use, fresh, err)
		}
	}
}

// TestNoncesAreBounded: where there is no room nobody passes, until there is.
func TestNoncesAreBounded(t *testing.T) {
	b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ", nonce: {max: 2}, clock_skew: 10s"))
	for i := range 4 {
		_, err := b.at(nonced(fmt.Sprint(i)), signedAt)
		if full := i >= 2; full != (err != nil) || full && err.Word != pipeline.AuthUnavailable {
			t.Errorf("%d: %v", i, err)
		}
	}
	_, err := b.at(nonced("0"), signedAt)
	b.refused("one that was used", err, hmacChallenge)
	later := signedAt.Add(time.Minute)
	if _, err := b.at(signing{params: fmt.Sprintf(`;created=%d;nonce="3"`, later.Unix())}.sign(request("/")), later); err != nil {
		t.Error(err)
	}
}

// TestNonceOfASlowBody: whoever sends a request again cannot hold its body back until its
// nonce is forgotten.
func TestNonceOfASlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, HMAC(), fmt.Sprintf(hmacOptions, ", nonce: {}, clock_skew: 10s"))
		signed := func() *message.Request {
			return signing{components: []string{"@method", "@path", "content-digest"}, params: `;nonce="one"`}.sign(body(request("/"), "hello", true))
		}
		if _, err := b.at(signed(), signedAt); err != nil {
			t.Fatal(err)
		}
		again := signed()
		again.Body = slow{again.Body, func() {
			for i := range 3 { // others come by, and the nonce has had its time
				time.Sleep(25 * time.Second)
				now := signedAt.Add(time.Duration(i+1) * 25 * time.Second)
				if _, err := b.at(signing{params: fmt.Sprintf(`;created=%d;nonce="%d"`, now.Unix(), i)}.sign(request("/")), now); err != nil {
					t.Error(err)
				}
			}
			b.came = nil
		}}
		_, err := b.at(again, signedAt)
		b.refused("once more", err, hmacChallenge)
	})
}

// slow is a body before whose bytes something happens.
type slow struct {
	io.ReadCloser
	before func()
}

func (s slow) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	if n > 0 {
		s.before()
	}
	return n, err
}

// TestNoncesOfDigests: an id with a secret is told from any other, however they are
// parted.
func TestNoncesOfDigests(t *testing.T) {
	seen := map[string]bool{}
	for _, key := range [][2]string{{"a", "bc"}, {"ab", "c"}, {"a", "bd"}, {"b", "bc"}} {
		seen[(&hmacKey{secret: []byte(key[1])}).digest(key[0])] = true
	}
	if len(seen) != 4 {
		t.Errorf("%d digests of four keys", len(seen))
	}
}

// TestNoncesElsewhere: what was used in one place is used in all that know the key, also
// where a reload gives the place another name, and for as long as the most patient takes it.
func TestNoncesElsewhere(t *testing.T) {
	for where, more := range map[string]string{"memory": "", "a store": "store: main"} {
		t.Run(where, func(t *testing.T) {
			b := &bed{t: t, kind: HMAC(), store: redistest.Start(t).Address}
			b.load(fmt.Sprintf(hmacOptions, ", clock_skew: 1h, nonce: {"+more+"}"))
			b.id = "other"
			b.load(fmt.Sprintf(hmacOptions, ", clock_skew: 10s, nonce: {"+more+"}"))
			if _, err := b.at(nonced("one"), signedAt); err != nil {
				t.Fatal(err)
			}
			b.id = ""
			b.load(fmt.Sprintf(hmacOptions, ", clock_skew: 1h, nonce: {"+more+"}"))
			for range 2 {
				_, err := b.at(nonced("one"), signedAt.Add(30*time.Minute))
				b.refused("once more", err, hmacChallenge)
			}
			// Another secret of the same name has nonces of its own.
			options := `{keys: [{id: shop, secret: another-secret-of-a-shop}], nonce: {` + more + `}}`
			b.load(options)
			r := signing{key: "shop", secret: "another-secret-of-a-shop", params: `;nonce="one"`}.sign(request("/"))
			if _, err := b.at(r, signedAt); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSharedNonces uses nonces at two gateways that share a Redis.
func TestSharedNonces(t *testing.T) {
	options := fmt.Sprintf(hmacOptions, ", nonce: {store: main}")
	server := redistest.Start(t)
	gateway := func() *bed {
		b := &bed{t: t, kind: HMAC(), store: server.Address}
		b.load(options)
		return b
	}
	one, other := gateway(), gateway()
	for i, order := range [][]*bed{{one, other}, {other, one}} {
		nonce := fmt.Sprint(i)
		if _, err := order[0].at(nonced(nonce), signedAt); err != nil {
			t.Error(err)
		}
		for _, b := range order {
			_, err := b.at(nonced(nonce), signedAt)
			b.refused("once more", err, hmacChallenge)
		}
	}
	for _, key := range server.Must("KEYS", "*").([]any) {
		if left, ok := server.Must("PTTL", key).(int64); !ok || left <= 590_000 || left > 601_000 {
			t.Errorf("%v is kept for %v ms", key, left)
		}
	}
	late := exchange(t, nonced("late"))
	late.Start, late.Until = signedAt, time.Now()
	if _, err := one.serveExchange(late); err == nil || err.Word != pipeline.AuthUnavailable {
		t.Errorf("with no time left: %v", err)
	}
	server.Kill()
	if _, err := one.at(nonced("two"), signedAt); err == nil || err.Word != pipeline.AuthUnavailable {
		t.Errorf("without the store: %v", err)
	}
}
