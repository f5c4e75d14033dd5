package acme

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
)

func TestLogOfTheLibraries(t *testing.T) {
	var out bytes.Buffer
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: withoutTime})
	c := newCore(slog.New(handler))
	log := zap.New(c).With(zap.String("name", "n")).Named("part")
	log.Debug("not told")
	log.Info("not told")
	log.Warn("warned", zap.Int("b", 2), zap.Bool("a", true))
	log.Error("failed", zap.Error(errors.New("cause")))
	log.DPanic("worse")
	log.Error("could not get certificate from issuer")
	_ = log.Sync()

	plain := slog.New(c.handler)
	plain.Info("not told")
	plain.With("k", "v").WithGroup("g").Error("failed", "x", 1)

	want := `level=INFO msg="acme: warned" name=n a=true b=2
level=WARN msg="acme: failed" name=n error=cause
level=WARN msg="acme: worse" name=n
level=WARN msg="acme: failed" k=v g.x=1
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
