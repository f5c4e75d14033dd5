package netloop

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync"
)

// Loops is the Driver whose executors are event loops, one for each processor.
// They share nothing but the listening sockets; a connection stays with its
// loop.
type Loops struct {
	log      *slog.Logger
	all      []*loop
	running  sync.WaitGroup // loops, the watchdog, and what was run aside
	reserve  reserve
	watchdog watchdog
	tls      tlsStock
	quit     chan struct{} // closed: the watchdog ends
	stop     func()

	mu        sync.Mutex
	acceptors map[*acceptor]struct{}
	stopped   bool
}

var (
	_ Driver   = (*Loops)(nil)
	_ Executor = (*loop)(nil)
)

// NewLoops starts n loops; 0: as many as there are processors. Stop ends them.
func NewLoops(n int, log *slog.Logger) (*Loops, error) {
	if n == 0 {
		n = runtime.GOMAXPROCS(0)
	}
	s := &Loops{log: log, quit: make(chan struct{}), acceptors: map[*acceptor]struct{}{}}
	s.reserve.spare()
	for range n {
		l, err := newLoop(s, log)
		if err != nil {
			for _, l := range s.all {
				l.closeDescriptors()
			}
			return nil, fmt.Errorf("event loops: %w", err)
		}
		l.pipes.reserve = &s.reserve
		s.all = append(s.all, l)
	}
	s.reserve.fill()
	s.stop = sync.OnceFunc(s.end)
	s.watchdog.loops, s.watchdog.log = s.all, log
	for _, l := range s.all {
		s.running.Go(l.run)
	}
	s.running.Go(func() { s.watchdog.run(s.quit) })
	return s, nil
}

// Executors are the loops.
func (s *Loops) Executors() []Executor {
	list := make([]Executor, len(s.all))
	for i, l := range s.all {
		list[i] = l
	}
	return list
}

// Stop ends the loops.
func (s *Loops) Stop() { s.stop() }

func (s *Loops) end() {
	s.mu.Lock()
	s.stopped = true
	var accepting []*acceptor
	for a := range s.acceptors {
		accepting = append(accepting, a)
	}
	s.mu.Unlock()
	for _, a := range accepting {
		_ = a.Close()
	}
	for _, l := range s.all {
		l.stop()
	}
	close(s.quit)
	s.running.Wait()
	s.reserve.empty()
}

// everywhere runs f in each loop that has not ended, and returns after all.
func (s *Loops) everywhere(f func(l *loop)) {
	var left sync.WaitGroup
	for _, l := range s.all {
		left.Add(1)
		if !l.post(func() { defer left.Done(); f(l) }) {
			left.Done()
		}
	}
	left.Wait()
}
