package h2

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"

	"golang.org/x/net/http2"
)

// worker is a goroutine that serves streams, one after another: its stack has
// grown to what handlers need.
type worker struct{ next chan *stream }

// maxIdle bounds the workers that wait for a stream.
const maxIdle = 16

// work has a worker serve a stream. The caller holds mu.
func (c *Conn) work(s *stream) {
	c.running++
	if n := len(c.idle); n > 0 {
		w := c.idle[n-1]
		c.idle = c.idle[:n-1]
		w.next <- s
		return
	}
	w := &worker{make(chan *stream, 1)}
	go func() {
		for ; s != nil; s = <-w.next {
			c.run(s)
			if !c.rests(w) {
				return
			}
		}
	}()
}

// rests makes a worker wait, if there are not enough that do.
func (c *Conn) rests(w *worker) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || len(c.idle) >= maxIdle {
		return false
	}
	c.idle = append(c.idle, w)
	return true
}

// dismiss ends the workers that wait. The caller holds mu.
func (c *Conn) dismiss() {
	for _, w := range c.idle {
		close(w.next)
	}
	c.idle = nil
}

// run serves a stream, and writes what came of it where nobody else writes: the
// goroutine is there already.
func (c *Conn) run(s *stream) {
	whole := s.serve() && s.response.finish()
	c.mu.Lock()
	s.conclude(whole)
	c.running--
	c.left()
	if len(c.waiting) > 0 && !c.over {
		next := c.waiting[0]
		c.waiting = c.waiting[1:]
		c.work(next)
	}
	writes := c.writes()
	if c.over {
		c.quiet.Broadcast()
	}
	c.mu.Unlock()
	if writes {
		c.write()
	}
}

// serve runs the handler, and tells whether it returned.
func (s *stream) serve() (returned bool) {
	defer func() {
		value := recover()
		if value == nil {
			return
		}
		if err, ok := value.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			return
		}
		s.conn.options.Log.Error("a handler panicked", "peer", s.conn.remote, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
	}()
	s.handler.ServeHTTP(&s.response, s.request)
	return true
}

// conclude ends a stream whose handler is done. A response that is whole stands;
// any other the client must not take for one. The caller holds mu.
func (s *stream) conclude(whole bool) {
	c := s.conn
	s.reading.stop()
	s.writing.stop()
	if s.stall != nil {
		s.stall.Stop()
	}
	if s.response.hold != nil {
		c.options.Buffers.giveHold(s.response.hold)
		s.response.hold = nil
	}
	if s.request.MultipartForm != nil {
		_ = s.request.MultipartForm.RemoveAll() // temporary files: nobody to tell
	}
	if whole && s.gone == nil {
		c.resets.earn(1)
		c.control.earn(4) // clients open windows, and set priorities, for each request
	}
	switch {
	case s.gone != nil:
	case !s.finished || !whole && !s.ended:
		s.reset(http2.ErrCodeInternal, http.ErrAbortHandler)
	case !s.ended:
		s.reset(http2.ErrCodeNo, errStreamOver) // RFC 9113 8.1: the rest is not wanted
	default:
		s.kill(errStreamOver)
	}
}
