package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"sluice/internal/telemetry"
)

// lastLines is how long the end waits for the last lines of the process log.
const lastLines = time.Second

// processLog returns the process log, for which nobody waits, and what ends it.
func processLog(to *telemetry.SharedWriter, level slog.Level) (log *slog.Logger, end func()) {
	outlet := telemetry.NewOutlet(to)
	return telemetry.NewLogger(outlet, level), func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastLines)
		defer cancel()
		_ = outlet.Close(ctx) // where it cannot be written, nobody can be told
	}
}

// maxStandardLine bounds a line of the standard logger, in bytes; what peers
// sent may stand in it.
const maxStandardLine = 512

// adoptStandardLog sends what libraries write to the standard logger, or to one of
// their own, to the process log, at debug level: it is about single connections, as an endpoint
// that sent something unasked.
func adoptStandardLog(to *slog.Logger) {
	slog.SetLogLoggerLevel(slog.LevelDebug)
	cut := slog.New(bounded{to.Handler()})
	slog.SetDefault(cut)
	redis.SetLogger(redisLog{cut})
}

// redisLog is where the client of Redis writes to: beside what its callers are
// told, it has but one place for a whole process.
type redisLog struct{ *slog.Logger }

func (l redisLog) Printf(ctx context.Context, format string, values ...any) {
	l.DebugContext(ctx, "of the client of Redis", "line", fmt.Sprintf(format, values...))
}

// bounded cuts long messages.
type bounded struct{ slog.Handler }

func (b bounded) Handle(ctx context.Context, r slog.Record) error {
	r.Message = r.Message[:min(len(r.Message), maxStandardLine)]
	return b.Handler.Handle(ctx, r)
}

func (b bounded) WithAttrs(attrs []slog.Attr) slog.Handler {
	return bounded{b.Handler.WithAttrs(attrs)}
}

func (b bounded) WithGroup(name string) slog.Handler { return bounded{b.Handler.WithGroup(name)} }
