package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
	"sluice/internal/upstream"
)

// fickle is an endpoint that is as a test says.
type fickle struct {
	name, url string
	fails     atomic.Bool // it answers requests with 503
	sick      atomic.Bool // it answers health checks so
}

func newFickle(t *testing.T, name string) *fickle {
	t.Helper()
	f := &fickle{name: name}
	f.url = gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Endpoint", name)
		if checked := r.URL.Path == "/health"; checked && f.sick.Load() || !checked && f.fails.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	return f
}

// stateConfig has an upstream with endpoints of which one is unhealthy and one is
// to be ejected, one with an open circuit breaker, and one with a half-open one.
// The rest is what changes: a field of the route, the first endpoint's weight, and
// endpoints.
func stateConfig(urls [4]string, field string, weight int, more ...string) string {
	var added strings.Builder
	for _, url := range more {
		fmt.Fprintf(&added, ", %q", url)
	}
	return fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
upstreams:
  up:
    endpoints: [{url: %[1]q, weight: %[6]d}, %[2]q, %[3]q, %[4]q%[7]s]
    health_check: {interval: 500ms}
    outlier_detection: {base_ejection: 1h}
  open: {endpoints: [%[4]q], circuit_breaker: {open_for: 1h}}
  half: {endpoints: [%[4]q], circuit_breaker: {open_for: 1ms}}
routes:
  - {id: up, match: {path_prefix: /up}, upstream: up, middleware: [{headers: {response: {set: {X-Field: %[5]q}}}}]}
  - {id: open, match: {path_prefix: /open}, upstream: open}
  - {id: half, match: {path_prefix: /half}, upstream: half}
`, urls[0], urls[1], urls[2], urls[3], field, weight, added.String())
}

// known is what of a gateway must outlive a reload, as text.
func known(t *testing.T, gw *gatewaytest.Gateway, urls ...string) (list []string) {
	t.Helper()
	for _, url := range urls {
		e := endpointOf(t, gw, "up", url)
		list = append(list, fmt.Sprintf("%s: %s, ejected until %v for the %d. time", e.URL, e.Health, e.Ejected, e.Ejections))
	}
	for _, name := range []string{"open", "half"} {
		for _, b := range breakersOf(t, gw, name) {
			list = append(list, fmt.Sprintf("%s: %s since %v (%s), %d in a row, %d successes", b.Upstream, b.State, b.Since, b.Reason, b.Consecutive, b.Successes))
		}
	}
	return list
}

// TestStateOutlivesChanges changes a route, adds an endpoint and changes a weight,
// each under load: what is known of all that stayed is as before, and no request
// fails.
func TestStateOutlivesChanges(t *testing.T) {
	good, other, sick, failing, added := newFickle(t, "good"), newFickle(t, "other"), newFickle(t, "sick"), newFickle(t, "failing"), newFickle(t, "added")
	urls := [4]string{good.url, other.url, sick.url, failing.url}
	sick.sick.Store(true)
	failing.fails.Store(true)
	gw := gatewaytest.Start(t, stateConfig(urls, "one", 1))
	conn := gw.Dial("web")
	asks := func(path string, status int) {
		t.Helper()
		if r := (ask{target: path}).on(t, conn); r.StatusCode != status {
			t.Fatalf("%s: status %d, not %d", path, r.StatusCode, status)
		}
	}
	for range 5 {
		asks("/open", 503)
		asks("/half", 503)
	}
	gatewaytest.WaitFor(t, "an endpoint is ejected", func() bool {
		_ = (ask{target: "/up"}).on(t, conn)
		return endpointOf(t, gw, "up", failing.url).Ejected != nil
	})
	failing.fails.Store(false) // so that a request there succeeds, if one comes
	gatewaytest.WaitFor(t, "a probe succeeds", func() bool { return (ask{target: "/half"}).on(t, conn).StatusCode == 200 })
	gatewaytest.WaitFor(t, "the health of all is known", func() bool {
		return endpointOf(t, gw, "up", sick.url).Health == "unhealthy" && endpointOf(t, gw, "up", good.url).Health == "healthy" &&
			endpointOf(t, gw, "up", other.url).Health == "healthy" && endpointOf(t, gw, "up", failing.url).Health == "healthy"
	})
	before := known(t, gw, urls[:]...)
	attempts := func(url string) int64 { return endpointOf(t, gw, "up", url).Requests }
	kept := [2]int64{attempts(sick.url), attempts(failing.url)}

	load := startLoad(t, 100, gets(t, gw.URL("web")+"/up"))
	for _, change := range []struct{ name, config string }{
		{"a route", stateConfig(urls, "two", 1)},
		{"an endpoint more", stateConfig(urls, "two", 1, added.url)},
		{"a weight", stateConfig(urls, "two", 3, added.url)},
		{"an endpoint less", stateConfig(urls, "two", 3)},
	} {
		_ = load.after(time.Now(), 30)
		gw.Load(change.config)
		if now := known(t, gw, urls[:]...); !sameList(now, before...) {
			t.Errorf("after a change of %s:\n%s\nbefore:\n%s", change.name, strings.Join(now, "\n"), strings.Join(before, "\n"))
		}
		asks("/open", 503)
		by := shares(load.after(time.Now(), 60))
		want := []string{"good", "other"}
		if strings.Contains(change.config, added.url) {
			gatewaytest.WaitFor(t, "the new endpoint is healthy", func() bool { return endpointOf(t, gw, "up", added.url).Health == "healthy" })
			by = shares(load.after(time.Now(), 60))
			want = append(want, "added")
		}
		for _, name := range want {
			if by[name] == 0 {
				t.Errorf("after a change of %s endpoint %s gets nothing: %v", change.name, name, by)
			}
		}
		if heavy := by["good"] >= 2*by["other"]; heavy != strings.Contains(change.config, "weight: 3") {
			t.Errorf("after a change of %s the shares are %v", change.name, by)
		}
		if len(by) != len(want) {
			t.Errorf("after a change of %s %v are asked, not %v", change.name, by, want)
		}
	}
	if now := [2]int64{attempts(sick.url), attempts(failing.url)}; now != kept {
		t.Errorf("what was left alone got attempts: %v, then %v", kept, now)
	}
	load.none()
}

// drainBy asks the admin API for an endpoint to be drained, or undrained.
func drainBy(t *testing.T, gw *gatewaytest.Gateway, word, url string) (status upstream.EndpointStatus) {
	t.Helper()
	r := fetch(t, ownClient(t), http.MethodPost, gw.AdminURL()+"/_gateway/upstreams/up/endpoints/"+word, -1, strings.NewReader(fmt.Sprintf(`{"url": %q}`, url)))
	if r.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d %s", word, r.StatusCode, r.body)
	}
	return endpointOf(t, gw, "up", url)
}

// TestDrain drains an endpoint under load: what it was asked before is answered,
// nothing new goes there, over reloads as well, and when it is undrained it gets
// its share again.
func TestDrain(t *testing.T) {
	release := make(chan struct{})
	serve := func(name string) string {
		return gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Endpoint", name)
			if r.URL.Path == "/held" {
				w.WriteHeader(http.StatusOK)
				_ = http.NewResponseController(w).Flush() // a client that has left is told below
				select {
				case <-release:
				case <-r.Context().Done():
				}
				_, _ = io.WriteString(w, "all of it")
			}
		}))
	}
	config := fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
upstreams: {up: {endpoints: [%q, %q]}}
routes:
  - {id: up, match: {path_prefix: /}, upstream: up}
`, serve("a"), serve("b"))
	gw := gatewaytest.Start(t, config)
	load := startLoad(t, 100, gets(t, gw.URL("web")+"/x"))
	request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, gw.URL("web")+"/held", nil)
	if err != nil {
		t.Fatal(err)
	}
	held, err := ownClient(t).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Body.Close()
	drained := held.Header.Get("X-Endpoint")
	at := 0
	if drained == "b" {
		at = 1
	}
	url := statusOfUpstream(t, gw, "up").Endpoints[at].URL
	if s := drainBy(t, gw, "drain", url); !s.Drained || s.Available {
		t.Errorf("a drained endpoint is %+v", s)
	}
	_ = load.after(time.Now(), 20) // whatever had begun is there
	began, before := time.Now(), endpointOf(t, gw, "up", url)
	if before.Active != 1 {
		t.Errorf("the drained endpoint has %d attempts under way, not the one that is held", before.Active)
	}
	_ = load.after(began, 50)
	gw.Load(config + "  - {id: more, match: {path: /more}, respond: {status: 204}}\n")
	by := shares(load.after(time.Now(), 50))
	if now := endpointOf(t, gw, "up", url); !now.Drained || now.Requests != before.Requests || by[drained] > 0 {
		t.Errorf("after a reload the drained endpoint is %+v, and before %+v; answers came from %v", now, before, by)
	}
	close(release)
	if body, err := io.ReadAll(held.Body); err != nil || string(body) != "all of it" {
		t.Errorf("what was under way ended with %q, %v", body, err)
	}
	if s := drainBy(t, gw, "undrain", url); s.Drained || !s.Available {
		t.Errorf("an undrained endpoint is %+v", s)
	}
	by = shares(load.after(time.Now(), 60))
	if by["a"] < 20 || by["b"] < 20 {
		t.Errorf("when none is drained answers come from %v", by)
	}
	load.none()
}
