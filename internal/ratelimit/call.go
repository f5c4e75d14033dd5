package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// callTimeout is how long a call goes on that nobody waits for any more: as long as a
// connection may take to be made.
const callTimeout = time.Second

var errFailed = errors.New("the server is known to have failed")

// call is one run of a script for a key.
type call struct {
	script  *redis.Script
	by      redis.Scripter // nil: at most once
	key     string
	numbers int // how many it is to say
	args    []any
	last    int64 // the last argument
	anyway  bool  // also where the server is known to have failed
	aside   bool  // no decision hangs on it: that it is refused is no outage
	// late is told what a script has said that nobody waited for any more. It may be nil.
	late func(said []int64)

	began  time.Time
	server atomic.Pointer[string] // that has the key, by Shard; nil: nobody has told yet
	sent   atomic.Int64           // when it went out last, in nanoseconds after began; 0: it has not
	over   atomic.Bool            // it has been answered in time, or nobody waits any more
}

type spoken struct {
	numbers []int64
	err     error
}

// wait runs a call and waits for what it says, until ctx is done. It goes on then: so the
// connection that it has waited for is there for the next one, however far away the server
// is; and what holds the client up holds nobody else up.
func (f *fleet) wait(ctx context.Context, c *call) ([]int64, error) {
	c.began = time.Now()
	told := make(chan spoken, 1)
	go func() {
		long, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		numbers, err := f.perform(long, c)
		switch {
		case c.over.CompareAndSwap(false, true):
			told <- spoken{numbers, err}
		case err == nil && c.late != nil:
			c.late(numbers)
		}
	}()
	select {
	case s := <-told:
		return s.numbers, s.err
	case <-ctx.Done():
	}
	if !c.over.CompareAndSwap(false, true) { // both at once
		s := <-told
		return s.numbers, s.err
	}
	return nil, fmt.Errorf("no answer after %v: %w", time.Since(c.began).Round(time.Millisecond), ctx.Err())
}

// ask has the store run a script, unless the server of the key is known to have failed. ok
// is false where it does not say anything within ctx; then that server may have failed.
func (f *fleet) ask(ctx context.Context, c *call) (numbers []int64, ok bool) {
	if f.down.Load() {
		return nil, false
	}
	numbers, err := f.wait(ctx, c)
	switch {
	case err == nil:
		f.contact(c.where()).answered()
		return numbers, true
	case errors.Is(err, errFailed), errors.Is(ctx.Err(), context.Canceled), f.excused(ctx, c, err):
	default:
		f.fail(c, err)
	}
	return nil, false
}

// where is the server of the key; empty where there is but one, or nobody has told.
func (c *call) where() string {
	if server := c.server.Load(); server != nil {
		return *server
	}
	return ""
}

// words are the arguments. The last one tells when it is written to a connection, which
// nothing else does.
func (c *call) words() []any { return append(c.args[:len(c.args):len(c.args)], sending{c}) }

type sending struct{ *call }

// MarshalBinary is asked as the call is sent.
func (s sending) MarshalBinary() ([]byte, error) {
	s.sent.Store(max(1, int64(time.Since(s.began))))
	return strconv.AppendInt(nil, s.last, 10), nil
}

// contact is what is known of a server by what it has answered.
type contact struct {
	first time.Time    // when it was to be asked
	heard atomic.Int64 // when it has answered last, in nanoseconds after first
}

// contact is that of a server.
func (f *fleet) contact(server string) *contact {
	known, ok := f.contacts.Load(server)
	if !ok {
		known, _ = f.contacts.LoadOrStore(server, &contact{first: time.Now()})
	}
	return known.(*contact) //nolint:forcetypeassert // there is nothing else
}

func (k *contact) answered() { k.heard.Store(int64(time.Since(k.first))) }

// excused tells whether a call that was not answered in time says nothing of the server of
// its key: a connection had to be made first, and others were answered meanwhile, or it is
// the first time that one is; or the key has gone to another server, to which the call was
// sent on.
func (f *fleet) excused(ctx context.Context, c *call, err error) bool {
	if !errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if f.moved(ctx, c) {
		return true
	}
	if sent := time.Duration(c.sent.Load()); sent > 0 && sent < decisionTimeout/2 {
		return false
	}
	k := f.contact(c.where())
	since := c.began.Sub(k.first)
	return since < callTimeout || k.heard.Load() > int64(since)
}

// moved tells whether another server has the key of a call by now. As ctx is done by then, it
// asks nobody for that.
func (f *fleet) moved(ctx context.Context, c *call) bool {
	now, err := f.store.Shard(ctx, c.key)
	before := c.server.Load()
	return err == nil && before != nil && now != *before
}
