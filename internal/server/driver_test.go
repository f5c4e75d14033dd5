package server_test

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/netloop"
)

// staged is a driver of the engine in which a test has a hand. What is nil does
// nothing.
type staged struct {
	netloop.Driver
	failures atomic.Int64                 // how many times Listen fails
	queued   bool                         // connections stay in the socket's queue
	listens  func(*netloop.ListenOptions) // is shown what Listen is given
	accepted func(c netloop.Conn)         // is shown each connection that is taken
	serves   func(c netloop.Conn)         // is called by the task that is about to serve one
	closed   func()                       // is called when the accepting has ended
}

func newStaged(t *testing.T) *staged {
	t.Helper()
	ofEngine(t, "net/http has no driver")
	return &staged{Driver: newDriver(t)}
}

func (s *staged) Listen(socket net.Listener, handler netloop.Handler, o netloop.ListenOptions) (netloop.Acceptor, error) {
	if s.failures.Add(-1) >= 0 {
		return nil, errors.New("too many open files")
	}
	if s.listens != nil {
		s.listens(&o)
	}
	if inner := o.Accepted; s.accepted != nil {
		o.Accepted = func(c netloop.Conn) bool {
			s.accepted(c)
			return inner(c)
		}
	}
	if inner := handler; s.serves != nil {
		handler = func(c netloop.Conn) (bool, time.Time) {
			s.serves(c)
			return inner(c)
		}
	}
	if s.queued {
		nobodys, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer nobodys.Close()
		socket = nobodys
	}
	acceptor, err := s.Driver.Listen(socket, handler, o)
	if err != nil {
		return nil, err
	}
	return stagedAcceptor{acceptor, s}, nil
}

type stagedAcceptor struct {
	netloop.Acceptor
	staged *staged
}

func (a stagedAcceptor) Close() error {
	err := a.Acceptor.Close()
	if a.staged.closed != nil {
		a.staged.closed()
	}
	return err
}
