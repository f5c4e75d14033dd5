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
	stays    time.Duration // how long it must stay so
	goodput  float64       // of what the endpoint can do is served at least
	slowest  float64       // times what it takes without load is the 99th percentile at most
}

// adaptiveTimes are strict with -long. A machine that is busy with much else stops for
// longer than a request takes, again and again, and that looks like a queue. So there
// all has to become well, by and by, and need not stay so; without a limit, or with one
// that does not follow, it never does.
func adaptiveTimes() adaptivePlan {
	if *long {
		return adaptivePlan{workers: 50, takes: 100 * time.Millisecond, recovers: 10 * time.Second, view: 2 * time.Second, stays: 20 * time.Second, goodput: 0.9, slowest: 3}
	}
	return adaptivePlan{workers: 20, takes: 150 * time.Millisecond, recovers: 2 * time.Minute, view: 2 * time.Second, goodput: 0.8, slowest: 3}
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
	once(t)
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
	_ = light.after(time.Now(), 60)
	light.stop()
	alone := light.seen(time.Time{}, later()).p99

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
		judge := func(from, to time.Time) (well bool, told string) {
			s := load.seen(from, to)
			goodput := s.rate * w.takesReally().Seconds() / float64(phase.workers)
			well = goodput >= plan.goodput && s.p99 < time.Duration(plan.slowest*float64(alone))
			return well, fmt.Sprintf("%.0f/s, which is %.3f of what %d workers can do, p99 %v, %.2f times %v", s.rate, goodput, phase.workers, s.p99, float64(s.p99)/float64(alone), alone)
		}
		tick(func(now time.Time) bool {
			if now.Sub(changed) < plan.view {
				return false
			}
			well, told := judge(now.Add(-plan.view), now)
			if !well && now.Sub(changed) > plan.recovers {
				t.Fatalf("%s: not well after %v: %s; %+v", phase.name, plan.recovers, told, found(gw))
			}
			return well
		})
		from := time.Now()
		until := from.Add(plan.stays)
		tick(func(now time.Time) bool { return now.After(until) })
		well, told := judge(from.Add(-plan.view), until)
		if !well {
			t.Errorf("%s: it does not stay well: %s", phase.name, told)
		}
		t.Logf("%s: well after %v; %s; %+v", phase.name, from.Sub(changed).Round(time.Millisecond), told, found(gw))
	}
	load.stop()
}

// tick asks ten times a second until it is told that it is enough. Who is asked sees to it
// that it ends.
func tick(enough func(now time.Time) bool) {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for now := range ticker.C {
		if enough(now) {
			return
		}
	}
}

// found is what the limit of a gateway has found out.
func found(gw *gatewaytest.Gateway) []pipeline.AdaptiveStatus {
	var limits []pipeline.LimitStatus
	gw.Admin("/_gateway/limits", &limits)
	return limits[0].Adaptive
}
