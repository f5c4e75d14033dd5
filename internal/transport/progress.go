package transport

import (
	"sync"
	"syscall"
	"time"

	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// progressParts is how often, in the time in which a byte must pass, it is looked
// whether the endpoint takes what was sent. Nothing tells of that: the system
// says that there is room again only once much of its queue is free.
const progressParts = 4

// nextLook is when to look again; zero: never.
func nextLook(watch *pipeline.Watch) (at time.Time) {
	if watch != nil {
		if quiet := watch.Quiet(); quiet > 0 {
			at = time.Now().Add(quiet / progressParts)
		}
	}
	return at
}

// beginLooking looks now and then, from now on.
func (l *link) beginLooking() {
	at := nextLook(l.try.Watch)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.look, l.taken = at, -1
}

// lookOn looks, if it is time to, and notes it as bytes that passed if the
// endpoint has taken something since.
func (l *link) lookOn(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.look.IsZero() || now.Before(l.look) {
		return
	}
	before := l.taken
	if l.taken = taken(l.conn); before >= 0 && l.taken != before {
		l.try.Watch.Touch()
	}
	l.look = nextLook(l.try.Watch)
}

// taken is a number that changes when the endpoint has taken something; -1: there
// is none.
func taken(conn netloop.Conn) int64 {
	if acknowledged, known := acknowledged(conn); known {
		return acknowledged
	}
	return int64(netloop.Unsent(conn.Control))
}

// looker does the same for a tunnel, which nobody waits for here, by a timer.
type looker struct {
	watch *pipeline.Watch
	raw   syscall.RawConn

	mu     sync.Mutex
	timer  *time.Timer // nil: it has not begun
	queued int         // bytes that the endpoint had not taken
	ended  bool
}

// begin begins, once.
func (l *looker) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := nextLook(l.watch); l.timer == nil && !l.ended && !at.IsZero() {
		l.timer = time.AfterFunc(time.Until(at), l.look)
	}
}

func (l *looker) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	before := l.queued
	if l.queued = netloop.Unsent(l.raw.Control); l.queued < before {
		l.watch.Touch()
	}
	if at := nextLook(l.watch); !at.IsZero() {
		l.timer.Reset(time.Until(at))
	}
}

func (l *looker) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	if l.timer != nil {
		l.timer.Stop()
	}
}
