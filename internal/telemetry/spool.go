package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
)

// keptBytes is how large a spool's buffer may be kept for reuse.
const keptBytes = 1 << 20

// spool holds lines between those who have them, who never wait, and the one who
// writes them, who may.
type spool struct {
	most  int           // bytes that it holds
	wake  chan struct{} // there is something to do
	hurry chan struct{} // it is half full

	mu      sync.Mutex
	queue   []byte // whole lines
	dropped int    // since the writer looked last
	closed  bool   // it takes nothing any more

	spare []byte // the buffer of the batch before; of the writer alone
}

func newSpool(most int) spool {
	return spool{most: most, wake: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
}

// verdict is what became of a line.
type verdict int

const (
	lineTaken   verdict = iota
	lineDropped         // and counted
	lineRefused         // nothing was done
)

// add takes a line, of which it keeps nothing but a copy.
func (s *spool) add(line []byte) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return lineRefused
	}
	if len(s.queue)+len(line) > s.most {
		s.dropped++
		return lineDropped
	}
	if len(s.queue) == 0 {
		notify(s.wake)
	}
	s.queue = append(s.queue, line...)
	if len(s.queue) > s.most/2 {
		notify(s.hurry)
	}
	return lineTaken
}

// take returns what is there, and how many lines were dropped meanwhile. The
// writer gives the batch back.
func (s *spool) take() (batch []byte, dropped int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	batch, dropped = s.queue, s.dropped
	s.queue, s.spare, s.dropped = s.spare[:0], nil, 0
	return batch, dropped
}

func (s *spool) give(batch []byte) {
	if cap(batch) <= keptBytes {
		s.spare = batch
	}
}

func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// outletBytes bounds what an Outlet holds.
const outletBytes = 1 << 20

// Outlet is where the process log goes, so that whoever logs never waits for a
// reader of it, nor for a disk: a goroutine writes. Where that is too slow, lines
// are dropped, and counted; once it can be written again, the log tells of it. It
// is safe for concurrent use.
type Outlet struct {
	spool
	out     io.Writer
	closing chan struct{}
	once    sync.Once
	done    chan struct{}
}

// NewOutlet returns one that writes to out, which takes concurrent writes, as a
// SharedWriter does. Close ends it.
func NewOutlet(out io.Writer) *Outlet {
	o := &Outlet{spool: newSpool(outletBytes), out: out, closing: make(chan struct{}), done: make(chan struct{})}
	go o.run()
	return o
}

// Write takes whole lines, and never fails: nobody could do anything about it.
func (o *Outlet) Write(lines []byte) (int, error) {
	if o.add(lines) == lineRefused {
		select {
		case <-o.done: // all before it has been written, so that this can be, too
			_, _ = o.out.Write(lines)
		default:
		}
	}
	return len(lines), nil
}

// Close lets what is there be written, for as long as ctx lasts.
func (o *Outlet) Close(ctx context.Context) error {
	o.once.Do(func() {
		o.close()
		close(o.closing)
	})
	select {
	case <-o.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the process log is not written to its end: %w", context.Cause(ctx))
	}
}

func (o *Outlet) run() {
	defer close(o.done)
	for {
		select {
		case <-o.wake:
			o.flush()
		case <-o.closing:
			o.flush()
			return
		}
	}
}

// flush writes what is there. A log that cannot be written has nowhere to tell of
// that.
func (o *Outlet) flush() {
	batch, dropped := o.take()
	if len(batch) > 0 {
		_, _ = o.out.Write(batch)
	}
	o.give(batch)
	if dropped > 0 {
		NewLogger(o.out, slog.LevelWarn).Warn("lines of this log were dropped; its output was too slow", "lines", dropped)
	}
}
