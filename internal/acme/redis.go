package acme

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/redis/go-redis/v9"
)

// redisPrefix begins every key. Its braces are a hash tag: a cluster keeps all
// of them on one node, so that a script and a transaction may touch several.
const redisPrefix = "{sluice:acme}:"

const (
	redisIndex = redisPrefix + "index" // a sorted set of all keys with a value, for listing by prefix
	redisFile  = redisPrefix + "file:" // followed by the key: a hash of value and modified
	redisLock  = redisPrefix + "lock:" // followed by the name: the holder's token
)

// redisTimeout bounds one operation.
const redisTimeout = 5 * time.Second

// redisStorage keeps certificates in a Redis, for all instances that use it. It
// is a certmagic.Storage with the meaning of certmagic's own storage on disk:
// keys are paths, a directory is what leads up to a key.
type redisStorage struct {
	client redis.UniversalClient
	log    *slog.Logger
	life   time.Duration // of a lock that is not renewed

	mu   sync.Mutex
	held map[string]*redisHold
}

func newRedisStorage(client redis.UniversalClient, life time.Duration, log *slog.Logger) *redisStorage {
	return &redisStorage{client: client, log: log, life: life, held: map[string]*redisHold{}}
}

// Store is a method of certmagic.Storage.
func (s *redisStorage) Store(ctx context.Context, key string, value []byte) error {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	key = cleanKey(key)
	_, err := s.client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.HSet(ctx, redisFile+key, "value", value, "modified", time.Now().UnixMilli())
		pipe.ZAdd(ctx, redisIndex, redis.Z{Member: key})
		return nil
	})
	return redisError("store", key, err)
}

// Load is a method of certmagic.Storage.
func (s *redisStorage) Load(ctx context.Context, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	key = cleanKey(key)
	value, err := s.client.HGet(ctx, redisFile+key, "value").Bytes()
	return value, redisError("load", key, err)
}

// deleteScript deletes a key and everything below it, and does it whole.
const deleteScript = `
local keys = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[2], ARGV[3])
keys[#keys + 1] = ARGV[1]
for _, key in ipairs(keys) do
	redis.call('DEL', ARGV[4] .. key)
	redis.call('ZREM', KEYS[1], key)
end
return #keys`

// Delete is a method of certmagic.Storage.
func (s *redisStorage) Delete(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	key = cleanKey(key)
	from, to := below(key)
	return redisError("delete", key, s.client.Eval(ctx, deleteScript, []string{redisIndex}, key, from, to, redisFile).Err())
}

// Exists is a method of certmagic.Storage.
func (s *redisStorage) Exists(ctx context.Context, key string) bool {
	_, err := s.Stat(ctx, key)
	return err == nil
}

// Stat is a method of certmagic.Storage.
func (s *redisStorage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	key = cleanKey(key)
	var modified *redis.StringCmd
	var size, children *redis.IntCmd
	from, to := below(key)
	_, err := s.client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		modified = pipe.HGet(ctx, redisFile+key, "modified")
		size = pipe.HStrLen(ctx, redisFile+key, "value")
		children = pipe.ZLexCount(ctx, redisIndex, from, to)
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return certmagic.KeyInfo{}, redisError("stat", key, err)
	}
	switch at, err := modified.Int64(); {
	case err == nil:
		return certmagic.KeyInfo{Key: key, Modified: time.UnixMilli(at), Size: size.Val(), IsTerminal: true}, nil
	case children.Val() > 0 || key == "":
		return certmagic.KeyInfo{Key: key}, nil
	default:
		return certmagic.KeyInfo{}, redisError("stat", key, err)
	}
}

// List is a method of certmagic.Storage. It lists directories too, each once; of
// a key with a value it lists nothing.
func (s *redisStorage) List(ctx context.Context, directory string, recursive bool) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, redisTimeout)
	defer cancel()
	directory = cleanKey(directory)
	from, to := below(directory)
	all, err := s.client.ZRangeByLex(ctx, redisIndex, &redis.ZRangeBy{Min: from, Max: to}).Result()
	if err != nil {
		return nil, redisError("list", directory, err)
	}
	if len(all) == 0 && directory != "" {
		_, err := s.Stat(ctx, directory)
		return nil, err
	}
	start := 0
	if directory != "" {
		start = len(directory) + 1
	}
	var listed []string
	seen := map[string]bool{}
	for _, key := range all {
		for at := start; at < len(key); at++ {
			if key[at] != '/' {
				continue
			}
			if !seen[key[:at]] {
				seen[key[:at]] = true
				listed = append(listed, key[:at])
			}
			if !recursive {
				break
			}
		}
		if recursive || !strings.Contains(key[start:], "/") {
			listed = append(listed, key)
		}
	}
	return listed, nil
}

// String is for people.
func (s *redisStorage) String() string { return "redis" }

// below is the range of the index with everything below a directory.
func below(directory string) (from, to string) {
	if directory == "" {
		return "-", "+"
	}
	return "[" + directory + "/", "(" + directory + "0" // 0 follows / in ASCII
}

func cleanKey(key string) string { return strings.Trim(key, "/") }

// redisError tells what failed. What is not there is fs.ErrNotExist.
func redisError(what, key string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, redis.Nil) {
		err = fs.ErrNotExist
	}
	return fmt.Errorf("redis: %s %s: %w", what, key, err)
}
