package server

import (
	"time"

	"sluice/internal/netloop"
)

// listenAgain is after what time a socket is tried again that the engine could
// not take up, as for want of descriptors.
const listenAgain = time.Second

// beginEngine lets the engine accept connections, unless it does. l.mu is held.
func (l *Listener) beginEngine() {
	if l.acceptor != nil {
		return
	}
	acceptor, err := l.driver.Listen(l.socket.Listener, l.serve, netloop.ListenOptions{
		Accepted: l.taken, Ended: l.left, FirstRest: l.firstRest, Exhausted: exhausted,
	})
	if err != nil {
		l.log.Error("a listener cannot accept connections", "listener", l.model.Load().Name, "error", err, "retry_in", listenAgain)
		time.AfterFunc(listenAgain, func() { l.Serve(l.model.Load()) })
		return
	}
	l.acceptor = acceptor
	l.tasks++
}

// accepting tells whether connections are accepted. l.mu is held.
func (l *Listener) accepting() bool { return l.generation != nil || l.acceptor != nil }

// endAccepting ends it; what is in the socket's queue is taken.
func (l *Listener) endAccepting() {
	if l.acceptor == nil {
		l.socket.wake() // who accepts does the rest
		return
	}
	go func() {
		defer l.leave()
		defer l.finish(l.socket)
		if err := l.acceptor.Close(); err != nil {
			l.log.Warn("accepting did not end cleanly", "listener", l.model.Load().Name, "error", err)
		}
	}()
}
