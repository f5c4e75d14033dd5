package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
	"sluice/internal/redistest"
)

// outagePlan are the times and bounds of a run.
type outagePlan struct {
	usual  time.Duration // how long nothing has happened yet
	lasts  time.Duration // how long the store is gone once that is known
	margin time.Duration // what a machine may add to the 50 ms that a decision waits
	least  float64       // the part of the rate that passes locally at least: a busy machine stands still now and then
}

func outageTimes() outagePlan {
	if *long {
		return outagePlan{usual: 5 * time.Second, lasts: 10 * time.Second, margin: 15 * time.Millisecond, least: 0.97}
	}
	return outagePlan{usual: time.Second, lasts: 2 * time.Second, margin: 400 * time.Millisecond, least: 0.75}
}

const (
	outageRate, outageBurst = 40, 10 // of the limit that goes on locally
	outageLoad              = 240    // requests a second to all: a third to each route, half to each gateway
	// With leases /deny has something in hand, which is little, and room for its whole load.
	outageLeased, outageLeasedBurst = 200, 80
)

// outageSync is how limits keep to the store.
type outageSync struct {
	sync string
	deny string // the numbers of /deny
	// An outage that is known begins by what is in hand of each route, and goes by what the
	// store has said last for so long.
	hand  map[string]int
	still time.Duration
}

func outageSyncs() []outageSync {
	return []outageSync{
		{sync: "exact", deny: "rate: 100000/s"},
		{
			sync: "lease", deny: fmt.Sprintf("rate: %d/s, burst: %d", outageLeased, outageLeasedBurst), still: time.Second,
			hand: map[string]int{"/local": outageGateways * (outageBurst / (4 * outageGateways)), "/deny": outageGateways * (outageLeasedBurst / (4 * outageGateways))},
		},
	}
}

// outageGateways is how many gateways there are.
const outageGateways = 2

// outage is how a Redis is gone.
type outage struct {
	name         string
	begins, ends func(r *redistest.Server)
	brief        bool // it is over when it has begun
}

func outages() []outage {
	return []outage{
		{name: "killed", begins: (*redistest.Server).Kill, ends: (*redistest.Server).Restart},
		{name: "stopped", begins: func(r *redistest.Server) { r.Signal(syscall.SIGSTOP) }, ends: func(r *redistest.Server) { r.Signal(syscall.SIGCONT) }},
		{name: "restarted", brief: true, begins: func(r *redistest.Server) {
			r.Kill()
			r.Restart()
		}, ends: func(*redistest.Server) {}},
	}
}

// TestLimitOutage has the Redis of two gateways fail under a steady load, with limits
// that then go on locally, let all through, and let nobody through. Nobody waits for it
// longer than 50 ms, and it is over by itself; with decisions that are the store's as with
// leases.
func TestLimitOutage(t *testing.T) {
	once(t)
	for _, o := range outages() {
		for _, s := range outageSyncs() {
			t.Run(o.name+" "+s.sync, func(t *testing.T) { runOutage(t, outageTimes(), o, s) })
		}
	}
}

func runOutage(t *testing.T, plan outagePlan, o outage, s outageSync) {
	t.Helper()
	f := newFleet(t, outageGateways, fmt.Sprintf(`
  - {match: {path: /local}, upstream: up, middleware: [{rate_limit: {rate: %[1]d/s, burst: %[2]d, key: global, store: main, sync: %[3]s}}]}
  - {match: {path: /allow}, upstream: up, middleware: [{rate_limit: {rate: 10/s, key: global, store: main, sync: %[3]s, on_store_failure: allow}}]}
  - {match: {path: /deny}, upstream: up, middleware: [{rate_limit: {%[4]s, key: global, store: main, sync: %[3]s, on_store_failure: deny}}]}
`, outageRate, outageBurst, s.sync, s.deny))
	paths := []string{"/local", "/allow", "/deny"}
	loads := map[string]*steadyLoad{}
	for _, path := range paths {
		loads[path] = startLoad(t, outageLoad/len(paths), func(n int) *http.Request { return f.to(n%outageGateways, path, "") })
	}
	began := time.Now()
	for _, load := range loads {
		load.after(began, int(plan.usual.Seconds()*outageLoad)/len(paths))
	}
	fault := time.Now()
	counted := f.storeErrors()
	o.begins(f.redis)
	if !o.brief {
		f.until("the outage is noticed", func(_ *gatewaytest.Process, s limitStore) bool { return !s.Answers })
		noticed := time.Now()
		var told []int
		gatewaytest.WaitFor(t, "it is told", func() bool { told = f.told(); return !slices.Contains(told, 0) })
		for _, load := range loads {
			load.after(noticed, int(plan.lasts.Seconds()*outageLoad)/len(paths))
		}
		over := time.Now()
		again := f.told()
		judgeOutage(t, loads, noticed, over, plan, s)
		if n := f.storeErrors() - counted; n < 0.9*(plan.lasts-s.still).Seconds()*outageLoad {
			t.Errorf("%v decisions without the store were counted in %v", n, over.Sub(noticed))
		}
		for i, n := range again {
			if n != told[i] {
				t.Errorf("gateway %d had told the outage %d times when it was noticed, and %d times at its end", i, told[i], n)
			}
		}
	}
	o.ends(f.redis)
	back := time.Now()
	f.until("the store is back", func(_ *gatewaytest.Process, s limitStore) bool { return s.Answers })
	gatewaytest.WaitFor(t, "requests pass as before", func() bool {
		some := loads["/deny"].between(back, later())
		return len(some) > 20 && strings.Count(words(some[len(some)-20:]), " 200") == 20
	})
	t.Logf("%v after the store was there again all passed as before", time.Since(back).Round(time.Millisecond))
	for _, load := range loads {
		load.stop()
	}
	judgeAnswers(t, loads, fault, plan)
}

// told is how often each gateway has told an outage.
func (f *fleet) told() (n []int) {
	for _, gw := range f.gateways {
		n = append(n, strings.Count(gw.Log(1<<20), "the store of rate limits cannot be used"))
	}
	return n
}

// word is what a request was answered: a status, with the word of a problem.
func word(s shot) string {
	if s.fault == "" {
		return "200"
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(s.fault, "status "), " (request")
	return text
}

func words(some []shot) string {
	var all strings.Builder
	for _, s := range some {
		all.WriteString(" " + word(s))
	}
	return all.String()
}

// judgeOutage holds the answers of an outage that is known to what on_store_failure says,
// after what was in hand before.
func judgeOutage(t *testing.T, loads map[string]*steadyLoad, from, to time.Time, plan outagePlan, by outageSync) {
	t.Helper()
	for path, want := range map[string]string{"/allow": "200", "/deny": "503 limit_unavailable"} {
		hand := by.hand[path]
		for _, s := range loads[path].between(from, to) {
			got, since := word(s), s.sent.Sub(from)
			if got == "200" && hand > 0 {
				hand--
			} else if got != want && (got != "429 rate_limited" || since > by.still) {
				t.Errorf("%s %v after the outage was noticed: %s, want %s", path, since, got, want)
				break
			}
		}
	}
	passed, local := 0, loads["/local"].between(from, to)
	for _, s := range local {
		if s.fault == "" {
			passed++
		}
	}
	// Each of the two lets half through, with half of a burst; a request is in one second
	// or in the next.
	want := outageRate * to.Sub(from).Seconds()
	t.Logf("locally %d of %d passed, %.0f are the rate's", passed, len(local), want)
	if n := float64(passed - by.hand["/local"]); n > want+outageBurst+2 || n < plan.least*want-2-float64(by.hand["/local"]) {
		t.Errorf("locally %d of %d passed, want %.0f", passed, len(local), want)
	}
}

// judgeAnswers holds all answers, and how long they took, to what may ever be.
func judgeAnswers(t *testing.T, loads map[string]*steadyLoad, fault time.Time, plan outagePlan) {
	t.Helper()
	fine := map[string][]string{"/local": {"200", "429 rate_limited"}, "/allow": {"200", "429 rate_limited"}, "/deny": {"200", "503 limit_unavailable"}}
	var usual, longest time.Duration
	late, all := 0, 0
	for path, load := range loads {
		for _, s := range load.between(time.Time{}, later()) {
			if !slices.Contains(fine[path], word(s)) {
				t.Errorf("%s %v after the fault: %s", path, s.sent.Sub(fault), word(s))
			}
			if s.sent.Before(fault) {
				usual = max(usual, s.took)
			}
			longest = max(longest, s.took)
		}
	}
	for _, load := range loads {
		for _, s := range load.between(fault, later()) {
			if all++; s.took > usual+10*time.Millisecond {
				late++
			}
		}
	}
	t.Logf("requests took %v at most before, %v at most in all; since the fault %d of %d took 10 ms more than before", usual, longest, late, all)
	if most := usual + 50*time.Millisecond + plan.margin; longest > most {
		t.Errorf("a request took %v, want %v at most", longest, most)
	}
}
