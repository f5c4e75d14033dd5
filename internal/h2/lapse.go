package h2

import "net/http"

// lapsed is a request that no handler is given.
type lapsed struct {
	request *http.Request
	why     error
}

// lapse notes one, for report. The caller holds mu.
func (c *Conn) lapse(s *stream, why error) {
	c.lapsed = append(c.lapsed, lapsed{s.request, why})
	c.lapses.Store(true)
}

// forgo notes the request whose header block has begun and will not be whole, as
// the connection ends. The caller is the reader, and holds mu.
func (c *Conn) forgo(why error) {
	id := c.block.stream
	if !c.block.open || id%2 == 0 || id <= c.maxID || c.clock.refuses(id) {
		return
	}
	s := newStream(c, id, 0)
	_, _, _ = c.draft(s) // what ends the connection is the one to tell
	c.lapse(s, why)
}

// report tells of the requests that lapsed, when no lock is held.
func (c *Conn) report() {
	if !c.lapses.Load() {
		return
	}
	c.mu.Lock()
	list := c.lapsed
	c.lapsed = nil
	c.lapses.Store(false)
	c.mu.Unlock()
	for _, l := range list {
		c.options.Refused(l.request, l.why)
	}
}
