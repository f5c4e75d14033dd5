package netloop

import (
	"fmt"
	"iter"
	"runtime/debug"
	"time"
)

const (
	// slice is how many bytes a task moves before it lets others run, and
	// callBytes how many a call counts for at least.
	slice     = 256 << 10
	callBytes = 16 << 10
	// freeTasks is how many tasks without work a loop keeps.
	freeTasks = 256
)

// task is a coroutine of a loop. It does one piece of work after another; a
// free one waits in the loop's list.
type task struct {
	loop   *loop
	work   func()    // one of the two, or neither: it is free
	conn   *loopConn // to be served
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	queued bool // among the loop's ready tasks
}

// begin gives work to a free task: a function, or a connection to serve.
func (l *loop) begin(work func(), c *loopConn) {
	var t *task
	if n := len(l.free); n > 0 {
		t, l.free[n-1], l.free = l.free[n-1], nil, l.free[:n-1]
	} else {
		t = &task{loop: l}
		t.resume, t.stop = iter.Pull(t.life)
		l.tasks[t] = struct{}{}
	}
	l.busy++
	t.work, t.conn = work, c
	t.wake()
}

// life is the coroutine.
func (t *task) life(yield func(struct{}) bool) {
	l := t.loop
	t.yield = yield
	for {
		contain(l.log, t.do)
		t.work, t.conn = nil, nil
		l.busy--
		if len(l.free) >= freeTasks {
			break
		}
		l.free = append(l.free, t)
		if !yield(struct{}{}) {
			break
		}
	}
	delete(l.tasks, t)
}

func (t *task) do() {
	if t.conn != nil {
		t.conn.serve()
		return
	}
	t.work()
}

// park yields to the loop until wake. Who wakes it may do so for another
// reason than the one it waits for, so every wait looks again.
func (t *task) park() { t.yield(struct{}{}) }

// wake lets a parked task go on, after what runs now.
func (t *task) wake() {
	if !t.queued {
		t.queued = true
		t.loop.ready = append(t.loop.ready, t)
	}
}

// step resumes a task until it parks or its work is done.
func (l *loop) step(t *task) {
	l.steps++
	l.beat.Store(l.steps)
	t.queued = false
	l.current, l.spent = t, 0
	t.resume()
	l.current = nil
}

// running is the task that runs. Who calls from elsewhere would corrupt the
// loop.
func (l *loop) running() *task {
	if l.current == nil {
		panic("BUG: a loop's method that waits was called by none of its tasks")
	}
	return l.current
}

// share lets others run once the current task has moved its slice of bytes.
func (l *loop) share(n int) {
	if l.spent += max(n, callBytes); l.spent >= slice {
		t := l.running()
		t.wake()
		t.park()
	}
}

// Go runs f as a new task.
func (l *loop) Go(f func()) { l.begin(f, nil) }

// Post is Go for any goroutine.
func (l *loop) Post(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked {
		return false
	}
	return l.deliver(func() { l.Go(f) })
}

// Block runs f on a goroutine, while the loop goes on.
func (l *loop) Block(f func()) {
	t := l.running()
	finished, failure := false, ""
	l.owner.running.Go(func() {
		defer func() {
			if value := recover(); value != nil {
				failure = fmt.Sprintf("%v\n%s", value, debug.Stack())
			}
			l.post(func() { finished = true; t.wake() })
		}()
		f()
	})
	for !finished {
		t.park()
	}
	if failure != "" {
		panic("BUG: what was run aside panicked: " + failure)
	}
}

// event is an Event of a loop.
type event struct {
	loop   *loop
	set    bool
	waiter *task
	timer  timer
}

// NewEvent returns an event that has not happened.
func (l *loop) NewEvent() Event { return &event{loop: l} }

// NewPipe returns an empty pipe.
func (l *loop) NewPipe() (*Pipe, error) { return l.pipes.take() }

// Set says that it has happened.
func (e *event) Set() {
	e.set = true
	e.expired()
}

// expired wakes who waits, if anybody does.
func (e *event) expired() {
	if e.waiter != nil {
		e.waiter.wake()
	}
}

// Wait parks the task until then.
func (e *event) Wait(deadline time.Time) error {
	l := e.loop
	until := l.at(deadline)
	if e.waiter != nil {
		panic("BUG: two tasks wait for one event")
	}
	defer func() {
		e.waiter = nil
		l.timers.remove(&e.timer)
	}()
	for {
		switch {
		case e.set:
			return nil
		case l.stopping:
			return ErrStopped
		case until != 0 && until <= l.now:
			return errDeadline
		}
		if until != 0 {
			e.timer.owner = e
			l.timers.ask(&e.timer, until)
		}
		e.waiter = l.running()
		e.waiter.park()
		e.waiter = nil
	}
}
