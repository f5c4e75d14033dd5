package telemetry

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// syncBuffer is a buffer that a test reads while others write.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// waitFor waits until a condition holds.
func waitFor(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("not in time: %s", what)
		}
	}
}

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
