package telemetry

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
)

const (
	// linger is how long a line waits for others to be written with it.
	linger = 20 * time.Millisecond
	// defaultQueueBytes bounds what waits to be written.
	defaultQueueBytes = 4 << 20
	// drainTime is how long a released log may wait for a slow reader.
	drainTime = 5 * time.Second
	// tellEvery bounds how often dropped lines are told of.
	tellEvery = time.Minute
)

var newline = []byte{'\n'}

// Options are what an access log needs besides its settings.
type Options struct {
	// Stdout and Stderr are where the outputs of these names go. Snapshots
	// share them, and so does the process log: each must take concurrent
	// writes, as a SharedWriter does. They are never closed. Whoever passes the
	// process's own streams lets the process ignore SIGPIPE, or a reader that
	// leaves ends it.
	Stdout, Stderr io.Writer
	// Logger is told, once, that lines cannot be written, and that they can
	// again. Never nil.
	Logger *slog.Logger
	// Metrics counts lines that are dropped and writes that failed. nil: nobody.
	Metrics *Metrics
	// QueueBytes bounds the lines that wait to be written; 0: 4 MiB. Past it,
	// lines are dropped.
	QueueBytes int
	// Random yields numbers in [0, 1) for sampling; nil: those of math/rand/v2.
	// Safe for concurrent use.
	Random func() float64
}

// AccessLog writes a line for each exchange. Exchanges encode their line and
// queue it; one goroutine writes whole lines, several at once, at the latest
// some ten milliseconds after they came. Whatever becomes of the output, Log
// neither blocks nor fails.
//
// It is held as a lease: Start and Release are for the registry.
type AccessLog struct {
	settings model.AccessLog
	options  Options
	fields   []jsonField
	skip     map[string]bool

	spool             // its lock is of what follows, too; closed: by Release
	reopened *os.File // to be written to from the next batch on
	own      *os.File // the open file of a path; changed by the writer only

	closing chan struct{} // closed by Release
	done    chan struct{} // closed when the last line is written

	// Of the writer alone:
	out     io.Writer
	cut     bool // the output ends inside a line
	failing bool // told that lines cannot be written
	lost    int  // lines, since then
	slow    int  // lines dropped that nobody was told of
	told    time.Time
}

// AcquireAccessLog returns the access log with these settings: the one that an
// earlier snapshot holds, or a new one, which opens its file when the set
// commits. The log ends, once its queue is written, after the last set that
// holds it is released.
func AcquireAccessLog(set *lease.Set, settings model.AccessLog, options Options) *AccessLog {
	sum := sha256.Sum256([]byte(model.Text(settings)))
	key := "access_log " + settings.Output + " " + hex.EncodeToString(sum[:8])
	return lease.Acquire(set, key, func() *AccessLog { return newAccessLog(settings, options) })
}

func newAccessLog(settings model.AccessLog, options Options) *AccessLog {
	if options.QueueBytes == 0 {
		options.QueueBytes = defaultQueueBytes
	}
	if options.Random == nil {
		options.Random = rand.Float64
	}
	l := &AccessLog{
		settings: settings,
		options:  options,
		skip:     map[string]bool{},
		spool:    newSpool(options.QueueBytes),
		closing:  make(chan struct{}),
		done:     make(chan struct{}),
	}
	for _, path := range settings.Skip {
		l.skip[path] = true
	}
	switch settings.Format {
	case "json":
		l.fields = jsonFields(settings.Fields)
	case "common", "combined":
	default:
		panic("BUG: the access log has no format " + settings.Format)
	}
	return l
}

// Start opens the output and begins to write. It fails if the file cannot be
// opened; nothing runs then.
func (l *AccessLog) Start() error {
	switch l.settings.Output {
	case "none":
		close(l.done)
		return nil
	case "stdout":
		l.out = l.options.Stdout
	case "stderr":
		l.out = l.options.Stderr
	default:
		file, err := openLog(l.settings.Output)
		if err != nil {
			return err
		}
		l.own, l.out = file, file
	}
	go l.run()
	return nil
}

// openLog opens a file to append to. O_NONBLOCK is for a named pipe: without a
// reader, opening it fails instead of waiting for one.
func openLog(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|syscall.O_NONBLOCK, 0o640) //nolint:gosec // the group may read: shippers of logs run under it
	if err != nil {
		return nil, fmt.Errorf("the access log cannot be opened: %w", err)
	}
	return file, nil
}

// Release lets what is queued be written, then the file be closed. It returns
// at once; Wait tells when it is done. Lines that come afterwards are not taken.
func (l *AccessLog) Release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.own != nil {
		// Bounds a pipe without a reader; other files refuse and need it not.
		_ = l.own.SetWriteDeadline(time.Now().Add(drainTime))
	}
	close(l.closing)
}

// Wait returns nil once a released log has written its last line, or the cause
// of ctx's end before that. At the end of the process someone has to.
func (l *AccessLog) Wait(ctx context.Context) error {
	select {
	case <-l.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the access log is not written to its end: %w", context.Cause(ctx))
	}
}

// Reopen opens the path anew and goes on there, for when the file was moved
// away (SIGUSR1). If that fails, the log stays with the file it has. Other
// outputs stay as they are.
func (l *AccessLog) Reopen() error {
	switch l.settings.Output {
	case "none", "stdout", "stderr":
		return nil
	}
	file, err := openLog(l.settings.Output)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return file.Close()
	}
	if l.reopened != nil {
		err = l.reopened.Close()
	}
	l.reopened = file
	notify(l.wake)
	return err
}

// Log queues the line of an exchange, unless its path or the sample leaves it
// out; where the queue is full, the line is dropped and counted. It keeps nothing
// of r. false says that the log was released and has done nothing: the line
// belongs into the log that came after.
func (l *AccessLog) Log(r *Record) (taken bool) {
	if l.settings.Output == "none" || l.skip[r.Path] {
		return true
	}
	if l.settings.Sample < 1 && l.options.Random() >= l.settings.Sample {
		return true
	}
	// Encoded outside of the lock, on the stack but for a huge line.
	var scratch [1024]byte
	line := l.encode(scratch[:0], r)

	switch l.add(line) {
	case lineRefused:
		return false
	case lineDropped:
		l.options.Metrics.accessLogDropped(1)
	case lineTaken:
	}
	return true
}

// Drop counts a line that no log takes any more.
func (l *AccessLog) Drop() { l.options.Metrics.accessLogDropped(1) }

func (l *AccessLog) encode(dst []byte, r *Record) []byte {
	switch l.settings.Format {
	case "common":
		return appendCommon(dst, r)
	case "combined":
		return appendCombined(dst, r)
	}
	return appendJSON(dst, r, l.fields)
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// run is the writer.
func (l *AccessLog) run() {
	defer close(l.done)
	for {
		select {
		case <-l.wake:
		case <-l.closing:
			l.flush()
			if l.own != nil {
				if err := l.own.Close(); err != nil {
					l.options.Logger.Error("access log not closed", "output", l.settings.Output, "error", err)
				}
			}
			return
		}
		select {
		case <-time.After(linger):
		case <-l.hurry:
		case <-l.closing:
		}
		l.flush()
	}
}

// flush writes what is queued.
func (l *AccessLog) flush() {
	batch, dropped := l.take()
	l.mu.Lock()
	before, after := l.own, l.reopened
	if after != nil {
		l.own, l.out, l.reopened = after, after, nil
	}
	l.mu.Unlock()

	if after != nil {
		if err := before.Close(); err != nil {
			l.options.Logger.Error("access log not closed", "output", l.settings.Output, "error", err)
		}
	}
	l.tellDropped(dropped)
	if len(batch) > 0 {
		l.write(batch)
	}
	l.give(batch)
}

// tellDropped tells of lines that found the queue full: the first ones at once,
// later ones summed up, so that a slow output does not flood the process log.
func (l *AccessLog) tellDropped(lines int) {
	l.slow += lines
	if l.slow == 0 || !l.told.IsZero() && time.Since(l.told) < tellEvery {
		return
	}
	l.options.Logger.Warn("access log lines dropped; the output is too slow", "output", l.settings.Output, "lines", l.slow)
	l.slow, l.told = 0, time.Now()
}

// write writes whole lines in one call, and tells about the first of several
// failures in a row.
func (l *AccessLog) write(batch []byte) {
	lines := bytes.Count(batch, newline)
	if l.cut {
		batch = slices.Insert(batch, 0, '\n') // part of a line stands there: let it be one of its own
	}
	n, err := l.out.Write(batch)
	if n > 0 {
		l.cut = batch[n-1] != '\n'
	}
	if err == nil {
		if l.failing {
			l.options.Logger.Info("access log written again", "output", l.settings.Output, "lost_lines", l.lost)
		}
		l.failing, l.lost = false, 0
		return
	}
	lost := min(bytes.Count(batch[n:], newline), lines)
	l.lost += lost
	l.options.Metrics.accessLogDropped(lost)
	l.options.Metrics.accessLogFailed()
	if !l.failing {
		l.options.Logger.Error("access log not written; lines are lost until it can be", "output", l.settings.Output, "error", err)
	}
	l.failing = true
}
