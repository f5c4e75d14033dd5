package netloop

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"sluice/internal/sockettest"
)

var errCause = errors.New("the cause")

func TestContext(t *testing.T) {
	t.Run("tells its cause", func(t *testing.T) {
		var c Context
		derived, cancel := context.WithCancel(&c)
		defer cancel()
		called := make(chan struct{})
		context.AfterFunc(&c, func() { close(called) })
		unwanted := context.AfterFunc(&c, func() { t.Error("a stopped function was called") })
		if !unwanted() || unwanted() {
			t.Error("stop does not tell whether it stopped")
		}
		if c.Err() != nil {
			t.Errorf("it has ended: %v", c.Err())
		}
		c.Cancel(errCause)
		c.Cancel(io.EOF) // too late
		<-called
		<-derived.Done()
		for name, err := range map[string]error{"Err": c.Err(), "derived": context.Cause(derived)} {
			if !errors.Is(err, errCause) || !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	t.Run("without a cause", func(t *testing.T) {
		var c Context
		c.Cancel(nil)
		<-c.Done()
		if !errors.Is(c.Err(), context.Canceled) {
			t.Error(c.Err())
		}
		called := make(chan struct{})
		context.AfterFunc(&c, func() { close(called) })
		<-called
	})
}

// TestGuard ends contexts while a task reads, and while one dials.
func TestGuard(t *testing.T) {
	full := sockettest.FullQueue(t)
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		var own Context
		own.Init(x)
		foreign, cancel := context.WithCancelCause(context.Background())
		for name, end := range map[string]struct {
			ctx context.Context
			end func()
		}{
			"own":     {&own, func() { own.Cancel(errCause) }},
			"foreign": {foreign, func() { cancel(errCause) }},
		} {
			c, _ := pair(t, x, "tcp")
			guard := NewGuard(end.ctx, x, c)
			x.Go(end.end)
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, errCause) {
				t.Errorf("%s: read: %v", name, err)
			}
			guard.End()
			if _, err := x.Dial(end.ctx, "tcp", full, time.Time{}); !errors.Is(err, errCause) {
				t.Errorf("%s: dial: %v", name, err)
			}
		}
		var ended Context
		c, _ := pair(t, x, "tcp")
		guard := NewGuard(&ended, x, c)
		guard.End()
		ended.Cancel(errCause)
		c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, errDeadline) {
			t.Errorf("after the guard: %v", err)
		}
	})
}

// TestAdopt takes sockets of the standard library into an executor.
func TestAdopt(t *testing.T) {
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		listening := listen(t, "tcp")
		plain := connect(t, listening)
		far, err := listening.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = far.Close() }()
		c, err := x.Adopt(plain)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		c.SetData("something")
		if c.Data() != "something" {
			t.Errorf("it keeps %v", c.Data())
		}
		if _, err := far.Write([]byte("hello")); err != nil {
			t.Error(err)
		}
		got := make([]byte, 5)
		if n, err := c.Read(got); err != nil || string(got[:n]) != "hello" {
			t.Errorf("read %q, %v", got[:n], err)
		}
		if _, err := x.Adopt(noConn{}); !errors.Is(err, errNoSocket) {
			t.Errorf("adopt without a socket: %v", err)
		}
	})
}

type noConn struct{ net.Conn }

func (noConn) Close() error { return nil }

// TestTake serves connections that were accepted elsewhere.
func TestTake(t *testing.T) {
	each(t, func(b *bed) {
		t := b.t
		acceptor, err := b.Listen(listen(t, "tcp"), echo, ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := acceptor.Close(); err != nil {
			t.Fatal(err)
		}
		other := listen(t, "tcp")
		for range 3 {
			client := connect(t, other)
			taken, err := other.Accept()
			if err != nil {
				t.Fatal(err)
			}
			acceptor.Take(taken)
			if _, err := client.Write([]byte("x")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(client, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
		}
		acceptor.Take(noConn{})
	})
}
