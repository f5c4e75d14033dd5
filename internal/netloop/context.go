package netloop

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Interrupter is what can be told to give up what it waits for, as a Conn.
// Interrupt must not touch the context that guards it.
type Interrupter interface{ Interrupt(cause error) }

// Context is the context.Context of what tasks of one executor do. Its end costs
// no goroutine unless somebody asked for one. Init comes before anything else.
// Cancel and Leave are called in the executor, as Event.Set is; the rest is for
// any goroutine.
type Context struct {
	mu       sync.Mutex
	executor Executor // nil: goroutines do the rest of the work
	cause    error
	done     chan struct{} // nil until somebody asks
	guarded  Interrupter
	after    []*func()
}

var _ context.Context = (*Context)(nil)

// Init says whose tasks the work is for.
func (c *Context) Init(executor Executor) { c.executor = executor }

// Executor is whose tasks do the work; nil once it has left.
func (c *Context) Executor() Executor {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.executor
}

// Leave says that goroutines do the rest of the work. Cancel may then be called
// by any of them.
func (c *Context) Leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.executor = nil
}

// Block runs f as Executor.Block does.
func (c *Context) Block(f func()) {
	if executor := c.Executor(); executor != nil {
		executor.Block(f)
		return
	}
	f()
}

// Cancel ends the context, once: nil stands for context.Canceled.
func (c *Context) Cancel(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	c.mu.Lock()
	if c.cause != nil {
		c.mu.Unlock()
		return
	}
	c.cause = cause
	if c.done != nil {
		close(c.done)
	}
	if c.guarded != nil { // under the lock, so that none comes after the end of its guard
		c.guarded.Interrupt(c.err())
	}
	after := c.after
	c.guarded, c.after = nil, nil
	c.mu.Unlock()
	for _, f := range after {
		go (*f)()
	}
}

// Deadline is none.
func (c *Context) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done is closed by Cancel.
func (c *Context) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.cause != nil {
			close(c.done)
		}
	}
	return c.done
}

// Err wraps both the cause and context.Canceled, so that context.Cause of what
// is derived from it tells the cause, too. nil before the end.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err()
}

func (c *Context) err() error {
	if c.cause == nil || errors.Is(c.cause, context.Canceled) {
		return c.cause
	}
	return canceled{c.cause}
}

// Value has none.
func (c *Context) Value(any) any { return nil }

// AfterFunc is what context.AfterFunc and derived contexts call.
func (c *Context) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		go f()
		return func() bool { return false }
	}
	place := &f
	c.after = append(c.after, place)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		i := slices.Index(c.after, place)
		if i < 0 {
			return false
		}
		c.after = slices.Delete(c.after, i, i+1)
		return true
	}
}

// canceled is the end of a context with its cause.
type canceled struct{ cause error }

func (e canceled) Error() string   { return e.cause.Error() }
func (e canceled) Unwrap() []error { return []error{e.cause, context.Canceled} }

// Guard is the time in which a context's end interrupts something.
type Guard struct {
	context *Context
	stop    func() bool
}

// NewGuard lets the end of ctx interrupt target, which belongs to a task of
// executor, until End. Where ctx is a Context, that allocates nothing, and one
// target at a time can be guarded.
func NewGuard(ctx context.Context, executor Executor, target Interrupter) Guard {
	own, ok := ctx.(*Context)
	if !ok {
		return Guard{stop: context.AfterFunc(ctx, func() {
			executor.Post(func() { target.Interrupt(context.Cause(ctx)) })
		})}
	}
	own.mu.Lock()
	if own.guarded != nil {
		own.mu.Unlock()
		panic("BUG: a context guards two things at once")
	}
	if own.cause == nil {
		own.guarded = target
	}
	ended := own.cause != nil
	own.mu.Unlock()
	if ended {
		target.Interrupt(own.Err())
	}
	return Guard{context: own}
}

// End ends it: no interruption comes after it. The zero Guard and a second call
// are fine. Where the context is no Context, an interruption may be under way
// and come later.
func (g *Guard) End() {
	switch {
	case g.context != nil:
		g.context.mu.Lock()
		g.context.guarded = nil
		g.context.mu.Unlock()
	case g.stop != nil:
		g.stop()
	}
	*g = Guard{}
}
