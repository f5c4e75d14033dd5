package server

import "time"

// Hurry makes the times that no document sets as short as a test needs. It is
// called before Start.
func (l *Listener) Hurry(bodyGrace, drain, linger, fresh time.Duration) {
	l.limits.bodyGrace, l.limits.drain, l.limits.linger, l.limits.fresh = bodyGrace, drain, linger, fresh
}

// Pending counts the connections on which something has arrived that nobody has
// read.
func (l *Listener) Pending() (n int) {
	var clients []*client
	n = l.count(func(c member) bool {
		switch c := c.(type) {
		case *conn:
			return c.pending()
		case *client:
			clients = append(clients, c)
		}
		return false
	})
	for _, c := range clients {
		seen := make(chan bool, 1)
		if c.conn.Executor().Post(func() { seen <- arrived(c.conn.Control) }) && <-seen {
			n++
		}
	}
	return n
}

// Parting counts the connections that wait for their client to close.
func (l *Listener) Parting() int {
	return l.count(func(c member) bool { return c.stands().parting.Load() })
}

// Resting counts the connections that have had an exchange and have none now.
func (l *Listener) Resting() int {
	return l.count(func(c member) bool { return c.stands().served.Load() && !c.stands().busy.Load() })
}

func (l *Listener) count(which func(member) bool) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		if which(c) {
			n++
		}
	}
	return n
}
