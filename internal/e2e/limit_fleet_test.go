package e2e

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
	"sluice/internal/redistest"
)

// fleet is several gateways, each a process, that share a Redis and an endpoint which
// counts.
type fleet struct {
	t        *testing.T
	redis    *redistest.Server
	gateways []*gatewaytest.Process
	urls     []string
	served   atomic.Int64 // by the endpoint
}

// newFleet runs so many gateways with these routes, to the upstream up.
func newFleet(t *testing.T, n int, routes string) *fleet {
	t.Helper()
	if gatewaytest.Engine() == gatewaytest.Standard {
		t.Skip("no gateway in a process of its own runs on net/http's HTTP/1.1")
	}
	f := &fleet{t: t, redis: redistest.StartTCP(t)}
	endpoint := gatewaytest.NewHTTP(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { f.served.Add(1) }))
	config := fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
access_log: {output: none}
stores: {main: {redis: {address: %q}}}
upstreams: {up: {endpoints: [%q]}}
routes:
%s`, f.redis.Address, endpoint, strings.TrimLeft(routes, "\n"))
	for range n {
		gw := gatewaytest.StartProcess(t, built(t, sluiceBinary), config)
		f.gateways, f.urls = append(f.gateways, gw), append(f.urls, "http://"+gw.Addr("web"))
	}
	f.until("all instances are known to all", func(_ *gatewaytest.Process, s limitStore) bool { return s.Answers && s.Instances == n })
	return f
}

// limitStore is what the admin API tells of the store of a limit.
type limitStore struct {
	Answers   bool
	Instances int
}

// until waits until a condition holds on each gateway, for each of its limits.
func (f *fleet) until(what string, condition func(gw *gatewaytest.Process, s limitStore) bool) {
	f.t.Helper()
	for _, gw := range f.gateways {
		gatewaytest.WaitFor(f.t, what, func() bool {
			var limits []struct{ Store *limitStore }
			gw.Admin("/_gateway/limits", &limits)
			for _, l := range limits {
				if l.Store == nil || !condition(gw, *l.Store) {
					return false
				}
			}
			return len(limits) > 0
		})
	}
}

// storeErrors are how many decisions the store did not make, on all gateways.
func (f *fleet) storeErrors() (n float64) {
	for _, gw := range f.gateways {
		n += gw.Metric("gateway_rate_limit_decisions_total", "decision", "store_error")
	}
	return n
}

// to is a request to a gateway.
func (f *fleet) to(gateway int, path, user string) *http.Request {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, f.urls[gateway]+path, nil)
	if err != nil {
		panic(err)
	}
	r.Header.Set("X-User", user)
	return r
}

// unevenly is the gateway of the nth request: of three the last gets three of six.
func (f *fleet) unevenly(n int) int {
	k := len(f.gateways)
	for at, gateway := n%(k*(k+1)/2), 0; ; gateway++ {
		if at <= gateway {
			return gateway
		}
		at -= gateway + 1
	}
}

// fleetLimit is a limit that several instances enforce together.
type fleetLimit struct {
	algorithm string
	sync      string
	instances int
}

const (
	fleetRate, fleetBurst = 100, 20
	fleetLoad             = 200 // requests a second, of all gateways together
)

// fleetLength is how long it is counted.
func fleetLength() time.Duration {
	if *long {
		return 20 * time.Second
	}
	return 2 * time.Second
}

// TestLimitFleet counts what one, two, four and eight gateways with uneven load let
// through together: what one would, and with leases more only by what may be in hand.
func TestLimitFleet(t *testing.T) {
	once(t)
	for _, c := range []fleetLimit{
		{"token_bucket", "exact", 1},
		{"token_bucket", "exact", 2},
		{"token_bucket", "exact", 4},
		{"token_bucket", "exact", 8},
		{"sliding_window", "exact", 4},
		{"token_bucket", "lease", 1},
		{"token_bucket", "lease", 2},
		{"token_bucket", "lease", 4},
		{"token_bucket", "lease", 8},
		{"sliding_window", "lease", 4},
	} {
		t.Run(fmt.Sprint(c.algorithm, " ", c.sync, " ", c.instances), func(t *testing.T) { runFleet(t, c) })
	}
}

func runFleet(t *testing.T, c fleetLimit) {
	t.Helper()
	burst := ""
	if c.algorithm == "token_bucket" {
		burst = fmt.Sprintf(", burst: %d", fleetBurst)
	}
	f := newFleet(t, c.instances, fmt.Sprintf(
		`  - {match: {path: /x}, upstream: up, middleware: [{rate_limit: {name: shared, algorithm: %s, rate: %d/s%s, key: "header:X-User", store: main, sync: %s}}]}
`, c.algorithm, fleetRate, burst, c.sync))
	// A machine that is busy with much else stands still for 50 ms now and then, and each
	// gateway goes on by itself then, as it should: what these decisions may change is known,
	// but a run without them says more.
	const most = 5
	for try := 1; ; try++ {
		visits, alone := f.measure(fmt.Sprint("user ", try))
		if n, _ := passed(visits); n != int(f.served.Load()) {
			t.Errorf("clients count %d that passed, the endpoint %d", n, f.served.Load())
		}
		switch {
		case c.sync == "lease":
			wantLeased(t, visits, c, alone)
		case c.algorithm == "sliding_window":
			wantWindow(t, visits, fleetRate, time.Second, alone)
		default:
			wantTokens(t, visits, fleetRate, fleetBurst, alone)
			wantExactly(t, visits, alone)
		}
		if alone == 0 || t.Failed() {
			return
		}
		t.Logf("without the store were made %d decisions of %d", alone, len(visits))
		if try == most {
			if alone > len(visits)/2 {
				t.Errorf("the store made %d decisions of %d alone", len(visits)-alone, len(visits))
			}
			return
		}
	}
}

// wantExactly holds what passed to the limit, where it is counted for long enough: within 1%,
// and what alone decisions may have changed that the store did not make.
func wantExactly(t *testing.T, visits []visit, alone int) {
	t.Helper()
	if !*long {
		return
	}
	n, within := passed(visits)
	want := fleetBurst + fleetRate*within.Seconds()
	if off := float64(n) - want; max(off, -off) > want/100+float64(alone) {
		t.Errorf("%d passed in %v, want %.0f within 1%%, and %d", n, within, want, alone)
	}
}

// measure has a user ask for more than there is, as long as it is counted. alone is how
// many decisions were not the store's.
func (f *fleet) measure(user string) (visits []visit, alone int) {
	f.t.Helper()
	before := f.storeErrors()
	f.served.Store(0)
	load := startLoad(f.t, fleetLoad, func(n int) *http.Request { return f.to(f.unevenly(n), "/x", user) })
	load.after(time.Now(), int(fleetLength().Seconds()*fleetLoad))
	load.stop()
	for _, s := range load.between(time.Time{}, later()) {
		v := visit{user: user, before: s.sent, end: s.sent.Add(s.took)}
		switch {
		case s.fault == "":
			v.after = v.end
		case !strings.Contains(s.fault, "status 429 rate_limited"):
			f.t.Errorf("a request failed: %s", s.fault)
		}
		visits = append(visits, v)
	}
	slices.SortFunc(visits, func(a, b visit) int { return cmp.Compare(a.before.UnixNano(), b.before.UnixNano()) })
	return visits, int(f.storeErrors() - before)
}
