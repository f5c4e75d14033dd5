package e2e

import (
	"flag"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

var chaosRate = flag.Int("chaos", 40, "how many requests a second there are while endpoints fail")

// chaosTimes are the times of a run.
type chaosTimes struct {
	perTry    time.Duration
	slow      time.Duration // what a slow endpoint takes
	interval  time.Duration // of health checks, which is their time-out as well
	slowStart time.Duration
	settled   time.Duration // from then on after a fault has begun nothing may fail
	fails     time.Duration // how long the fault lasts after that
	even      time.Duration // how long it is looked at how even the load is
	budget    string        // of retries: a busy machine sends what it has to in bursts
	together  bool          // there are several faults at once, each behind its own gateway
}

// chaosPlan returns strict times with -long, else such for machines that
// are busy with much else, where an answer takes long without any fault.
func chaosPlan() chaosTimes {
	if *long {
		return chaosTimes{
			perTry: 400 * time.Millisecond, slow: 2 * time.Second, interval: 500 * time.Millisecond,
			slowStart: 2 * time.Second, settled: time.Second, fails: 5 * time.Second, even: 5 * time.Second, budget: "20%",
		}
	}
	return chaosTimes{
		perTry: time.Second, slow: 3 * time.Second, interval: time.Second,
		slowStart: time.Second, settled: 2 * time.Second, fails: time.Second, even: 2 * time.Second, budget: "100%", together: true,
	}
}

// chaosFault is one way in which an endpoint fails, and how it is well again.
type chaosFault struct {
	name   string
	begins func(m *mortal, plan chaosTimes)
	ends   func(m *mortal)
	// brief: it has no length of its own, and is over when it has begun.
	brief bool
}

func chaosFaults() []chaosFault {
	told := func(word string) func(*mortal, chaosTimes) {
		return func(m *mortal, _ chaosTimes) { m.tell(word) }
	}
	well := func(m *mortal) { m.tell("well") }
	return []chaosFault{
		{name: "killed", begins: func(m *mortal, _ chaosTimes) { m.kill() }, ends: func(m *mortal) { m.start() }},
		{name: "stopped", begins: func(m *mortal, _ chaosTimes) { m.signal(syscall.SIGSTOP) }, ends: func(m *mortal) { m.signal(syscall.SIGCONT) }},
		{name: "slow", begins: func(m *mortal, plan chaosTimes) { m.tell("slow " + plan.slow.String()) }, ends: well},
		{name: "resets connections", begins: told("slam"), ends: well},
		{name: "resets in the head", begins: told("cut"), ends: well},
		{name: "restarts", brief: true, begins: func(m *mortal, _ chaosTimes) {
			for range 3 {
				m.kill()
				m.start()
			}
		}, ends: func(*mortal) {}},
	}
}

// TestChaos has one of three endpoints fail under a steady load, in one way after
// another. Clients of idempotent requests see nothing of it, but for one in a
// hundred at the very beginning, and after it the endpoint has its share again.
func TestChaos(t *testing.T) {
	plan := chaosPlan()
	for _, fault := range chaosFaults() {
		t.Run(fault.name, func(t *testing.T) {
			if plan.together {
				t.Parallel() // it waits most of the time
			}
			runChaos(t, plan, fault)
		})
	}
}

func runChaos(t *testing.T, plan chaosTimes, fault chaosFault) {
	t.Helper()
	endpoints := []*mortal{newMortal(t, "a"), newMortal(t, "b"), newMortal(t, "c")}
	gw := gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
upstreams:
  up:
    endpoints: [%q, %q, %q]
    slow_start: %v
    health_check: {interval: %v, unhealthy_after: 2}
    outlier_detection: {base_ejection: 1s}
    circuit_breaker: {scope: endpoint, open_for: 1s}
routes:
  - {id: up, match: {path_prefix: /}, upstream: up, retry: {attempts: 3, on: [connect_failure, refused, reset, timeout, "502", "503"], per_try_timeout: %v, budget: %s}}
`, endpoints[0].url, endpoints[1].url, endpoints[2].url, plan.slowStart, plan.interval, plan.perTry, plan.budget))
	gatewaytest.WaitFor(t, "all endpoints are healthy", func() bool { return allWell(t, gw, "up") })

	load := startLoad(t, *chaosRate, gets(t, gw.URL("web")+"/x"))
	_ = load.after(time.Now(), *chaosRate)
	began := time.Now()
	fault.begins(endpoints[1], plan)
	settled := began.Add(plan.settled)
	if !fault.brief {
		gatewaytest.WaitFor(t, "the endpoint is left alone", func() bool { return !endpointOf(t, gw, "up", endpoints[1].url).Available })
		lasts := *chaosRate * int(plan.fails/time.Second)
		_ = load.after(settled, lasts)
	}
	fault.ends(endpoints[1])
	ended := time.Now()
	gatewaytest.WaitFor(t, "all endpoints are well again", func() bool { return allWell(t, gw, "up") })
	back := time.Now()
	even := load.after(back.Add(plan.slowStart), *chaosRate*int(plan.even/time.Second))
	load.stop()

	judgeChaos(t, load, began, settled)
	if retries := gw.Metric("gateway_retries_total", "upstream", "up"); retries == 0 && !fault.brief {
		t.Error("nothing was tried again: the fault was none")
	}
	by := shares(even)
	for _, e := range endpoints {
		if share := float64(by[e.name]) / float64(len(even)); share < 0.9/3 || share > 1.1/3 {
			t.Errorf("%v after all are well endpoint %s has a share of %.3f: %v", plan.slowStart, e.name, share, by)
		}
	}
	t.Logf("well %v after the fault was over; then of %d requests %v; %v repetitions in all, %v forbidden by the budget", back.Sub(ended).Round(time.Millisecond), len(even), by,
		gw.Metric("gateway_retries_total", "upstream", "up"), gw.Metric("gateway_retry_budget_exhausted_total", "upstream", "up"))
}

// judgeChaos holds what clients saw to what they may see of a fault.
func judgeChaos(t *testing.T, load *steadyLoad, began, settled time.Time) {
	t.Helper()
	count := func(some []shot) (failed int, longest time.Duration) {
		for _, s := range some {
			longest = max(longest, s.took)
			if s.fault != "" {
				failed++
			}
		}
		return failed, longest
	}
	tell := func(some []shot) string {
		var told []string
		for _, s := range some {
			if s.fault != "" && len(told) < 10 {
				told = append(told, fmt.Sprintf("sent %v after the fault, failed after %v: %s", s.sent.Sub(began).Round(time.Millisecond), s.took.Round(time.Millisecond), s.fault))
			}
		}
		return strings.Join(told, "\n")
	}
	before, first, rest := load.between(time.Time{}, began), load.between(began, settled), load.between(settled, later())
	wrong, took := count(before)
	atFirst, tookFirst := count(first)
	afterwards, tookRest := count(rest)
	t.Logf("failed: %d of %d before (%v at most), %d of %d at first (%v), %d of %d from then on (%v)", wrong, len(before), took, atFirst, len(first), tookFirst, afterwards, len(rest), tookRest)
	if wrong > 0 {
		t.Errorf("%d requests failed before the fault:\n%s", wrong, tell(before))
	}
	if atFirst*100 > len(first) {
		t.Errorf("more than one in a hundred failed at first:\n%s", tell(first))
	}
	if afterwards > 0 {
		t.Errorf("%d requests failed later than %v after the fault:\n%s", afterwards, settled.Sub(began), tell(rest))
	}
}
