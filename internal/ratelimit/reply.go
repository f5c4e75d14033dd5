package ratelimit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// toldEvery is how often it is told at most that a key was not a limit's.
const toldEvery = 10 * time.Second

var errAnswer = errors.New("a script has given no verdict")

// unfit are what replies begin with by which a server says that it serves no scripts, for
// now or at all; in those of some versions they stand within, after a sign.
var unfit = []string{
	"LOADING", "READONLY", "OOM", "NOAUTH", "WRONGPASS", "NOPERM", "MASTERDOWN", "CLUSTERDOWN", "BUSY", "MISCONF", "NOREPLICAS",
}

// ofKey tells whether an error is about what is under a key, which is not what a script
// has put there: the server is well.
func ofKey(err error) bool {
	if errors.Is(err, errAnswer) {
		return true
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := reply.Error()
	says := func(word string) bool {
		return strings.HasPrefix(text, word+" ") || strings.Contains(text, "-"+word+" ")
	}
	if slices.ContainsFunc(unfit, says) {
		return false
	}
	return strings.Contains(text, "WRONGTYPE ") || strings.Contains(text, "user_script")
}

// call runs a script for a key once, and once more where it finds something there that is
// not its own, which is deleted. It returns as many numbers as it is to say.
func (f *fleet) call(ctx context.Context, by redis.Scripter, script *redis.Script, key string, numbers int, args ...any) ([]int64, error) {
	said, err := say(ctx, by, script, key, numbers, args)
	if err == nil || !ofKey(err) {
		return said, err
	}
	f.tellOfKey(key, err)
	if err := f.store.Redis.Del(ctx, key).Err(); err != nil {
		return nil, err
	}
	return say(ctx, by, script, key, numbers, args)
}

func say(ctx context.Context, by redis.Scripter, script *redis.Script, key string, numbers int, args []any) ([]int64, error) {
	said, err := script.Run(ctx, by, []string{key}, args...).Int64Slice()
	if err == nil && len(said) != numbers {
		err = errAnswer
	}
	return said, err
}

// tellOfKey tells that something of another form was in the place of a key.
func (f *fleet) tellOfKey(key string, err error) {
	now, last := time.Now().UnixNano(), f.toldOfKey.Load()
	if now-last < int64(toldEvery) || !f.toldOfKey.CompareAndSwap(last, now) {
		return
	}
	f.told("").Warn("a key in the store of rate limits is not theirs: it is deleted, and begins anew", "key", key, "error", err)
}
