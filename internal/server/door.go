package server

import (
	"sync"
	"time"

	"sluice/internal/netloop"
)

// door lets one of an exchange's two tasks at a time write to the client: the
// one that serves it, and the one that reads its body, which may have to ask for
// that. No lock can do it, as writing may wait. Once the head of the response is
// out it is shut for all but the one who wrote that.
type door struct {
	mu      sync.Mutex
	taken   bool
	shut    bool
	waiting netloop.Event // of the other one
}

// enter waits until nobody writes; false says that the door is shut.
func (d *door) enter(executor netloop.Executor) bool {
	for {
		d.mu.Lock()
		if d.shut || !d.taken {
			free := !d.shut
			d.taken = d.taken || free
			d.mu.Unlock()
			return free
		}
		if d.waiting == nil {
			d.waiting = executor.NewEvent()
		}
		waiting := d.waiting
		d.mu.Unlock()
		if waiting.Wait(time.Time{}) != nil {
			return false
		}
	}
}

// leave lets the other one in.
func (d *door) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.taken = false
	if d.waiting != nil {
		d.waiting.Set()
		d.waiting = nil
	}
}

// close lets nobody else in from now on, after whoever writes.
func (d *door) close(executor netloop.Executor) {
	if d.enter(executor) {
		d.mu.Lock()
		d.shut = true
		d.mu.Unlock()
		d.leave()
	}
}
