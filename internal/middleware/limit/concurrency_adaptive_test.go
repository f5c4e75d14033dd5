package limit_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// workshop is a destination that does a number of things at once; all others wait. Its
// clock is the test's.
type workshop struct {
	benches chan struct{}
	takes   time.Duration
	answer  func() *message.Response
}

func newWorkshop(benches int, takes time.Duration) *workshop {
	return &workshop{
		benches: make(chan struct{}, benches), takes: takes,
		answer: func() *message.Response { return &message.Response{Status: 200} },
	}
}

func (w *workshop) Serve(x *pipeline.Exchange) error {
	x.Attempts++
	w.benches <- struct{}{}
	defer func() { <-w.benches }()
	time.Sleep(w.takes)
	x.Response = w.answer()
	return nil
}

// to is a request to an upstream.
func to(t *testing.T, upstream string) *pipeline.Exchange {
	t.Helper()
	x := request(t.Context(), "192.0.2.1")
	x.Route.Upstream = &model.Upstream{Name: upstream}
	return x
}

// press lets requests to an upstream come, each so long after the last one, and tells
// how many were served in that time. All are over when it returns.
func press(t *testing.T, h pipeline.Handler, upstream string, lasts, each time.Duration) (served int) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for end := time.Now().Add(lasts); time.Now().Before(end); time.Sleep(each) {
		x := to(t, upstream)
		all.Go(func() {
			defer x.End()
			if h.Serve(x) == nil {
				mu.Lock()
				defer mu.Unlock()
				served++
			}
		})
	}
	all.Wait()
	return served
}

// adaptive is how an adaptive limit shows the key that has most to do or comes first.
func (b *bed) adaptive() pipeline.AdaptiveStatus {
	b.t.Helper()
	status := b.shown[len(b.shown)-1]()
	if len(status.Adaptive) == 0 {
		b.t.Fatalf("%+v shows nothing of what was learnt", status)
	}
	return status.Adaptive[0]
}

// TestAdaptive finds out what a destination bears, from more than that and from less, and
// keeps it over reloads with other numbers.
func TestAdaptive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const takes = 50 * time.Millisecond
		b := newBed(t)
		w := newWorkshop(10, takes) // 200 a second
		h := b.chain("{concurrency_limit: {adaptive: {}}}", w)
		press(t, h, "up", 20*time.Second, 3*time.Millisecond)
		served := press(t, h, "up", 10*time.Second, 3*time.Millisecond)
		if served < 1800 || served > 2050 {
			t.Errorf("%d served in 10 s, of 2000", served)
		}
		found := b.adaptive()
		// With 30 a request would take three times as long as alone.
		if found.Key != "up" || found.Limit < 10 || found.Limit > 28 || found.Base < 49 || found.Base > 90 {
			t.Errorf("found %+v", found)
		}

		h = b.chain("{concurrency_limit: {queue: 5, adaptive: {initial: 100}}}", w)
		_ = press(t, h, "up", time.Millisecond, time.Millisecond)
		if kept := b.adaptive(); kept != found {
			t.Errorf("%+v after a reload, %+v before", kept, found)
		}
		h = b.chain("{concurrency_limit: {adaptive: {min: 2, max: 6, initial: 3}}}", w)
		_ = press(t, h, "up", time.Millisecond, time.Millisecond)
		if kept := b.adaptive(); kept.Limit != 6 || kept.Base != found.Base {
			t.Errorf("%+v with at most 6, %+v before", kept, found)
		}
	})
}

// TestAdaptiveQueue: who comes in a burst waits for a place that comes free in time.
func TestAdaptiveQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		h := b.chain("{concurrency_limit: {queue: 100, queue_timeout: 160ms, adaptive: {initial: 2}}}", newWorkshop(10, 50*time.Millisecond))
		if served := press(t, h, "up", 10*time.Nanosecond, time.Nanosecond); served != 8 {
			t.Errorf("%d of 10 at once served by two places in the time of four", served)
		}
		if now := b.shown[0](); now.Running != 0 || now.Waiting != 0 {
			t.Errorf("%+v is left", now)
		}
	})
}

// TestAdaptiveKeys: each upstream is an own one unless something else is said, and what
// clients say is not shown.
func TestAdaptiveKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		w := newWorkshop(10, 50*time.Millisecond)
		h := b.chain("{concurrency_limit: {adaptive: {max: 1}}}", w)
		first, second := serve(h, to(t, "a")), serve(h, to(t, "a"))
		other := serve(h, to(t, "b"))
		wantWord(t, "a second one of a", second, pipeline.Overloaded)
		wantWaiting(t, "one of a", first)
		wantWaiting(t, "one of b", other)
		if status := b.shown[0](); status.Running != 2 || len(status.Adaptive) != 2 || status.Adaptive[0] != (pipeline.AdaptiveStatus{Key: "a", Limit: 1, Running: 1}) {
			t.Errorf("shown as %+v", status)
		}
		h = b.chain("{concurrency_limit: {key: client_ip, adaptive: {}}}", w)
		_ = press(t, h, "a", time.Millisecond, time.Millisecond)
		if shown := b.adaptive(); shown != (pipeline.AdaptiveStatus{Limit: 20}) {
			t.Errorf("a key of clients is shown as %+v", shown)
		}
	})
}

// TestAdaptiveStreams: a response that goes on has no place any more once it has begun, and
// teaches nothing; max alone counts it to its end.
func TestAdaptiveStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		w := newWorkshop(10, 50*time.Millisecond)
		w.answer = func() *message.Response {
			r := &message.Response{Status: 200}
			r.Fields.Add("Content-Type", "text/event-stream")
			return r
		}
		h := b.chain("{concurrency_limit: {max: 120, adaptive: {max: 2}}}", w)
		open := make([]*pipeline.Exchange, 120)
		for i := range open {
			open[i] = to(t, "up")
			if err := h.Serve(open[i]); err != nil {
				t.Fatalf("stream %d: %v", i, err)
			}
		}
		if shown := b.adaptive(); shown != (pipeline.AdaptiveStatus{Key: "up", Limit: 2, Running: 120}) {
			t.Errorf("shown as %+v", shown)
		}
		x := to(t, "up")
		if e := pipeline.AsError(h.Serve(x)); e == nil || e.Word != pipeline.Overloaded {
			t.Errorf("one more than max: %v", e)
		}
		x.End()
		for _, x := range open {
			x.End()
		}
		if shown := b.adaptive(); shown.Running != 0 {
			t.Errorf("all have ended, and %d run", shown.Running)
		}
	})
}

// TestAdaptiveDrops: a destination that refuses for overload gets less, whatever its latency.
func TestAdaptiveDrops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t)
		w := newWorkshop(100, time.Millisecond)
		w.answer = func() *message.Response { return &message.Response{Status: 503} }
		h := b.chain("{concurrency_limit: {adaptive: {min: 3}}}", w)
		_ = press(t, h, "up", 10*time.Second, 2*time.Millisecond)
		if shown := b.adaptive(); shown.Limit != 3 {
			t.Errorf("shown as %+v", shown)
		}
	})
}

// TestAdaptivePanic: an exchange that breaks gives its place back.
func TestAdaptivePanic(t *testing.T) {
	b := newBed(t)
	h := b.chain("{concurrency_limit: {adaptive: {max: 1}}}", pipeline.HandlerFunc(func(*pipeline.Exchange) error { panic("broken") }))
	for range 3 {
		func() {
			x := to(t, "up")
			defer x.End()
			defer func() {
				if recover() == nil {
					t.Error("it had no place")
				}
			}()
			_ = h.Serve(x) // it does not return
		}()
	}
}
