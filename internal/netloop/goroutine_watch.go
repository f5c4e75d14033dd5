//go:build unix

package netloop

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// watcher waits on a goroutine for a peer to close. The poller's read deadline
// is what ends it, so that the connection's own is put off meanwhile.
type watcher struct {
	gone func()
	half bool
	off  bool // guarded by the connection's mu: gone may not begin any more
	done chan struct{}
}

// WatchHangup calls f once when the peer has closed.
func (c *goConn) WatchHangup(f func(), half bool) {
	c.endWatch()
	if f == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return
	}
	_ = c.socket.SetReadDeadline(time.Time{})
	w := &watcher{gone: f, half: half, done: make(chan struct{})}
	c.watch = w
	c.owner.running.Go(func() {
		defer close(w.done)
		if c.hungUp(half) && c.begin(w) {
			contain(c.owner.log, f)
		}
	})
}

// begin tells whether w may call.
func (c *goConn) begin(w *watcher) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !w.off
}

// endWatch ends the watching; nothing of it runs afterwards.
func (c *goConn) endWatch() {
	c.mu.Lock()
	w := c.watch
	if w == nil {
		c.mu.Unlock()
		return
	}
	w.off = true
	_ = c.socket.SetReadDeadline(past)
	c.mu.Unlock()
	<-w.done
	c.mu.Lock()
	defer c.mu.Unlock()
	c.watch = nil
	if c.failure == nil {
		_ = c.socket.SetReadDeadline(c.readUntil)
	}
}

// hungUp waits until the peer has closed; false, if something else came first.
func (c *goConn) hungUp(half bool) (gone bool) {
	err := c.raw.Read(func(descriptor uintptr) bool {
		n, err := peek(int(descriptor))
		switch {
		case errors.Is(err, unix.EAGAIN):
			return false
		case err != nil:
			gone = true
		case n > 0: // bytes hide what comes after them
		default: // the poller tells of each change once: it waits for the rest to go
			gone = half || bothSides(int(descriptor))
			return gone
		}
		return true
	})
	return err == nil && gone
}

// bothSides tells whether a connection at its end is closed completely.
func bothSides(descriptor int) bool {
	look := []unix.PollFd{{Fd: int32(descriptor)}}
	n, err := unix.Poll(look, 0)
	return err == nil && n > 0 && look[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
}
