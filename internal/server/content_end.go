package server

import (
	"errors"
	"io"
	"time"

	"sluice/internal/message"
	"sluice/internal/wire"
)

// Close ends the reading, also one that is under way. The connection is not
// harmed.
func (b *content) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.closed = true
		if b.reading {
			b.in.conn.SetReadDeadline(past())
		}
	}
	return nil
}

// trailer is the Trailer of the request: nothing before the end of the body.
func (b *content) trailer() message.Fields {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.whole {
		return nil
	}
	return b.chunked.Trailer()
}

// finish ends all reading, and waits until nobody reads.
func (b *content) finish() {
	if b.none() {
		return
	}
	_ = b.Close() // cannot fail
	b.mu.Lock()
	if b.reading {
		b.over = b.exchange.client.conn.Executor().NewEvent()
	}
	over := b.over
	b.mu.Unlock()
	if over != nil {
		_ = over.Wait(time.Time{}) // where the executor stops, so does who reads
	}
	b.in.conn.SetReadDeadline(time.Time{})
}

// settled brings the connection to the end of the body, after finish, and tells
// whether it is there. The rest of a small body is thrown away, within a time,
// if that keeps the connection.
func (b *content) settled(keep bool) bool {
	switch {
	case b.none() || b.whole:
		return true
	case !keep || b.err != nil || b.expected:
		return false
	}
	b.in.conn.SetReadDeadline(time.Now().Add(b.exchange.client.listener.limits.drain))
	defer b.in.conn.SetReadDeadline(time.Time{})
	b.pace = pace{}
	buffer := b.exchange.client.listener.bodies.get()
	defer b.exchange.client.listener.bodies.put(buffer)
	read := b.readSized
	if b.framing == wire.ChunkedBody {
		read = b.readChunked
	}
	for rest := keepAliveBody; rest > 0; {
		n, err := read(buffer[:])
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		b.left -= int64(n)
		rest -= n
	}
	return false
}

// skim throws away what is there of a body that nobody will read, so that a
// small one costs no connection.
func (b *content) skim() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.none() || !b.closed || b.reading || b.whole || b.err != nil || b.expected {
		return
	}
	for b.in.buffered() > 0 && !b.whole {
		if b.framing == wire.Sized {
			n := min(b.left, int64(b.in.buffered()))
			b.in.use(int(n))
			b.left -= n
			b.whole = b.left == 0
			continue
		}
		used, _, err := b.chunked.Next(b.in.bytes())
		b.in.use(used)
		b.whole = b.chunked.Done()
		if err != nil || used == 0 {
			return
		}
	}
}

// small tells whether the rest of the body is known to be worth reading to keep
// the connection. Where the client waits for 100 Continue it may never come.
func (b *content) small() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err == nil && !b.expected && b.framing == wire.Sized && b.left <= keepAliveBody
}

// hopeless tells whether the rest of the body will never be read: it has failed,
// or the client was not asked for it.
func (b *content) hopeless() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err != nil || b.expected
}

// incomplete tells whether there is a rest that nobody has read.
func (b *content) incomplete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.none() && !b.whole
}

// failure is the failure of the body, or nil.
func (b *content) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		return nil
	}
	return b.err
}

// count is how many bytes of the body were read.
func (b *content) count() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.received
}
