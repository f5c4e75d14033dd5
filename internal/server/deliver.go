package server

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// patienceParts is in how many parts the time is waited in which a client may
// take nothing: after each it is looked whether it has taken anything.
const patienceParts = 4

// errTotal ends the writing of a response whose exchange must be over.
var errTotal = errors.New("total_timeout is over")

// deliver calls put until it has written everything, and tells how many bytes
// that were. It fails where the client takes nothing for as long as idle (0: for
// ever), or the exchange must be over. A client takes from the system's queue:
// room there shows only once much of it is free, so the queue is looked at, too.
func (e *exchange) deliver(idle time.Duration, put func() (int, error)) (written int, err error) {
	conn := e.client.conn
	queued := -1
	for parts := 0; ; {
		conn.SetWriteDeadline(e.writeUntil(idle / patienceParts))
		n, err := put()
		written += n
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return written, err
		}
		if until := e.until(); !until.IsZero() && !time.Now().Before(until) {
			return written, pipeline.NewError(pipeline.UpstreamTimeout, errTotal)
		}
		before := queued
		queued = unsent(conn)
		if parts++; n > 0 || queued < before {
			parts = 0
		}
		if parts == patienceParts {
			return written, err
		}
	}
}

// writeUntil is the deadline of a write that may wait so long; zero: none.
func (e *exchange) writeUntil(wait time.Duration) (until time.Time) {
	if wait > 0 {
		until = time.Now().Add(wait)
	}
	if end := e.until(); !end.IsZero() && (until.IsZero() || end.Before(until)) {
		until = end
	}
	return until
}

// until is when the response must be written; zero: never. An error may be told
// after the exchange's own time, which it may be the end of.
func (e *exchange) until() time.Time {
	if e.failed {
		return time.Time{}
	}
	return e.Until
}

// unsent is how many bytes wait in the system's queue to be taken by the peer;
// -1, where it cannot tell.
func unsent(conn netloop.Conn) (n int) {
	n = -1
	_ = conn.Control(func(descriptor uintptr) { // fails on a closed connection only
		if queued, err := unix.IoctlGetInt(int(descriptor), unix.TIOCOUTQ); err == nil {
			n = queued
		}
	})
	return n
}

// send writes some bytes.
func (e *exchange) send(data []byte, idle time.Duration) (int, error) {
	return e.deliver(idle, func() (int, error) {
		n, err := e.client.conn.Write(data)
		data = data[n:]
		return n, err
	})
}
