package proxy

import (
	"errors"
	"io"
	"sync"
	"time"

	"sluice/internal/message"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// replayPiece is how much of a body that is not there yet is asked for at once, in
// bytes.
const replayPiece = 16 << 10

// replay lets several attempts send the client's body: what was read of it is kept,
// up to a size. Each attempt has a reader of it, and only that of the last gets
// anything. What the client was asked for when an attempt ended comes to the next
// one. A nil replay is that of no body, or of one that is sent once.
type replay struct {
	source   *upload
	limit    int              // of what is kept; 0: nothing, it is sent again only while nothing was read
	executor netloop.Executor // whose tasks read; nil: goroutines do, which are left behind where they wait

	mu      sync.Mutex
	kept    []byte
	lost    bool   // some was read that is not kept
	reading bool   // the client is being read
	keeping bool   // what comes of that is kept
	end     error  // what the client's body ended with; nil: it goes on
	wake    signal // of the reader, which waits for what comes; nil: it does not
	reader  *reader
	closed  bool // reader is
	settled bool // no other attempt follows
	shut    bool // source is closed
}

// signal is a netloop.Event, or what stands for one among goroutines.
type signal interface {
	Set()
	Wait(deadline time.Time) error
}

// bell is a signal for goroutines. It is set once.
type bell chan struct{}

// Set says that it has happened.
func (b bell) Set() { close(b) }

// Wait waits, however long.
func (b bell) Wait(time.Time) error {
	<-b
	return nil
}

// keepBody lets the body be sent again, as far as the route does.
func (f *forward) keepBody() {
	r := f.route.Retry
	if r == nil || r.Attempts < 2 {
		return
	}
	f.kept = &replay{source: (*upload)(f)}
	if own, ok := f.x.Context().(*netloop.Context); ok {
		f.kept.executor = own.Executor()
	}
	// Also where the method may not be repeated: an endpoint that has not seen the
	// request does not say so before some of the body is read.
	if f.request.Length <= r.Body {
		f.kept.limit = int(r.Body)
	}
	f.kept.reader = &reader{replay: f.kept}
	f.request.Body = f.kept.reader
}

// body is the client's body for the next attempt; nil: there is none.
func (f *forward) body() io.ReadCloser {
	if f.kept == nil {
		return f.request.Body
	}
	return f.kept.reader
}

// rewind makes another reader, from the beginning, and tells whether it can: not
// while the client is read for an attempt alone.
func (r *replay) rewind() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost || r.reading && !r.keeping || r.end != nil && !errors.Is(r.end, io.EOF) {
		return false
	}
	r.ring() // the one before, which gets nothing any more
	r.reader, r.closed = &reader{replay: r}, false
	return true
}

// settle says that no other attempt follows. Where none is under way, over, nobody
// will read the rest.
func (r *replay) settle(over bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.settled = true
	over = over || r.closed
	r.forget()
	r.mu.Unlock()
	if over {
		_ = r.shutDown() // it is the client's no more
	}
}

// shutDown closes the client's body, once.
func (r *replay) shutDown() error {
	r.mu.Lock()
	shut := r.shut
	r.shut = true
	r.mu.Unlock()
	if shut {
		return nil
	}
	return r.source.Close()
}

// forget drops what is kept where nobody will want it again. The caller holds the
// lock.
func (r *replay) forget() {
	if r.settled && r.reader.at >= len(r.kept) && !r.reading {
		r.lost, r.kept = r.lost || len(r.kept) > 0, nil
	}
}

// ring wakes the reader. The caller holds the lock.
func (r *replay) ring() {
	if r.wake != nil {
		r.wake.Set()
		r.wake = nil
	}
}

// room is how much more may be kept; 0: what comes is not kept. The caller holds the
// lock.
func (r *replay) room() int {
	if r.lost || r.settled {
		return 0
	}
	return r.limit - len(r.kept)
}

// took notes what the client gave.
func (r *replay) took(data []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keeping {
		r.kept = append(r.kept, data...)
	} else if len(data) > 0 {
		r.lost, r.kept = true, nil
	}
	r.reading, r.keeping = false, false
	if err != nil {
		r.end = err
	}
	r.ring()
}

// pump is a task that asks the client for a piece, which comes to whoever reads
// then.
func (r *replay) pump(size int) {
	returned := false
	defer func() {
		if !returned { // the panic is the executor's to tell
			r.took(nil, pipeline.NewError(pipeline.Internal, errors.New("reading the body panicked")))
		}
	}()
	piece := make([]byte, size)
	n, err := r.source.Read(piece)
	r.took(piece[:n], err)
	returned = true
}

// reader is the body as one attempt reads it.
type reader struct {
	*replay
	at int // in kept
}

// step is what a reader does next.
type step uint8

const (
	finished step = iota // it has read
	direct               // it reads from the client itself
	waiting              // it waits for what comes
)

// Read reads what is kept, then from the client.
func (b *reader) Read(p []byte) (int, error) {
	for {
		n, room, next, err := b.begin(p)
		switch next {
		case finished:
			return n, err
		case direct:
			return b.take(p[:room])
		case waiting:
			if err := b.await(); err != nil {
				return 0, err
			}
		}
	}
}

// begin is a Read, of n bytes, as far as it needs no client. Where the reader is to
// read from the client itself, room is how much of p it may fill.
func (b *reader) begin(p []byte) (n, room int, next step, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.reader != b, b.closed:
		return 0, 0, finished, errBodyOver
	case b.at < len(b.kept):
		n = copy(p, b.kept[b.at:])
		b.at += n
		b.forget()
		return n, 0, finished, nil
	case b.end != nil:
		return 0, 0, finished, b.end
	case b.reading:
		return 0, 0, waiting, nil
	case b.source.left == 0:
		return 0, 0, finished, io.EOF
	}
	room = b.room()
	b.reading, b.keeping = true, room > 0
	switch {
	case room == 0:
		return 0, len(p), direct, nil
	case b.executor != nil && message.Buffered(b.source) == 0:
		size := min(room, replayPiece)
		if left := b.source.left; left != message.Unknown {
			size = int(min(int64(size), left)) // no byte further
		}
		b.executor.Go(func() { b.pump(size) })
		return 0, 0, waiting, nil
	}
	return 0, min(room, len(p)), direct, nil
}

// take reads from the client.
func (b *reader) take(p []byte) (int, error) {
	n, err := b.source.Read(p)
	b.took(p[:n], err)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reader != b { // another attempt has it
		return 0, errBodyOver
	}
	b.at += n
	b.forget()
	return n, err
}

// await waits until something has come of the reading under way, or this reader is
// over.
func (b *reader) await() error {
	b.mu.Lock()
	if !b.reading || b.reader != b || b.closed {
		b.mu.Unlock()
		return nil
	}
	wake := signal(make(bell))
	if b.executor != nil {
		wake = b.executor.NewEvent()
	}
	b.wake = wake
	b.mu.Unlock()
	return wake.Wait(time.Time{})
}

// ReadInto is Read into a pipe, for a body of which nothing more is kept.
func (b *reader) ReadInto(p *netloop.Pipe, most int64) (int, error) {
	b.mu.Lock()
	otherwise := b.reader != b || b.closed || b.at < len(b.kept) || b.end != nil || b.reading || b.room() > 0
	b.reading = b.reading || !otherwise
	b.mu.Unlock()
	if otherwise {
		return 0, errors.ErrUnsupported // Read knows what to do
	}
	n, err := b.source.ReadInto(p, most)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	if n > 0 {
		b.lost, b.kept = true, nil
	}
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		b.end = err
	}
	return n, err
}

// Buffered is how much of it is there.
func (b *reader) Buffered() int {
	b.mu.Lock()
	kept := len(b.kept) - b.at
	b.mu.Unlock()
	if kept > 0 {
		return kept
	}
	return message.Buffered(b.source)
}

// Close ends the attempt's reading, and the client's body with it where no other
// attempt follows, or none can: the client is being read for this one alone.
func (b *reader) Close() error {
	b.mu.Lock()
	if b.reader != b || b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	b.ring()
	alone := b.reading && !b.keeping
	b.lost = b.lost || alone
	over := b.settled || alone
	b.mu.Unlock()
	if over {
		return b.shutDown()
	}
	return nil
}
