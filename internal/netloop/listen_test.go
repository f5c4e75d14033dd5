//go:build unix

package netloop

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// wantEnd wants the end of a connection, soon, and nothing before it.
func wantEnd(t testing.TB, conn net.Conn) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %d, %v instead of the end", n, err)
	}
}

func TestRest(t *testing.T) {
	each(t, func(b *bed) {
		t := b.t
		var accepted, ended atomic.Int32
		dial := b.serve(t, "tcp", func(c Conn) (bool, time.Time) {
			var one [1]byte
			n, err := c.Read(one[:])
			if n == 0 || err != nil {
				return false, time.Time{}
			}
			c.SetReadDeadline(time.Now()) // it does not outlast the handler
			c.SetWriteDeadline(time.Now())
			c.WatchHangup(func() { t.Error("it is watched at rest") }, true)
			switch one[0] {
			case 's':
				return true, time.Now().Add(20 * time.Millisecond)
			case 'e':
				return false, time.Time{}
			case 'c':
				_ = c.Close()
				return true, time.Time{}
			case 'd':
				own, err := c.Detach()
				if err != nil {
					t.Errorf("detach: %v", err)
					return false, time.Time{}
				}
				go func() { _, _ = own.Write([]byte("d")); _ = own.Close() }()
				return false, time.Time{}
			}
			c.SetWriteDeadline(time.Time{})
			_, _ = c.Write(one[:])
			return true, time.Time{}
		}, ListenOptions{
			FirstRest: func() time.Duration { return time.Second },
			Accepted:  func(Conn) bool { accepted.Add(1); return true },
			Ended:     func(Conn) { ended.Add(1) },
		})
		silent := dial() // says nothing
		lasting := dial()
		if !exchange(t, lasting, "x") {
			return
		}
		wantEnd(t, silent)
		exchange(t, lasting, "x") // rests for longer than a first rest
		for _, word := range []string{"s", "e", "c"} {
			conn := dial()
			exchange(t, conn, "x")
			_, _ = conn.Write([]byte(word))
			wantEnd(t, conn)
		}
		detached := dial()
		_, _ = detached.Write([]byte("d"))
		if got, err := io.ReadAll(detached); string(got) != "d" || err != nil {
			t.Errorf("from a detached one: %q, %v", got, err)
		}
		_ = dial().Close() // the handler sees the end
		_ = lasting.Close()
		eventually(t, "all have ended", func() bool { return accepted.Load() == 7 && ended.Load() == 7 })
	})
}

func TestHandlerPanics(t *testing.T) {
	each(t, func(b *bed) {
		t := b.t
		b.panics = true
		dial := b.serve(t, "tcp", func(c Conn) (bool, time.Time) {
			var one [1]byte
			if _, _ = c.Read(one[:]); one[0] == 'p' {
				panic("in vain")
			}
			_, err := c.Write(one[:])
			return err == nil, time.Time{}
		}, ListenOptions{})
		other, conn := dial(), dial()
		exchange(t, other, "x")
		_, _ = conn.Write([]byte("p"))
		wantEnd(t, conn)
		exchange(t, other, "y")
	})
}

// TestListenerPanics has what is told of connections panic: it costs that
// connection at most.
func TestListenerPanics(t *testing.T) {
	each(t, func(b *bed) {
		b.panics = true
		var told, ended atomic.Int32
		dial := b.serve(b.t, "tcp", echo, ListenOptions{
			Accepted: func(Conn) bool {
				if told.Add(1) == 1 {
					panic("in vain")
				}
				return true
			},
			Ended: func(Conn) { ended.Add(1); panic("in vain") },
		})
		wantEnd(b.t, dial())
		first, second := dial(), dial()
		exchange(b.t, first, "x")
		exchange(b.t, second, "x")
		_ = first.Close()
		eventually(b.t, "one has ended", func() bool { return ended.Load() == 1 })
		exchange(b.t, second, "y") // its end comes with Stop
	})
}

func TestAcceptLimit(t *testing.T) {
	each(t, func(b *bed) {
		t := b.t
		var open, refused atomic.Int32
		dial := b.serve(t, "tcp", echo, ListenOptions{
			Accepted: func(Conn) bool {
				if open.Add(1) <= 2 {
					return true
				}
				open.Add(-1)
				refused.Add(1)
				return false
			},
			Ended: func(Conn) { open.Add(-1) },
		})
		first, second := dial(), dial()
		exchange(t, first, "x")
		exchange(t, second, "x")
		wantEnd(t, dial())
		exchange(t, first, "y")
		_ = second.Close()
		eventually(t, "one has left", func() bool { return open.Load() == 1 })
		exchange(t, dial(), "x")
		if refused.Load() != 1 {
			t.Errorf("%d were refused", refused.Load())
		}
	})
}

// TestListenerClose passes a socket on while clients come: each is served by
// one or the other, and none by the first after it closed.
func TestListenerClose(t *testing.T) {
	each(t, func(b *bed) {
		t := b.t
		listening := listen(t, "tcp")
		var closed atomic.Bool
		first, err := b.Listen(listening, echo, ListenOptions{Accepted: func(Conn) bool {
			if closed.Load() {
				t.Error("it accepts after its Close has returned")
			}
			return true
		}})
		if err != nil {
			t.Fatal(err)
		}
		kept := connect(t, listening)
		exchange(t, kept, "x")
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for range 50 {
					conn := connect(t, listening)
					exchange(t, conn, "hello")
					_ = conn.Close()
				}
			})
		}
		exchange(t, connect(t, listening), "x")
		for range 2 {
			if err := first.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			closed.Store(true)
		}
		queued := connect(t, listening)
		second, err := b.Listen(listening, echo, ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		exchange(t, queued, "x")
		exchange(t, kept, "y")
		clients.Wait()
		if err := second.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		last := connect(t, listening)
		own, err := listening.Accept() // the socket is still the caller's
		if err != nil {
			t.Fatal(err)
		}
		_, _ = own.Write([]byte("z"))
		_ = own.Close()
		if got, err := io.ReadAll(last); string(got) != "z" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

func TestListenFails(t *testing.T) {
	each(t, func(b *bed) {
		t := b.t
		if _, err := b.Listen(noSocket{}, echo, ListenOptions{}); !errors.Is(err, errNoSocket) {
			t.Errorf("no socket: %v", err)
		}
		listening := listen(t, "tcp")
		_ = listening.Close()
		if _, err := b.Listen(listening, echo, ListenOptions{}); err == nil {
			t.Error("it listens on a closed socket")
		}
		b.Stop()
		if _, err := b.Listen(listen(t, "tcp"), echo, ListenOptions{}); !errors.Is(err, ErrStopped) {
			t.Errorf("stopped: %v", err)
		}
	})
}

type noSocket struct{ net.Listener }

func (noSocket) Addr() net.Addr { return &net.TCPAddr{} }
