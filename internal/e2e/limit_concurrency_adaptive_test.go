package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
	"sluice/internal/pipeline"
)

// adaptivePlan is how an endpoint is that loses four fifths of its workers and gets
// them back, and how long is looked at it.
type adaptivePlan struct {
	workers  int
	takes    time.Duration // what a worker has to do for a request
	recovers time.Duration // within that all must be well after a change
	view     time.Duration // over which it is looked whether it is
	stays    time.Duration // how long it is looked at after that
	goodput  float64       // of what the endpoint can do is served at least
	slowest  float64       // times what it takes without load is the 99th percentile at most
}

// adaptiveTimes are strict with -long. Else they are such that machines that are busy
// with much else bear them: fewer requests, which take so long that little hangs on
// when a processor comes free.
func adaptiveTimes() adaptivePlan {
	if *long {
		return adaptivePlan{workers: 50, takes: 100 * time.Millisecond, recovers: 10 * time.Second, view: 2 * time.Second, stays: 20 * time.Second, goodput: 0.9, slowest: 3}
	}
	return adaptivePlan{workers: 20, takes: 100 * time.Millisecond, recovers: gatewaytest.Patience, view: 2 * time.Second, stays: 6 * time.Second, goodput: 0.8, slowest: 3}
}

// works is an endpoint with workers, each of whom does one request at a time; all others
// wait in its queue.
type works struct {
	url    string
	idle   chan struct{} // the workers that have nothing to do
	takes  time.Duration
	served atomic.Int64
	busy   atomic.Int64 // how long workers have worked, in nanoseconds
}

func newWorks(t *testing.T, workers int, takes time.Duration) *works {
	t.Helper()
	w := &works{idle: make(chan struct{}, workers), takes: takes}
	w.come(workers)
	w.url = gatewaytest.NewHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-w.idle:
		case <-r.Context().Done():
			return
		}
		began := time.Now()
		<-time.After(w.takes) // this is the work
		w.busy.Add(int64(time.Since(began)))
		w.served.Add(1)
		w.idle <- struct{}{}
	}))
	return w
}

func (w *works) come(n int) {
	for range n {
		w.idle <- struct{}{}
	}
}

// leave takes workers away, each once it has done what came before.
func (w *works) leave(n int) {
	for range n {
		<-w.idle
	}
}

// takesReally is what a request has taken a worker so far, on this machine.
func (w *works) takesReally() time.Duration {
	return time.Duration(w.busy.Load() / max(w.served.Load(), 1))
}

// seen is what clients saw of a time.
type seen struct {
	rate float64 // how many were served in a second
	p99  time.Duration
}

func (l *steadyLoad) seen(from, to time.Time) seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	var took []time.Duration
	for _, s := range slices.Backward(l.shots) { // which are in the order of their ends, nearly
		end := s.sent.Add(s.took)
		if end.Before(from.Add(-time.Second)) {
			break
		}
		if s.fault == "" && end.After(from) && !end.After(to) {
			took = append(took, s.took)
		}
	}
	if len(took) == 0 {
		return seen{}
	}
	slices.Sort(took)
	return seen{float64(len(took)) / to.Sub(from).Seconds(), took[len(took)*99/100]}
}

// TestLimitAdaptiveConcurrency: an endpoint gets more than it can do, loses four fifths of
// what it can, and gets them back. What it can do is served, and nobody waits long
// for it.
func TestLimitAdaptiveConcurrency(t *testing.T) {
	plan := adaptiveTimes()
	if !*long {
		t.Parallel() // it waits most of the time
	}
	w := newWorks(t, plan.workers, plan.takes)
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
upstreams: {works: {endpoints: [%q], pool: {max_idle_per_endpoint: 1000}}}
routes: [{id: works, match: {path_prefix: /}, upstream: works, middleware: [{concurrency_limit: {adaptive: {}}}]}]
`, w.url))
	full := float64(plan.workers) / plan.takes.Seconds()

	light := startLoad(t, int(full/10), gets(t, gw.URL("web")+"/"))
	_ = light.after(time.Now(), 100)
	light.stop()
	alone := light.seen(time.Time{}, later()).p99
	for _, s := range light.between(time.Time{}, later()) {
		if s.fault != "" {
			t.Fatalf("without load: %s", s.fault)
		}
	}

	load := startLoad(t, int(full*1.5), gets(t, gw.URL("web")+"/"))
	for _, phase := range []struct {
		name    string
		workers int
		change  func()
	}{
		{"at first", plan.workers, func() {}},
		{"with a fifth", plan.workers / 5, func() { w.leave(plan.workers - plan.workers/5) }},
		{"with all again", plan.workers, func() { w.come(plan.workers - plan.workers/5) }},
	} {
		phase.change()
		changed := time.Now()
		judge := func(from, to time.Time) (seen, float64, bool) {
			s := load.seen(from, to)
			goodput := s.rate * w.takesReally().Seconds() / float64(phase.workers)
			return s, goodput, goodput >= plan.goodput && s.p99 < time.Duration(plan.slowest*float64(alone))
		}
		gatewaytest.WaitFor(t, "all is well "+phase.name, func() bool {
			now := time.Now()
			if now.Sub(changed) < plan.view {
				return false
			}
			_, _, well := judge(now.Add(-plan.view), now)
			return well
		})
		from := time.Now()
		if took := from.Sub(changed); took > plan.recovers {
			t.Errorf("%s: well after %v", phase.name, took)
		}
		until := from.Add(plan.stays)
		gatewaytest.WaitFor(t, "time has passed", func() bool { return time.Now().After(until) })
		s, goodput, well := judge(from, until)
		var limits []pipeline.LimitStatus
		gw.Admin("/_gateway/limits", &limits)
		tell := t.Logf
		if !well {
			tell = t.Errorf
		}
		tell("%s: well after %v; then %.0f/s, which is %.3f of what %d workers can do, p99 %v, %.2f times %v; %+v",
			phase.name, from.Sub(changed).Round(time.Millisecond), s.rate, goodput, phase.workers, s.p99, float64(s.p99)/float64(alone), alone, limits[0].Adaptive)
	}
	load.stop()
}
