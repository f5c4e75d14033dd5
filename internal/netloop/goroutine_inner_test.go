//go:build unix

package netloop

import (
	"log/slog"
	"testing"
	"time"

	"sluice/internal/logtest"
)

// TestSweeper has the sweeper look as seldom as it does outside tests. It ends
// with the watching, and begins again with it.
func TestSweeper(t *testing.T) {
	s := NewGoroutines(slog.New(slog.DiscardHandler))
	defer s.Stop()
	b := &bed{Driver: s, t: t, log: &logtest.Buffer{}}
	runs := func() bool {
		s.sweeper.mu.Lock()
		defer s.sweeper.mu.Unlock()
		return s.sweeper.running
	}
	b.task(t, func(x Executor) {
		for range 2 {
			c, peer := pair(t, x, "tcp")
			if runs() {
				t.Error("it runs for nobody")
			}
			gone := x.NewEvent()
			c.WatchHangup(gone.Set, true)
			if !runs() {
				t.Error("it does not run")
			}
			start := time.Now()
			_ = peer.Close()
			if err := gone.Wait(time.Now().Add(30 * time.Second)); err != nil {
				t.Errorf("it is not told: %v", err)
			}
			if took := time.Since(start); took < sweepInterval {
				t.Errorf("told after %v: the first sweep may only take note", took)
			}
			settle(t, x, "it ends", func() bool { return !runs() })
			_ = c.Close()
		}
	})
}

// TestSweep visits connections by hand.
func TestSweep(t *testing.T) {
	s := NewGoroutines(slog.New(slog.DiscardHandler))
	defer s.Stop()
	s.sweeper.interval = time.Hour
	b := &bed{Driver: s, t: t, log: &logtest.Buffer{}}
	b.task(t, func(x Executor) {
		conns := make([]*goConn, 4)
		told := make([]int, len(conns))
		for i := range conns {
			c, peer := pair(t, x, "tcp") // the driver's end closes it
			conns[i] = c.(*goConn)
			c.WatchHangup(func() { told[i]++ }, true)
			_ = peer.Close()
			_ = c.Readable() // its end has come
		}
		want := func(when string, kept []*goConn, all int, counts ...int) {
			t.Helper()
			if len(kept) != all {
				t.Errorf("%s: %d are kept, want %d", when, len(kept), all)
			}
			for i := range counts {
				if told[i] != counts[i] {
					t.Errorf("%s: told %v, want %v", when, told, counts)
					return
				}
			}
		}
		kept := s.sweeper.sweep(append([]*goConn(nil), conns...))
		want("first", kept, 4, 0, 0, 0, 0)
		conns[1].WatchHangup(nil, false)
		conns[2].WatchHangup(func() { told[2] += 10 }, true) // fresh again
		kept = s.sweeper.sweep(kept)
		want("second", kept, 3, 1, 0, 0, 1)
		conns[1].WatchHangup(func() { told[1] += 10 }, true)
		kept = s.sweeper.sweep(kept)
		want("third", kept, 1, 1, 0, 10, 1)
		if n := len(s.sweeper.joined); n != 5 { // each once, and the one that came back
			t.Errorf("%d have joined", n)
		}
		_ = conns[2].Close()
		want("last", s.sweeper.sweep(kept), 0, 1, 0, 10, 1)
	})
}

func TestSweepPause(t *testing.T) {
	s := sweeper{interval: sweepInterval}
	for took, want := range map[time.Duration]time.Duration{
		0: sweepInterval, 2 * time.Millisecond: sweepInterval, 10 * time.Millisecond: 500 * time.Millisecond, time.Hour: sweepPause,
	} {
		if got := s.pause(took); got != want {
			t.Errorf("after %v: %v, want %v", took, got, want)
		}
	}
}
