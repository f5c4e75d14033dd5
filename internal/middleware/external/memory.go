package external

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"sluice/internal/keyed"
	"sluice/internal/pipeline"
)

// memory remembers decisions, and knows what is being asked: requests that are alike and
// come meanwhile wait for the one question.
type memory struct {
	ttl       time.Duration
	decisions *keyed.Cache[*decision]

	mu    sync.Mutex
	asked map[keyed.Digest]*question
}

func newMemory(s *cacheSettings) *memory {
	return &memory{ttl: s.TTL, decisions: keyed.NewCache[*decision](s.Max), asked: map[keyed.Digest]*question{}}
}

// question is one that is under way. It is nobody's own: whoever leaves does not end it
// for the others, and the last one who leaves does.
type question struct {
	stop    context.CancelCauseFunc
	waiting int           // how many wait for it; guarded by the memory's lock
	done    chan struct{} // closed once there is what follows

	decision *decision
	err      error
	fault    string // a panic, with its stack
}

// known returns what is remembered under a key.
func (m *memory) known(key *keyed.Digest) (*decision, bool) {
	return m.decisions.Get(key, time.Now())
}

// join returns the question under a key, which is asked for as long as timeout at most;
// first: nobody has asked it yet. Where it was answered meanwhile there is a decision
// instead. Whoever joins waits.
func (m *memory) join(key keyed.Digest, timeout time.Duration, ask func(context.Context) (*decision, error)) (q *question, first bool, d *decision) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d, ok := m.known(&key); ok {
		return nil, false, d
	}
	if q = m.asked[key]; q == nil {
		var ctx context.Context
		q, first = &question{done: make(chan struct{})}, true
		ctx, q.stop = context.WithCancelCause(context.Background())
		m.asked[key] = q
		go m.ask(ctx, key, q, timeout, ask)
	}
	q.waiting++
	return q, first, nil
}

// ask asks, and tells all who wait.
func (m *memory) ask(ctx context.Context, key keyed.Digest, q *question, timeout time.Duration, ask func(context.Context) (*decision, error)) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer q.stop(nil)
	defer func() {
		if value := recover(); value != nil { // it is the exchanges' that wait
			q.fault = fmt.Sprintf("%v\n%s", value, debug.Stack())
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.forget(key, q)
		if q.decision != nil && q.decision.keepable() {
			now := time.Now()
			m.decisions.Put(&key, q.decision, now.Add(m.ttl), now)
		}
		close(q.done)
	}()
	q.decision, q.err = ask(ctx)
}

// forget has the next one ask anew. The lock is held.
func (m *memory) forget(key keyed.Digest, q *question) {
	if m.asked[key] == q {
		delete(m.asked, key)
	}
}

// wait waits for a question that was joined, until ctx ends.
func (m *memory) wait(ctx context.Context, key keyed.Digest, q *question) (*decision, error) {
	select {
	case <-q.done:
		if q.fault != "" {
			panic("BUG: asking an authorization service panicked: " + q.fault)
		}
		return q.decision, q.err
	case <-ctx.Done():
	}
	cause := context.Cause(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	if q.waiting--; q.waiting == 0 {
		m.forget(key, q)
		q.stop(cause)
	}
	return nil, cause
}

// together is what the service says of an exchange, asked once for all that are alike and
// come at the same time. What is for one client alone is for the one who asked: others
// ask for themselves.
func (g *gate) together(x *pipeline.Exchange, key keyed.Digest, r request) (d *decision, err error) {
	until := x.WaitUntil(g.Timeout)
	first := false
	x.Wait(func() {
		ctx, cancel := context.WithDeadline(x.Context(), until)
		defer cancel()
		var q *question
		q, first, d = g.memory.join(key, g.Timeout, func(ctx context.Context) (*decision, error) { return g.target.ask(ctx, r, g.Allow) })
		if q != nil {
			d, err = g.memory.wait(ctx, key, q)
		}
	})
	if err == nil && d.alone && !first {
		return g.ask(x, r)
	}
	return d, err
}
