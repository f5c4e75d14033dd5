package netloop

import "time"

// rest leaves an accepted connection without a task until something can be
// read from it.
func (c *loopConn) rest(until int64) {
	c.resting, c.restUntil = true, until
	c.readUntil, c.writeUntil, c.watch = 0, 0, nil
	if until != 0 {
		c.askTimer(until)
	}
	if c.readable && c.look() {
		c.awake()
	}
}

// awake gives a resting connection a task.
func (c *loopConn) awake() {
	c.resting = false
	c.loop.begin(nil, c)
}

// serve is what that task does.
func (c *loopConn) serve() {
	rest, until := false, time.Time{}
	defer func() { // after a panic, too
		switch {
		case c.descriptor < 0:
		case !rest || c.failure != nil:
			_ = c.Close()
		default:
			c.rest(c.loop.at(until))
		}
	}()
	if c.failure == nil { // else it was interrupted before its turn
		rest, until = c.acceptor.handler(c)
	}
}

// look tells whether something can be read, be it the end, from the system
// itself.
func (c *loopConn) look() bool {
	c.readable = !nothing(c.descriptor)
	return c.readable
}

// askTimer sees to it that the connection is looked at by a time.
func (c *loopConn) askTimer(at int64) { c.loop.timers.ask(&c.timer, at) }

// expired is called when the connection asked to be looked at.
func (c *loopConn) expired() {
	now, next := c.loop.now, int64(0)
	for _, wait := range [...]struct {
		waiter *task
		until  int64
	}{{c.reader, c.readUntil}, {c.writer, c.writeUntil}} {
		switch {
		case wait.waiter == nil || wait.until == 0:
		case wait.until <= now:
			wait.waiter.wake()
		default:
			next = soonest(next, wait.until)
		}
	}
	if c.resting && c.restUntil != 0 {
		if c.restUntil <= now {
			_ = c.Close()
			return
		}
		next = soonest(next, c.restUntil)
	}
	if next != 0 {
		c.askTimer(next)
	}
}

// soonest is the earlier of two times, of which 0 is none.
func soonest(a, b int64) int64 {
	if a == 0 || b < a {
		return b
	}
	return a
}
