package transport

import (
	"errors"
	"io"
	"runtime"
	"sync"
	"time"

	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// taskFiller is the filler of a body that tasks of an executor read. Its task
// begins when it is first asked.
type taskFiller struct {
	*outgoing
	engine   *Engine
	body     io.ReadCloser
	executor netloop.Executor
	filled   func()        // told of each piece: until when an answer is waited for may be another time
	finished netloop.Event // set when the task has ended

	mu      sync.Mutex
	begun   bool          // somebody has asked
	started bool          // the task runs, or has ended
	ended   bool          // nothing of it runs any more, or will
	shut    bool          // body is closed
	woken   netloop.Event // of the task that waits; nil: it does not
}

func newTaskFiller(o *outgoing, body io.ReadCloser, executor netloop.Executor, engine *Engine, filled func()) *taskFiller {
	f := &taskFiller{outgoing: o, engine: engine, body: body, executor: executor, filled: filled, finished: executor.NewEvent()}
	o.wake = f.wake
	return f
}

// wake is for any goroutine.
func (f *taskFiller) wake() {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.ended:
	case f.woken != nil:
		f.executor.Post(f.woken.Set) // else it has stopped, and the event says so
		f.woken = nil
	case !f.begun:
		f.begun = true
		f.executor.Post(f.run) // else there is nobody to read
	}
}

// run is the task.
func (f *taskFiller) run() {
	f.mu.Lock()
	over := f.ended
	f.started = true
	f.mu.Unlock()
	if over {
		return
	}
	returned := false
	defer func() {
		if !returned { // the panic is the executor's to tell
			f.fail(pipeline.NewError(pipeline.Internal, errors.New("reading the body panicked")))
		}
		f.close()
		f.mu.Lock()
		f.ended = true
		f.mu.Unlock()
		f.finished.Set()
	}()
	buffer := f.engine.takePiece()
	for f.next(buffer[:pieceSize]) {
	}
	if f.takeBack() {
		f.engine.pieces.Put(buffer)
	}
	returned = true
}

// next waits until a piece is wanted, and reads it; false ends the task.
func (f *taskFiller) next(buffer []byte) bool {
	f.mu.Lock()
	read, over := f.wanted()
	if over || read {
		f.mu.Unlock()
		if !over {
			f.fill(f.body, buffer)
			f.filled()
		}
		return !over
	}
	woken := f.executor.NewEvent()
	f.woken = woken
	f.mu.Unlock()
	return woken.Wait(time.Time{}) == nil
}

// close closes the body, once.
func (f *taskFiller) close() {
	f.mu.Lock()
	shut := f.shut
	f.shut = true
	f.mu.Unlock()
	if !shut {
		_ = f.body.Close() // what it says is of no use to anyone any more
	}
}

// end ends what was stopped, and returns when nothing of it runs any more. A task
// calls it.
func (f *taskFiller) end() {
	f.mu.Lock()
	started := f.started
	if !started {
		f.ended = true
	}
	f.mu.Unlock()
	f.close() // which wakes who reads it
	if !started || f.finished.Wait(time.Time{}) == nil {
		return
	}
	for !f.hasEnded() { // the executor stops, and does not wait any more
		f.executor.Block(runtime.Gosched)
	}
}

func (f *taskFiller) hasEnded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ended
}
