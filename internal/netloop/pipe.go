package netloop

import (
	"errors"
	"fmt"
	"sync"
)

const (
	// pipeSize is how many bytes a pipe takes at most. The system counts pages,
	// which may be filled badly: it may take fewer. BenchmarkPipe gains up to
	// here, and next to nothing beyond.
	pipeSize = 512 << 10
	// maxPipes is how many an executor has at most, each of two descriptors, and
	// idlePipes how many of them it keeps for the next transfer.
	maxPipes  = 128
	idlePipes = 16
)

// Pipe carries bytes from one connection to another without a copy in this
// process: ReadInto fills it and WriteFrom takes them out. Both connections are
// of the pipe's executor. One task at a time may use it. What WriteFrom could
// not write stays in it, for another call.
type Pipe struct {
	*pipe // nil: closed
}

// PipeReader is what a pipe can be filled from: a Conn, and the body of a message
// that comes over one. An error that wraps errors.ErrUnsupported says that
// nothing was taken, and that reading must be tried instead.
type PipeReader interface {
	ReadInto(p *Pipe, n int64) (int, error)
}

// Len is how many bytes it holds.
func (p *Pipe) Len() int { return p.held }

// Close gives the pipe back; bytes that it holds are lost. A second call does
// nothing. Who has a pipe must close it before its task returns.
func (p *Pipe) Close() {
	if inner := p.pipe; inner != nil {
		p.pipe = nil
		inner.owner.give(inner)
	}
}

// errNoPipe says that bytes must be moved in another way.
var errNoPipe = fmt.Errorf("splice: %w", errors.ErrUnsupported)

// pipes are the pipes of an executor, for any goroutine.
type pipes struct {
	reserve *reserve // nil: there is none

	mu   sync.Mutex
	idle []*pipe // empty
	all  int     // with those in use
	over bool    // none is given out or kept any more
}

func (k *pipes) take() (*Pipe, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if last := len(k.idle) - 1; last >= 0 {
		inner := k.idle[last]
		k.idle[last], k.idle = nil, k.idle[:last]
		return &Pipe{inner}, nil
	}
	if k.over || k.all >= maxPipes {
		return nil, errNoPipe
	}
	inner, err := newPipe(pipeSize)
	if err != nil {
		return nil, err
	}
	if k.reserve != nil && k.reserve.beyond(inner.highest()) {
		inner.close()
		return nil, errNoPipe
	}
	inner.owner = k
	k.all++
	return &Pipe{inner}, nil
}

// give takes a pipe back. One with bytes in it must not reach another transfer.
func (k *pipes) give(inner *pipe) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if inner.held == 0 && !k.over && len(k.idle) < idlePipes {
		k.idle = append(k.idle, inner)
		return
	}
	k.all--
	inner.close()
}

// end closes those that nobody uses, and the rest when they come back.
func (k *pipes) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, inner := range k.idle {
		inner.close()
	}
	k.all -= len(k.idle)
	k.idle, k.over = nil, true
}

// fill is how many of n bytes the pipe may be asked to take. It must be empty:
// else it could not be told whether nothing has come or there is no room.
func (p *pipe) fill(n int64) int {
	if p.held > 0 {
		panic("BUG: a pipe is filled that was not emptied")
	}
	return int(min(n, pipeSize))
}
