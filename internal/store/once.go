package store

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// once runs a script at most once: a repetition after a connection that broke, or an
// answer that came too late, would count twice. What a server has refused goes on: to
// another server of a cluster (MOVED, ASK), or as a text where the script is not known
// (NOSCRIPT).
type once struct{ redis.UniversalClient }

// Eval runs a script by its text.
func (o once) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	return o.run(ctx, "eval", script, keys, args)
}

// EvalSha runs a script that the server knows.
func (o once) EvalSha(ctx context.Context, sum string, keys []string, args ...any) *redis.Cmd {
	return o.run(ctx, "evalsha", sum, keys, args)
}

func (o once) run(ctx context.Context, verb, script string, keys []string, args []any) *redis.Cmd {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, verb, script, len(keys))
	for _, key := range keys {
		words = append(words, key)
	}
	cmd := redis.NewCmd(ctx, append(words, args...)...)
	_ = o.Process(ctx, unrepeated{cmd}) // cmd has the error
	return cmd
}

// unrepeated is a command that the client does not repeat by itself.
type unrepeated struct{ *redis.Cmd }

// NoRetry is asked by the client.
func (unrepeated) NoRetry() bool { return true }
