package certificate

import (
	"slices"
	"sync"
	"time"

	"sluice/internal/lease"
)

const (
	// every is how often files are looked at; with settle it leaves half of the
	// two seconds in which a change is to be served.
	every = 500 * time.Millisecond
	// settle is the time between the two looks at which new content is the same.
	settle = 100 * time.Millisecond
	// slowest and share bound what many thousand files, or slow ones, may cost:
	// a tenth of a processor.
	slowest = 1500 * time.Millisecond
	share   = 10
)

// watch looks at files, on one goroutine for all of them, and has sets take up
// what changed. It polls: that costs a system call for each file and look, and
// finds every change on every file system, which events do not.
type watch struct {
	wake chan struct{} // there is something new to look at
	stop chan struct{}

	mu    sync.Mutex
	items []item
	sets  []*Set
}

// item is something that is made of files.
type item interface {
	look(now time.Time) (changed, again bool)
}

// acquireWatch returns the one watch of all live sets.
func acquireWatch(set *lease.Set) *watch {
	return lease.Acquire(set, "certificate files", func() *watch {
		return &watch{wake: make(chan struct{}, 1), stop: make(chan struct{})}
	})
}

// Start begins to look. It is for the registry of leases.
func (w *watch) Start() error {
	go w.run()
	return nil
}

// Release ends that, at the latest after the file that is being read.
func (w *watch) Release() { close(w.stop) }

func (w *watch) add(i item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.items = append(w.items, i)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watch) remove(i item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.items = slices.DeleteFunc(w.items, func(other item) bool { return other == i })
}

// follow has a set refreshed from now on, and once at once.
func (w *watch) follow(s *Set) {
	w.mu.Lock()
	w.sets = append(w.sets, s)
	w.mu.Unlock()
	s.refresh()
}

func (w *watch) leave(s *Set) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sets = slices.DeleteFunc(w.sets, func(other *Set) bool { return other == s })
}

func (w *watch) run() {
	timer := time.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-w.wake:
		case <-timer.C:
		}
		begin := time.Now()
		again := w.look()
		pause := max(every, min(slowest, share*time.Since(begin)))
		if again {
			pause = settle
		}
		timer.Reset(pause)
	}
}

// look looks at everything once.
func (w *watch) look() (again bool) {
	w.mu.Lock()
	items := slices.Clone(w.items)
	w.mu.Unlock()
	changed := false
	for _, i := range items {
		select {
		case <-w.stop:
			return false
		default:
		}
		c, a := i.look(time.Now())
		changed, again = changed || c, again || a
	}
	if changed {
		w.mu.Lock()
		sets := slices.Clone(w.sets)
		w.mu.Unlock()
		for _, s := range sets {
			s.refresh()
		}
	}
	return again
}
