package limit

import (
	"slices"
	"sync"
)

// gate lets a number of exchanges through at once. Others wait in a queue, first come
// first served. How many may do either is for whoever comes to say, so that a reload
// can change it. The zero value is free.
type gate struct {
	mu      sync.Mutex
	running int
	queue   []chan struct{} // of each who waits; closed when it has a place
}

// enter takes a place: at once, then turn is nil, or when turn is closed. It fails where
// there is no room in the queue either.
func (g *gate) enter(most, queue int) (turn chan struct{}, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.serve(most)
	switch {
	case g.running < most:
		g.running++
		return nil, true
	case len(g.queue) < queue:
		turn = make(chan struct{})
		g.queue = append(g.queue, turn)
		return turn, true
	}
	return nil, false
}

// leave gives a place back.
func (g *gate) leave(most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.running--
	g.serve(most)
}

// abandon gives up waiting, or the place where that has come meanwhile.
func (g *gate) abandon(turn chan struct{}, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.queue, turn); i >= 0 {
		g.queue = slices.Delete(g.queue, i, i+1)
		return
	}
	g.running--
	g.serve(most)
}

// serve gives free places to those who wait. mu is held.
func (g *gate) serve(most int) {
	for g.running < most && len(g.queue) > 0 {
		g.running++
		close(g.queue[0])
		g.queue = slices.Delete(g.queue, 0, 1)
	}
}

// idle tells whether nobody has a place, nor waits for one.
func (g *gate) idle() bool {
	running, waiting := g.load()
	return running == 0 && waiting == 0
}

// load is how many have a place, and how many wait for one.
func (g *gate) load() (running, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running, len(g.queue)
}
