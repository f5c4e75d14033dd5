package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

// accuracyLength is how long it is counted.
func accuracyLength() time.Duration {
	if *long {
		return 20 * time.Second
	}
	return 4 * time.Second
}

// measured is a gateway whose limits are measured, before an endpoint that counts.
type measured struct {
	*gatewaytest.Gateway
	journal journal
	config  string
	served  atomic.Int64 // by the endpoint
}

// newMeasured runs a gateway with these upstreams and routes, in which UPSTREAM is the
// endpoint that counts.
func newMeasured(t *testing.T, lines string) *measured {
	t.Helper()
	if !*long {
		t.Parallel() // it waits most of the time
	}
	m := &measured{}
	url := gatewaytest.NewHTTP(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { m.served.Add(1) }))
	m.config = `
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
` + strings.ReplaceAll(strings.TrimLeft(lines, "\n"), "UPSTREAM", strconv.Quote(url))
	m.Gateway = gatewaytest.Start(t, m.config, m.journal.kinds()...)
	return m
}

// begin has pacers call at the same time, until it has been long enough, or until stop
// is closed. wait returns how many answers there were, and in which time.
func (m *measured) begin(t *testing.T, pacers []pacer, stop <-chan struct{}) (wait func() (map[int]int, time.Duration)) {
	t.Helper()
	length := accuracyLength()
	if stop != nil {
		length = 4 * gatewaytest.Patience
	}
	all := &answers{count: map[int]int{}}
	var group sync.WaitGroup
	began := time.Now()
	for i := range pacers {
		pacers[i].begin(t, m.Gateway, length, stop, &group, all)
	}
	return func() (map[int]int, time.Duration) {
		group.Wait()
		return all.count, time.Since(began)
	}
}

// counted holds the endpoint's and the clients' counts to what passed.
func (m *measured) counted(t *testing.T, all map[int]int) {
	t.Helper()
	n, _ := passed(m.journal.of(""))
	if served := int(m.served.Load()); served != n || all[200] != n || len(all) != 2 || all[429] == 0 {
		t.Errorf("%d passed, the endpoint has served %d, and the clients got %v", n, served, all)
	}
}

// TestLimitAccuracy counts what a bucket lets through of a client that is a little too
// fast, of one that is much too fast, and of one that comes in bursts: 100 a second and
// 20 at once are 2,020 in 20 s.
func TestLimitAccuracy(t *testing.T) {
	once(t)
	m := newMeasured(t, `
upstreams: {up: {endpoints: [UPSTREAM]}}
routes:
  - {match: {path: /x}, upstream: up, middleware: [{enter: {}}, {rate_limit: {rate: 100/s, burst: 20, key: "header:X-User"}}, {pass: {}}]}
`)
	pacers := []pacer{
		{user: "a little too fast", path: "/x", connections: 4, at: evenly(150)},
		{user: "much too fast", path: "/x", connections: 8, at: evenly(1000)},
		{user: "in bursts", path: "/x", connections: 30, at: bursts(30, 150*time.Millisecond)},
	}
	all, _ := m.begin(t, pacers, nil)()
	m.counted(t, all)
	for _, c := range pacers {
		t.Run(c.user, func(t *testing.T) {
			visits := m.journal.of(c.user)
			wantTokens(t, visits, 100, 20, 0)
			if n, _ := passed(visits); *long && (n < 2000 || n > 2040) {
				t.Errorf("%d passed in 20 s, want 2,020 within 1%%", n)
			}
		})
	}
}

// TestLimitWindow looks at each window of a second, of limits that count each request
// and that count groups of them.
func TestLimitWindow(t *testing.T) {
	once(t)
	m := newMeasured(t, `
upstreams: {up: {endpoints: [UPSTREAM]}}
routes:
  - {match: {path: /x}, upstream: up, middleware: [{enter: {}}, {rate_limit: {algorithm: sliding_window, rate: 50/s, key: "header:X-User"}}, {pass: {}}]}
  - {match: {path: /y}, upstream: up, middleware: [{enter: {}}, {rate_limit: {algorithm: sliding_window, rate: 300/s, key: "header:X-User"}}, {pass: {}}]}
`)
	pacers := []pacer{
		{user: "steady", path: "/x", connections: 4, at: evenly(150)},
		{user: "in bursts", path: "/x", connections: 30, at: bursts(30, 130*time.Millisecond)},
		{user: "of many", path: "/y", connections: 8, at: evenly(800)},
	}
	most := []int{50, 50, 300}
	all, _ := m.begin(t, pacers, nil)()
	m.counted(t, all)
	for i, c := range pacers {
		t.Run(c.user, func(t *testing.T) { wantWindow(t, m.journal.of(c.user), most[i], time.Second, 0) })
	}
}

// TestLimitLevels has four limits one behind the other, of all, of each user, of a route
// and of the upstream: what passes is what has room in all of them, and what one of them
// refuses takes nothing of the others.
func TestLimitLevels(t *testing.T) {
	once(t)
	m := newMeasured(t, `
upstreams: {up: {endpoints: [UPSTREAM], rate_limit: {rate: 150/s, burst: 30}}, other: {endpoints: [UPSTREAM]}}
global: [{enter: {}}, {rate_limit: {name: all, rate: 400/s, burst: 80, key: global}}, {rate_limit: {name: user, rate: 60/s, burst: 20, key: "header:X-User"}}]
routes:
  - {id: wide, match: {path: /wide}, upstream: up}
  - {id: narrow, match: {path: /narrow}, upstream: other, middleware: [{rate_limit: {name: route, rate: 25/s, burst: 5, key: route}}]}
`)
	pacers := []pacer{
		{user: "ann", path: "/wide", connections: 4, at: evenly(150)},
		{user: "bob", path: "/wide", connections: 4, at: evenly(150)},
		{user: "eve", path: "/wide", connections: 30, at: bursts(30, 200*time.Millisecond)},
		{user: "dan", path: "/narrow", connections: 4, at: evenly(100)},
	}
	all, took := m.begin(t, pacers, nil)()
	books := map[string]*tokens{}
	book := func(name string, rate, burst float64) *tokens {
		if books[name] == nil {
			books[name] = &tokens{rate: rate, burst: burst}
		}
		return books[name]
	}
	want := map[string]int{} // by route
	for _, v := range m.journal.of("") {
		route := strings.TrimPrefix(v.path, "/")
		last := book("upstream", 150, 30)
		if route == "narrow" {
			last = book("route", 25, 5)
		}
		limits := []*tokens{book("all", 400, 80), book("user "+v.user, 60, 20), last}
		if takeOfAll(limits, v.before) {
			want[route]++
		}
	}
	served := 0.0
	for route, most := range map[string]float64{"wide": 30 + 150*took.Seconds(), "narrow": 5 + 25*took.Seconds()} {
		got := m.Metric("gateway_requests_total", "route", route, "status", "200")
		served += got
		t.Logf("%s: %v passed, want %d, and at most %.1f", route, got, want[route], most)
		if off := got - float64(want[route]); got > most || max(off, -off) > max(3, got/50) {
			t.Errorf("%s has let %v through, want %d within 2%%, and at most %.1f", route, got, want[route], most)
		}
	}
	if int64(served) != m.served.Load() || all[200] != int(served) {
		t.Errorf("the endpoint has served %d, and the clients got %v", m.served.Load(), all)
	}
}

// takeOfAll takes one of each bucket, or nothing.
func takeOfAll(buckets []*tokens, now time.Time) bool {
	for i, b := range buckets {
		if !b.take(now) {
			for _, taken := range buckets[:i] {
				taken.level++
			}
			return false
		}
	}
	return true
}

// TestLimitReload has a hundred reloads come to pass while a client asks for more than
// it gets: no bucket is filled by one, and no window emptied.
func TestLimitReload(t *testing.T) {
	once(t)
	m := newMeasured(t, `
upstreams: {up: {endpoints: [UPSTREAM]}}
routes:
  - {match: {path: /x}, upstream: up, middleware: [{enter: {}}, {rate_limit: {rate: 100/s, burst: 20, key: "header:X-User"}}, {pass: {}}]}
  - {match: {path: /y}, upstream: up, middleware: [{enter: {}}, {rate_limit: {algorithm: sliding_window, rate: 50/s, key: "header:X-User"}}, {pass: {}}]}
`)
	stop := make(chan struct{})
	pacers := []pacer{
		{user: "of a bucket", path: "/x", connections: 4, at: evenly(200)},
		{user: "of a window", path: "/y", connections: 4, at: evenly(200)},
	}
	wait := m.begin(t, pacers, stop)
	gatewaytest.WaitFor(t, "both limits have refused", func() bool { return m.Metric("gateway_errors_total", "error", "rate_limited") > 40 })
	for n := range 100 {
		m.Load(m.config + fmt.Sprintf("  - {match: {path: /new}, respond: {status: 200, body: %q}}\n", fmt.Sprint(n)))
	}
	close(stop)
	all, _ := wait()
	m.counted(t, all)
	if n := m.Metric("gateway_config_reloads_total", "result", "success"); n != 101 {
		t.Errorf("%v configurations were served, want 101", n)
	}
	wantTokens(t, m.journal.of("of a bucket"), 100, 20, 0)
	wantWindow(t, m.journal.of("of a window"), 50, time.Second, 0)
}
