package h2

import (
	"time"

	"golang.org/x/net/http2"
)

// clock keeps a connection's time with one timer, which looks when the next of
// its times may have come: nothing is set or stopped for a stream. All of it is
// guarded by the connection's mu.
type clock struct {
	conn     *Conn
	timer    *time.Timer
	armed    time.Time // when it looks next; zero: it is not set
	settings time.Time // by when SETTINGS are to be acknowledged; zero: they are
	rest     time.Time // since when there is no stream
	untidy   bool      // workers may wait since then
	stage    stage
	parting  time.Time // by when the last stream is named
	lastOne  uint32    // in stage named
}

// stage is how far a connection's ending in good order is.
type stage int

const (
	staying stage = iota
	warned        // GOAWAY with the highest number is sent
	named         // GOAWAY with the last stream is sent
)

// roundTrip is how long the answer is waited for that tells that a client has
// heard of the end.
const roundTrip = time.Second

// tidyTime is how long a connection rests before it keeps no worker.
const tidyTime = time.Second

func (k *clock) init(c *Conn, now time.Time) {
	k.conn, k.rest = c, now
}

func (k *clock) start() {
	now := time.Now()
	k.settings = now.Add(k.conn.options.SettingsTimeout)
	k.timer = time.AfterFunc(time.Hour, k.look)
	k.set(now)
}

func (k *clock) stop() {
	if k.timer != nil {
		k.timer.Stop()
		k.timer = nil
	}
}

// look does what is due.
func (k *clock) look() {
	c := k.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending || k.timer == nil {
		return
	}
	now := time.Now()
	k.armed = time.Time{}
	if k.untidy && c.active == 0 && due(k.rest, tidyTime, now) {
		k.untidy = false
		c.dismiss()
	}
	o := &c.options
	switch {
	case due(k.settings, 0, now):
		c.interrupt(ErrSettingsTimeout)
	case k.stage == warned && due(k.parting, 0, now):
		c.nameLast()
	case k.stage == staying && c.active == 0 && due(k.rest, o.IdleTimeout, now):
		c.goAway()
	}
	k.set(now)
}

// due tells whether so much has passed since a time that is set.
func due(since time.Time, after time.Duration, now time.Time) bool {
	return !since.IsZero() && !now.Before(since.Add(after))
}

// set makes the timer look when the next of the times comes.
func (k *clock) set(now time.Time) {
	if k.timer == nil {
		return
	}
	c := k.conn
	o := &c.options
	next := now.Add(o.IdleTimeout)
	sooner := func(at time.Time) {
		if at.Before(next) {
			next = at
		}
	}
	if !k.settings.IsZero() {
		sooner(k.settings)
	}
	if k.stage == warned {
		sooner(k.parting)
	}
	if k.stage == staying && c.active == 0 {
		sooner(k.rest.Add(o.IdleTimeout))
	}
	if k.untidy && c.active == 0 {
		sooner(k.rest.Add(tidyTime))
	}
	if !k.armed.IsZero() && !next.Before(k.armed) {
		return // it looks before, and sets itself then
	}
	k.armed = next
	k.timer.Reset(max(next.Sub(now), 0))
}

var pingParting = [8]byte{'p', 'a', 'r', 't', 'i', 'n', 'g'}

// pong is the answer to a PING of ours.
func (k *clock) pong(data [8]byte) {
	if data == pingParting && k.stage == warned {
		k.conn.nameLast()
	}
}

// goAway warns the client: it may have streams under way that are not here yet,
// so the last one is named only after a round trip. The caller holds mu.
func (c *Conn) goAway() {
	if c.clock.stage != staying || c.ending {
		return
	}
	now := time.Now()
	c.clock.stage, c.clock.parting = warned, now.Add(roundTrip)
	if c.serving {
		c.warn()
	}
	c.clock.set(now)
}

// warn says so, with a PING whose answer tells that it was heard.
func (c *Conn) warn() {
	_ = c.framer.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil) // into a buffer
	_ = c.framer.WritePing(false, pingParting)              // as well
	c.wake()
}

// nameLast ends the taking of streams.
func (c *Conn) nameLast() {
	c.clock.stage, c.clock.lastOne = named, c.maxID
	_ = c.framer.WriteGoAway(c.maxID, http2.ErrCodeNo, nil) // into a buffer
	c.wake()
	c.depart()
}

// depart ends a connection that has nothing left to do.
func (c *Conn) depart() {
	if c.clock.stage == named && c.active == 0 {
		c.interrupt(nil)
	}
}

// refuses tells whether a stream came after the last one that is served.
func (k *clock) refuses(id uint32) bool { return k.stage == named && id > k.lastOne }

// lastID is the last stream that GOAWAY may name: never one past what an earlier
// one said.
func (k *clock) lastID(maxID uint32) uint32 {
	if k.stage == named {
		return k.lastOne
	}
	return maxID
}
