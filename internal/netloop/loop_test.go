//go:build linux

package netloop

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// newLoops is a bed of n event loops.
func newLoops(t testing.TB, n int) (*bed, *Loops) {
	t.Helper()
	b := newBed(t, kind{"loop", func(log *slog.Logger) (Driver, error) { return NewLoops(n, log) }})
	return b, b.Driver.(*Loops)
}

// inside runs f in a loop, in none of its tasks.
func inside(t testing.TB, l *loop, f func()) {
	t.Helper()
	done := make(chan struct{})
	if !l.post(func() { defer close(done); f() }) {
		t.Fatal("the loop has ended")
	}
	<-done
}

// TestFair measures by progress: both ends of an exchange are tasks of the loop
// that moves as many bytes as it can. Between question and answer its transfers
// may move a few slices each.
func TestFair(t *testing.T) {
	const exchanges, bound = 100, 16*slice + 8*pipeSize
	b, _ := newLoops(t, 1)
	listening := listen(t, "tcp")
	if _, err := b.Listen(listening, echo, ListenOptions{}); err != nil {
		t.Fatal(err)
	}
	b.task(t, func(x Executor) {
		sender, sink := pair(t, x, "tcp")
		go drain(sink)
		source, spring := pair(t, x, "tcp")
		go func() { _, _ = io.Copy(spring, noise(1, 1<<40)) }()
		moved, busy := 0, true
		sending := beside(x, func() {
			for block := make([]byte, 64<<10); busy; {
				n, err := sender.Write(block)
				if err != nil {
					t.Errorf("write: %v", err)
					return
				}
				moved += n
			}
		})
		reading := beside(x, func() {
			for block := make([]byte, 16<<10); busy; {
				n, err := source.Read(block)
				if err != nil {
					t.Errorf("read: %v", err)
					return
				}
				moved += n
			}
		})
		from, well := pair(t, x, "tcp")
		go func() { _, _ = io.Copy(well, noise(2, 1<<40)) }()
		to, hole := pair(t, x, "tcp")
		go drain(hole)
		splicing := beside(x, func() {
			p := newPipeOf(t, x)
			defer p.Close()
			for s := (splicer{to, from, p}); busy; {
				n, readErr, writeErr := s.step(pipeSize)
				if readErr != nil || writeErr != nil {
					t.Errorf("splice: %v, %v", readErr, writeErr)
					return
				}
				moved += int(n)
			}
		})
		endless := beside(x, func() { // no socket holds it up
			for l := x.(*loop); busy; moved += 64 << 10 {
				l.share(64 << 10)
			}
		})
		client, err := x.Dial(context.Background(), "tcp", listening.Addr().String(), time.Time{})
		if err != nil {
			t.Error(err)
			return
		}
		worst := 0
		for range exchanges {
			before := moved
			_, _ = client.Write([]byte("x"))
			if _, err := client.Read(make([]byte, 1)); err != nil {
				t.Errorf("read: %v", err)
			}
			worst = max(worst, moved-before)
		}
		busy = false
		_ = client.Close()
		for _, task := range []Event{sending, reading, splicing, endless} {
			_ = task.Wait(time.Time{})
		}
		for _, c := range []Conn{sender, source, from, to} {
			_ = c.Close()
		}
		if worst > bound {
			t.Errorf("%d bytes were moved during one exchange", worst)
		}
	})
}

// TestSmallCalls has a task whose calls never wait make way, too: a call costs
// time, however little it moves.
func TestSmallCalls(t *testing.T) {
	const n = 1000
	for name, call := range map[string]func(c Conn) error{
		"read":  func(c Conn) error { _, err := c.Read(make([]byte, 1)); return err },
		"write": func(c Conn) error { _, err := c.Write(make([]byte, 1)); return err },
		"splice": func(c Conn) error {
			p, err := c.Executor().NewPipe()
			if err != nil {
				return err
			}
			defer p.Close()
			_, readErr, writeErr := splicer{c, c, p}.move(1)
			return errors.Join(readErr, writeErr)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := newLoops(t, 1)
			b.task(t, func(x Executor) {
				c, peer := pair(t, x, "tcp")
				defer func() { _ = c.Close() }()
				_, _ = peer.Write(make([]byte, n))
				turns, busy := 0, true
				last := x.NewEvent()
				var other func()
				other = func() {
					if turns++; busy {
						x.Go(other)
					} else {
						last.Set()
					}
				}
				x.Go(other)
				for range n {
					if err := call(c); err != nil {
						t.Errorf("%v", err)
					}
				}
				busy = false
				_ = last.Wait(time.Time{})
				if want := n*callBytes/slice - 2; turns < want {
					t.Errorf("others had %d turns, want at least %d", turns, want)
				}
			})
		})
	}
}

// TestRestsWithoutTask looks at what connections at rest have.
func TestRestsWithoutTask(t *testing.T) {
	b, loops := newLoops(t, 2)
	dial := b.serve(t, "tcp", func(c Conn) (bool, time.Time) {
		var four [4]byte // all that is there: no call has said that it is all
		n, err := c.Read(four[:])
		if err == nil {
			_, err = c.Write(four[:n])
		}
		return err == nil, time.Time{}
	}, ListenOptions{})
	const n = 60
	for range n {
		exchange(t, dial(), "four")
	}
	var conns []int
	for _, l := range loops.all {
		eventually(t, "no task has work", func() (idle bool) {
			inside(t, l, func() { idle = l.busy == 0 })
			return idle
		})
		inside(t, l, func() {
			for _, c := range l.conns {
				if c != nil && (!c.resting || c.reader != nil || c.writer != nil) {
					t.Error("a connection does not rest")
				}
			}
			if len(l.tasks) > 8 {
				t.Errorf("%d tasks were made for exchanges one after another", len(l.tasks))
			}
		})
		conns = append(conns, int(l.load.Load()))
	}
	if conns[0]+conns[1] != n || conns[0] < n/2-2 || conns[1] < n/2-2 {
		t.Errorf("%v connections in two loops", conns)
	}
}

// TestTasksAreReleased has more tasks at once than a loop keeps.
func TestTasksAreReleased(t *testing.T) {
	b, loops := newLoops(t, 1)
	b.task(t, func(x Executor) {
		all := x.NewEvent()
		waiting := 0
		for range 2 * freeTasks {
			waiting++
			x.Go(func() {
				_ = x.NewEvent().Wait(time.Now().Add(time.Millisecond))
				if waiting--; waiting == 0 {
					all.Set()
				}
			})
		}
		_ = all.Wait(time.Time{})
	})
	l := loops.all[0]
	eventually(t, "tasks are released", func() (released bool) {
		inside(t, l, func() { released = l.busy == 0 && len(l.tasks) == freeTasks && len(l.free) == freeTasks })
		return released
	})
}

// TestOldEvents has an event of a descriptor's former owner reach nobody.
func TestOldEvents(t *testing.T) {
	b, loops := newLoops(t, 1)
	b.task(t, func(x Executor) {
		c, _ := pair(t, x, "tcp")
		defer func() { _ = c.Close() }()
		own := c.(*loopConn)
		own.loop.dispatch(&unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLHUP, Fd: int32(own.descriptor), Pad: own.mark - 1})
		if own.readable || own.broken {
			t.Error("it took an event that is not its own")
		}
		own.loop.dispatch(&unix.EpollEvent{Events: unix.EPOLLIN, Fd: 1 << 20})
		own.loop.marks = -1
		other, _ := pair(t, x, "tcp")
		defer func() { _ = other.Close() }()
		if other.(*loopConn).mark == 0 {
			t.Error("the mark of listening sockets is given to a connection")
		}
	})
	_ = loops
}
