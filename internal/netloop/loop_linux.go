package netloop

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// loop is an event loop: one epoll instance, its connections, its tasks and
// their deadlines. Everything in it belongs to the loop's goroutine, and to
// the coroutines that it resumes, but for the atomics, the pipes and what mu guards.
type loop struct {
	owner  *Loops
	log    *slog.Logger
	epoll  int
	waker  int // eventfd
	events []unix.EpollEvent

	conns   []*loopConn        // by descriptor
	marks   int32              // counts connections, to tell a descriptor's new owner from its old one
	sockets map[int]*listening // by descriptor
	alarms  []*loopConn        // whose peers have closed while somebody watches
	timers  timers
	pipes   pipes
	start   time.Time
	now     int64 // nanoseconds since start, as of the last look

	current  *task
	ready    []*task
	round    []*task // the ready tasks of the round before, for its array
	free     []*task
	tasks    map[*task]struct{}
	busy     int   // tasks that have work
	steps    int64 // how often a task was resumed
	spent    int   // bytes that the current task has moved since then
	stopping bool

	load atomic.Int64 // connections, for others to compare
	beat atomic.Int64 // which step runs, for the watchdog; 0: none

	mu     sync.Mutex
	inbox  []func() // to run in the loop
	asleep bool     // the loop waits in epoll, so that the eventfd must wake it
	asked  bool     // to stop
	ended  bool     // it takes nothing any more
}

func newLoop(owner *Loops, log *slog.Logger) (*loop, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	waker, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		_ = unix.Close(epoll)
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	l := &loop{
		owner: owner, log: log, epoll: epoll, waker: waker, events: make([]unix.EpollEvent, 256), start: time.Now(),
		sockets: map[int]*listening{}, tasks: map[*task]struct{}{},
	}
	if err := l.control(unix.EPOLL_CTL_ADD, waker, unix.EPOLLIN, 0); err != nil {
		l.closeDescriptors()
		return nil, err
	}
	return l, nil
}

func (l *loop) closeDescriptors() { _, _ = unix.Close(l.epoll), unix.Close(l.waker) }

// control tells epoll what events of a descriptor are wanted.
func (l *loop) control(operation, descriptor int, events uint32, mark int32) error {
	event := unix.EpollEvent{Events: events, Fd: int32(descriptor), Pad: mark}
	if err := unix.EpollCtl(l.epoll, operation, descriptor, &event); err != nil {
		return fmt.Errorf("epoll_ctl: %w", err)
	}
	return nil
}

// run is the loop. It returns after stop, when no task is left.
func (l *loop) run() {
	for {
		l.tick()
		l.takeInbox()
		for t := l.timers.due(l.now); t != nil; t = l.timers.due(l.now) {
			t.owner.expired()
		}
		l.soundAlarms()
		l.runReady()
		if l.stopping && l.busy == 0 && l.end() {
			return
		}
		n := l.wait()
		for i := range n {
			l.dispatch(&l.events[i])
		}
	}
}

func (l *loop) tick() { l.now = int64(time.Since(l.start)) }

// at is a time as the loop counts; 0 is none.
func (l *loop) at(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(int64(t.Sub(l.start)), 1)
}

// Now is the time as of the last look.
func (l *loop) Now() time.Time { return l.start.Add(time.Duration(l.now)) }

// runReady runs the tasks that are ready, each once: those that make way or
// are woken meanwhile come after a look at the sockets.
func (l *loop) runReady() {
	round := l.ready
	l.ready, l.round = l.round[:0], round
	for i, t := range round {
		round[i] = nil
		l.step(t)
	}
	l.beat.Store(0)
}

// wait waits for events: first without blocking, by a call that the runtime
// does not see; only then by one that lets it have the processor.
func (l *loop) wait() int {
	n, errno := look(l.epoll, l.events)
	if errno == 0 && n > 0 {
		return n
	}
	if len(l.ready) > 0 || len(l.alarms) > 0 || l.stopping && l.busy == 0 || !l.sleep() {
		return 0
	}
	n, err := unix.EpollWait(l.epoll, l.events, l.timeout())
	l.mu.Lock()
	l.asleep = false
	l.mu.Unlock()
	l.tick() // what is taken now counts from now
	if err != nil && !errors.Is(err, unix.EINTR) {
		panic(fmt.Sprintf("BUG: epoll_wait: %v", err))
	}
	return max(n, 0)
}

// sleep says that the loop is about to wait; false, if there is work.
func (l *loop) sleep() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asleep = len(l.inbox) == 0 && l.asked == l.stopping
	return l.asleep
}

// timeout is the time until the first timer, in milliseconds, rounded up; -1
// without any.
func (l *loop) timeout() int {
	next := l.timers.next()
	if next == 0 {
		return -1
	}
	l.tick()
	left := (next - l.now + int64(time.Millisecond) - 1) / int64(time.Millisecond)
	return int(min(max(left, 0), math.MaxInt32))
}

func (l *loop) dispatch(event *unix.EpollEvent) {
	descriptor := int(event.Fd)
	if descriptor < len(l.conns) && l.conns[descriptor] != nil {
		if c := l.conns[descriptor]; c.mark == event.Pad { // else it is of an owner before
			c.happened(event.Events)
		}
		return
	}
	if s := l.sockets[descriptor]; s != nil {
		s.accept()
		return
	}
	if descriptor == l.waker {
		var count [8]byte
		_, _ = unix.Read(l.waker, count[:]) // what is left comes again
	}
}

// soundAlarms tells the watchers of peers that have closed.
func (l *loop) soundAlarms() {
	for i := 0; i < len(l.alarms); i++ { // a watcher may bring about others
		if c := l.alarms[i]; c.watch != nil && c.gone() {
			f := c.watch
			c.watch = nil
			contain(l.log, f)
		}
		l.alarms[i] = nil
	}
	l.alarms = l.alarms[:0]
}

// post runs f in the loop, soon; for any goroutine. It returns false when the
// loop has ended.
func (l *loop) post(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.deliver(f)
}

// deliver is post for who holds mu.
func (l *loop) deliver(f func()) bool {
	if l.ended {
		return false
	}
	l.inbox = append(l.inbox, f)
	l.rouse()
	return true
}

// rouse ends the loop's sleep, for who holds mu.
func (l *loop) rouse() {
	if l.asleep {
		l.asleep = false
		one := [8]byte{1}                  // of either byte order
		_, _ = unix.Write(l.waker, one[:]) // full means roused
	}
}

// takeInbox runs what others have posted.
func (l *loop) takeInbox() {
	l.mu.Lock()
	posted, asked := l.inbox, l.asked
	l.inbox = nil
	l.mu.Unlock()
	for _, f := range posted {
		f()
	}
	if asked && !l.stopping {
		l.beginStop()
	}
}

// stop asks the loop to end.
func (l *loop) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = true
	l.rouse()
}

// beginStop lets every wait return ErrStopped.
func (l *loop) beginStop() {
	l.stopping = true
	for _, c := range l.conns {
		if c != nil {
			c.Interrupt(ErrStopped)
		}
	}
	for t := range l.tasks {
		if t.work != nil || t.conn != nil {
			t.wake()
		}
	}
}

// end takes the loop down; false, if something has come in meanwhile.
func (l *loop) end() bool {
	l.mu.Lock()
	l.ended = len(l.inbox) == 0
	ended := l.ended
	l.mu.Unlock()
	if !ended {
		return false
	}
	for _, c := range l.conns {
		if c != nil {
			_ = c.Close()
		}
	}
	for t := range l.tasks {
		t.stop()
	}
	l.pipes.end()
	l.closeDescriptors()
	return true
}
