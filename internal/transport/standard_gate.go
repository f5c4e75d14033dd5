package transport

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	"sluice/internal/pipeline"
)

// gate bounds how many attempts use connections at once, and how many wait for
// one, first come first served.
type gate struct {
	max        int // 0: without bound
	maxPending int // 0: nobody waits

	mu      sync.Mutex
	inUse   int
	waiting list.List // of ticket
}

// ticket is one that waits; its channel is closed when it has its place.
type ticket chan struct{}

// enter takes a place, or waits for one until ctx ends. Its errors are
// overloaded, at once, where too many wait already, and ctx's cause.
func (g *gate) enter(ctx context.Context) error {
	if g.max == 0 {
		return nil
	}
	g.mu.Lock()
	if g.inUse < g.max {
		g.inUse++
		g.mu.Unlock()
		return nil
	}
	if g.waiting.Len() >= g.maxPending {
		g.mu.Unlock()
		err := pipeline.NewError(pipeline.Overloaded, fmt.Errorf("%d connections in use, %d attempts waiting", g.max, g.maxPending))
		err.Unsent = true
		return err
	}
	turn := make(ticket)
	place := g.waiting.PushBack(turn)
	g.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-turn: // it came in the same moment: pass it on
		g.pass()
	default:
		g.waiting.Remove(place)
	}
	return ended(ctx)
}

// leave gives a place back.
func (g *gate) leave() {
	if g.max == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pass()
}

// pass hands a place to the first that waits. The caller holds the lock.
func (g *gate) pass() {
	first := g.waiting.Front()
	if first == nil {
		g.inUse--
		return
	}
	turn, ok := g.waiting.Remove(first).(ticket)
	if !ok {
		panic("BUG: something else waits at the gate")
	}
	close(turn)
}
