//go:build linux

package netloop

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
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
// that moves as many bytes as it can. Between question and answer that transfer
// may move a few slices.
func TestFair(t *testing.T) {
	const exchanges, bound = 100, 8 * slice
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
		client, err := x.Dial("tcp", listening.Addr().String(), time.Time{})
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
		_, _ = sending.Wait(time.Time{}), reading.Wait(time.Time{})
		_, _ = sender.Close(), source.Close()
		if worst > bound {
			t.Errorf("%d bytes were moved during one exchange", worst)
		}
	})
}

// TestSmallCalls has a task that finds bytes at each call make way, too: a call
// costs time, however little it moves.
func TestSmallCalls(t *testing.T) {
	b, _ := newLoops(t, 1)
	b.task(t, func(x Executor) {
		c, peer := pair(t, x, "tcp")
		defer func() { _ = c.Close() }()
		const n = 1000
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
			if _, err := c.Read(make([]byte, 1)); err != nil {
				t.Errorf("read: %v", err)
			}
		}
		busy = false
		_ = last.Wait(time.Time{})
		if want := n*callBytes/slice - 2; turns < want {
			t.Errorf("others had %d turns, want at least %d", turns, want)
		}
	})
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
