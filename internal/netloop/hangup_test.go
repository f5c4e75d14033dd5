//go:build unix

package netloop

import (
	"errors"
	"io"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestWatchHangup(t *testing.T) {
	closed := func(peer net.Conn) { _ = peer.Close() }
	half := func(peer net.Conn) { _ = peer.(interface{ CloseWrite() error }).CloseWrite() }
	reset := func(peer net.Conn) { _ = peer.(*net.TCPConn).SetLinger(0); _ = peer.Close() }
	for _, test := range []struct {
		name    string
		network string
		half    bool
		leave   func(peer net.Conn)
		told    bool
	}{
		{"half of half", "tcp", true, half, true},
		{"whole of half", "tcp", true, closed, true},
		{"reset of half", "tcp", true, reset, true},
		{"half of whole", "tcp", false, half, false},
		{"reset of whole", "tcp", false, reset, true},
		{"unix, half of half", "unix", true, half, true},
		{"unix, half of whole", "unix", false, half, false},
		{"unix, whole of whole", "unix", false, closed, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			each(t, func(b *bed) {
				t := b.t
				for _, before := range []bool{false, true} {
					b.task(t, func(x Executor) {
						c, peer := pair(t, x, test.network)
						defer func() { _ = c.Close() }()
						if before {
							test.leave(peer)
						}
						gone := x.NewEvent()
						c.WatchHangup(gone.Set, test.half)
						if !before {
							_ = x.NewEvent().Wait(time.Now().Add(time.Millisecond))
							test.leave(peer)
						}
						if test.told {
							if err := gone.Wait(time.Now().Add(30 * time.Second)); err != nil {
								t.Errorf("it is not told: %v", err)
							}
							return
						}
						if err := gone.Wait(time.Now().Add(20 * time.Millisecond)); err == nil {
							t.Error("it is told too early")
						}
						if test.network == "tcp" { // it does not go unnoticed for good
							reset(peer)
							if err := gone.Wait(time.Now().Add(30 * time.Second)); err != nil {
								t.Errorf("it is not told at last: %v", err)
							}
						}
					})
				}
			})
		})
	}
}

// TestWatchEnds ends the watching in every way; nothing is told then, and what
// came meanwhile is still there.
func TestWatchEnds(t *testing.T) {
	for name, end := range map[string]func(c Conn){
		"nil":       func(c Conn) { c.WatchHangup(nil, false) },
		"interrupt": func(c Conn) { c.Interrupt(errors.New("enough")) },
		"close":     func(c Conn) { _ = c.Close() },
		"detach": func(c Conn) {
			if own, err := c.Detach(); err == nil {
				_ = own.Close()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachTask(t, func(b *bed, x Executor) {
				t := b.t
				c, peer := pair(t, x, "tcp")
				defer func() { _ = c.Close() }()
				c.SetReadDeadline(time.Now().Add(time.Millisecond)) // not for the watching
				c.WatchHangup(func() { t.Error("told of the first") }, true)
				replaced := x.NewEvent()
				c.WatchHangup(replaced.Set, true)
				_ = x.NewEvent().Wait(time.Now().Add(5 * time.Millisecond))
				end(c)
				_ = peer.Close()
				if replaced.Wait(time.Now().Add(20*time.Millisecond)) == nil {
					t.Error("told after the end")
				}
			})
		})
	}
}

func TestWatchKeepsBytesAndDeadline(t *testing.T) {
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		c, peer := pair(t, x, "tcp")
		defer func() { _ = c.Close() }()
		c.WatchHangup(func() { t.Error("bytes are no closing") }, true)
		_, _ = peer.Write([]byte("pipelined"))
		_ = x.NewEvent().Wait(time.Now().Add(5 * time.Millisecond))
		c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
		c.WatchHangup(nil, false)
		got := make([]byte, 9)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != "pipelined" {
			t.Errorf("read %q, %v", got, err)
		}
		if _, err := c.Read(got); !errors.Is(err, errDeadline) {
			t.Errorf("a deadline set while watching: %v", err)
		}
	})
}

// TestWatchWhileReading reads within a deadline, and to the end, while the
// connection is watched.
func TestWatchWhileReading(t *testing.T) {
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		for _, half := range []bool{true, false} {
			c, peer := pair(t, x, "unix") // closed completely, when it is closed
			var left atomic.Bool
			gone := x.NewEvent()
			c.WatchHangup(func() {
				if !left.Load() {
					t.Error("told while the peer is there")
				}
				gone.Set()
			}, half)
			c.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
			if _, err := c.Read(make([]byte, 1)); !errors.Is(err, errDeadline) {
				t.Errorf("a deadline while watching: %v", err)
			}
			c.SetReadDeadline(time.Now().Add(time.Minute))
			const size = 1 << 20
			go func() {
				_, _ = io.Copy(peer, noise(7, size))
				left.Store(true)
				_ = peer.Close()
			}()
			sameNoise(t, c, 7, size)
			if err := gone.Wait(time.Now().Add(30 * time.Second)); err != nil {
				t.Errorf("it is not told, half %v: %v", half, err)
			}
			_ = c.Close()
		}
	})
}

// TestWatchPastBytes has nobody read what came before the end.
func TestWatchPastBytes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("bytes hide the end from this system")
	}
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		c, peer := pair(t, x, "tcp")
		defer func() { _ = c.Close() }()
		gone := x.NewEvent()
		c.WatchHangup(gone.Set, true)
		_, _ = peer.Write([]byte("unread"))
		_ = peer.Close()
		if err := gone.Wait(time.Now().Add(30 * time.Second)); err != nil {
			t.Errorf("it is not told: %v", err)
		}
		if got, err := io.ReadAll(c); string(got) != "unread" || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
	})
}

// TestWatchEndIsFinal ends the watching while the peer closes: f has begun
// before, or never does.
func TestWatchEndIsFinal(t *testing.T) {
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		told := 0
		for i := range 200 {
			c, peer := pair(t, x, "unix")
			var over, called atomic.Bool
			c.WatchHangup(func() {
				called.Store(true)
				if over.Load() {
					t.Error("told after the end")
				}
			}, true)
			closing := make(chan struct{})
			go func() { defer close(closing); _ = peer.Close() }()
			_ = x.NewEvent().Wait(time.Now().Add(time.Duration(i%8) * 300 * time.Microsecond))
			switch i % 3 {
			case 0:
				c.WatchHangup(nil, false)
			case 1:
				c.WatchHangup(func() {}, true)
			default:
				_ = c.Close()
			}
			over.Store(true)
			<-closing
			if called.Load() {
				told++
			}
			_ = c.Close()
		}
		if told == 0 || told == 200 {
			t.Logf("%d of 200 were told: nothing was tried", told)
		}
	})
}

// TestHangupInterrupts does what a proxy does: a client that leaves ends the
// wait for its endpoint.
func TestHangupInterrupts(t *testing.T) {
	gone := errors.New("the client has gone")
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		client, clientPeer := pair(t, x, "tcp")
		upstream, _ := pair(t, x, "tcp")
		defer func() { _, _ = client.Close(), upstream.Close() }()
		client.WatchHangup(func() { upstream.Interrupt(gone) }, true)
		x.Go(func() { _ = clientPeer.Close() })
		if _, err := upstream.Read(make([]byte, 1)); !errors.Is(err, gone) {
			t.Errorf("read: %v", err)
		}
	})
}

// TestWatchPanics keeps a panic of what is told from everything else.
func TestWatchPanics(t *testing.T) {
	each(t, func(b *bed) {
		t := b.t
		b.panics = true
		b.task(t, func(x Executor) {
			c, peer := pair(t, x, "tcp")
			defer func() { _ = c.Close() }()
			told := x.NewEvent()
			c.WatchHangup(func() { told.Set(); panic("in vain") }, true)
			_ = peer.Close()
			if err := told.Wait(time.Now().Add(30 * time.Second)); err != nil {
				t.Errorf("it is not told: %v", err)
			}
		})
	})
}
