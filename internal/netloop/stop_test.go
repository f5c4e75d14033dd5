//go:build unix

package netloop

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/sockettest"
)

// descriptors is how many this process has; 0 where that cannot be told.
func descriptors() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}

// TestStop stops while everything that can wait does.
func TestStop(t *testing.T) {
	full := sockettest.FullQueue(t)
	for _, k := range drivers() {
		t.Run(k.name, func(t *testing.T) {
			goroutinesBefore, before := goleak.IgnoreCurrent(), descriptors()
			t.Run("all", func(t *testing.T) { stopUnderWay(newBed(t, k), full) })
			eventually(t, "no descriptor is left", func() bool { return descriptors() <= before })
			if err := goleak.Find(goroutinesBefore); err != nil {
				t.Error(err)
			}
		})
	}
}

func stopUnderWay(b *bed, full string) {
	t := b.t
	listening := listen(t, "tcp") // nobody closes the acceptor
	if _, err := b.Listen(listening, echo, ListenOptions{}); err != nil {
		t.Fatal(err)
	}
	atRest := connect(t, listening)
	exchange(t, atRest, "x")

	var waits sync.WaitGroup
	var blocked atomic.Bool
	for _, x := range b.Executors() {
		for name, wait := range map[string]func() error{
			"read":          func() error { c, _ := pair(t, x, "tcp"); _, err := c.Read(make([]byte, 1)); return err },
			"write":         func() error { c, _ := pair(t, x, "tcp"); return fill(c) },
			"readable":      func() error { c, _ := pair(t, x, "unix"); return c.Readable() },
			"event":         func() error { return x.NewEvent().Wait(time.Time{}) },
			"event in time": func() error { return x.NewEvent().Wait(time.Now().Add(time.Hour)) },
			"dial":          func() error { _, err := x.Dial(context.Background(), "tcp", full, time.Time{}); return err },
			"watch": func() error {
				c, _ := pair(t, x, "tcp")
				c.WatchHangup(func() { t.Error("stopping is no closing") }, true)
				return x.NewEvent().Wait(time.Time{})
			},
			"block": func() error {
				x.Block(func() { _ = stopped(b); blocked.Store(true) })
				return x.NewEvent().Wait(time.Time{})
			},
		} {
			waits.Add(1)
			if !x.Post(func() {
				defer waits.Done()
				if err := wait(); !errors.Is(err, ErrStopped) {
					t.Errorf("%s: %v", name, err)
				}
				// What comes after it ends soon, too.
				if _, err := x.Dial(context.Background(), "tcp", listening.Addr().String(), time.Time{}); !errors.Is(err, ErrStopped) {
					t.Errorf("%s, then dial: %v", name, err)
				}
				if err := x.NewEvent().Wait(time.Time{}); !errors.Is(err, ErrStopped) {
					t.Errorf("%s, then an event: %v", name, err)
				}
				waits.Add(1)
				x.Go(waits.Done)
			}) {
				t.Fatal("it takes no tasks")
			}
		}
	}
	b.task(t, func(x Executor) { _ = x.NewEvent().Wait(time.Now().Add(50 * time.Millisecond)) })
	b.Stop()
	if !blocked.Load() {
		t.Error("Stop did not wait for what blocks")
	}
	waits.Wait()
	wantEnd(t, atRest)
	for _, x := range b.Executors() {
		if x.Post(func() { t.Error("it runs after Stop") }) {
			t.Error("it takes tasks after Stop")
		}
	}
	b.Stop()
}

// stopped waits until the driver takes no more tasks.
func stopped(b *bed) error {
	for b.Executors()[0].Post(func() {}) {
		time.Sleep(time.Millisecond)
	}
	return nil
}

// TestStress runs relays between clients and an echo, both of which leave when
// they please. Every byte that arrives is looked at; nothing may be left.
func TestStress(t *testing.T) {
	for _, k := range drivers() {
		t.Run(k.name, func(t *testing.T) {
			goroutinesBefore, before := goleak.IgnoreCurrent(), descriptors()
			t.Run("all", func(t *testing.T) { stress(newBed(t, k)) })
			eventually(t, "no descriptor is left", func() bool { return descriptors() <= before })
			if err := goleak.Find(goroutinesBefore); err != nil {
				t.Error(err)
			}
		})
	}
}

func stress(b *bed) {
	t := b.t
	origin := listen(t, "tcp")
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := origin.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { moody(conn) })
		}
	})
	var open atomic.Int32
	listening := listen(t, "tcp")
	closer, err := b.Listen(listening, relay(origin.Addr().String()), ListenOptions{
		Accepted: func(Conn) bool { open.Add(1); return true },
		Ended:    func(Conn) { open.Add(-1) },
	})
	if err != nil {
		t.Fatal(err)
	}
	limit := time.Now().Add(3 * time.Second)
	var whole atomic.Int32
	var clients sync.WaitGroup
	for g := range 32 {
		clients.Go(func() {
			for i := 0; time.Now().Before(limit); i++ {
				if client(t, listening.Addr().String(), byte(g*7+i)) {
					whole.Add(1)
				}
			}
		})
	}
	clients.Wait()
	if whole.Load() < 20 {
		t.Errorf("only %d streams came through whole", whole.Load())
	}
	eventually(t, "all connections have ended", func() bool { return open.Load() == 0 })
	_ = closer.Close()
	_ = origin.Close()
	b.Stop()
	serving.Wait()
}

// moody answers with what comes, and at times leaves before.
func moody(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	switch rand.IntN(8) {
	case 0:
		_ = conn.(*net.TCPConn).SetLinger(0)
		_, _ = io.CopyN(conn, conn, rand.Int64N(100<<10))
	case 1:
		_, _ = io.CopyN(conn, conn, rand.Int64N(100<<10))
	default:
		_, _ = io.Copy(conn, conn)
	}
}

// client sends a stream and looks at what comes back: the beginning of it, or
// all.
func client(t testing.TB, address string, seed byte) (whole bool) {
	t.Helper()
	plain, err := net.Dial("tcp", address)
	if err != nil {
		t.Errorf("dial: %v", err)
		return false
	}
	conn := plain.(*net.TCPConn)
	defer func() { _ = conn.Close() }()
	size := rand.Int64N(300 << 10)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(conn, noise(seed, size))
		_ = conn.CloseWrite()
	}()
	defer func() { <-sent }()
	defer func() { _ = conn.Close() }()
	upTo := size + 1
	if rand.IntN(6) == 0 {
		upTo = rand.Int64N(size + 1)
		if rand.IntN(2) == 0 {
			_ = conn.SetLinger(0)
		}
	}
	got := io.LimitReader(conn, upTo)
	want, have := make([]byte, 16<<10), make([]byte, 16<<10)
	source := noise(seed, size)
	for at := int64(0); ; {
		n, err := got.Read(have)
		if _, short := io.ReadFull(source, want[:n]); short != nil || !bytes.Equal(want[:n], have[:n]) {
			t.Errorf("bytes of another stream after %d of %d", at, size)
			return false
		}
		if at += int64(n); err != nil {
			return at == size
		}
	}
}

// relay passes bytes both ways; each direction is a task.
func relay(origin string) Handler {
	return func(c Conn) (bool, time.Time) {
		x := c.Executor()
		upstream, err := x.Dial(context.Background(), "tcp", origin, time.Now().Add(time.Minute))
		if err != nil {
			c.Reset()
			return false, time.Time{}
		}
		defer func() { _ = upstream.Close() }()
		up := beside(x, func() { pass(upstream, c) })
		pass(c, upstream)
		_ = up.Wait(time.Time{})
		return false, time.Time{}
	}
}

// pass moves what comes until the end, which it passes on; an error ends both.
func pass(to, from Conn) {
	for step := passing(to, from); ; {
		err := step()
		switch {
		case errors.Is(err, io.EOF):
			_ = to.CloseWrite()
			return
		case err != nil:
			to.Interrupt(err)
			from.Interrupt(err)
			return
		}
	}
}

// passing is how to pass on what is there: with a buffer, or a pipe.
func passing(to, from Conn) (step func() error) {
	if pipe, err := to.Executor().NewPipe(); err == nil && rand.IntN(2) == 0 {
		return func() error {
			_, err := from.ReadInto(pipe, 1+rand.Int64N(64<<10))
			if err == nil {
				_, err = to.WriteFrom(pipe)
			}
			if err != nil {
				pipe.Close()
			}
			return err
		}
	} else if err == nil {
		pipe.Close()
	}
	buffer := make([]byte, 16<<10)
	return func() error {
		n, err := from.Read(buffer)
		if n > 0 {
			if _, writeErr := to.Write(buffer[:n]); writeErr != nil {
				err = writeErr
			}
		}
		return err
	}
}
