package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"

	"sluice/internal/message"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
)

// relay is an attempt over HTTP/2 that tasks of an executor make. The library
// works on goroutines and waits as it likes; so one goroutine speaks with it, and
// reads the response ahead, as far as there is room. Tasks wait for it by events,
// one for the response, another for who asks for the request's body.
type relay struct {
	*flight
	try      *pipeline.Attempt
	executor netloop.Executor
	own      *netloop.Context
	guard    netloop.Guard
	cancel   context.CancelCauseFunc
	upload   *taskFiller // nil: none

	mu       sync.Mutex
	room     sync.Cond     // of the goroutine
	event    netloop.Event // of the task that waits; nil: none does
	cause    error         // the end of the context
	news     []inform
	response *http.Response // with err, once head is true
	err      error
	head     bool
	taken    bool    // the task has read the head, which the library adds trailers to
	buffer   *buffer // what was read ahead; nil: not lent
	from, to int
	end      error // behind that
	over     bool  // the task wants no more
	ended    bool  // the task has given back what it holds
}

func newRelay(f *flight, try *pipeline.Attempt, own *netloop.Context, executor netloop.Executor) *relay {
	r := &relay{flight: f, try: try, own: own, executor: executor}
	r.room.L = &r.mu
	if try.Informer != nil {
		f.informer = r.inform
	}
	return r
}

// roundTrip does the attempt; body is what there is to be read by a task, nil
// for nothing.
func (r *relay) roundTrip(body io.ReadCloser) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	r.cancel = cancel
	if body != nil {
		r.upload = newTaskFiller(r.flight.body, body, r.executor, r.pool.engine, r.look)
	}
	r.guard = netloop.NewGuard(r.own, r.executor, r)
	returned := false
	defer func() {
		if !returned { // the informer panics, which goes on
			r.finish(errStopped)
		}
	}()
	go r.run(ctx)
	err := r.awaitHead()
	if err == nil && r.err != nil {
		err = r.err
	}
	if err == nil {
		err = r.answer(r.try, r.response)
		r.mu.Lock()
		r.taken = true
		r.room.Broadcast()
		r.mu.Unlock()
	}
	returned = true
	switch {
	case err != nil:
		err = r.explain(err)
		r.finish(err)
		return err
	case r.try.Response.Body == nil || r.try.Response.Length == 0:
		r.finish(nil)
		return nil
	}
	r.try.Response.Body = (*relayed)(r)
	return nil
}

// explain says what an error is that the client or the context brought about.
func (r *relay) explain(err error) error {
	var broken panicked
	client := r.flight.body.failure()
	switch {
	case r.own.Err() != nil:
		return ended(r.own)
	case errors.As(client, &broken):
		return pipeline.NewError(pipeline.Internal, client)
	case client != nil:
		return client
	}
	return err
}

// awaitHead waits for the head of the response, and passes on what comes before
// it.
func (r *relay) awaitHead() error {
	for {
		var news []inform
		done := false
		err := r.await(func() bool {
			news, r.news = r.news, nil
			done = r.head
			return done || news != nil
		})
		if err != nil && r.flight.queued.Load() {
			err = inQueue(err)
		}
		if err != nil {
			return err
		}
		for _, n := range news {
			r.try.Informer.Inform(n.status, n.fields)
		}
		if done {
			return nil
		}
	}
}

// await waits until something is so, which it looks at under the lock.
func (r *relay) await(so func() bool) error {
	for {
		r.mu.Lock()
		switch {
		case so():
			r.mu.Unlock()
			return nil
		case r.cause != nil:
			r.mu.Unlock()
			return ended(r.own)
		}
		event := r.executor.NewEvent()
		r.event = event
		r.mu.Unlock()
		err := event.Wait(deadlineOf(r.try.Watch))
		if err == nil {
			continue
		}
		r.mu.Lock()
		r.event = nil
		r.mu.Unlock()
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		if err := r.try.Watch.Expired(); err != nil {
			return err
		}
	}
}

// tell wakes the task, from any goroutine. The caller holds the lock.
func (r *relay) tell() {
	if event := r.event; event != nil {
		r.event = nil
		r.executor.Post(event.Set) // else it has stopped, and the event says so
	}
}

// look lets the task look again until when it waits.
func (r *relay) look() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell()
}

// Interrupt is what the end of the context calls.
func (r *relay) Interrupt(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cause = cause
	if event := r.event; event != nil {
		r.event = nil
		event.Set()
	}
}

// inform takes an informational response.
func (r *relay) inform(status int, fields message.Fields) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.news = append(r.news, inform{status, fields})
	r.tell()
}

// run is the goroutine.
func (r *relay) run(ctx context.Context) {
	response, err := r.send(ctx)
	r.mu.Lock()
	r.response, r.err, r.head = response, err, true
	if response != nil && !r.over {
		r.buffer = r.pool.engine.takeBuffer()
	}
	r.tell()
	r.mu.Unlock()
	if response == nil {
		return
	}
	if r.buffer != nil {
		r.pump(ctx, response.Body)
	}
	r.flight.body.stop()
	_ = response.Body.Close() // it waits for the end of the stream
	r.land()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over && r.buffer != nil {
		r.release()
	}
}

// release gives the buffer back. The caller holds the lock.
func (r *relay) release() {
	r.pool.engine.buffers.Put(r.buffer)
	r.buffer = nil
}

// pump reads the response ahead, to its end or that of the attempt.
func (r *relay) pump(ctx context.Context, source io.Reader) {
	for {
		r.mu.Lock()
		for !r.over && (!r.taken || r.to-r.from == bufferSize) {
			r.room.Wait()
		}
		if r.over {
			r.mu.Unlock()
			return
		}
		at, free := r.to%bufferSize, bufferSize-(r.to-r.from)
		room := r.buffer[at:min(at+free, bufferSize)]
		r.mu.Unlock()
		n, err := source.Read(room)
		n = believable(n, err)
		if err != nil && !errors.Is(err, io.EOF) {
			err = r.failure(ctx, err)
		}
		r.mu.Lock()
		r.to += n
		r.end = err
		r.tell()
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// finish ends the attempt for the task, once: whatever still runs ends soon and
// touches nothing of the client's.
func (r *relay) finish(cause error) {
	if r.ended {
		return
	}
	r.ended = true
	r.guard.End()
	r.mu.Lock()
	r.over = true
	r.room.Broadcast()
	whole := r.end != nil
	if whole && r.buffer != nil && r.from == r.to {
		r.release()
	}
	r.mu.Unlock()
	r.flight.body.stop()
	if !whole {
		r.cancel(cause)
	} else {
		r.cancel(nil)
	}
	if r.upload != nil {
		r.upload.end()
	}
}

// relayed is the body of the response, for the task.
type relayed relay

// Read reads what was read ahead, and waits until there is something.
func (b *relayed) Read(p []byte) (int, error) {
	r := (*relay)(b)
	if r.ended {
		return 0, errEnded
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, end := 0, error(nil)
	err := r.await(func() bool {
		n = r.take(p)
		if r.from == r.to {
			end = r.end
		}
		return n > 0 || end != nil
	})
	if err == nil && end == nil {
		return n, nil
	}
	if err == nil && errors.Is(end, io.EOF) {
		r.finish(nil)
		return n, io.EOF
	}
	if err == nil {
		err = end
	}
	err = r.explain(err)
	r.finish(err)
	return n, err
}

// take copies what was read ahead. The caller holds the lock.
func (r *relay) take(p []byte) (n int) {
	for n < len(p) && r.from < r.to {
		at := r.from % bufferSize
		copied := copy(p[n:], r.buffer[at:min(at+r.to-r.from, bufferSize)])
		n, r.from = n+copied, r.from+copied
	}
	if n > 0 {
		r.room.Signal()
	}
	return n
}

// Buffered is how much was read ahead.
func (b *relayed) Buffered() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.to - b.from
}

// Close ends the attempt.
func (b *relayed) Close() error {
	(*relay)(b).finish(errStopped)
	return nil
}
