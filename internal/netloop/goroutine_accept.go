//go:build unix

package netloop

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// goAcceptor takes the connections of one listening socket.
type goAcceptor struct {
	owner     *Goroutines
	listening net.Listener
	handler   Handler
	options   ListenOptions
	closing   chan struct{}
	done      chan struct{}
	close     func() error
}

// Listen lets handler serve the connections of a listening socket.
func (s *Goroutines) Listen(listening net.Listener, handler Handler, options ListenOptions) (Acceptor, error) {
	descriptor, err := duplicate(listening)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(descriptor), "listening")
	own, err := net.FileListener(file) // duplicates it again
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", listening.Addr(), err)
	}
	if unixSocket, ok := own.(*net.UnixListener); ok {
		unixSocket.SetUnlinkOnClose(false) // the path is the caller's
	}
	a := &goAcceptor{
		owner: s, listening: own, handler: handler, options: options,
		closing: make(chan struct{}), done: make(chan struct{}),
	}
	a.close = sync.OnceValue(func() error {
		close(a.closing)
		err := a.listening.Close()
		<-a.done
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, errors.Join(ErrStopped, own.Close())
	}
	s.acceptors[a] = struct{}{}
	go a.run()
	return a, nil
}

// Close ends the accepting.
func (a *goAcceptor) Close() error {
	err := a.close()
	a.owner.mu.Lock()
	defer a.owner.mu.Unlock()
	delete(a.owner.acceptors, a)
	return err
}

func (a *goAcceptor) run() {
	defer close(a.done)
	for {
		conn, err := a.listening.Accept()
		if err == nil {
			if !a.spared(conn) {
				a.Take(conn)
			}
			continue
		}
		select {
		case <-a.closing:
			return
		default:
		}
		a.exhausted(err)
		select {
		case <-a.closing:
			return
		case <-time.After(backOff):
		}
	}
}

// spared tells a client that its connection would have a descriptor that is left
// to others, if so, and closes it.
func (a *goAcceptor) spared(conn net.Conn) bool {
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil || !errors.Is(a.owner.reserve.check(raw), errSpare) {
		return false
	}
	a.owner.reserve.warn(errSpare, a.owner.log)
	_ = raw.Control(func(descriptor uintptr) { Dismiss(int(descriptor), a.options.exhausted()) })
	_ = conn.Close() // nobody uses it
	return true
}

func (a *goAcceptor) exhausted(err error) {
	raw, rawErr := a.listening.(syscall.Conn).SyscallConn()
	if rawErr != nil {
		return // it is being closed
	}
	_ = raw.Control(func(descriptor uintptr) {
		a.owner.reserve.exhausted(err, int(descriptor), &a.options, a.owner.log)
	})
}

// Take serves a connection, unless it is not accepted.
func (a *goAcceptor) Take(conn net.Conn) {
	c, err := a.owner.adopt(conn)
	if err != nil {
		if !errors.Is(err, ErrStopped) {
			a.owner.log.Error("a connection was not taken", "error", err)
		}
		return
	}
	if a.options.Accepted != nil {
		accepted := false
		contain(a.owner.log, func() { accepted = a.options.Accepted(c) })
		if !accepted {
			_ = c.Close()
			return
		}
	}
	c.ended = a.options.Ended
	a.owner.Go(func() {
		defer func() { _ = c.Close() }()
		rest, until := true, time.Time{}
		if first := a.options.firstRest(); first > 0 {
			until = time.Now().Add(first)
		}
		for rest {
			c.WatchHangup(nil, false)
			c.SetWriteDeadline(time.Time{})
			c.SetReadDeadline(until)
			if c.Readable() != nil {
				return
			}
			c.SetReadDeadline(time.Time{})
			rest, until = a.handler(c)
		}
	})
}
