package acme

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap/zapcore"
)

// lowered logs one level lower than it is told to: what the libraries do is
// worth a line at debug, what they warn of is no news of its own, and what comes
// of it the Manager says itself.
type lowered struct{ slog.Handler }

// step is the distance of two levels of slog.
const step = slog.LevelWarn - slog.LevelInfo

// Enabled is a method of slog.Handler.
func (h lowered) Enabled(ctx context.Context, level slog.Level) bool {
	return h.Handler.Enabled(ctx, level-step)
}

// Handle is a method of slog.Handler.
func (h lowered) Handle(ctx context.Context, record slog.Record) error {
	record.Level -= step
	record.Message = "acme: " + record.Message
	return h.Handler.Handle(ctx, record)
}

// WithAttrs is a method of slog.Handler.
func (h lowered) WithAttrs(attrs []slog.Attr) slog.Handler {
	return lowered{h.Handler.WithAttrs(attrs)}
}

// WithGroup is a method of slog.Handler.
func (h lowered) WithGroup(name string) slog.Handler { return lowered{h.Handler.WithGroup(name)} }

// core takes what certmagic logs by zap to a slog.Handler.
type core struct{ handler slog.Handler }

func newCore(log *slog.Logger) core { return core{lowered{log.Handler()}} }

// twice are lines about an error that certmagic returns as well.
var twice = []string{"could not get certificate from issuer"}

func slogLevel(level zapcore.Level) slog.Level {
	switch {
	case level < zapcore.InfoLevel:
		return slog.LevelDebug
	case level == zapcore.InfoLevel:
		return slog.LevelInfo
	case level == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// Enabled is a method of zapcore.Core.
func (c core) Enabled(level zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), slogLevel(level))
}

// With is a method of zapcore.Core.
func (c core) With(fields []zapcore.Field) zapcore.Core {
	return core{c.handler.WithAttrs(attributes(fields))}
}

// Check is a method of zapcore.Core.
func (c core) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// Write is a method of zapcore.Core.
func (c core) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	level := slogLevel(entry.Level)
	if slices.Contains(twice, entry.Message) {
		level = slog.LevelInfo
	}
	ctx := context.Background()
	if !c.handler.Enabled(ctx, level) {
		return nil
	}
	record := slog.NewRecord(entry.Time, level, entry.Message, 0)
	record.AddAttrs(attributes(fields)...)
	return c.handler.Handle(ctx, record)
}

// Sync is a method of zapcore.Core.
func (c core) Sync() error { return nil }

func attributes(fields []zapcore.Field) []slog.Attr {
	encoder := zapcore.NewMapObjectEncoder()
	for _, field := range fields {
		field.AddTo(encoder)
	}
	attrs := make([]slog.Attr, 0, len(encoder.Fields))
	for _, key := range slices.Sorted(maps.Keys(encoder.Fields)) {
		attrs = append(attrs, slog.Any(key, encoder.Fields[key]))
	}
	return attrs
}
