package main

import (
	"bytes"
	"log"
	"log/slog"
	"strings"
	"testing"
)

func TestStandardLogGoesToTheProcessLog(t *testing.T) {
	flags, writer := log.Flags(), log.Writer()
	defer func() { log.SetFlags(flags); log.SetOutput(writer) }()
	for level, told := range map[slog.Level]bool{slog.LevelDebug: true, slog.LevelInfo: false} {
		var out bytes.Buffer
		adoptStandardLog(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: level})))
		log.Printf("Unsolicited response %q", strings.Repeat("x", 10*maxStandardLine))
		line := out.String()
		if !told {
			if line != "" {
				t.Errorf("at %v: %q", level, line)
			}
			continue
		}
		if strings.Count(line, "\n") != 1 || !strings.Contains(line, `"level":"DEBUG"`) || !strings.Contains(line, `"message":"Unsolicited response`) {
			t.Errorf("at %v: %q", level, line)
		}
		if len(line) > 2*maxStandardLine {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
}
