package limit

import (
	"container/list"
	"sync"
	"time"

	"sluice/internal/resilience"
)

// rules say how many exchanges gates let through. They are on lease from when they begin to
// serve, and do not change after that.
type rules struct {
	gates *gates
	since int // how many of the gates' had begun before them and with them; 0: they have not

	keys  int // how many are remembered
	most  int // at once, to the last bytes of their responses
	queue int // who may wait besides
	// adaptive bounds how many there may be whose responses have not begun; nil: any
	// number.
	adaptive *resilience.GradientSettings
}

// gate lets a number of exchanges through at once. Others wait in a queue, first come
// first served. The rules are those that began last of all who came, so that a reload can
// change them. The zero value is free.
type gate struct {
	mu       sync.Mutex
	rules    *rules
	name     string               // for people; may be empty
	gradient *resilience.Gradient // nil: not adaptive
	running  int
	awaiting int       // of them, those whose responses have not begun
	queue    list.List // of *waiter
}

// waiter is an exchange in the queue.
type waiter struct {
	turn  chan struct{} // closed when it has a place
	queue *list.Element // nil once it has
}

// enter takes a place: at once, then the waiter is nil, or when its turn is closed. It
// fails where there is no room in the queue either.
func (g *gate) enter(r *rules, name string) (w *waiter, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.adopt(r, name)
	g.serve()
	switch {
	case g.room():
		g.take()
		return nil, true
	case g.queue.Len() < g.rules.queue:
		w = &waiter{turn: make(chan struct{})}
		w.queue = g.queue.PushBack(w)
		return w, true
	}
	return nil, false
}

// begun is told that the response of an exchange has begun, or that there is none, and
// what that says of the destination's load.
func (g *gate) begun(start, now time.Duration, outcome resilience.Outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gradient != nil {
		g.gradient.Observe(start, now, g.awaiting, outcome)
	}
	g.awaiting--
	g.serve()
}

// leave gives a place back.
func (g *gate) leave(begun bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.release(begun)
}

// abandon gives up waiting, or the place where that has come meanwhile.
func (g *gate) abandon(w *waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.queue != nil {
		g.queue.Remove(w.queue)
		return
	}
	g.release(false)
}

// follow takes up rules without an exchange.
func (g *gate) follow(r *rules) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rules != nil {
		g.adopt(r, g.name)
		g.serve()
	}
}

// What follows is called with mu held.

// adopt takes up rules, unless they are older.
func (g *gate) adopt(r *rules, name string) {
	if g.rules == r || g.rules != nil && r.since < g.rules.since {
		return
	}
	g.rules, g.name = r, name
	switch {
	case r.adaptive == nil:
		g.gradient = nil
	case g.gradient == nil:
		g.gradient = resilience.NewGradient(*r.adaptive)
	default:
		g.gradient.Adjust(*r.adaptive)
	}
}

func (g *gate) room() bool {
	return g.running < g.rules.most && (g.gradient == nil || g.awaiting < g.gradient.Limit())
}

func (g *gate) take() {
	g.running++
	g.awaiting++
}

func (g *gate) release(begun bool) {
	g.running--
	if !begun {
		g.awaiting--
	}
	g.serve()
}

// serve gives free places to those who wait.
func (g *gate) serve() {
	for g.queue.Len() > 0 && g.room() {
		g.take()
		w := g.queue.Remove(g.queue.Front()).(*waiter) //nolint:forcetypeassert // nothing else is in it
		w.queue = nil
		close(w.turn)
	}
}

// idle tells whether nobody has a place, nor waits for one, and nothing was learnt.
func (g *gate) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running == 0 && g.queue.Len() == 0 && (g.gradient == nil || g.gradient.Fresh())
}

// stand is how a gate is, for people.
type stand struct {
	name             string
	running, waiting int
	gradient         *resilience.Gradient // nil: not adaptive
}

func (g *gate) stand() stand {
	g.mu.Lock()
	defer g.mu.Unlock()
	return stand{g.name, g.running, g.queue.Len(), g.gradient}
}
