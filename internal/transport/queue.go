package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// queue bounds the connections of a pool, idle ones and tunnels too, over all
// executors, and how many attempts wait for one, first come first served. Its
// lock comes before those of shelves.
//
// While somebody waits, no connection is idle: one that comes free goes to the
// first that waits, if need be to another executor, as does the place of one
// that is closed.
type queue struct {
	max        int // 0: without bound
	maxPending int // 0: nobody waits

	mu      sync.Mutex
	places  int // taken
	waiting []*waiter
}

// waiter is an attempt that waits for a connection. Its fields are under the
// queue's lock.
type waiter struct {
	shelf        *shelf
	introduction string        // what its connection begins with
	event        netloop.Event // set when it has a place, or is interrupted
	has          bool          // it has a place
	link         *link         // the connection in it; nil: one is to be made
	left         bool          // it does not wait any more
}

// Interrupt ends the waiting.
func (w *waiter) Interrupt(error) { w.event.Set() }

// acquire takes a connection from the shelf that began with the introduction,
// makes one, or waits for one until ctx ends or the watch expires.
func (p *pool) acquire(ctx context.Context, s *shelf, watch *pipeline.Watch, introduction string) (*link, error) {
	if p.queue.max > 0 {
		return p.acquirePlace(ctx, s, watch, introduction)
	}
	if l := s.take(introduction); l != nil {
		l.reuse()
		return l, nil
	}
	return p.connect(ctx, s, watch, introduction, false)
}

func (p *pool) acquirePlace(ctx context.Context, s *shelf, watch *pipeline.Watch, introduction string) (*link, error) {
	l, w, err := p.enter(s, introduction)
	if w != nil {
		p.fetch()
		l, err = p.wait(ctx, w, watch)
	}
	switch {
	case err != nil:
		return nil, err
	case l != nil:
		l.reuse()
		return l, nil
	}
	return p.connect(ctx, s, watch, introduction, false)
}

// enter takes an idle connection, or a place for one to be made, or a place in
// the queue.
func (p *pool) enter(s *shelf, introduction string) (*link, *waiter, error) {
	q := &p.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		for l := s.pop(introduction); l != nil; l = s.pop(introduction) {
			if !l.conn.Stale() {
				return l, nil, nil
			}
			l.drop()
			q.places--
		}
		if q.places >= q.max {
			if l := s.popAny(); l != nil { // it began with another introduction
				l.drop()
				q.places--
			}
		}
		if q.places < q.max {
			q.places++
			return nil, nil, nil
		}
	}
	if len(q.waiting) >= q.maxPending && !p.elsewhere() {
		err := pipeline.NewError(pipeline.Overloaded, fmt.Errorf("%d connections in use, %d attempts waiting", q.max, q.maxPending))
		err.Unsent = true
		return nil, nil, err
	}
	w := &waiter{shelf: s, introduction: introduction, event: s.executor.NewEvent()}
	q.waiting = append(q.waiting, w)
	return nil, w, nil
}

// elsewhere tells whether a shelf has an idle connection.
func (p *pool) elsewhere() bool { return p.idle.Load() > 0 }

// fetch has another executor pass an idle connection on.
func (p *pool) fetch() {
	p.queue.mu.Lock()
	var l *link
	for _, s := range p.shelves {
		if l = s.popAny(); l != nil {
			break
		}
	}
	p.queue.mu.Unlock()
	if l != nil && !l.shelf.executor.Post(l.pass) { // it has stopped, and closes it
		l.told()
		p.leave()
	}
}

// wait waits for a place. A nil link has to be made.
func (p *pool) wait(ctx context.Context, w *waiter, watch *pipeline.Watch) (*link, error) {
	guard := netloop.NewGuard(ctx, w.shelf.executor, w)
	err := w.await(watch)
	guard.End()
	if err == nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	if err != nil {
		p.abandon(w)
		return nil, err
	}
	p.queue.mu.Lock()
	defer p.queue.mu.Unlock()
	return w.link, nil
}

// await waits for the event.
func (w *waiter) await(watch *pipeline.Watch) error {
	for {
		err := w.event.Wait(deadlineOf(watch))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if err := watch.Expired(); err != nil {
			return inQueue(err)
		}
	}
}

// inQueue is the error of a time-out that was over in the queue: the endpoint has not
// failed, it is asked for more than is let through to it.
func inQueue(err error) error {
	var known *pipeline.Error
	if errors.As(err, &known) {
		clone := *known
		clone.Unsent, clone.Fault = true, pipeline.Gateway
		return &clone
	}
	return err
}

// abandon takes a waiter out of the queue; what it has goes to the next.
func (p *pool) abandon(w *waiter) {
	q := &p.queue
	q.mu.Lock()
	w.left = true
	has, l := w.has, w.link
	if i := slices.Index(q.waiting, w); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	q.mu.Unlock()
	switch {
	case l != nil:
		l.pass()
	case has:
		p.leave()
	}
}

// next takes the first that waits off the queue; nil: nobody does. The caller
// holds the lock.
func (q *queue) next() *waiter {
	if len(q.waiting) == 0 {
		return nil
	}
	w := q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	return w
}

// leave gives back the place of a connection that is closed, or was not made. It
// is for any goroutine.
func (p *pool) leave() {
	q := &p.queue
	if q.max == 0 {
		return
	}
	q.mu.Lock()
	w := q.next()
	if w == nil {
		q.places--
	}
	q.mu.Unlock()
	if w != nil {
		p.offer(w)
	}
}

// offer gives a place without a connection to one that waited.
func (p *pool) offer(w *waiter) {
	if !w.shelf.executor.Post(func() { w.settle(nil) }) { // its executor has stopped
		p.leave()
	}
}

// pass gives a connection that rests to the first that waits, or puts it on its
// shelf; if it cannot be kept, it is closed. A task of its executor calls it.
func (l *link) pass() {
	q := &l.pool.queue
	if q.max == 0 {
		if !l.shelf.push(l) {
			l.close()
		}
		return
	}
	q.mu.Lock()
	w := q.next()
	kept := w == nil && l.shelf.push(l)
	q.mu.Unlock()
	switch {
	case kept:
	case w == nil:
		l.close()
	case l.introduction != w.introduction, l.conn.Stale():
		l.drop()
		l.pool.offer(w)
	default:
		l.hand(w)
	}
}

// hand gives a connection to one that waited.
func (l *link) hand(w *waiter) {
	if w.shelf == l.shelf {
		w.settle(l)
		return
	}
	raw, err := l.conn.Detach()
	if err == nil && w.shelf.executor.Post(func() { l.arrive(w, raw) }) {
		return
	}
	if err == nil {
		_ = raw.Close() // nobody uses it any more
	}
	l.told()
	l.pool.offer(w)
}

// arrive takes a connection from another executor for one that waits.
func (l *link) arrive(w *waiter, raw net.Conn) {
	conn, err := w.shelf.executor.Adopt(raw)
	if err != nil {
		l.told()
		w.settle(nil)
		return
	}
	l.conn, l.shelf = conn, w.shelf
	l.secure, _ = conn.(*netloop.TLS)
	l.readUntil, l.writeUntil = time.Time{}, time.Time{}
	w.settle(l)
}

// settle gives a place to one that waited, with a connection or without; if it
// has left, to the next. A task of its executor calls it.
func (w *waiter) settle(l *link) {
	p := w.shelf.pool
	p.queue.mu.Lock()
	w.has, w.link = true, l
	left := w.left
	p.queue.mu.Unlock()
	switch {
	case !left:
		w.event.Set()
	case l != nil:
		l.pass()
	default:
		p.leave()
	}
}

// deadlineOf is that of a watch, which may be nil.
func deadlineOf(watch *pipeline.Watch) time.Time {
	if watch == nil {
		return time.Time{}
	}
	return watch.Deadline()
}
