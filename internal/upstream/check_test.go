package upstream

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"sluice/internal/lease"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// well is a service as its health checks see it: for the tests of when is asked and
// what follows. How is asked is for those of whole gateways.
type well struct {
	mu      sync.Mutex
	status  map[string]int // by the endpoint's URL; 0: 200
	silent  map[string]bool
	asked   []time.Time
	urls    []string
	running int
	most    int // at once
}

func (w *well) becomes(url string, status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.status == nil {
		w.status = map[string]int{}
	}
	w.status[url] = status
}

// silence lets checks of an endpoint wait for an answer, or answers them again.
func (w *well) silence(url string, silent bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.silent == nil {
		w.silent = map[string]bool{}
	}
	w.silent[url] = silent
}

// take returns which endpoints were asked since the last call, and when.
func (w *well) take() (urls []string, times []time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	urls, times = w.urls, w.asked
	w.urls, w.asked = nil, nil
	return urls, times
}

// connect is a connection to the service.
func (w *well) connect() Connect {
	return Connect{
		Transport: nowhere().Transport,
		Probe: func(_ *lease.Set, _ *model.Upstream, e model.Endpoint) pipeline.Transport {
			return &asker{w, e.URL}
		},
	}
}

type asker struct {
	*well
	url string
}

// RoundTrip answers as the service does now.
func (a *asker) RoundTrip(ctx context.Context, try *pipeline.Attempt) error {
	a.mu.Lock()
	a.asked, a.urls = append(a.asked, time.Now()), append(a.urls, a.url)
	a.running++
	a.most = max(a.most, a.running)
	status, silent := a.status[a.url], a.silent[a.url]
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.running--
	}()
	if silent {
		<-ctx.Done()
		return pipeline.NewError(pipeline.UpstreamTimeout, ctx.Err())
	}
	if status == 0 {
		status = 200
	}
	try.Response = message.Response{Status: status, Body: io.NopCloser(strings.NewReader("ok"))}
	return nil
}

// asking asks every ten seconds.
func asking(changes ...func(*model.HealthCheck)) func(*model.Upstream) {
	return func(m *model.Upstream) {
		m.Health = &model.HealthCheck{
			Type: "http", Path: "/health", Interval: 10 * time.Second, Timeout: 2 * time.Second,
			HealthyAfter: 2, UnhealthyAfter: 3, ExpectStatus: []model.StatusRange{{First: 200, Last: 399}},
		}
		for _, change := range changes {
			change(m.Health)
		}
	}
}

// serve is a group in a bubble, with what it tells and who is asked.
func serve(t *testing.T, m *model.Upstream) (g *Group, set *lease.Set, w *well, told *events) {
	t.Helper()
	w, told = &well{}, &events{}
	g, set = acquireTold(t, new(lease.Registry), m, w.connect(), told.observe)
	return g, set, w, told
}

// rounds lets so many checks of each endpoint pass.
func rounds(n int) {
	for range n {
		time.Sleep(11 * time.Second) // as long as it may be from one to the next
	}
	synctest.Wait()
}

// until waits until something is so, at most for so long.
func until(t *testing.T, what string, most time.Duration, condition func() bool) {
	t.Helper()
	for range most / (100 * time.Millisecond) {
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if condition() {
			return
		}
	}
	t.Fatal("never: " + what)
}

func TestThresholdsBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, w, told := serve(t, of("a=1", asking()))
		count := func() int { urls, _ := w.take(); return len(urls) }
		became := func(word string, after int, want ...string) {
			t.Helper()
			asked := 0
			until(t, word, time.Hour, func() bool { asked += count(); return statusOf(t, g, "a", time.Now()) == word })
			if asked != after {
				t.Errorf("%s after %d checks, want %d", word, asked, after)
			}
			told.expect(t, want...)
		}
		if got := statusOf(t, g, "a", time.Now()); got != "unknown" {
			t.Errorf("at first it is %s", got)
		}
		became("healthy", 2, "health a unknown>healthy: 2 checks in a row passed")
		w.becomes("a", 500)
		became("unhealthy out", 3, "health a healthy>unhealthy: 3 checks in a row failed: status 500")
		if got := g.Status(time.Now()).Endpoints[0].Fault; got != "status 500" {
			t.Errorf("fault %q", got)
		}
		w.becomes("a", 204)
		became("healthy", 2, "health a unhealthy>healthy: 2 checks in a row passed")
		if got := g.Status(time.Now()).Endpoints[0].Fault; got != "" {
			t.Errorf("fault %q", got)
		}
		// Two failures are not enough, and one success begins the count anew.
		one := func(status int) {
			t.Helper()
			w.becomes("a", status)
			count()
			until(t, "a check", 20*time.Second, func() bool { return count() == 1 })
		}
		for _, status := range []int{500, 500, 200, 500, 500} {
			one(status)
			if got := statusOf(t, g, "a", time.Now()); got != "healthy" {
				t.Fatalf("it is %s", got)
			}
		}
		one(500)
		for _, status := range []int{200, 500, 200} { // and so it is the other way round
			one(status)
		}
		if got := statusOf(t, g, "a", time.Now()); got != "unhealthy out" {
			t.Errorf("it is %s", got)
		}
		told.expect(t, "health a healthy>unhealthy: 3 checks in a row failed: status 500")
	})
}

// One check is enough where the thresholds say so.
func TestThresholdsOfOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, w, told := serve(t, of("a=1", asking(func(h *model.HealthCheck) { h.HealthyAfter, h.UnhealthyAfter = 1, 1 })))
		rounds(1)
		w.becomes("a", 404)
		rounds(1)
		told.expect(t, "health a unknown>healthy: a check passed", "health a healthy>unhealthy: a check failed: status 404")
	})
}

// Checks of many endpoints do not come at once, the first within a quarter of a
// second, and from one to the next it is the interval, give or take a tenth.
func TestChecksAreSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_, _, w, _ := serve(t, of("a=1 b=1 c=1 d=1 e=1 f=1 g=1 h=1", asking()))
		rounds(20)
		urls, times := w.take()
		last, firsts, gaps := map[string]time.Time{}, map[time.Duration]bool{}, map[time.Duration]bool{}
		for i, url := range urls {
			before, seen := last[url]
			gap := times[i].Sub(before)
			switch {
			case !seen && times[i].Sub(start) > 250*time.Millisecond:
				t.Errorf("the first check of %s comes after %v", url, times[i].Sub(start))
			case !seen:
				firsts[times[i].Sub(start)] = true
			case gap < 9*time.Second || gap > 11*time.Second:
				t.Errorf("%s is asked after %v", url, gap)
			default:
				gaps[gap] = true
			}
			last[url] = times[i]
		}
		if len(firsts) < 7 || len(gaps) < 100 {
			t.Errorf("%d different first times and %d from one to the next", len(firsts), len(gaps))
		}
	})
}

// A check that is not answered ends in time, and the next one comes after it: never
// are there two of one endpoint. Those of others go on meanwhile.
func TestChecksDoNotPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, w, told := serve(t, of("a=1", asking(func(h *model.HealthCheck) { h.Interval, h.Timeout = 2*time.Second, 2*time.Second })))
		w.silence("a", true)
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if w.most != 1 {
			t.Errorf("%d at once", w.most)
		}
		if urls, _ := w.take(); len(urls) < 13 || len(urls) > 16 {
			t.Errorf("%d checks in 30s, one every 2s", len(urls))
		}
		told.expect(t, "health a unknown>unhealthy: 3 checks in a row failed: no answer within 2s")
		if got := g.Status(time.Now()).Endpoints[0].Fault; got != "no answer within 2s" {
			t.Errorf("fault %q", got)
		}
		w.silence("a", false)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		told.expect(t, "health a unhealthy>healthy: 2 checks in a row passed")
	})
}

// However many snapshots have an endpoint, it is asked by one; and it goes on with its
// counts when they change.
func TestOneCheckerForAllSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry lease.Registry
		w, told := &well{}, &events{}
		_, set := acquireTold(t, &registry, of("a=1 b=1", asking()), w.connect(), told.observe)
		for range 10 {
			acquireTold(t, &registry, of("b=1 a=2", asking()), w.connect(), told.observe)
		}
		rounds(1)
		if urls, _ := w.take(); len(urls) > 4 { // the second of each may have come
			t.Errorf("asked %q", urls)
		}
		rounds(2)
		told.take()
		w.becomes("b", 500)
		w.take()
		failures := 0
		until(t, "two failures of b", time.Minute, func() bool {
			urls, _ := w.take()
			failures += strings.Count(strings.Join(urls, ""), "b")
			return failures == 2
		})
		next, _ := acquireTold(t, &registry, of("b=1 c=1", asking()), w.connect(), told.observe)
		set.Release()
		w.take()
		until(t, "the third one", 12*time.Second, func() bool { return statusOf(t, next, "b", time.Now()) == "unhealthy out" })
		if urls, _ := w.take(); strings.Count(strings.Join(urls, ""), "b") != 1 {
			t.Errorf("asked %q: the count began anew", urls)
		}
	})
}

// Where the check becomes another, what was found stays until that one finds
// something else.
func TestHealthOutlivesAnotherCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry lease.Registry
		w, told := &well{}, &events{}
		w.becomes("b", 500)
		_, set := acquireTold(t, &registry, of("a=1 b=1", asking()), w.connect(), told.observe)
		rounds(3)
		after, next := acquireTold(t, &registry, of("a=1 b=1 c=1", asking(func(h *model.HealthCheck) { h.Path, h.UnhealthyAfter = "/other", 2 })), w.connect(), told.observe)
		set.Release()
		now := time.Now()
		if got := statusOf(t, after, "a", now) + ", " + statusOf(t, after, "b", now) + ", " + statusOf(t, after, "c", now); got != "healthy, unhealthy out, unknown out" {
			t.Errorf("after a reload: %s", got)
		}
		told.take()
		w.take()
		w.becomes("a", 500)
		rounds(3)
		list := told.take()
		slices.Sort(list)
		if !slices.Equal(list, []string{
			"health a healthy>unhealthy: 2 checks in a row failed: status 500",
			"health c unknown>healthy: 2 checks in a row passed",
		}) {
			t.Errorf("told %q", list)
		}
		if urls, _ := w.take(); strings.Count(strings.Join(urls, ""), "a") > 4 {
			t.Errorf("asked %q: the old checks go on", urls)
		}
		// Of an endpoint that nobody checks any more nothing is known.
		without, last := acquireTold(t, &registry, of("a=1"), w.connect(), told.observe)
		next.Release()
		if got := statusOf(t, without, "a", time.Now()); got != "" {
			t.Errorf("without checks: %s", got)
		}
		again, _ := acquireTold(t, &registry, of("a=1", asking()), w.connect(), told.observe)
		last.Release()
		if got := statusOf(t, again, "a", time.Now()); got != "unknown" {
			t.Errorf("with them again: %s", got)
		}
	})
}

// A snapshot that is only built asks nobody and leaves nothing behind.
func TestABuildChecksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry lease.Registry
		w := &well{}
		set := registry.NewSet()
		Acquire(set, of("a=1", asking()), w.connect(), nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		set.Release()
		if urls, _ := w.take(); len(urls) > 0 {
			t.Errorf("asked %q", urls)
		}
		if err := registry.Idle(); err != nil {
			t.Error(err)
		}
	})
}

// A check that is under way when its last snapshot goes has no say any more.
func TestACheckThatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var registry lease.Registry
		w, told := &well{}, &events{}
		w.silence("a", true)
		m := of("a=1", asking(func(h *model.HealthCheck) { h.UnhealthyAfter = 1 }))
		_, set := acquireTold(t, &registry, m, w.connect(), told.observe)
		plain, _ := acquireTold(t, &registry, of("a=1"), w.connect(), told.observe) // it holds the endpoint
		time.Sleep(time.Second)
		set.Release()
		synctest.Wait()
		told.expect(t)
		if got := plain.members.Load().endpoints[0].state.health; got != unknown {
			t.Errorf("it is %s", got)
		}
		if w.running != 0 {
			t.Error("it goes on")
		}
	})
}

// The only fault of a service is that its checks fail: it is used all the same, and
// who comes back is preferred again.
func TestAllUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, w, _ := serve(t, of("a=1 b=1 c=1", asking(), panicBelow(.3)))
		for _, url := range []string{"a", "b", "c"} {
			w.silence(url, true)
		}
		rounds(4)
		if got := picks(t, g, 6); got != "abcabc" || !g.Status(time.Now()).Panicking {
			t.Errorf("all unhealthy: %s", got)
		}
		w.silence("b", false)
		rounds(3)
		if got := picks(t, g, 3); got != "bbb" || g.Status(time.Now()).Panicking {
			t.Errorf("one is back: %s", got)
		}
	})
}

// What is told is told in order, one at a time, by whoever comes by; and who is told
// may take his time.
func TestEventsAreInOrder(t *testing.T) {
	s := newShared()
	var got []int
	var running sync.WaitGroup
	entered, leave := make(chan struct{}), make(chan struct{})
	observe := func(e Event) {
		if e.Until.IsZero() {
			close(entered)
			<-leave
		}
		got = append(got, e.Until.Nanosecond())
	}
	at := func(i int) { s.note(observe, Event{Until: time.Time{}.Add(time.Duration(i))}) }
	running.Go(func() {
		s.mu.Lock()
		at(0)
		at(1)
		s.unlock()
	})
	<-entered
	for i := 2; i < 5; i++ { // nobody waits for the one that is told
		s.mu.Lock()
		at(i)
		s.unlock()
	}
	close(leave)
	running.Wait()
	if !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
		t.Errorf("told in the order %v", got)
	}
}

// An observer that panics leaves all in order for the next one.
func TestAnObserverThatPanics(t *testing.T) {
	g, _ := acquireTold(t, new(lease.Registry), of("a=1 b=1"), nowhere(), func(Event) { panic("BUG: of the observer") })
	for range 2 {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is lost")
				}
			}()
			g.Drain("b", !g.Status(time.Now()).Endpoints[1].Drained)
		}()
	}
	if got := picks(t, g, 2); strings.Count(got, "b") != 1 {
		t.Errorf("got %s", got)
	}
}

// A probe's error that the end of the time brought about is told as that.
func TestTheReasonOfATimeOut(t *testing.T) {
	c := &checker{m: &model.HealthCheck{Timeout: time.Millisecond}, probe: func(ctx context.Context) error {
		<-ctx.Done()
		return errors.New("operation was cancelled")
	}}
	if err := c.once(t.Context()); err == nil || err.Error() != "no answer within 1ms" {
		t.Errorf("got %v", err)
	}
	c.m.Timeout = time.Hour
	c.probe = func(context.Context) error { return errBad }
	if err := c.once(t.Context()); !errors.Is(err, errBad) {
		t.Errorf("got %v", err)
	}
}
