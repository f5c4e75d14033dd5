// Package netloop owns sockets: reading, writing, waiting, deadlines, accepting
// and dialing, for code that is written straight down. It knows no protocol.
//
// That code runs as tasks of an Executor, which a Driver has one or more of.
// There are two drivers. Goroutines is for every Unix system and the reference
// for the other: its tasks are goroutines on the runtime's poller. Loops is for
// Linux: event loops whose tasks are coroutines that yield to their loop where
// they would block. A loop runs one task at a time, so a task that blocks in
// any other way holds up the rest; Block is for that. The code above is the
// same for both. What its tasks share needs a lock, which on a loop is never
// contended; no task may hold a lock while it waits here.
package netloop

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"time"
)

// Driver serves sockets. Its methods are for any goroutine, but not for its
// own tasks (only within Block).
type Driver interface {
	// Executors are what it runs tasks on, always the same ones.
	Executors() []Executor
	// Listen lets handler serve the connections of a listening socket of the
	// standard library, which stays the caller's.
	Listen(socket net.Listener, handler Handler, options ListenOptions) (Acceptor, error)
	// Stop ends the accepting, lets every wait of a task return ErrStopped, and
	// closes every connection. It returns when all tasks have returned and
	// nothing is left. A second call does nothing.
	Stop()
}

// Executor runs tasks. Its methods are called by its tasks alone, but for
// Post. A task that panics ends, and the log says so; a task may not end by
// runtime.Goexit.
type Executor interface {
	// Go runs f as a new task of the same executor, soon.
	Go(f func())
	// Post is Go for any goroutine. It returns false, and f will not run, when
	// the executor has stopped.
	Post(f func()) bool
	// Block runs f, which may block on anything, where it holds up nobody, and
	// returns after it, whatever stops meanwhile. A panic of f is the task's.
	Block(f func())
	// Now is the time; on a loop, as of its last look at its sockets, which costs
	// nothing and is what deadlines are held to.
	Now() time.Time
	// NewEvent returns an event that has not happened.
	NewEvent() Event
	// NewPipe returns an empty pipe, of a small stock. Its error wraps
	// errors.ErrUnsupported where there is no splice(2), or no pipe now: Read
	// and Write do the same at another price.
	NewPipe() (*Pipe, error)
	// Dial connects a socket, for the tasks of this executor. network is tcp or
	// unix, address a literal IP address with a port, or a path. The zero
	// deadline is none. Its error wraps os.ErrDeadlineExceeded where that came
	// first, else the system's, in a *net.OpError.
	//
	// The end of ctx ends the waiting, with its cause.
	Dial(ctx context.Context, network, address string, deadline time.Time) (Conn, error)
	// Adopt makes a socket of the standard library, or a *DetachedTLS, a Conn of
	// this executor; it is the opposite of Detach. After an error conn is closed.
	Adopt(conn net.Conn) (Conn, error)
}

// Acceptor takes the connections of a listening socket. Its methods are for any
// goroutine, but not for tasks.
type Acceptor interface {
	// Close ends the accepting: when it returns, no other connection is taken,
	// and what waits in the queue is left for whoever listens next. Connections
	// that were taken go on.
	Close() error
	// Take serves a connection that was accepted elsewhere as if it had come by
	// the socket, also after Close. It is closed where the driver has stopped.
	Take(conn net.Conn)
}

// Event is something that happens once and that one task waits for.
type Event interface {
	// Set says that it has happened. It is called by a task of the same
	// executor, or by a function that WatchHangup calls; a second call does
	// nothing.
	Set()
	// Wait returns nil once it has happened, and an error before that:
	// os.ErrDeadlineExceeded at the deadline, if that is not zero, or
	// ErrStopped. One that never happens serves to wait for a time.
	Wait(deadline time.Time) error
}

// Conn is a connected stream socket of an executor. Its tasks alone call its
// methods; at most one reads and one writes at a time. Errors of a connection
// stay: reading or writing after one gives it again. After a failed write what
// the peer had sent before can still be read; the error comes in place of
// io.EOF.
type Conn interface {
	// Read reads what is there, and waits until there is something. At the end
	// it returns io.EOF. A passed deadline gives os.ErrDeadlineExceeded and
	// breaks nothing.
	Read(p []byte) (int, error)
	// Write writes all of p, or returns an error and how much it wrote.
	Write(p []byte) (int, error)
	// ReadInto is Read into an empty pipe, of at most n bytes; it takes a pipeful
	// of them at most. Its error may also wrap errors.ErrUnsupported: nothing
	// was taken, and Read must do it, from now on.
	ReadInto(p *Pipe, n int64) (int, error)
	// WriteFrom is Write of all that a pipe holds. After an error the rest is
	// still in the pipe.
	WriteFrom(p *Pipe) (int, error)
	// Await waits, on a loop, until the system has told of something to read, so
	// that no buffer need be held meanwhile; a Read after it may still wait. On
	// goroutines it returns at once. Errors are those of Read but for io.EOF.
	Await() error
	// Readable waits until a Read would not wait. It needs no buffer.
	Readable() error
	// Stale tells, without waiting, whether the peer has closed or sent
	// anything: a connection at rest has done neither.
	Stale() bool
	// SetReadDeadline and SetWriteDeadline bound the waiting; the zero time
	// does not. They hold for waits under way, too.
	SetReadDeadline(t time.Time)
	// SetWriteDeadline is SetReadDeadline for writing.
	SetWriteDeadline(t time.Time)
	// WatchHangup calls f once, soon, when the peer has closed: completely, as
	// far as the system can tell (a TCP peer that closes without a reset looks
	// half closed), or, with half, at least its writing side. Soon is at once on
	// a loop, and some tenths of a second on goroutines. f runs in no task and
	// must not wait, nor call methods of this Conn but Interrupt. Another call
	// replaces f; a nil f ends the watching, and so do Interrupt, Close and
	// Detach: f does not begin after they return, but for one that has begun
	// when Interrupt is called from elsewhere. Reading goes on meanwhile. What
	// the peer has sent and nobody has read hides its closing on systems other
	// than Linux.
	WatchHangup(f func(), half bool)
	// Interrupt lets waits under way and all later ones return cause.
	Interrupt(cause error)
	// CloseWrite ends the writing side; reading goes on.
	CloseWrite() error
	// Close ends the connection and lets waits return net.ErrClosed. A second
	// call does nothing.
	Close() error
	// Reset is Close, but the peer sees the connection break (RST), and what was
	// written and not sent is dropped.
	Reset()
	// Detach takes the socket away from the executor; the caller owns it. The
	// Conn is closed afterwards; after an error so is the connection. Nobody may
	// wait in it.
	Detach() (net.Conn, error)
	// LocalAddr is this end; nil, if it is not known.
	LocalAddr() net.Addr
	// RemoteAddr is the other end.
	RemoteAddr() net.Addr
	// Control calls f with the descriptor, for options; f must not keep it.
	Control(f func(descriptor uintptr)) error
	// Executor is whose connection it is.
	Executor() Executor
	// SetData keeps something of the caller's with the connection, for Data.
	SetData(data any)
	// Data is what SetData was given last, nil at first.
	Data() any
}

// Handler serves a connection, each time when something can be read from it at
// rest: bytes, or its end. It returns whether the connection goes back to rest,
// and until when; the zero time is no bound, and one that rests longer is
// closed. If not, the connection is closed, unless it was detached. At rest a
// connection of a loop has neither task nor buffer. No deadline and no watching
// outlasts the handler.
type Handler func(c Conn) (rest bool, until time.Time)

// ListenOptions are how connections of a listening socket are taken.
type ListenOptions struct {
	// Accepted is told of each connection, before it is served; false closes it.
	// It must not wait. May be nil.
	Accepted func(c Conn) bool
	// Ended is told when a connection that was accepted is closed or detached.
	// It must not wait. May be nil.
	Ended func(c Conn)
	// FirstRest tells how long a new connection may rest before it says anything;
	// nil or 0: for ever. It must not wait.
	FirstRest func() time.Duration
	// Exhausted returns what a client is told for whom there is no descriptor; its
	// connection is closed after that. Accepting pauses then for a moment. It must
	// not wait; nil, or without a byte: clients are told nothing.
	Exhausted func() []byte
}

// ErrStopped is why waits end in an executor that was stopped.
var ErrStopped = errors.New("the executor has stopped")

// exhausted is what Exhausted returns, nothing without.
func (o *ListenOptions) exhausted() []byte {
	if o.Exhausted == nil {
		return nil
	}
	return o.Exhausted()
}

// firstRest is FirstRest, 0 without.
func (o *ListenOptions) firstRest() time.Duration {
	if o.FirstRest == nil {
		return 0
	}
	return o.FirstRest()
}

var errDeadline = os.ErrDeadlineExceeded

// backOff is how long accepting pauses when connections cannot be taken.
const backOff = 50 * time.Millisecond

// contain runs f and keeps its panic from everything else.
func contain(log *slog.Logger, f func()) {
	defer func() {
		if value := recover(); value != nil {
			log.Error("a task panicked", "panic", value, "stack", string(debug.Stack()))
		}
	}()
	f()
}
