//go:build unix

package netloop

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// ends are the two of a connection of the standard library.
func ends(t testing.TB) (near, far net.Conn) {
	t.Helper()
	listening := listen(t, "tcp")
	far = connect(t, listening)
	near, err := listening.Accept()
	if err != nil {
		t.Errorf("accept: %v", err)
		panic(err)
	}
	t.Cleanup(func() { _ = near.Close() })
	return near, far
}

// TestMovesWhileStopping takes sockets in and out of a driver that stops, and of
// one that has stopped: none is left open, and none that was given away is
// closed.
func TestMovesWhileStopping(t *testing.T) {
	each(t, func(b *bed) {
		t := b.t
		acceptor, err := b.Listen(listen(t, "tcp"), echo, ListenOptions{})
		if err != nil {
			t.Fatal(err)
		}
		given := make(chan net.Conn, 1)
		x := b.Executors()[0]
		begun := make(chan struct{})
		if !x.Post(func() {
			c, peer := pair(t, x, "tcp")
			close(begun)
			if err := x.NewEvent().Wait(time.Time{}); !errors.Is(err, ErrStopped) {
				t.Errorf("wait: %v", err)
			}
			if x.Post(func() { t.Error("it runs while the driver stops") }) {
				t.Error("it takes tasks while the driver stops")
			}
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, ErrStopped) {
				t.Errorf("read: %v", err)
			}
			own, err := c.Detach()
			if err != nil {
				t.Errorf("detach: %v", err)
				return
			}
			t.Cleanup(func() { _ = own.Close() })
			given <- own
			near, far := ends(t)
			if _, err := x.Adopt(near); !errors.Is(err, ErrStopped) {
				t.Errorf("adopt: %v", err)
			}
			x.Block(func() { wantEnd(t, far); _, _ = peer.Write([]byte("x")) })
		}) {
			t.Fatal("it takes no tasks")
		}
		<-begun
		b.Stop()
		own := <-given
		if n, err := own.Read(make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("what was given away reads %d, %v", n, err)
		}
		near, far := ends(t)
		acceptor.Take(near)
		wantEnd(t, far)
		if told := b.log.String(); strings.Contains(told, "not taken") {
			t.Errorf("the log complains: %s", told)
		}
	})
}

// without runs f with no descriptor to be had.
func without(t testing.TB, f func()) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Error(err)
		return
	}
	low := limit
	low.Cur = 3
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &low); err != nil {
		t.Error(err)
		return
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}()
	f()
}

// TestMovesWithoutDescriptors does so where the system has no descriptor: what
// cannot be moved is closed.
func TestMovesWithoutDescriptors(t *testing.T) {
	each(t, func(b *bed) {
		t := b.t
		ended := 0
		detached := make(chan error, 1)
		dial := b.serve(t, "tcp", func(c Conn) (bool, time.Time) {
			var own net.Conn
			var err error
			without(t, func() { own, err = c.Detach() })
			if err == nil { // it needs none on goroutines
				_ = own.Close()
			}
			detached <- err
			return false, time.Time{}
		}, ListenOptions{Ended: func(Conn) { ended++ }})
		client := dial()
		_, _ = client.Write([]byte("x"))
		if err := <-detached; err != nil && !errors.Is(err, syscall.EMFILE) {
			t.Errorf("detach: %v", err)
		}
		if _, err := io.Copy(io.Discard, client); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the client reads %v", err)
		}
		b.task(t, func(x Executor) {
			if ended != 1 {
				t.Errorf("it was told to have ended %d times", ended)
			}
			near, far := ends(t)
			var c Conn
			var err error
			without(t, func() { c, err = x.Adopt(near) })
			if err == nil {
				_ = c.Close()
			} else if !errors.Is(err, syscall.EMFILE) {
				t.Errorf("adopt: %v", err)
			}
			x.Block(func() { wantEnd(t, far) })
			near, far = ends(t)
			_ = near.Close()
			if _, err := x.Adopt(near); err == nil {
				t.Error("adopt of a closed connection succeeds")
			}
			x.Block(func() { wantEnd(t, far) })
		})
	})
}
