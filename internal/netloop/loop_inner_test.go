//go:build linux

package netloop

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMisuse has mistakes that would corrupt a loop found at once.
func TestMisuse(t *testing.T) {
	b, loops := newLoops(t, 1)
	l := loops.all[0]
	found := func(what string, f func()) {
		defer func() {
			if value := fmt.Sprint(recover()); !strings.HasPrefix(value, "BUG: ") {
				t.Errorf("%s: %v", what, value)
			}
		}()
		f()
	}
	inside(t, l, func() {
		found("a wait in no task", func() { _ = l.NewEvent().Wait(time.Time{}) })
	})
	b.task(t, func(x Executor) {
		c, _ := pair(t, x, "tcp")
		e := x.NewEvent()
		reading := beside(x, func() { _, _ = c.Read(make([]byte, 1)) })
		waiting := beside(x, func() { _ = e.Wait(time.Time{}) })
		_ = beside(x, func() {}).Wait(time.Time{})
		found("two readers", func() { _, _ = c.Read(make([]byte, 1)) })
		found("two waiters", func() { _ = e.Wait(time.Time{}) })
		e.Set()
		_ = c.Close()
		_, _ = reading.Wait(time.Time{}), waiting.Wait(time.Time{})
	})
}

// TestWatchdog names the task that holds up its loop, once.
func TestWatchdog(t *testing.T) {
	b, _ := newLoops(t, 2)
	b.task(t, func(Executor) {
		holdUp(t, func() bool { return strings.Contains(b.log.String(), "holds up an event loop") })
	})
	if told := b.log.String(); !strings.Contains(told, "netloop.holdUp") || strings.Count(told, "holds up") != 1 {
		t.Errorf("the log says:\n%s", told)
	}
}

func holdUp(t testing.TB, until func() bool) {
	t.Helper()
	eventually(t, "the watchdog speaks", until)
}

// TestTimers holds the heap to a list that is searched.
func TestTimers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var heap timers
	all := make([]timer, 50)
	for range 20000 {
		one := &all[random.IntN(len(all))]
		switch random.IntN(4) {
		case 0:
			heap.remove(one)
		case 1:
			now, first := random.Int64N(1000), heap.next()
			if got := heap.due(now); (got != nil) != (first != 0 && first <= now) || got != nil && (got.at != first || got.place != 0) {
				t.Fatalf("due at %d: %+v, first is %d", now, got, first)
			}
		default:
			at, before, set := random.Int64N(1000)+1, one.at, one.place > 0
			heap.ask(one, at)
			if want := at; set && before < want && one.at != before || !set && one.at != want {
				t.Fatalf("asked for %d, had %d, %v: got %d", at, before, set, one.at)
			}
		}
		least, count := int64(0), 0
		for i := range all {
			if all[i].place > 0 {
				count++
				least = soonest(least, all[i].at)
				if heap.heap[all[i].place-1] != &all[i] {
					t.Fatal("an entry is not in its place")
				}
			}
		}
		if count != len(heap.heap) {
			t.Fatalf("%d entries, %d set", len(heap.heap), count)
		}
		if next := heap.next(); count > 0 && next != least || (next == 0) != (count == 0) {
			t.Fatalf("next is %d, least %d", next, least)
		}
	}
}

// TestPostFromEverywhere wakes loops from outside, asleep or not.
func TestPostFromEverywhere(t *testing.T) {
	b, _ := newLoops(t, 2)
	var ran atomic.Int32
	var posting sync.WaitGroup
	for range 8 {
		posting.Go(func() {
			for range 200 {
				for _, x := range b.Executors() {
					done := make(chan struct{})
					if !x.Post(func() { ran.Add(1); close(done) }) {
						t.Error("not taken")
					}
					<-done
				}
			}
		})
	}
	posting.Wait()
	if ran.Load() != 8*200*2 {
		t.Errorf("%d ran", ran.Load())
	}
}

// TestTimerLeaves has no closed connection and no past wait among the timers.
func TestTimerLeaves(t *testing.T) {
	b, loops := newLoops(t, 1)
	b.task(t, func(x Executor) {
		c, _ := pair(t, x, "tcp")
		c.SetReadDeadline(time.Now().Add(time.Hour))
		reading := beside(x, func() { _, _ = c.Read(make([]byte, 1)) })
		set := x.NewEvent()
		waiting := beside(x, func() { _ = set.Wait(time.Now().Add(time.Hour)) })
		_ = beside(x, func() {}).Wait(time.Time{})
		if n := len(loops.all[0].timers.heap); n != 2 {
			t.Errorf("%d timers, want 2", n)
		}
		_ = c.Close()
		set.Set()
		_, _ = reading.Wait(time.Time{}), waiting.Wait(time.Time{})
		c.SetReadDeadline(time.Now().Add(time.Hour))
		if n := len(loops.all[0].timers.heap); n != 0 {
			t.Errorf("%d timers are left", n)
		}
	})
}

// TestCloseAwaitsPlaced closes an acceptor while a connection is on its way
// from one loop to another: it arrives before Close returns.
func TestCloseAwaitsPlaced(t *testing.T) {
	b, loops := newLoops(t, 2)
	from, to := loops.all[0], loops.all[1]
	from.load.Add(10) // so that the other gets it
	defer from.load.Add(-10)
	hold := func(l *loop) (release func()) {
		held, gate := make(chan struct{}), make(chan struct{})
		if !l.post(func() { close(held); <-gate }) {
			t.Fatal("the loop has ended")
		}
		<-held
		return sync.OnceFunc(func() { close(gate) })
	}
	listensIn := func(l *loop) (listens bool) {
		inside(t, l, func() { listens = len(l.sockets) > 0 })
		return listens
	}
	listening := listen(t, "tcp")
	var accepted atomic.Int32
	closer, err := b.Listen(listening, echo, ListenOptions{Accepted: func(Conn) bool { accepted.Add(1); return true }})
	if err != nil {
		t.Fatal(err)
	}
	releaseFrom := hold(from)
	defer releaseFrom()
	closed := make(chan struct{})
	go func() { defer close(closed); _ = closer.Close() }()
	eventually(t, "the other loop listens no more", func() bool { return !listensIn(to) })
	connect(t, listening)
	releaseTo := hold(to)
	defer releaseTo()
	releaseFrom()
	eventually(t, "the first loop listens no more", func() bool { return !listensIn(from) })
	select {
	case <-closed:
		t.Error("Close returns before a connection has arrived")
	case <-time.After(20 * time.Millisecond):
	}
	releaseTo()
	<-closed
	if accepted.Load() != 1 {
		t.Errorf("%d were accepted", accepted.Load())
	}
}

// TestDetachFails has the system know nothing of a connection that is to be taken
// out: it is closed.
func TestDetachFails(t *testing.T) {
	b, loops := newLoops(t, 1)
	b.task(t, func(x Executor) {
		c, peer := pair(t, x, "tcp")
		own, ok := c.(*loopConn)
		if !ok {
			t.Fatalf("it is a %T", c)
		}
		if err := loops.all[0].control(unix.EPOLL_CTL_DEL, own.descriptor, 0, 0); err != nil {
			t.Error(err)
		}
		if _, err := c.Detach(); !errors.Is(err, unix.ENOENT) {
			t.Errorf("detach: %v", err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read: %v", err)
		}
		x.Block(func() { wantEnd(t, peer) })
	})
}
