package telemetry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice/internal/logtest"
	"sluice/internal/waittest"
)

// TestOutletNeverWaits logs more than a pipe that nobody reads can hold. Whoever
// logs goes on, and once somebody reads, all that was taken comes, and how much
// was not.
func TestOutletNeverWaits(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	outlet := NewOutlet(NewSharedWriter(w))
	log := NewLogger(outlet, slog.LevelInfo)
	const lines = 20_000
	long := strings.Repeat("x", 200)
	for n := range lines { // it would hang here
		log.Info("a line", "n", n, "long", long)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := outlet.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("closed with nobody reading: %v", err)
	}
	log.Info("too late")
	read := make(chan []byte)
	go func() {
		all, _ := io.ReadAll(r)
		read <- all
	}()
	if err := outlet.Close(t.Context()); err != nil {
		t.Error(err)
	}
	log.Info("after the end")
	w.Close()
	all := string(<-read)
	came := strings.Count(all, "msg=\"a line\"")
	told := regexp.MustCompile(`(?m)level=WARN msg="lines of this log were dropped.* lines=(\d+)$`).FindAllStringSubmatch(all, -1)
	dropped := 0
	for _, match := range told {
		n, err := strconv.Atoi(match[1])
		if err != nil {
			t.Error(err)
		}
		dropped += n
	}
	if came+dropped != lines || dropped == 0 || len(told) > 2 {
		t.Errorf("%d lines came and %d were dropped, of %d; that was told %d times", came, dropped, lines, len(told))
	}
	if strings.Contains(all, "too late") || !strings.HasSuffix(all, "msg=\"after the end\"\n") {
		t.Errorf("it ends with %q", all[max(0, len(all)-300):])
	}
}

// TestOutletWritesInTime writes what was logged before anybody ends it, in order.
func TestOutletWritesInTime(t *testing.T) {
	var out logtest.Buffer
	outlet := NewOutlet(&out)
	log := NewLogger(outlet, slog.LevelInfo)
	log.Info("one")
	waittest.Until(t, "the first line", func() bool { return strings.Contains(out.String(), "msg=one") })
	for range 3 {
		log.Info("two")
	}
	for range 2 {
		if err := outlet.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if got := strings.Count(out.String(), "\n"); got != 4 || !strings.HasSuffix(out.String(), "msg=two\n") {
		t.Errorf("%d lines: %s", got, out.String())
	}
}

// failingWriter is an output that is broken.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("broken") }

// An output that is broken harms nobody, and a large buffer is not kept.
func TestOutletOfABrokenOutput(t *testing.T) {
	outlet := NewOutlet(failingWriter{})
	if n, err := outlet.Write([]byte("line\n")); n != 5 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if err := outlet.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if n, err := outlet.Write([]byte("line\n")); n != 5 || err != nil {
		t.Errorf("after the end: %d, %v", n, err)
	}
	s := newSpool(2 * keptBytes)
	s.add(bytes.Repeat([]byte("x"), keptBytes+1))
	batch, _ := s.take()
	if s.give(batch); s.spare != nil {
		t.Error("a large buffer is kept")
	}
}
