package server

import "time"

// Hurry makes the times that no document sets as short as a test needs. It is
// called before Start.
func (l *Listener) Hurry(bodyGrace, drain, linger, fresh time.Duration) {
	l.limits.bodyGrace, l.limits.drain, l.limits.linger, l.limits.fresh = bodyGrace, drain, linger, fresh
}
