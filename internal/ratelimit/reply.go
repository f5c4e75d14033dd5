package ratelimit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// toldEvery is how often it is told at most what is about a key alone.
const toldEvery = 10 * time.Second

var errAnswer = errors.New("a script has given no verdict")

// foreign are what the words of a server have in them where a script finds something that it
// has not put there: another type, or values that are none of its own, which Lua fails with.
// All else says that the server serves no scripts, for now, at all, or not this user.
var foreign = []string{"WRONGTYPE ", ": attempt to ", ": bad argument "}

// ofKey tells whether an error is about what is under a key, which is not what a script
// has put there: the server is well.
func ofKey(err error) bool {
	if errors.Is(err, errAnswer) {
		return true
	}
	within := func(words string) bool { return strings.Contains(err.Error(), words) }
	return said(err) && slices.ContainsFunc(foreign, within)
}

// said tells whether an error is a server's own words.
func said(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// perform runs a script for a key once, and once more where it finds something there that is
// not its own, which is deleted. It returns as many numbers as it is to say.
func (f *fleet) perform(ctx context.Context, c *call) ([]int64, error) {
	server, err := f.store.Shard(ctx, c.key)
	if err != nil {
		return nil, err
	}
	c.server.Store(&server)
	f.contact(server)
	if _, failed := (*f.failed.Load())[server]; failed && !c.anyway {
		return nil, errFailed
	}
	numbers, err := f.say(ctx, c)
	if err == nil || !ofKey(err) {
		return numbers, err
	}
	if f.tellsOfKey() {
		f.told("").Warn("a key in the store of rate limits is not theirs: it is deleted, and begins anew", "key", c.key, "error", err)
	}
	if err := f.store.Redis.Del(ctx, c.key).Err(); err != nil {
		return nil, err
	}
	return f.say(ctx, c)
}

func (f *fleet) say(ctx context.Context, c *call) ([]int64, error) {
	by := c.by
	if by == nil {
		by = f.store.Once
	}
	numbers, err := c.script.Run(ctx, by, []string{c.key}, c.words()...).Int64Slice()
	if err == nil && len(numbers) != c.numbers {
		err = errAnswer
	}
	return numbers, err
}

// tellsOfKey tells whether it is time to tell what is about a key alone.
func (f *fleet) tellsOfKey() bool {
	now, last := time.Now().UnixNano(), f.toldOfKey.Load()
	return now-last >= int64(toldEvery) && f.toldOfKey.CompareAndSwap(last, now)
}
