package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// bed is what a test stands on: one of the transports, and who uses it.
type bed struct {
	*testing.T
	engine *Engine          // nil: net/http's
	own    netloop.Executor // whose tasks do the attempts; nil: goroutines
}

// Run runs a part of the test on the same bed.
func (b *bed) Run(name string, test func(t *bed)) bool {
	return b.T.Run(name, func(t *testing.T) { test(&bed{t, b.engine, b.own}) })
}

// each runs a test on every transport: net/http's, the engine with contexts that
// are not its own, and the engine with its own on both drivers.
func each(t *testing.T, test func(t *bed)) {
	t.Helper()
	t.Run("standard", func(t *testing.T) { test(&bed{T: t}) })
	engines(t, test)
}

// engines runs a test on the engine.
func engines(t *testing.T, test func(t *bed)) {
	t.Helper()
	t.Run("foreign", func(t *testing.T) {
		test(&bed{T: t, engine: NewEngine(startLoops(t), startGoroutines(t))})
	})
	t.Run("goroutine", func(t *testing.T) {
		executor := startGoroutines(t)
		test(&bed{t, NewEngine([]netloop.Executor{executor}, executor), executor})
	})
	t.Run("loop", func(t *testing.T) {
		loops := startLoops(t)
		test(&bed{t, NewEngine(loops, startGoroutines(t)), loops[0]})
	})
}

// spelled is a list of field lines as the transport has it: net/http sorts them
// and changes the case of names.
func (b *bed) spelled(lines string) string {
	if b.engine != nil || lines == "" {
		return lines
	}
	list := strings.Split(lines, "\n")
	for i, line := range list {
		name, rest, _ := strings.Cut(line, ":")
		list[i] = http.CanonicalHeaderKey(name) + ":" + rest
	}
	slices.SortStableFunc(list, func(a, b string) int {
		one, _, _ := strings.Cut(a, ":")
		other, _, _ := strings.Cut(b, ":")
		return strings.Compare(one, other)
	})
	return strings.Join(list, "\n")
}

func startGoroutines(t testing.TB) netloop.Executor {
	t.Helper()
	driver := netloop.NewGoroutines(log(t))
	t.Cleanup(driver.Stop)
	return driver
}

func startLoops(t testing.TB) []netloop.Executor {
	t.Helper()
	driver, err := newLoops(2, log(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(driver.Stop)
	return driver.Executors()
}

// log is one whose errors fail the test. That a task holds up its loop is normal
// where tests take all processors.
func log(t testing.TB) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(failing{t}, &slog.HandlerOptions{Level: slog.LevelError}))
}

// failing is a log whose lines fail the test.
type failing struct{ t testing.TB }

func (f failing) Write(p []byte) (int, error) {
	f.t.Errorf("the log says: %s", p)
	return len(p), nil
}

// opened is a transport to an endpoint.
type opened struct {
	pipeline.Transport
	standard *standard // one of the two
	pool     *pool
}

// open returns a transport to an endpoint that is released with the test.
func open(t *bed, endpoint model.Endpoint, s setup) opened {
	t.Helper()
	if t.engine == nil {
		transport := openStandard(t, endpoint, s)
		return opened{Transport: transport, standard: transport}
	}
	if s.dial != nil {
		t.Fatal("the engine dials by itself")
	}
	p := newPool(wayOf(endpoint, s), t.engine)
	t.Cleanup(p.Release)
	return opened{Transport: by(t.own, p), pool: p}
}

func (o opened) Release() {
	if o.pool == nil {
		o.standard.Release()
		return
	}
	o.pool.Release()
}

// waiting is how many attempts wait for a connection.
func (o opened) waiting() int {
	if o.pool == nil {
		o.standard.gate.mu.Lock()
		defer o.standard.gate.mu.Unlock()
		return o.standard.gate.waiting.Len()
	}
	o.pool.queue.mu.Lock()
	defer o.pool.queue.mu.Unlock()
	return len(o.pool.queue.waiting)
}

// places is how many places are taken by attempts.
func (o opened) places() int {
	if o.pool == nil {
		o.standard.gate.mu.Lock()
		defer o.standard.gate.mu.Unlock()
		return o.standard.gate.inUse
	}
	o.pool.queue.mu.Lock()
	defer o.pool.queue.mu.Unlock()
	return o.pool.queue.places - int(o.pool.idle.Load())
}

// by does attempts, and all that is done with their responses, by tasks of an
// executor; nil: by nobody else.
func by(executor netloop.Executor, transport pipeline.Transport) pipeline.Transport {
	if executor == nil {
		return careful{transport}
	}
	return byTasks{executor, transport}
}

// do runs f as a task, to its end.
func do(executor netloop.Executor, f func()) {
	done := make(chan struct{})
	if !executor.Post(func() { defer close(done); f() }) {
		panic("the executor has stopped")
	}
	<-done
}

type byTasks struct {
	executor  netloop.Executor
	transport pipeline.Transport
}

// RoundTrip does what an engine does around an attempt.
func (b byTasks) RoundTrip(ctx context.Context, a *pipeline.Attempt) (err error) {
	var own netloop.Context
	own.Init(b.executor)
	if ctx.Err() != nil {
		own.Cancel(context.Cause(ctx))
	}
	stop := context.AfterFunc(ctx, func() { b.executor.Post(func() { own.Cancel(context.Cause(ctx)) }) })
	request := *a.Request
	if request.Body != nil {
		request.Body = &taskBody{executor: b.executor, source: request.Body}
	}
	a.Request = &request
	do(b.executor, func() {
		err = b.transport.RoundTrip(&own, a)
		if a.Response.Tunnel != nil {
			own.Leave()
		}
	})
	switch {
	case a.Response.Body != nil:
		a.Response.Body = &used{source: a.Response.Body, run: func(f func()) { do(b.executor, f) }, stop: stop}
	case a.Response.Tunnel == nil:
		stop()
	}
	return err
}

// careful touches no body after its end.
type careful struct{ transport pipeline.Transport }

func (c careful) RoundTrip(ctx context.Context, a *pipeline.Attempt) error {
	err := c.transport.RoundTrip(ctx, a)
	if a.Response.Body != nil {
		a.Response.Body = &used{source: a.Response.Body, run: func(f func()) { f() }, stop: func() bool { return true }}
	}
	return err
}

// used is the body of a response for who uses it from a test.
type used struct {
	source io.ReadCloser
	run    func(f func())
	stop   func() bool
	over   error
}

func (c *used) Read(p []byte) (n int, err error) {
	if c.over != nil {
		return 0, c.over
	}
	c.run(func() { n, err = c.source.Read(p) })
	if err != nil {
		c.over = err
		c.stop()
	}
	return n, err
}

func (c *used) Buffered() (n int) {
	if c.over == nil {
		c.run(func() { n = message.Buffered(c.source) })
	}
	return n
}

func (c *used) Close() (err error) {
	if c.over == nil {
		c.run(func() { err = c.source.Close() })
		c.over = net.ErrClosed
		c.stop()
	}
	return err
}

// taskBody is the body of a request as engines have them: reading it waits in a
// task, and Close wakes who reads.
type taskBody struct {
	executor netloop.Executor
	source   io.ReadCloser

	mu      sync.Mutex
	closed  bool
	waiting netloop.Event
}

var errBodyClosed = errors.New("the body was closed")

func (b *taskBody) Read(p []byte) (int, error) {
	if message.Buffered(b.source) > 0 {
		return b.source.Read(p)
	}
	done := b.executor.NewEvent()
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return 0, errBodyClosed
	}
	b.waiting = done
	b.mu.Unlock()
	buffer := make([]byte, len(p))
	var n int
	var err error
	go func() {
		n, err = b.source.Read(buffer)
		b.executor.Post(done.Set)
	}()
	if err := done.Wait(deadlineOf(nil)); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = nil
	if b.closed {
		return 0, errBodyClosed
	}
	return copy(p, buffer[:n]), err
}

func (b *taskBody) Buffered() int { return message.Buffered(b.source) }

func (b *taskBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	if b.waiting != nil {
		b.waiting.Set()
	}
	return b.source.Close()
}
