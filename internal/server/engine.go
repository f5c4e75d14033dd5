package server

import (
	"time"

	"sluice/internal/netloop"
)

// listenAgain is after what time a socket is tried again that the engine could
// not take up, as for want of descriptors.
const listenAgain = time.Second

// startEngine lets the engine accept connections, once. No lock is held: what it
// waits for may itself wait for one, as the first connections do.
func (l *Listener) startEngine() {
	acceptor, err := l.driver.Listen(l.socket.Listener, l.serve, netloop.ListenOptions{
		Accepted: l.taken, Ended: l.left, FirstRest: l.firstRest, Exhausted: l.exhausted,
	})
	if err != nil {
		l.log.Error("a listener cannot accept connections", "listener", l.model.Load().Name, "error", err, "retry_in", listenAgain)
		time.AfterFunc(listenAgain, l.startAgain)
		return
	}
	l.acceptor = acceptor
	close(l.starting)
}

// startAgain is startEngine after a failure, unless the listener ends.
func (l *Listener) startAgain() {
	if l.ending.Load() {
		close(l.starting)
		return
	}
	l.startEngine()
}

// accepting tells whether connections are accepted, or are about to be. l.mu is
// held.
func (l *Listener) accepting() bool { return l.generation != nil || l.starting != nil }

// endAccepting ends it; what is in the socket's queue is taken.
func (l *Listener) endAccepting() {
	if l.starting == nil {
		l.socket.wake() // who accepts does the rest
		return
	}
	go func() {
		defer l.leave()
		defer l.finish(l.socket)
		<-l.starting
		if l.acceptor == nil {
			return // it never began
		}
		if err := l.acceptor.Close(); err != nil {
			l.log.Warn("accepting did not end cleanly", "listener", l.model.Load().Name, "error", err)
		}
	}()
}
