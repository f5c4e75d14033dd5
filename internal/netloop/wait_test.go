//go:build unix

package netloop

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// fill writes until the peer, which does not read, takes no more.
func fill(c Conn) error {
	block := make([]byte, 256<<10)
	for {
		if _, err := c.Write(block); err != nil {
			return err
		}
	}
}

func TestDeadline(t *testing.T) {
	soon := func() time.Time { return time.Now().Add(20 * time.Millisecond) }
	far := func() time.Time { return time.Now().Add(time.Hour) }
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		c, peer := pair(t, x, "tcp")
		defer func() { _ = c.Close() }()
		var one [1]byte
		wantPassed := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%s: %v", what, err)
			}
		}
		read := func() error { _, err := c.Read(one[:]); return err }

		c.SetReadDeadline(soon())
		wantPassed("read", read())
		wantPassed("read again", read())
		wantPassed("readable", c.Readable())
		c.SetReadDeadline(far())
		_, _ = peer.Write([]byte("x"))
		if err := read(); err != nil {
			t.Errorf("it broke something: %v", err)
		}

		// Moved nearer, and farther, while it is waited for.
		done := beside(x, func() { wantPassed("moved nearer", read()) })
		c.SetReadDeadline(soon())
		_ = done.Wait(time.Time{})
		until := time.Now().Add(300 * time.Millisecond)
		c.SetReadDeadline(until)
		done = beside(x, func() {
			if err := read(); err != nil {
				t.Errorf("moved farther: %v", err)
			}
		})
		_ = x.NewEvent().Wait(until.Add(-290 * time.Millisecond)) // it waits by now
		c.SetReadDeadline(far())
		_ = x.NewEvent().Wait(until.Add(30 * time.Millisecond))
		_, _ = peer.Write([]byte("x"))
		_ = done.Wait(time.Time{})
		c.SetReadDeadline(soon())
		c.SetReadDeadline(time.Time{})
		_, _ = peer.Write([]byte("x"))
		if err := read(); err != nil {
			t.Errorf("taken away: %v", err)
		}

		c.SetWriteDeadline(soon())
		wantPassed("write", fill(c))
		c.SetWriteDeadline(far())
		done = beside(x, func() { wantPassed("write, moved nearer", fill(c)) })
		c.SetWriteDeadline(soon())
		_ = done.Wait(time.Time{})
	})
}

func TestInterrupt(t *testing.T) {
	cause := errors.New("no longer wanted")
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		c, peer := pair(t, x, "tcp")
		var readErr, writeErr error
		reading := beside(x, func() { _, readErr = c.Read(make([]byte, 1)) })
		writing := beside(x, func() { writeErr = fill(c) })
		_ = x.NewEvent().Wait(time.Now().Add(20 * time.Millisecond)) // both wait, or not yet: it is the same
		c.Interrupt(cause)
		_, _ = reading.Wait(time.Time{}), writing.Wait(time.Time{})
		c.Interrupt(errors.New("another"))
		c.SetReadDeadline(time.Now().Add(time.Hour))
		c.SetWriteDeadline(time.Time{})
		_, again := c.Read(make([]byte, 1))
		_, writeAgain := c.Write([]byte("x"))
		for what, err := range map[string]error{
			"read": readErr, "write": writeErr, "read again": again, "write again": writeAgain,
			"readable": c.Readable(), "close write": c.CloseWrite(),
		} {
			if err != cause { //nolint:errorlint // the very value
				t.Errorf("%s: %v", what, err)
			}
		}
		if !c.Stale() {
			t.Error("it is good for another exchange")
		}
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read after it: %v", err)
		}
		x.Block(func() { drain(peer) }) // it ends
	})
}

func drain(conn net.Conn) {
	for buffer := make([]byte, 64<<10); ; {
		if _, err := conn.Read(buffer); err != nil {
			return
		}
	}
}

func TestCloseWhileWaiting(t *testing.T) {
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		for _, wait := range map[string]func(c Conn) error{
			"read":     func(c Conn) error { _, err := c.Read(make([]byte, 1)); return err },
			"readable": Conn.Readable,
			"write":    fill,
		} {
			c, _ := pair(t, x, "tcp")
			started := x.NewEvent()
			done := beside(x, func() {
				started.Set()
				if err := wait(c); !errors.Is(err, net.ErrClosed) {
					t.Errorf("a wait ends with %v", err)
				}
			})
			_ = started.Wait(time.Time{})
			_ = x.NewEvent().Wait(time.Now().Add(5 * time.Millisecond))
			for range 2 {
				if err := c.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			}
			_ = done.Wait(time.Time{})
		}
	})
}

func TestReadableAndStale(t *testing.T) {
	eachPair(t, func(b *bed, x Executor, c Conn, peer net.Conn) {
		t := b.t
		for range 2 {
			if c.Stale() {
				t.Error("a fresh connection is stale")
			}
			_, _ = peer.Write([]byte("x"))
			for range 2 {
				if err := c.Readable(); err != nil || !c.Stale() {
					t.Errorf("bytes are there: %v, stale %v", err, c.Stale())
				}
			}
			if n, err := c.Read(make([]byte, 8)); n != 1 || err != nil {
				t.Errorf("read %d, %v", n, err)
			}
		}
		waits := beside(x, func() {
			if err := c.Readable(); err != nil {
				t.Errorf("at the end: %v", err)
			}
		})
		_ = peer.Close()
		_ = waits.Wait(time.Time{})
		if !c.Stale() {
			t.Error("a connection that the peer has closed is not stale")
		}
		if n, err := c.Read(nil); n != 0 || err != nil {
			t.Errorf("an empty read: %d, %v", n, err)
		}
	})
}

func TestEvent(t *testing.T) {
	eachTask(t, func(b *bed, x Executor) {
		t := b.t
		e := x.NewEvent()
		e.Set()
		e.Set()
		for range 2 {
			if err := e.Wait(time.Now().Add(-time.Second)); err != nil {
				t.Errorf("set before: %v", err)
			}
		}
		e = x.NewEvent()
		if err := e.Wait(time.Now().Add(5 * time.Millisecond)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("never set: %v", err)
		}
		x.Go(e.Set)
		if err := e.Wait(time.Now().Add(time.Hour)); err != nil {
			t.Errorf("set meanwhile: %v", err)
		}
		// A token that goes round.
		const n = 50
		events := make([]Event, n)
		for i := range events {
			events[i] = x.NewEvent()
		}
		for i := range n - 1 {
			x.Go(func() {
				if err := events[i].Wait(time.Time{}); err != nil {
					t.Error(err)
				}
				events[i+1].Set()
			})
		}
		events[0].Set()
		if err := events[n-1].Wait(time.Time{}); err != nil {
			t.Error(err)
		}
	})
}

// TestBlock has others go on while one blocks.
func TestBlock(t *testing.T) {
	each(t, func(b *bed) {
		t := b.t
		b.panics = true
		b.task(t, func(x Executor) {
			release := make(chan struct{})
			others := beside(x, func() { close(release) })
			x.Block(func() { <-release })
			_ = others.Wait(time.Time{})
			var after atomic.Bool
			failed := x.NewEvent()
			x.Go(func() {
				defer failed.Set()
				x.Block(func() { panic("in vain") })
				after.Store(true)
			})
			_ = failed.Wait(time.Time{})
			if after.Load() {
				t.Error("a panic within Block is lost")
			}
			x.Go(func() { panic("in vain") })
			done := beside(x, func() {})
			if err := done.Wait(time.Time{}); err != nil {
				t.Errorf("others after a panic: %v", err)
			}
		})
	})
}
