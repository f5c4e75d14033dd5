package telemetry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/logtest"
	"sluice/internal/model"
	"sluice/internal/waittest"
)

// logTest is an access log under test.
type logTest struct {
	*AccessLog
	registry *lease.Registry
	set      *lease.Set
	process  *logtest.Buffer // the process log
	metrics  *Metrics
}

func settings(output string) model.AccessLog {
	return model.AccessLog{Output: output, Format: "json", Sample: 1}
}

// startLog starts an access log, which ends with the test.
func startLog(t *testing.T, s model.AccessLog, options Options) *logTest {
	t.Helper()
	l := &logTest{registry: &lease.Registry{}, process: &logtest.Buffer{}, metrics: NewMetrics(0)}
	options.Logger, options.Metrics = NewLogger(l.process, slog.LevelInfo), l.metrics
	l.set = l.registry.NewSet()
	l.AccessLog = AcquireAccessLog(l.set, s, options)
	if err := l.set.Commit(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.end(t) })
	return l
}

func (l *logTest) end(t *testing.T) {
	t.Helper()
	l.set.Release()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 20*time.Second)
	defer cancel()
	if err := l.Wait(ctx); err != nil {
		t.Error(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// ids are the request ids of JSON lines, each of which must be whole.
func ids(t *testing.T, text string) (ids []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var object struct {
			RequestID string `json:"request_id"`
		}
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Errorf("broken line %q: %v", line, err)
		}
		ids = append(ids, object.RequestID)
	}
	return ids
}

func metric(t *testing.T, m *Metrics, sample string) string {
	t.Helper()
	for line := range strings.Lines(exposition(t, m)) {
		if rest, ok := strings.CutPrefix(line, sample+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

func TestAccessLogWritesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(`{"request_id":"old"}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l := startLog(t, settings(path), Options{})
	l.Log(&Record{RequestID: "1"})
	// Visible without more traffic and before the log ends.
	waittest.Until(t, "the line", func() bool { return len(ids(t, read(t, path))) == 2 })
	l.Log(&Record{RequestID: "2"})
	l.Log(&Record{RequestID: "3"})
	l.end(t)
	if got := strings.Join(ids(t, read(t, path)), " "); got != "old 1 2 3" {
		t.Errorf("got %q", got)
	}
	if process := l.process.String(); process != "" {
		t.Errorf("the process log has %q", process)
	}
}

func TestAccessLogIsPrivateToOwnerAndGroup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	startLog(t, settings(path), Options{})
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode&^0o640 != 0 || mode&0o600 != 0o600 {
		t.Errorf("mode %v", mode)
	}
}

func TestAccessLogOutputs(t *testing.T) {
	for _, c := range []struct{ output, stdout, stderr string }{
		{"stdout", "1", ""}, {"stderr", "", "1"}, {"none", "", ""},
	} {
		var stdout, stderr logtest.Buffer
		l := startLog(t, settings(c.output), Options{Stdout: &stdout, Stderr: &stderr})
		l.Log(&Record{RequestID: "1"})
		if err := l.Reopen(); err != nil {
			t.Errorf("%s: reopen: %v", c.output, err)
		}
		l.end(t)
		if got := strings.Join(ids(t, stdout.String()), " "); got != c.stdout {
			t.Errorf("%s: stdout has %q", c.output, got)
		}
		if got := strings.Join(ids(t, stderr.String()), " "); got != c.stderr {
			t.Errorf("%s: stderr has %q", c.output, got)
		}
	}
}

func TestAccessLogFormats(t *testing.T) {
	for format, want := range map[string]string{
		"json":     `{"status":204}` + "\n",
		"common":   `- - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 204 0` + "\n",
		"combined": `- - - [01/Jan/2026:00:00:00 +0000] "GET / HTTP/1.1" 204 0 "-" "-"` + "\n",
	} {
		var stdout logtest.Buffer
		l := startLog(t, model.AccessLog{Output: "stdout", Format: format, Sample: 1, Fields: []string{"status"}}, Options{Stdout: &stdout})
		l.Log(&Record{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Method: "GET", Path: "/", Protocol: "HTTP/1.1", Status: 204})
		l.end(t)
		if got := stdout.String(); got != want {
			t.Errorf("%s: %q", format, got)
		}
	}
}

func TestAccessLogRefusesAnUnknownFormat(t *testing.T) {
	defer func() {
		if got, _ := recover().(string); !strings.HasPrefix(got, "BUG:") {
			t.Errorf("panicked with %q", got)
		}
	}()
	newAccessLog(model.AccessLog{Format: "xml"}, Options{})
}

func TestAccessLogSkipsAndSamples(t *testing.T) {
	var stdout logtest.Buffer
	draws := []float64{0.2, 0.25, 0.9, 0}
	s := settings("stdout")
	s.Sample, s.Skip = 0.25, []string{"/healthz"}
	l := startLog(t, s, Options{Stdout: &stdout, Random: func() float64 {
		draw := draws[0]
		draws = draws[1:]
		return draw
	}})
	l.Log(&Record{RequestID: "skipped", Path: "/healthz"})
	for i := range 4 {
		l.Log(&Record{RequestID: fmt.Sprint(i), Path: "/healthz/deeper"})
	}
	l.end(t)
	if got := strings.Join(ids(t, stdout.String()), " "); got != "0 3" {
		t.Errorf("got %q", got)
	}
}

func TestAccessLogSampleOfNone(t *testing.T) {
	var stdout logtest.Buffer
	s := settings("stdout")
	s.Sample = 0
	l := startLog(t, s, Options{Stdout: &stdout, Random: func() float64 { return 0 }})
	l.Log(&Record{})
	l.end(t)
	if got := stdout.String(); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestAccessLogThatCannotBeOpened(t *testing.T) {
	directory := t.TempDir()
	pipe := filepath.Join(directory, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{directory, filepath.Join(directory, "none", "access.log"), pipe} {
		set := (&lease.Registry{}).NewSet()
		AcquireAccessLog(set, settings(path), Options{Logger: slog.New(slog.DiscardHandler)})
		err := set.Commit()
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "cannot be opened") {
			t.Errorf("%s: %v", path, err)
		}
		set.Release()
	}
}

func TestAccessLogIsSharedByItsSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l := startLog(t, settings(path), Options{})
	second := l.registry.NewSet()
	if other := AcquireAccessLog(second, settings(path), Options{}); other != l.AccessLog {
		t.Error("equal settings have two logs")
	}
	s := settings(path)
	s.Sample = 0.5
	if other := AcquireAccessLog(second, s, Options{}); other == l.AccessLog {
		t.Error("other settings share a log")
	}
	second.Release()
	l.Log(&Record{RequestID: "1"})
	l.end(t)
	if got := strings.Join(ids(t, read(t, path)), " "); got != "1" {
		t.Errorf("got %q", got)
	}
}

// Two snapshots, of which the older one drains, write to the same file.
func TestAccessLogsOfOneFileKeepLinesWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	a := startLog(t, settings(path), Options{QueueBytes: 64 << 20})
	s := settings(path)
	s.Skip = []string{"/x"}
	b := startLog(t, s, Options{QueueBytes: 64 << 20})
	const each = 2000
	agent := strings.Repeat("a", 500)
	var wg sync.WaitGroup
	for _, l := range []*logTest{a, b} {
		wg.Go(func() {
			for i := range each {
				l.Log(&Record{RequestID: fmt.Sprint(i), UserAgent: agent})
			}
			l.end(t)
		})
	}
	wg.Wait()
	if got := len(ids(t, read(t, path))); got != 2*each {
		t.Errorf("%d lines", got)
	}
}

func TestAccessLogReopens(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "access.log")
	l := startLog(t, settings(path), Options{})
	l.Log(&Record{RequestID: "1"})
	waittest.Until(t, "the first line", func() bool { return read(t, path) != "" })
	for i := range 3 {
		moved := fmt.Sprintf("%s.%d", path, i)
		if err := os.Rename(path, moved); err != nil {
			t.Fatal(err)
		}
		if err := l.Reopen(); err != nil {
			t.Fatal(err)
		}
		if err := l.Reopen(); err != nil { // once more, before the writer took the first
			t.Fatal(err)
		}
		l.Log(&Record{RequestID: fmt.Sprint(i + 2)})
		waittest.Until(t, "a line in the new file", func() bool { return read(t, path) != "" })
		if got := ids(t, read(t, path)); len(got) != 1 || got[0] != fmt.Sprint(i+2) {
			t.Errorf("the new file has %v", got)
		}
		if got := ids(t, read(t, moved)); len(got) != 1 || got[0] != fmt.Sprint(i+1) {
			t.Errorf("the old file has %v", got)
		}
	}
	if err := os.RemoveAll(directory); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("reopened a path without a directory: %v", err)
	}
	l.Log(&Record{RequestID: "to the file that is gone"})
	l.end(t)
	if err := os.Mkdir(directory, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Errorf("reopening an ended log: %v", err)
	}
	if process := l.process.String(); process != "" {
		t.Errorf("the process log has %q", process)
	}
}

// faulty is an output that fails when told to, some bytes into a write.
type faulty struct {
	mu    sync.Mutex
	buf   bytes.Buffer
	fails bool
	after int
	tried int
}

func (f *faulty) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried++
	if f.fails {
		n := min(f.after, len(p))
		f.buf.Write(p[:n])
		return n, errors.New("no space left")
	}
	return f.buf.Write(p)
}

func (f *faulty) set(fails bool, after int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fails, f.after = fails, after
}

func (f *faulty) writes() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tried
}

func TestAccessLogThatCannotBeWritten(t *testing.T) {
	out := &faulty{}
	l := startLog(t, settings("stdout"), Options{Stdout: out})
	log := func(id string) {
		before := out.writes()
		l.Log(&Record{RequestID: id})
		waittest.Until(t, "a write", func() bool { return out.writes() > before })
	}
	log("1")
	out.set(true, 10)
	log("2")
	out.set(true, 0)
	log("3")
	waittest.Until(t, "two counted", func() bool { return metric(t, l.metrics, "gateway_access_log_errors_total") == "2" })
	if got := strings.Count(l.process.String(), "level=ERROR"); got != 1 {
		t.Errorf("told %d times:\n%s", got, l.process.String())
	}
	if got := metric(t, l.metrics, "gateway_access_log_dropped_total"); got != "2" {
		t.Errorf("%s lines lost", got)
	}
	out.set(false, 0)
	log("4")
	waittest.Until(t, "the recovery is told", func() bool { return strings.Contains(l.process.String(), "lost_lines=2") })
	out.set(true, 0)
	log("5")
	waittest.Until(t, "the second failure is told", func() bool { return strings.Count(l.process.String(), "level=ERROR") == 2 })
	out.set(false, 0)
	l.end(t)

	lines := strings.Split(strings.TrimSpace(out.buf.String()), "\n")
	if len(lines) != 3 || len(lines[1]) != 10 {
		t.Fatalf("got %q", lines)
	}
	if got := strings.Join(ids(t, lines[0]+"\n"+lines[2]+"\n"), " "); got != "1 4" {
		t.Errorf("got %q", got)
	}
}

// stuck is an output that takes nothing until it is let go.
type stuck struct {
	out  logtest.Buffer
	free chan struct{}
	in   chan struct{} // has a value while a write waits
}

func (s *stuck) Write(p []byte) (int, error) {
	select {
	case s.in <- struct{}{}:
	default:
	}
	<-s.free
	return s.out.Write(p)
}

func TestAccessLogDropsRatherThanBlocks(t *testing.T) {
	out := &stuck{free: make(chan struct{}), in: make(chan struct{}, 1)}
	l := startLog(t, model.AccessLog{Output: "stdout", Format: "json", Sample: 1, Fields: []string{"request_id"}}, Options{Stdout: out, QueueBytes: 1000})
	l.Log(&Record{RequestID: "first"})
	<-out.in
	for range 1000 {
		l.Log(&Record{RequestID: "1234567"}) // 25 bytes a line: 40 fit
	}
	if got := metric(t, l.metrics, "gateway_access_log_dropped_total"); got != "960" {
		t.Errorf("%s lines dropped", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.set.Release() // must not wait for the output
	if err := l.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("waited for: %v", err)
	}
	if l.Log(&Record{RequestID: "too late"}) {
		t.Error("a released log takes a line")
	}
	l.Drop()
	if got := metric(t, l.metrics, "gateway_access_log_dropped_total"); got != "961" {
		t.Errorf("%s lines dropped", got)
	}
	close(out.free)
	l.end(t)
	if got := len(ids(t, out.out.String())); got != 41 {
		t.Errorf("%d lines", got)
	}
	if process := l.process.String(); strings.Count(process, "\n") != 1 || !strings.Contains(process, "lines=960") {
		t.Errorf("the process log has %q", process)
	}
}

// A named pipe whose reader does not read must not keep a released log alive;
// here, one whose reader reads gets everything.
func TestAccessLogToANamedPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	l := startLog(t, settings(path), Options{})
	for i := range 1000 { // more than a pipe holds
		l.Log(&Record{RequestID: fmt.Sprint(i)})
	}
	l.set.Release()
	data, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(ids(t, string(data))); got != 1000 {
		t.Errorf("%d lines", got)
	}
}

func TestAccessLogUnderLoad(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l := startLog(t, settings(path), Options{QueueBytes: 64 << 20})
	const goroutines, each = 8, 1000
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range each {
				l.Log(&Record{RequestID: fmt.Sprintf("%d-%d", g, i)})
			}
		})
	}
	for range 5 {
		if err := l.Reopen(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	l.end(t)
	next := map[string]int{}
	for _, id := range ids(t, read(t, path)) {
		g, i, _ := strings.Cut(id, "-")
		if i != fmt.Sprint(next[g]) {
			t.Fatalf("%s is out of order, or one is missing before it", id)
		}
		next[g]++
	}
	for g, n := range next {
		if n != each || len(next) != goroutines {
			t.Errorf("%s: %d lines", g, n)
		}
	}
}

func TestAccessLogDoesNotAllocate(t *testing.T) {
	// Not started: no writer takes the buffer away.
	l := newAccessLog(settings("stdout"), Options{Logger: slog.New(slog.DiscardHandler)})
	record := full()
	for range 2000 {
		l.Log(record)
	}
	l.queue = l.queue[:0]
	if n := testing.AllocsPerRun(1000, func() { l.Log(record) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAccessLog(b *testing.B) {
	for _, format := range []string{"json", "combined"} {
		b.Run(format, func(b *testing.B) {
			set := (&lease.Registry{}).NewSet()
			l := AcquireAccessLog(set, model.AccessLog{Output: "stdout", Format: format, Sample: 1},
				Options{Stdout: io.Discard, Logger: slog.New(slog.DiscardHandler)})
			if err := set.Commit(); err != nil {
				b.Fatal(err)
			}
			record := full()
			b.ReportAllocs()
			for b.Loop() {
				l.Log(record)
			}
			set.Release()
			if err := l.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
