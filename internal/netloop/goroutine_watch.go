//go:build unix

package netloop

import (
	"sync"
	"time"
)

const (
	// sweepInterval is how often watched connections are looked at, and
	// sweepShare how many times as long as a sweep the pause after it is at
	// least, up to sweepPause.
	sweepInterval = 100 * time.Millisecond
	sweepShare    = 50
	sweepPause    = 2 * time.Second
)

// sweeper looks now and then at the connections that are watched, whether their
// peers have closed. Most exchanges are over before it comes by once, so that
// watching costs next to nothing. It runs only while somebody watches.
type sweeper struct {
	owner    *Goroutines
	interval time.Duration
	life     func() // run

	mu      sync.Mutex
	joined  []*goConn // since the last sweep
	running bool

	// What follows is of run alone.
	look func(descriptor uintptr) // asks for half, and answers gone
	half bool
	gone bool
}

func (s *sweeper) init(owner *Goroutines) {
	s.owner, s.interval, s.life = owner, sweepInterval, s.run
	s.look = func(descriptor uintptr) { s.gone = hungUp(int(descriptor), s.half) }
}

// join has a connection looked at until it says that nobody watches.
func (s *sweeper) join(c *goConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined = append(s.joined, c)
	if !s.running {
		s.running = true
		s.owner.running.Go(s.life)
	}
}

func (s *sweeper) run() {
	var watched []*goConn
	timer := time.NewTimer(s.interval)
	defer timer.Stop()
	for {
		select {
		case <-s.owner.stopping.Done():
			return // another is of no use: it counts as running
		case <-timer.C:
		}
		s.mu.Lock()
		watched = append(watched, s.joined...)
		clear(s.joined)
		s.joined = s.joined[:0]
		if s.running = len(watched) > 0; !s.running {
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		start := time.Now()
		watched = s.sweep(watched)
		timer.Reset(s.pause(time.Since(start)))
	}
}

// pause is how long to wait after a sweep that took so long.
func (s *sweeper) pause(took time.Duration) time.Duration {
	return max(s.interval, min(sweepShare*took, sweepPause))
}

// sweep looks at each of the connections, and returns those to be looked at
// again.
func (s *sweeper) sweep(watched []*goConn) []*goConn {
	kept := watched[:0]
	for _, c := range watched {
		if s.visit(c) {
			kept = append(kept, c)
		}
	}
	clear(watched[len(kept):])
	return kept
}

// visit tells who watches a connection that its peer has closed, if so. It
// tells whether to come again.
func (s *sweeper) visit(c *goConn) bool {
	c.telling.Lock()
	defer c.telling.Unlock()
	c.mu.Lock()
	fresh := c.watchFresh
	c.swept, c.watchFresh, s.half = c.watch != nil, false, c.watchHalf
	look := c.swept && !fresh
	again := c.swept
	c.mu.Unlock()
	if !look {
		return again
	}
	if c.raw.Control(s.look) != nil || !s.gone { // it fails on a closed connection only
		return true
	}
	if f := c.takeWatch(); f != nil {
		contain(s.owner.log, f)
	}
	return true
}

// takeWatch ends the watching, for who tells of the end.
func (c *goConn) takeWatch() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.watch
	c.watch = nil
	return f
}

// WatchHangup calls f once when the peer has closed.
func (c *goConn) WatchHangup(f func(), half bool) {
	c.telling.Lock() // what is told already is told to the end
	defer c.telling.Unlock()
	c.mu.Lock()
	if c.failure != nil {
		f = nil
	}
	c.watch, c.watchHalf, c.watchFresh = f, half, true
	join := f != nil && !c.swept
	c.swept = c.swept || join
	c.mu.Unlock()
	if join {
		c.owner.sweeper.join(c)
	}
}
