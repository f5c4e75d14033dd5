package limit_test

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// held is a destination that answers when it is told to.
type held struct{ answer chan struct{} }

func (h held) Serve(x *pipeline.Exchange) error {
	<-h.answer
	x.Response = &message.Response{Status: 200}
	return nil
}

// serve begins an exchange, which is over once done has its error.
func serve(h pipeline.Handler, x *pipeline.Exchange) chan error {
	done := make(chan error, 1)
	go func() {
		defer x.End()
		done <- h.Serve(x)
	}()
	synctest.Wait()
	return done
}

func wantWord(t *testing.T, what string, done chan error, word pipeline.Word) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		if e := pipeline.AsError(err); word == "" && err != nil || word != "" && (e == nil || e.Word != word) {
			t.Errorf("%s: %v, want %q", what, err, word)
		}
	default:
		t.Errorf("%s: it is not over", what)
	}
}

func wantWaiting(t *testing.T, what string, done chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		t.Errorf("%s: it is over, with %v", what, err)
	default:
	}
}

// TestConcurrency lets some run, some wait in order, and turns others away.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		destination := held{make(chan struct{})}
		h := b.chain("{concurrency_limit: {max: 1, queue: 3, queue_timeout: 5s}}", destination)
		other := b.chain("{concurrency_limit: {max: 1, key: client_ip}}", destination)
		ctx, leave := context.WithCancelCause(t.Context())
		first := serve(h, request(t.Context(), "192.0.2.1"))
		second := serve(h, request(t.Context(), "192.0.2.2"))
		gone := serve(h, request(ctx, "192.0.2.3"))
		third := serve(h, request(t.Context(), "192.0.2.4"))
		x := request(t.Context(), "192.0.2.5")
		turned := serve(h, x)
		wantWord(t, "past the queue", turned, pipeline.Overloaded)

		apart := serve(other, request(t.Context(), "192.0.2.1"))
		wantWord(t, "the same key", serve(other, request(t.Context(), "192.0.2.1")), pipeline.Overloaded)
		wantWaiting(t, "another key", serve(other, request(t.Context(), "192.0.2.2")))

		if got, want := b.shown[0](), (pipeline.LimitStatus{Limit: "r concurrency_limit 0", Kind: "concurrency_limit", Key: []string{"global"}, Keys: 1, Max: 1, Running: 1, Waiting: 3}); !reflect.DeepEqual(got, want) {
			t.Errorf("shown as %+v", got)
		}
		leave(pipeline.ErrClientGone)
		wantWord(t, "who leaves", gone, pipeline.ClientClosed)
		for range 3 { // the first, and the two of the other limit
			destination.answer <- struct{}{}
		}
		wantWord(t, "the first", first, "")
		wantWord(t, "the one apart", apart, "")
		wantWaiting(t, "the third", third)
		destination.answer <- struct{}{}
		wantWord(t, "the second", second, "")
		destination.answer <- struct{}{}
		wantWord(t, "the third", third, "")
		last := serve(h, request(t.Context(), "192.0.2.6"))
		destination.answer <- struct{}{}
		wantWord(t, "all places are free again", last, "")
	})
}

// TestConcurrencyTime ends the waiting, by its own time or the exchange's.
func TestConcurrencyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		destination := held{make(chan struct{})}
		h := b.chain("{concurrency_limit: {max: 1, queue: 2, queue_timeout: 5s}}", destination)
		first := serve(h, request(t.Context(), "192.0.2.1"))
		hurried := request(t.Context(), "192.0.2.2")
		hurried.Until = time.Now().Add(time.Second)
		soon, late := serve(h, hurried), serve(h, request(t.Context(), "192.0.2.3"))
		time.Sleep(time.Second)
		wantWord(t, "its own time", soon, pipeline.Overloaded)
		routed := request(t.Context(), "192.0.2.4")
		routed.Wait(func() { time.Sleep(time.Second) })
		routed.Route = &model.Route{ID: "r", Timeouts: model.RouteTimeouts{Response: 2 * time.Second}}
		soon = serve(h, routed)
		time.Sleep(time.Second - time.Nanosecond)
		wantWaiting(t, "the route's time is not over", soon)
		time.Sleep(time.Nanosecond)
		wantWord(t, "the route's time", soon, pipeline.Overloaded)
		wantWaiting(t, "the queue's time is not over", late)
		time.Sleep(2 * time.Second)
		wantWord(t, "the queue's time", late, pipeline.Overloaded)
		destination.answer <- struct{}{}
		wantWord(t, "the first", first, "")
	})
}

// TestConcurrencyReload takes up another number, with those that run and wait.
func TestConcurrencyReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		destination := held{make(chan struct{})}
		narrow := b.chain("{concurrency_limit: {max: 1, queue: 5, queue_timeout: 1h}}", destination)
		wide := b.chain("{concurrency_limit: {max: 3, queue: 5, queue_timeout: 1h}}", destination)
		var all []chan error
		for range 2 {
			all = append(all, serve(narrow, request(t.Context(), "192.0.2.1")))
		}
		all = append(all, serve(wide, request(t.Context(), "192.0.2.1")))
		for range 3 { // all three run, or this would not end
			destination.answer <- struct{}{}
		}
		for _, done := range all {
			wantWord(t, "one of three", done, "")
		}
		for range 3 {
			all = append(all, serve(wide, request(t.Context(), "192.0.2.1")))
		}
		last := serve(narrow, request(t.Context(), "192.0.2.1"))
		destination.answer <- struct{}{}
		wantWaiting(t, "two run, and one may", last)
		for range 3 {
			destination.answer <- struct{}{}
		}
		wantWord(t, "the last", last, "")
	})
}

// TestConcurrencyReloadAlone lets those go on who wait as a reload makes places, though
// nobody comes any more; one that fails makes none.
func TestConcurrencyReloadAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		destination := held{make(chan struct{})}
		const settings = "queue: 5, queue_timeout: 1h, key: client_ip}}"
		narrow := b.reload("{concurrency_limit: {max: 1, "+settings, destination)
		var all []chan error
		for range 4 {
			all = append(all, serve(narrow, request(t.Context(), "192.0.2.1")))
		}
		running := func(want int) {
			t.Helper()
			synctest.Wait()
			if s := b.shown[0](); s.Running != want || s.Running+s.Waiting != len(all) {
				t.Errorf("%d run and %d wait, want %d of %d to run", s.Running, s.Waiting, want, len(all))
			}
		}
		failing := b.registry.NewSet()
		b.build(failing, "{concurrency_limit: {max: 9, "+settings, destination)
		if err := failing.Commit(); err != nil {
			t.Error(err)
		}
		failing.Release()
		running(1)
		b.reload("{concurrency_limit: {max: 3, "+settings, destination)
		running(3)
		all = append(all, serve(narrow, request(t.Context(), "192.0.2.1"))) // it was on its way
		destination.answer <- struct{}{}
		all = all[1:]
		running(3)
		b.reload("{concurrency_limit: {max: 1, "+settings, destination)
		running(3)
		destination.answer <- struct{}{}
		all = all[1:]
		running(2)
		b.reload("{concurrency_limit: {max: 3, "+settings, destination)
		running(3)
		for range all {
			destination.answer <- struct{}{}
		}
		synctest.Wait()
	})
}

// TestConcurrencyError gives the place back whatever becomes of the exchange.
func TestConcurrencyError(t *testing.T) {
	b := newBed(t)
	h := b.chain("{concurrency_limit: {max: 1}}", pipeline.HandlerFunc(func(*pipeline.Exchange) error {
		return pipeline.NewError(pipeline.NoEndpoint, nil)
	}))
	for range 3 {
		x := request(t.Context(), "192.0.2.1")
		if e := pipeline.AsError(h.Serve(x)); e.Word != pipeline.NoEndpoint {
			t.Error(e)
		}
		x.End()
	}
}
