package auth

import (
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/bcrypt"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func (p *passwords) counts() (waiting, running, verified int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting, len(p.running), p.right.Len()
}

// TestVerifiedNeedNoProcessor: what was right is told at once, while nobody may check.
func TestVerifiedNeedNoProcessor(t *testing.T) {
	p, hash := newPasswords(1), bcrypted(t, "right")
	for password, want := range map[string]bool{"right": true, "wrong": false} {
		if good, err := p.check(exchange(t, request("/")), &attempt{hash: hash, password: password}); good != want || err != nil {
			t.Errorf("%s: %v, %v", password, good, err)
		}
	}
	p.slots <- struct{}{}
	if good, err := p.check(exchange(t, request("/")), &attempt{hash: hash, password: "right"}); !good || err != nil {
		t.Errorf("%v, %v", good, err)
	}
	if _, _, verified := p.counts(); verified != 1 {
		t.Errorf("%d are remembered: wrong ones, too", verified)
	}
}

// TestOneCheck: many who come with the same password at once cost one check.
func TestOneCheck(t *testing.T) {
	p, hash := newPasswords(1), bcrypted(t, "right")
	p.slots <- struct{}{}
	const clients = 50
	var arrived sync.WaitGroup
	var done sync.WaitGroup
	arrived.Add(clients)
	for range clients {
		done.Go(func() {
			x := exchange(t, request("/"))
			arrived.Done()
			if good, err := p.check(x, &attempt{hash: hash, password: "right"}); !good || err != nil {
				t.Errorf("%v, %v", good, err)
			}
		})
	}
	arrived.Wait()
	until(t, "somebody checks", func() bool { waiting, _, _ := p.counts(); return waiting > 0 })
	if waiting, running, _ := p.counts(); waiting != 1 || running != 1 {
		t.Errorf("%d check, %d are known", waiting, running)
	}
	<-p.slots
	done.Wait()
	if waiting, running, verified := p.counts(); waiting != 0 || running != 0 || verified != 1 {
		t.Errorf("%d, %d, %d are left", waiting, running, verified)
	}
}

// TestFlood: checks that nobody has time for are refused, and do not pile up.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, hash := newPasswords(1), bcrypted(t, "right")
		p.slots <- struct{}{}
		start := time.Now()
		var done sync.WaitGroup
		for i := range maxWaiters {
			done.Go(func() {
				_, err := p.check(exchange(t, request("/")), &attempt{hash: hash, password: fmt.Sprint("guess ", i)})
				if e := pipeline.AsError(err); e == nil || e.Word != pipeline.AuthUnavailable || time.Since(start) != maxWait {
					t.Errorf("after %v: %v", time.Since(start), err)
				}
			})
		}
		synctest.Wait()
		_, err := p.check(exchange(t, request("/")), &attempt{hash: hash, password: "one more"})
		if e := pipeline.AsError(err); e == nil || e.Word != pipeline.AuthUnavailable || time.Since(start) != 0 {
			t.Errorf("one more: after %v: %v", time.Since(start), err)
		}
		done.Wait()
		<-p.slots
		if good, err := p.check(exchange(t, request("/")), &attempt{hash: hash, password: "right"}); !good || err != nil {
			t.Errorf("after the flood: %v, %v", good, err)
		}
	})
}

// TestNoCheckOutlastsItsCall: who must be answered sooner is, and makes nobody else wait.
func TestNoCheckOutlastsItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, hash := newPasswords(1), bcrypted(t, "right")
		p.slots <- struct{}{}
		start := time.Now()
		var done sync.WaitGroup
		for _, most := range []time.Duration{time.Second, 2 * time.Second} {
			done.Go(func() {
				x := exchange(t, request("/"))
				x.Until = start.Add(most)
				_, err := p.check(x, &attempt{hash: hash, password: "right"})
				if e := pipeline.AsError(err); e == nil || e.Word != pipeline.AuthUnavailable || time.Since(start) != most {
					t.Errorf("within %v: after %v: %v", most, time.Since(start), err)
				}
			})
		}
		done.Wait()
		<-p.slots
	})
}

// TestLeaver: where the client leaves whose check others wait for, one of them makes it.
func TestLeaver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, hash := newPasswords(1), bcrypted(t, "right")
		p.slots <- struct{}{}
		ctx, leave := context.WithCancelCause(t.Context())
		var done sync.WaitGroup
		done.Go(func() {
			x := pipeline.NewExchange(ctx, &message.Request{}, &model.Listener{}, netip.AddrPort{}, time.Now())
			_, err := p.check(x, &attempt{hash: hash, password: "right"})
			if e := pipeline.AsError(err); e == nil || e.Word != pipeline.ClientClosed {
				t.Errorf("who left got %v", err)
			}
		})
		synctest.Wait()
		for range 3 {
			done.Go(func() {
				if good, err := p.check(exchange(t, request("/")), &attempt{hash: hash, password: "right"}); !good || err != nil {
					t.Errorf("who stayed got %v, %v", good, err)
				}
			})
		}
		synctest.Wait()
		leave(pipeline.ErrClientGone)
		synctest.Wait()
		if waiting, running, _ := p.counts(); waiting != 1 || running != 1 {
			t.Errorf("%d check, %d are known", waiting, running)
		}
		<-p.slots
		done.Wait()
	})
}

// TestWhoWaitsForACheckMayLeave, too.
func TestWhoWaitsForACheckMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, hash := newPasswords(1), bcrypted(t, "right")
		p.slots <- struct{}{}
		var done sync.WaitGroup
		done.Go(func() {
			if good, err := p.check(exchange(t, request("/")), &attempt{hash: hash, password: "right"}); !good || err != nil {
				t.Errorf("%v, %v", good, err)
			}
		})
		synctest.Wait()
		ctx, leave := context.WithCancelCause(t.Context())
		leave(pipeline.ErrClientGone)
		x := pipeline.NewExchange(ctx, &message.Request{}, &model.Listener{}, netip.AddrPort{}, time.Now())
		_, err := p.check(x, &attempt{hash: hash, password: "right"})
		if e := pipeline.AsError(err); e == nil || e.Word != pipeline.ClientClosed {
			t.Errorf("who left got %v", err)
		}
		<-p.slots
		done.Wait()
	})
}

func TestVerifiedAreBounded(t *testing.T) {
	p := newPasswords(1)
	kept := p.digest(&attempt{hash: "hash", password: "kept"})
	p.remember(kept)
	for i := range 5 * mostVerified {
		id := p.digest(&attempt{hash: "hash", password: fmt.Sprint(i)})
		p.remember(id)
		if i%1000 == 0 && !p.known(kept) {
			t.Fatalf("one that is asked for is forgotten after %d", i)
		}
	}
	if _, _, verified := p.counts(); verified != mostVerified {
		t.Errorf("%d are remembered", verified)
	}
}

func TestHashThatCannotBeRead(t *testing.T) {
	_, err := newPasswords(1).check(exchange(t, request("/")), &attempt{hash: "$2a$", password: "p"})
	if e := pipeline.AsError(err); e == nil || e.Word != pipeline.Internal {
		t.Error(err)
	}
}

// TestChecksThatAreShared: who is not there has a hash in common with others who are not,
// and must not be told by a check that two of them share.
func TestChecksThatAreShared(t *testing.T) {
	settings := validateBasic(&BasicOptions{Users: []UserOptions{{Name: "ann", Hash: bcrypted(t, "x")}}}, func(path, message, _ string) { t.Error(path, message) })
	synctest.Test(t, func(t *testing.T) {
		gate := &basicGate{settings, newPasswords(1)}
		p := gate.passwords
		p.slots <- struct{}{}
		var done sync.WaitGroup
		for _, name := range []string{"ann", "bob", "joe", "joe"} {
			done.Go(func() {
				if _, err := gate.identify(exchange(t, request("/", basic(name+":guess")))); pipeline.AsError(err).Word != pipeline.Unauthenticated {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		synctest.Wait()
		if waiting, _, _ := p.counts(); waiting != 3 {
			t.Errorf("%d checks wait, want one for each name", waiting)
		}
		<-p.slots
		done.Wait()
	})
}

// TestRefusalsCostTheSame, whatever the hash costs; what is right costs what it does.
func TestRefusalsCostTheSame(t *testing.T) {
	cheap := bcrypted(t, "right")
	for cost := bcrypt.MinCost; cost <= bcrypt.MinCost+3; cost++ {
		for password, want := range map[string]int{"right": 1 << bcrypt.MinCost, "wrong": 1 << cost} {
			p, spent := newPasswords(1), 0
			p.compare = func(hash, password []byte) error {
				of, _ := costOf(string(hash))
				spent += 1 << of
				return bcrypt.CompareHashAndPassword(hash, password)
			}
			good, err := p.check(exchange(t, request("/")), &attempt{password: password, hash: cheap, cost: cost})
			if err != nil || good != (password == "right") || spent != want {
				t.Errorf("%s at %d: %v, %v; it costs %d, want %d", password, cost, good, err, spent, want)
			}
		}
	}
}
