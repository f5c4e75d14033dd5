package transport

import (
	"fmt"
	"io"
	"runtime/debug"
	"sync"
)

// aside is a body whose Close wakes who reads it, whatever it is a body of: a
// goroutine reads, when asked and never ahead, and is left behind by Close, until
// its last read returns. Read is for one goroutine at a time. It is no way out for
// a body that only tasks of an executor may read (see pipeline.Transport).
type aside struct {
	source  io.ReadCloser
	contain func() // deferred around its Close; see pool.contain
	pending []byte
	end     error
	want    chan struct{}
	got     chan block
	closed  chan struct{}

	mu      sync.Mutex
	started bool // the goroutine that reads runs, and closes source
	over    bool // Close was called
}

func newAside(source io.ReadCloser, contain func()) *aside {
	return &aside{source: source, contain: contain, want: make(chan struct{}), got: make(chan block, 1), closed: make(chan struct{})}
}

// Read returns the next bytes, or errStopped after Close.
func (a *aside) Read(p []byte) (int, error) {
	if len(a.pending) == 0 && a.end == nil {
		if !a.start() {
			return 0, errStopped
		}
		select {
		case a.want <- struct{}{}:
		case <-a.closed:
			return 0, errStopped
		}
		select {
		case b := <-a.got:
			if p, ok := b.err.(panicked); ok { //nolint:errorlint // it is not wrapped
				panic("BUG: the body of a request panicked: " + p.Error())
			}
			a.pending, a.end = b.data, b.err
		case <-a.closed:
			return 0, errStopped
		}
	}
	n := copy(p, a.pending)
	a.pending = a.pending[n:]
	if len(a.pending) == 0 {
		return n, a.end
	}
	return n, nil
}

// start sees to it that the goroutine runs, unless the body is closed.
func (a *aside) start() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.started && !a.over {
		a.started = true
		go a.pump()
	}
	return !a.over
}

func (a *aside) pump() {
	defer a.contain()
	buffer := make([]byte, pieceSize)
	for {
		select {
		case <-a.want:
			a.got <- a.fill(buffer)
		case <-a.closed:
			_ = a.source.Close() // what it says is of no use to anyone any more
			return
		}
	}
}

// fill reads a block. A panic is told as an error, for Read to go on with where
// the engine contains it: here it would end the process.
func (a *aside) fill(buffer []byte) (b block) {
	defer func() {
		if value := recover(); value != nil {
			b.err = panicked{value, debug.Stack()}
		}
	}()
	n, err := a.source.Read(buffer)
	return block{buffer[:n], err}
}

// panicked is the panic of a body.
type panicked struct {
	value any
	stack []byte
}

func (p panicked) Error() string { return fmt.Sprintf("%v\n%s", p.value, p.stack) }

// Close ends the body; a read of it under way is left behind. Further calls do
// nothing.
func (a *aside) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return nil
	}
	a.over = true
	close(a.closed)
	if a.started {
		return nil
	}
	return a.source.Close()
}
