package main

import (
	"log"
	"log/slog"
	"strings"
)

// maxStandardLine bounds a line of the standard logger, in bytes; what peers
// sent may stand in it.
const maxStandardLine = 512

// adoptStandardLog sends what libraries write to the standard logger to the
// process log, at debug level: it is about single connections, as an endpoint
// that sent something unasked.
func adoptStandardLog(to *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(standardLog{to})
}

type standardLog struct{ to *slog.Logger }

// Write takes one line.
func (s standardLog) Write(p []byte) (int, error) {
	line := strings.TrimRight(string(p[:min(len(p), maxStandardLine)]), "\n")
	s.to.Debug("a library says", "message", line)
	return len(p), nil
}
