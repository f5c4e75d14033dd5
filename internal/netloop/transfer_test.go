//go:build unix

package netloop

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestEcho(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			each(t, func(b *bed) {
				t := b.t
				dial := b.serve(t, network, echo, ListenOptions{})
				var clients sync.WaitGroup
				for g := range 100 {
					clients.Go(func() {
						conn := dial()
						for i := range 30 {
							if !exchange(t, conn, fmt.Sprintf("%d of %d", i, g)) {
								return
							}
						}
						_ = conn.Close()
					})
				}
				clients.Wait()
			})
		})
	}
}

// TestLarge moves streams both ways at once and looks at every byte.
func TestLarge(t *testing.T) {
	const size = 4 << 20
	each(t, func(b *bed) {
		t := b.t
		var served sync.WaitGroup
		served.Add(4)
		dial := b.serve(t, "tcp", func(c Conn) (bool, time.Time) {
			defer served.Done()
			var first [1]byte
			if _, err := c.Read(first[:]); err != nil {
				t.Errorf("read: %v", err)
				return false, time.Time{}
			}
			sent := beside(c.Executor(), func() {
				if _, err := io.CopyBuffer(struct{ io.Writer }{c}, noise(first[0]+100, size), make([]byte, 64<<10)); err != nil {
					t.Errorf("write: %v", err)
				}
				if err := c.CloseWrite(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			sameNoise(t, c, first[0], size)
			if err := sent.Wait(time.Time{}); err != nil {
				t.Error(err)
			}
			return false, time.Time{}
		}, ListenOptions{})
		var clients sync.WaitGroup
		for g := range 4 {
			clients.Go(func() {
				conn := dial().(*net.TCPConn)
				clients.Go(func() {
					_, _ = conn.Write([]byte{byte(g)})
					_, _ = io.Copy(conn, noise(byte(g), size))
					_ = conn.CloseWrite()
				})
				sameNoise(t, conn, byte(g)+100, size)
			})
		}
		clients.Wait()
		served.Wait()
	})
}

// TestHalfClose ends our side first, then the other.
func TestHalfClose(t *testing.T) {
	eachPair(t, func(b *bed, _ Executor, c Conn, peer net.Conn) {
		t := b.t
		_, _ = c.Write([]byte("last"))
		if err := c.CloseWrite(); err != nil {
			t.Errorf("close: %v", err)
		}
		if got, err := io.ReadAll(peer); string(got) != "last" || err != nil {
			t.Errorf("the peer read %q, %v", got, err)
		}
		if _, err := c.Write([]byte("more")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("a write after it: %v", err)
		}
		_, _ = peer.Write([]byte("answer"))
		_ = peer.Close()
		if got, err := io.ReadAll(c); string(got) != "answer" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

// TestHalfCloseOfThePeer ends the other side first.
func TestHalfCloseOfThePeer(t *testing.T) {
	eachPair(t, func(b *bed, _ Executor, c Conn, peer net.Conn) {
		t := b.t
		_ = peer.(interface{ CloseWrite() error }).CloseWrite()
		for range 2 {
			if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF { //nolint:errorlint // the very value
				t.Errorf("read %d, %v at the end", n, err)
			}
		}
		_, _ = c.Write([]byte("answer"))
		_ = c.Close()
		if got, err := io.ReadAll(peer); string(got) != "answer" || err != nil {
			t.Errorf("the peer read %q, %v", got, err)
		}
	})
}

// TestBroken has errors of a connection that the peer breaks.
func TestBroken(t *testing.T) {
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		c, peer := pair(t, x, "tcp")
		defer func() { _ = c.Close() }()
		_ = peer.(*net.TCPConn).SetLinger(0)
		_ = peer.Close()
		for range 2 { // the system tells it only once
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("read: %v", err)
			}
		}
		if _, err := c.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write: %v", err)
		}

		c, peer = pair(t, x, "tcp")
		defer func() { _ = c.Close() }()
		_, _ = peer.Write([]byte("answer"))
		_ = c.Readable()
		_ = peer.(*net.TCPConn).SetLinger(0)
		_ = peer.Close()
		var failure error
		settle(t, x, "a write fails", func() bool {
			_, failure = c.Write([]byte("x"))
			return failure != nil
		})
		if got, err := io.ReadAll(c); string(got) != "answer" || !errors.Is(err, failure) {
			t.Errorf("read %q, %v, which should be %v", got, err, failure)
		}
	})
}

func TestReset(t *testing.T) {
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		c, peer := pair(t, x, "tcp")
		c.Reset()
		if _, err := peer.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the peer read: %v", err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read: %v", err)
		}
		c, peer = pair(t, x, "unix")
		c.Reset()
		if _, err := peer.Read(make([]byte, 1)); err == nil {
			t.Error("the peer does not see that a Unix socket was closed")
		}
	})
}

func TestDetach(t *testing.T) {
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		c, peer := pair(t, x, "tcp")
		c.SetReadDeadline(time.Now().Add(-time.Second)) // it does not go along
		_, _ = peer.Write([]byte("early"))
		own, err := c.Detach()
		if err != nil {
			t.Errorf("detach: %v", err)
			return
		}
		defer func() { _ = own.Close() }()
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a read after it: %v", err)
		}
		if _, err := c.Detach(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a second one: %v", err)
		}
		if err := c.Control(func(uintptr) {}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("control after it: %v", err)
		}
		_ = c.Close() // it may not close what is not its own
		x.Block(func() {
			_, _ = peer.Write([]byte("late"))
			got := make([]byte, 9)
			if _, err := io.ReadFull(own, got); err != nil || string(got) != "earlylate" {
				t.Errorf("read %q, %v", got, err)
			}
			go func() { _, _ = own.Write([]byte("back")); _ = own.Close() }()
			if got, err := io.ReadAll(peer); err != nil || string(got) != "back" {
				t.Errorf("the peer read %q, %v", got, err)
			}
		})
	})
}

func TestAddresses(t *testing.T) {
	eachPair(t, func(b *bed, x Executor, c Conn, peer net.Conn) {
		t := b.t
		if got, want := c.RemoteAddr().String(), peer.LocalAddr().String(); got != want {
			t.Errorf("remote %s, want %s", got, want)
		}
		if got, want := c.LocalAddr().String(), peer.RemoteAddr().String(); got != want {
			t.Errorf("local %s, want %s", got, want)
		}
		if c.Executor() != x {
			t.Error("it is another executor's")
		}
		var kept uintptr
		if err := c.Control(func(d uintptr) { kept = d }); err != nil || kept == 0 {
			t.Errorf("control: %d, %v", kept, err)
		}
	})
}
