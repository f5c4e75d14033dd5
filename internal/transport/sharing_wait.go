package transport

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"sluice/internal/pipeline"
)

// streamWaiter is an attempt that waits for a stream. Its fields are under the lock
// until settled is closed.
type streamWaiter struct {
	introduction string
	settled      chan struct{}
	session      *session // nil: err
	err          error
}

// forsake ends the making of connections that nobody wants any more. The caller
// holds the lock.
func (p *sharing) forsake() {
	if p.released && len(p.waiting) == 0 {
		p.stop()
	}
}

// acquire returns a connection with a stream reserved for an attempt, which must
// use it. It makes one, or waits until ctx ends. queued is set while the attempt
// waits for a stream though no connection is being made.
func (p *sharing) acquire(ctx context.Context, introduction string, queued *atomic.Bool) (*session, error) {
	p.mu.Lock()
	if !slices.ContainsFunc(p.waiting, func(a *streamWaiter) bool { return a.introduction == introduction }) {
		if s := p.reserve(introduction); s != nil {
			p.mu.Unlock()
			return s, nil
		}
	}
	a := &streamWaiter{introduction: introduction, settled: make(chan struct{})}
	p.waiting = append(p.waiting, a)
	evicted, uncovered := p.expand()
	if uncovered > p.settings.MaxPending {
		p.waiting = p.waiting[:len(p.waiting)-1]
		a.err = p.overloaded()
		close(a.settled)
	}
	p.watch()
	queued.Store(p.dialing[introduction] == 0)
	p.mu.Unlock()
	if evicted != nil {
		evicted.close()
	}
	defer queued.Store(false)
	select {
	case <-a.settled:
		return a.session, a.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting, a); i >= 0 {
		p.waiting = slices.Delete(p.waiting, i, i+1)
		p.forsake()
		if queued.Load() {
			return nil, inQueue(ended(ctx))
		}
		return nil, ended(ctx)
	}
	return a.session, a.err // it came in the same moment
}

func (p *sharing) overloaded() error {
	err := pipeline.NewError(pipeline.Overloaded, fmt.Errorf("no stream is free on %d connections, and %d attempts wait", p.settings.MaxConnections, p.settings.MaxPending))
	err.Unsent = true
	return err
}

// expand begins to make connections for those who wait, as many as they need and
// as there are places for. It returns a connection that must be closed to make
// room, and how many wait for whom none is being made. The caller holds the lock.
func (p *sharing) expand() (evicted *session, uncovered int) {
	need := map[string]int{}
	for _, a := range p.waiting {
		key := a.introduction
		if need[key]++; need[key] <= p.dialing[key]*p.capacity {
			continue
		}
		if p.full() && evicted == nil {
			evicted = p.evict(key)
		}
		if p.full() {
			uncovered++
			continue
		}
		p.places++
		p.dialing[key]++
		go func() { _ = p.connect(key) }() // those who wait are told
	}
	return evicted, uncovered
}

// refuse fails those for whom a connection was to be made. The caller holds the
// lock.
func (p *sharing) refuse(introduction string, err error) {
	left := p.capacity
	p.waiting = slices.DeleteFunc(p.waiting, func(a *streamWaiter) bool {
		if left == 0 || a.introduction != introduction {
			return false
		}
		left--
		a.err = err
		close(a.settled)
		return true
	})
}

// serve gives free streams to those who wait, first come first served, and makes
// connections for the others.
func (p *sharing) serve() {
	p.mu.Lock()
	evicted := p.giveOut()
	p.mu.Unlock()
	if evicted != nil {
		evicted.close()
	}
}

// giveOut is serve for who holds the lock, and closes the connection that it
// returns after it.
func (p *sharing) giveOut() (evicted *session) {
	full := map[string]bool{}
	p.waiting = slices.DeleteFunc(p.waiting, func(a *streamWaiter) bool {
		if full[a.introduction] {
			return false
		}
		if a.session = p.reserve(a.introduction); a.session == nil {
			full[a.introduction] = true
			return false
		}
		close(a.settled)
		return true
	})
	evicted, _ = p.expand()
	p.watch()
	return evicted
}

// watch sees to it that those who wait are not forgotten. The caller holds the
// lock.
func (p *sharing) watch() {
	switch {
	case len(p.waiting) == 0:
		if p.looking != nil {
			p.looking.Stop()
			p.looking = nil
		}
	case p.looking == nil:
		p.looking = time.AfterFunc(slotCheck, func() {
			p.mu.Lock()
			p.looking = nil
			p.mu.Unlock()
			p.serve()
		})
	}
}
