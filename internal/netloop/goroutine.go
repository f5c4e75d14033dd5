//go:build unix

package netloop

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// Goroutines is the Driver whose tasks are goroutines, on the runtime's poller:
// for every Unix system, and the reference for what a loop does. It is its one
// executor, too.
type Goroutines struct {
	log     *slog.Logger
	running sync.WaitGroup // tasks and the sweeper
	reserve reserve
	sweeper sweeper
	pipes   pipes
	tls     tlsStock
	//nolint:containedctx // it is the executor's own life, which ends every dialing
	stopping context.Context
	stop     context.CancelFunc

	mu        sync.Mutex
	conns     map[*goConn]struct{}
	acceptors map[*goAcceptor]struct{}
	stopped   bool
}

var (
	_ Driver   = (*Goroutines)(nil)
	_ Executor = (*Goroutines)(nil)
)

// NewGoroutines returns a driver. Stop ends it.
func NewGoroutines(log *slog.Logger) *Goroutines {
	s := &Goroutines{log: log, conns: map[*goConn]struct{}{}, acceptors: map[*goAcceptor]struct{}{}}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.sweeper.init(s)
	s.reserve.spare()
	s.reserve.fill()
	s.pipes.reserve = &s.reserve
	return s
}

// Executors are what there is: one.
func (s *Goroutines) Executors() []Executor { return []Executor{s} }

// Go runs f on a goroutine.
func (s *Goroutines) Go(f func()) {
	s.running.Go(func() { contain(s.log, f) })
}

// Post is Go until Stop.
func (s *Goroutines) Post(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.stopped {
		s.Go(f)
	}
	return !s.stopped
}

// Block runs f: a goroutine holds up nobody.
func (s *Goroutines) Block(f func()) { f() }

// Now is the time.
func (s *Goroutines) Now() time.Time { return time.Now() }

// NewEvent returns an event that has not happened.
func (s *Goroutines) NewEvent() Event { return &goEvent{owner: s, happened: make(chan struct{})} }

// NewPipe returns an empty pipe.
func (s *Goroutines) NewPipe() (*Pipe, error) { return s.pipes.take() }

// Stop ends the driver.
func (s *Goroutines) Stop() {
	s.mu.Lock()
	s.stopped = true
	var accepting []*goAcceptor
	for a := range s.acceptors {
		accepting = append(accepting, a)
	}
	s.mu.Unlock()
	for _, a := range accepting {
		_ = a.Close()
	}
	s.stop()
	for _, c := range s.connections() {
		c.Interrupt(ErrStopped)
	}
	s.running.Wait()
	for _, c := range s.connections() { // those that no task had in hand
		_ = c.Close()
	}
	s.pipes.end()
	s.reserve.empty()
}

func (s *Goroutines) connections() (list []*goConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		list = append(list, c)
	}
	return list
}

// goEvent is an Event of goroutines.
type goEvent struct {
	owner    *Goroutines
	once     sync.Once
	happened chan struct{}
}

// Set says that it has happened.
func (e *goEvent) Set() { e.once.Do(func() { close(e.happened) }) }

// Wait waits until then.
func (e *goEvent) Wait(deadline time.Time) error {
	var passed <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-e.happened:
		return nil
	default:
	}
	select {
	case <-e.happened:
		return nil
	case <-passed:
		return errDeadline
	case <-e.owner.stopping.Done():
		return ErrStopped
	}
}

// atStop lets f run when the driver stops, unless that is undone.
func (s *Goroutines) atStop(f func()) (undo func() bool) { return context.AfterFunc(s.stopping, f) }

// Dial connects a socket.
func (s *Goroutines) Dial(ctx context.Context, network, address string, deadline time.Time) (Conn, error) {
	if network != "unix" {
		if _, err := netip.ParseAddrPort(address); err != nil {
			return nil, fmt.Errorf("dial %s: %w", network, err)
		}
	}
	dialing, cancel := context.WithCancel(ctx)
	defer cancel()
	defer s.atStop(cancel)()
	if !deadline.IsZero() {
		dialing, cancel = context.WithDeadline(dialing, deadline)
		defer cancel()
	}
	conn, err := (&net.Dialer{}).DialContext(dialing, network, address)
	switch {
	case err == nil:
		return s.adopt(conn)
	case s.stopping.Err() != nil:
		err = fmt.Errorf("%w: %w", err, ErrStopped)
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("%w: %w", err, errDeadline)
	}
	return nil, err
}

// socket is what a stream socket of the standard library can do.
type socket interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// Adopt makes a connection of the standard library one of the driver.
func (s *Goroutines) Adopt(conn net.Conn) (Conn, error) {
	if d, ok := conn.(*DetachedTLS); ok {
		return d.adopt(s)
	}
	c, err := s.adopt(conn)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// adopt makes a connection of the standard library one of the driver.
func (s *Goroutines) adopt(conn net.Conn) (*goConn, error) {
	stream, ok := conn.(socket)
	if !ok {
		return nil, errors.Join(errNoSocket, conn.Close())
	}
	raw, err := stream.SyscallConn()
	if err == nil {
		err = s.reserve.check(raw)
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{}) // what it had before is not the executor's
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	c := newGoConn(s, stream, raw)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return nil, errors.Join(ErrStopped, conn.Close())
	}
	s.conns[c] = struct{}{}
	return c, nil
}

func (s *Goroutines) forget(c *goConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}
