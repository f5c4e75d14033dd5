package netloop

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// acceptBatch is how many connections a loop takes at a time.
const acceptBatch = 16

// acceptor takes the connections of one listening socket, on every loop.
type acceptor struct {
	loops      *Loops
	descriptor int
	handler    Handler
	options    ListenOptions
	close      func() error
	next       atomic.Uint32 // whose turn it is to get what Take is given
}

// listening is an acceptor in one loop.
type listening struct {
	*acceptor
	loop    *loop
	timer   timer // when it goes on after a pause
	settled bool  // the queue was empty once: later connections have the options
}

// Listen lets handler serve the connections of a listening socket, on all
// loops.
func (s *Loops) Listen(socket net.Listener, handler Handler, options ListenOptions) (Acceptor, error) {
	descriptor, err := duplicate(socket)
	if err != nil {
		return nil, err
	}
	bequeath(socket.Addr(), descriptor)
	a := &acceptor{loops: s, descriptor: descriptor, handler: handler, options: options}
	a.close = sync.OnceValue(a.end)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, errors.Join(ErrStopped, unix.Close(descriptor))
	}
	failures := make(chan error, len(s.all))
	s.everywhere(func(l *loop) { failures <- (&listening{acceptor: a, loop: l}).begin() })
	for range s.all {
		err = errors.Join(err, <-failures)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", socket.Addr(), errors.Join(err, a.close()))
	}
	s.acceptors[a] = struct{}{}
	return a, nil
}

// Close ends the accepting.
func (a *acceptor) Close() error {
	err := a.close()
	a.loops.mu.Lock()
	defer a.loops.mu.Unlock()
	delete(a.loops.acceptors, a)
	return err
}

func (a *acceptor) end() error {
	a.loops.everywhere(func(l *loop) {
		if s := l.sockets[a.descriptor]; s != nil && s.acceptor == a {
			delete(l.sockets, a.descriptor)
			l.timers.remove(&s.timer)
			_ = l.control(unix.EPOLL_CTL_DEL, a.descriptor, 0, 0) // it may pause
		}
	})
	a.loops.everywhere(func(*loop) {}) // what was placed on another loop has arrived by then
	return os.NewSyscallError("close", unix.Close(a.descriptor))
}

// begin lets the loop take connections.
func (s *listening) begin() error {
	s.timer.owner = s
	s.loop.sockets[s.descriptor] = s
	return s.loop.control(unix.EPOLL_CTL_ADD, s.descriptor, unix.EPOLLIN|unix.EPOLLEXCLUSIVE, 0)
}

// expired ends a pause.
func (s *listening) expired() {
	if err := s.begin(); err != nil {
		s.loop.log.Error("a loop cannot take connections", "error", err)
		s.pause()
	}
}

func (s *listening) pause() {
	s.loop.timers.ask(&s.timer, s.loop.now+int64(backOff))
}

// accept takes what has come.
func (s *listening) accept() {
	for range acceptBatch {
		// That of x/sys/unix asks the system for the protocol, too.
		descriptor, peer, err := syscall.Accept4(s.descriptor, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch {
		case err == nil && s.loops.reserve.beyond(descriptor):
			s.loops.reserve.warn(errSpare, s.loop.log)
			Dismiss(descriptor, s.options.exhausted())
			_ = unix.Close(descriptor)
		case err == nil:
			peer := peerOf(peer)
			if !s.settled {
				options(familyOf(peer), descriptor)
			}
			s.place(descriptor, peer)
		case errors.Is(err, unix.EAGAIN):
			s.settled = true
			return
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
		default:
			s.loops.reserve.exhausted(os.NewSyscallError("accept", err), s.descriptor, &s.options, s.loop.log)
			_ = s.loop.control(unix.EPOLL_CTL_DEL, s.descriptor, 0, 0)
			s.pause()
			return
		}
	}
}

// place gives a connection to the loop that has the fewest, if that has fewer
// by more than one.
func (s *listening) place(descriptor int, peer net.Addr) {
	target := s.loop
	fewest := target.load.Load() - 1
	for _, l := range s.loops.all {
		if load := l.load.Load(); load < fewest {
			target, fewest = l, load
		}
	}
	if target == s.loop {
		s.take(target, descriptor, peer)
		return
	}
	target.load.Add(1) // so that the next is not placed as if this were not
	if !target.post(func() { target.load.Add(-1); s.take(target, descriptor, peer) }) {
		_ = unix.Close(descriptor)
	}
}

// Take serves a connection that was accepted elsewhere.
func (a *acceptor) Take(conn net.Conn) {
	l := a.loops.all[int(a.next.Add(1))%len(a.loops.all)]
	descriptor, err := takeDescriptor(conn)
	if err != nil {
		l.log.Error("a connection was not taken", "error", err)
		return
	}
	if !l.post(func() { a.serve(l.add(descriptor, conn.RemoteAddr())) }) {
		_ = unix.Close(descriptor)
	}
}

// take makes a connection one of a loop.
func (a *acceptor) take(l *loop, descriptor int, peer net.Addr) {
	a.serve(l.add(descriptor, peer))
}

// serve lets the handler have a new connection of a loop, unless it is refused.
func (a *acceptor) serve(c *loopConn, err error) {
	if err != nil {
		if !errors.Is(err, ErrStopped) {
			a.loops.log.Error("a connection was not taken", "error", err)
		}
		return
	}
	c.writable = true
	if a.options.Accepted != nil {
		accepted := false
		contain(c.loop.log, func() { accepted = a.options.Accepted(c) })
		if !accepted || c.descriptor < 0 {
			_ = c.Close()
			return
		}
	}
	c.acceptor = a
	until := int64(0)
	if first := a.options.firstRest(); first > 0 {
		until = c.loop.now + int64(first)
	}
	c.rest(until)
}

// left is told of each connection that was accepted and has ended.
func (a *acceptor) left(c *loopConn) {
	if a.options.Ended != nil {
		contain(c.loop.log, func() { a.options.Ended(c) })
	}
}
