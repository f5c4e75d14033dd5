package proxy

import (
	"errors"
	"io"
	"sync"

	"sluice/internal/message"
	"sluice/internal/netloop"
)

// replay lets several attempts send the client's body: what was read of it is
// kept, up to a size. One attempt at a time may read; what an earlier one still
// does comes to nothing. A nil replay is that of no body, or of one that is sent
// once.
type replay struct {
	source *upload
	limit  int // of what is kept; 0: nothing, it is sent again only while nothing was read

	mu      sync.Mutex
	kept    []byte
	lost    bool  // more was read than is kept
	reading bool  // the client is being read
	end     error // what the client's body ended with; nil: it goes on
	reader  *reader
	closed  bool // reader is
	settled bool // no other attempt follows
}

// reader is the body as one attempt reads it.
type reader struct {
	*replay
	at int // in kept
}

// keepBody lets the body be sent again, as far as the route does.
func (f *forward) keepBody() {
	r := f.route.Retry
	if r == nil || r.Attempts < 2 {
		return
	}
	f.kept = &replay{source: (*upload)(f)}
	if f.repeatable(r) && f.request.Length <= r.Body {
		f.kept.limit = int(r.Body)
	}
	f.kept.reader = &reader{replay: f.kept}
	f.request.Body = f.kept.reader
}

// rewind makes the body one that is read from its beginning, for another attempt,
// and tells whether it can: not while the client is being read for the one before.
func (r *replay) rewind() bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost || r.reading || r.end != nil && !errors.Is(r.end, io.EOF) {
		return false
	}
	r.reader, r.closed = &reader{replay: r}, false
	r.source.request.Body = r.reader
	return true
}

// settle says that no other attempt follows.
func (r *replay) settle() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.settled = true
	closed := r.closed
	r.mu.Unlock()
	if closed {
		_ = r.source.Close() // nobody reads the rest
	}
}

// Read reads what is kept, then from the client.
func (b *reader) Read(p []byte) (int, error) {
	n, err, done := b.begin(p)
	if done {
		return n, err
	}
	n, err = b.source.Read(p)
	b.took(p[:n], err)
	return n, err
}

// begin is a Read as far as it needs no client; else the client is being read until
// took.
func (b *reader) begin(p []byte) (n int, err error, done bool) { //nolint:revive // they are the results of a Read, and more
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.reader != b, b.closed:
		return 0, errBodyOver, true
	case b.at < len(b.kept):
		n = copy(p, b.kept[b.at:])
		b.at += n
		return n, nil, true
	case b.end != nil:
		return 0, b.end, true
	}
	b.reading = true
	return 0, nil, false
}

// took notes what the client gave.
func (b *reader) took(data []byte, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	if err != nil {
		b.end = err
	}
	b.at += len(data)
	switch {
	case b.lost || len(data) == 0:
	case len(b.kept)+len(data) > b.limit:
		b.lost, b.kept = true, nil
	default:
		b.kept = append(b.kept, data...)
	}
}

// ReadInto is Read into a pipe, for a body of which nothing is kept.
func (b *reader) ReadInto(p *netloop.Pipe, most int64) (int, error) {
	b.mu.Lock()
	keeps := b.reader != b || b.closed || b.end != nil || b.limit > 0 && !b.lost
	b.reading = b.reading || !keeps
	b.mu.Unlock()
	if keeps {
		return 0, errors.ErrUnsupported // Read knows what to do
	}
	n, err := b.source.ReadInto(p, most)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	b.lost = b.lost || n > 0
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
// attempt follows.
func (b *reader) Close() error {
	b.mu.Lock()
	mine := b.reader == b && !b.closed
	b.closed = b.closed || mine
	settled := b.settled
	b.mu.Unlock()
	if mine && settled {
		return b.source.Close()
	}
	return nil
}
