package netloop

import (
	"bytes"
	"log/slog"
	"runtime"
	"time"
)

const (
	// stallLimit is how long a task may run without a wait.
	stallLimit = 10 * time.Millisecond
	// watchInterval is how often the loops are looked at, and idleInterval how
	// often while nothing runs in them. Each look takes a thread to be woken.
	watchInterval = stallLimit
	idleInterval  = 80 * time.Millisecond
	// Stalls are told of no more often than after tellInterval, which doubles up
	// to mostInterval while there are always more: where the system itself has too
	// little time for a loop, telling of that must not take more of it.
	tellInterval = time.Second
	mostInterval = time.Minute
	// Looking for stacks stops everything for a moment, which grows with the
	// number of goroutines; beyond that many it is not done.
	stackGoroutines = 5000
	stackBytes      = 1 << 20 // of all goroutines, that are searched
	toldBytes       = 16 << 10
)

// watchdog names whoever holds up a loop.
type watchdog struct {
	loops []*loop
	log   *slog.Logger
	told  time.Time
	quiet time.Duration // for how long nothing is told after that
	seen  []sighting
}

// sighting is which step a loop was last seen in, and since when.
type sighting struct {
	step  int64
	since time.Time
	named bool
}

func (w *watchdog) run(quit <-chan struct{}) {
	w.seen = make([]sighting, len(w.loops))
	interval := watchInterval
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-quit:
			return
		case now := <-timer.C:
			if w.look(now) {
				interval = watchInterval
			} else {
				interval = min(2*interval, idleInterval)
			}
			timer.Reset(interval)
		}
	}
}

// look tells whether anything runs.
func (w *watchdog) look(now time.Time) (active bool) {
	for i, l := range w.loops {
		step, seen := l.beat.Load(), &w.seen[i]
		active = active || step != 0
		if step != seen.step {
			*seen = sighting{step: step, since: now}
		}
		if step == 0 || seen.named || now.Sub(seen.since) < stallLimit || now.Sub(w.told) < w.quiet {
			continue
		}
		if now.Sub(w.told) > 2*w.quiet {
			w.quiet = tellInterval
		} else {
			w.quiet = min(2*w.quiet, mostInterval)
		}
		seen.named, w.told = true, now
		w.log.Warn("a task holds up an event loop", "loop", i, "for_at_least", now.Sub(seen.since).String(), "stacks", runningTasks())
	}
	return active
}

// runningTasks are the stacks of the tasks that run now, of all loops: one is
// that of the stalled one.
func runningTasks() string {
	if n := runtime.NumGoroutine(); n > stackGoroutines {
		return "not looked for: too many goroutines"
	}
	text := make([]byte, stackBytes)
	text = text[:runtime.Stack(text, true)]
	var found [][]byte
	for stack := range bytes.SplitSeq(text, []byte("\n\n")) {
		head, _, _ := bytes.Cut(stack, []byte("\n"))
		if bytes.Contains(stack, []byte("netloop.(*task).do(")) && !bytes.Contains(head, []byte("[coroutine")) {
			found = append(found, stack)
		}
	}
	told := bytes.Join(found, []byte("\n\n"))
	return string(told[:min(len(told), toldBytes)])
}
