package main

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"sluice/internal/telemetry"
)

// lines is a writer whose lines are waited for.
type lines chan string

func (l lines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

// What net/http says of an endpoint that sends something unasked.
func TestStandardLogGoesToTheProcessLog(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	out := make(lines, 10)
	adoptStandardLog(slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"+strings.Repeat("x", 10*maxStandardLine))
		}
	}()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := (&http.Transport{}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	select {
	case line := <-out:
		if strings.Count(line, "\n") != 1 || !strings.Contains(line, `"level":"DEBUG"`) || !strings.Contains(line, "Unsolicited response") {
			t.Errorf("got %q", line)
		}
		if len(line) > 2*maxStandardLine {
			t.Errorf("a line of %d bytes", len(line))
		}
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was logged")
	}
	record := slog.NewRecord(time.Now(), slog.LevelInfo, strings.Repeat("x", 2*maxStandardLine), 0)
	record.Add("c", 2)
	if err := (bounded{slog.NewJSONHandler(out, nil)}).WithAttrs([]slog.Attr{slog.Int("a", 1)}).WithGroup("b").Handle(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	if line := <-out; len(line) > 2*maxStandardLine || !strings.Contains(line, `"a":1,"b":{"c":2}`) {
		t.Errorf("got %q", line)
	}
}

// What the client of Redis says beside its answers.
func TestRedisLogGoesToTheProcessLog(t *testing.T) {
	out := make(lines, 1)
	redisLog{slog.New(slog.NewJSONHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))}.Printf(t.Context(), "%d dials", 5)
	if line := <-out; !strings.Contains(line, `"level":"DEBUG","msg":"of the client of Redis","line":"5 dials"`) {
		t.Errorf("got %q", line)
	}
}

// A standard stream that nobody reads keeps neither who logs nor the end.
func TestProcessLogOfAStuckStream(t *testing.T) {
	r, w := io.Pipe()
	defer r.Close()
	log, end := processLog(telemetry.NewSharedWriter(w), slog.LevelInfo)
	for range 10_000 { // it would hang here
		log.Info("a line")
	}
	begin := time.Now()
	end()
	if took := time.Since(begin); took < lastLines {
		t.Errorf("it ended after %v, while lines waited", took)
	}
}
