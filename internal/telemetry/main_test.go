package telemetry

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLogger(t *testing.T) {
	var text strings.Builder
	NewLogger(&text, slog.LevelWarn).Warn("it broke", "path", "a b\nc")
	NewLogger(&text, slog.LevelWarn).Info("no one reads this")
	if got := text.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `level=WARN msg="it broke" path="a b\nc"`) {
		t.Errorf("text: %q", got)
	}
}

func TestSharedWriterKeepsWritesWhole(t *testing.T) {
	var out bytes.Buffer // no lock of its own: the race detector watches
	w := NewSharedWriter(&out)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if n, err := w.Write([]byte("line\n")); n != 5 || err != nil {
					t.Errorf("wrote %d: %v", n, err)
				}
			}
		})
	}
	wg.Wait()
	if got := strings.Count(out.String(), "line\n"); got != 800 {
		t.Errorf("%d lines", got)
	}
}
