// Package telemetry tells what the gateway does: the access log, the metrics
// and the process log, with their names, their bounds and their encoders. It
// serves nothing, knows no route, and decides nothing about an exchange.
package telemetry

import (
	"io"
	"log/slog"
	"sync"
)

// NewLogger returns the process log: one line of text for each event at level
// or above, written whole. The log is for the people who run the gateway;
// exchanges go to the access log.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// SharedWriter is a standard stream that several logs write to: one write at a
// time, so that no line breaks into another one, also on a pipe. It does not
// close what it writes to.
type SharedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

// NewSharedWriter returns a writer that passes whole writes on to w.
func NewSharedWriter(w io.Writer) *SharedWriter { return &SharedWriter{w: w} }

// Write passes p on, after the writes that came before.
func (s *SharedWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
