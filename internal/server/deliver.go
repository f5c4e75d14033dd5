package server

import (
	"errors"
	"os"
	"time"

	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// patienceParts is in how many parts the time is waited in which a client may
// take nothing: after each it is looked whether it has taken anything.
const patienceParts = 4

// patience is with a client that takes nothing for now. The zero value is for
// the beginning of a wait. A client takes from the system's queue: room there
// shows only once much of it is free, so the queue is looked at, too.
type patience struct {
	parts  int // in a row in which nothing was taken
	queued int // bytes, at the end of the last one
}

// ends notes that a part of the time has passed, in which n bytes were written,
// and tells whether it was the last one.
func (p *patience) ends(n, queued int) bool {
	before := p.queued
	p.queued = queued
	if p.parts++; n > 0 || queued >= 0 && queued < before {
		p.parts = 0
	}
	return p.parts == patienceParts
}

// errTotal ends the writing of a response whose exchange must be over.
var errTotal = errors.New("total_timeout is over")

// deliver calls put until it has written everything, and tells how many bytes
// that were. It fails where the client takes nothing for as long as idle (0: for
// ever), or the exchange must be over.
func (e *exchange) deliver(idle time.Duration, put func() (int, error)) (written int, err error) {
	conn := e.client.conn
	var patience patience
	for {
		conn.SetWriteDeadline(e.writeUntil(idle / patienceParts))
		n, err := put()
		written += n
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return written, err
		}
		if passed(e.until()) {
			return written, pipeline.NewError(pipeline.UpstreamTimeout, errTotal)
		}
		if patience.ends(n, netloop.Unsent(conn.Control)) {
			return written, err
		}
	}
}

// writeUntil is the deadline of a write that may wait so long; zero: none.
func (e *exchange) writeUntil(wait time.Duration) (until time.Time) {
	return deadline(e.client.conn.Executor().Now(), wait, e.until())
}

// until is when the response must be written; zero: never.
func (e *exchange) until() time.Time { return until(&e.Exchange, e.failed) }

// until is when a response must be written; zero: never. An error may be told
// after the exchange's own time, which it may be the end of.
func until(x *pipeline.Exchange, failed bool) time.Time {
	if failed {
		return time.Time{}
	}
	return x.Until
}

// deadline is when a wait ends that may take so long (0: for ever) and must be
// over by end (zero: never); zero: never.
func deadline(now time.Time, wait time.Duration, end time.Time) (at time.Time) {
	if wait > 0 {
		at = now.Add(wait)
	}
	return pipeline.Earlier(at, end)
}

// passed tells whether a time is over; zero: never.
func passed(end time.Time) bool { return !end.IsZero() && !time.Now().Before(end) }

// send writes some bytes.
func (e *exchange) send(data []byte, idle time.Duration) (int, error) {
	return e.deliver(idle, func() (int, error) {
		n, err := e.client.conn.Write(data)
		data = data[n:]
		return n, err
	})
}
