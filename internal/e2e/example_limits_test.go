package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
	"sluice/internal/pipeline"
)

func exampleLimits(t *testing.T, gw *exampleGateway) {
	t.Helper()
	finish := make(chan struct{})
	t.Setenv("REPORTS_URL", gatewaytest.NewHTTP(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/long") {
			<-finish
		}
	})))
	gw.start(t, "API_URL")
	user := func(name string) map[string]string { return map[string]string{"X-User-Id": name} }
	gold := func(name string) map[string]string { return map[string]string{"X-User-Id": name, "X-Plan": "gold"} }

	begun := time.Now()
	passed, r := gw.passes(t, "/api/x", user("ann"))
	if most := 20 + int(time.Since(begun).Seconds()) + 1; passed < 20 || passed > most {
		t.Errorf("%d requests of a user passed, want 20 and one for each second, at most %d", passed, most)
	}
	if r.word() != "rate_limited" || r.Header.Get("RateLimit-Policy") != `"per-user";q=20;w=20` || r.Header.Get("Retry-After") != "1" {
		t.Errorf("past it they are told %s, %v", r.body, r.Header)
	}
	if r := gw.ask(t, ask{target: "/api/x", header: user("bob")}); r.StatusCode != 200 || r.Header.Get("X-RateLimit-Remaining") != "19" {
		t.Errorf("another user gets %d, %s left", r.StatusCode, r.Header.Get("X-RateLimit-Remaining"))
	}
	for range 30 {
		if r := gw.ask(t, ask{target: "/api/x", header: gold("ann")}); r.StatusCode != 200 {
			t.Fatalf("a user of the better plan gets %d: %s", r.StatusCode, r.body)
		}
	}
	if n := gw.Metric("gateway_rate_limit_decisions_total", "limit", "next-month", "decision", "shadow_deny"); n == 0 {
		t.Error("the limit on trial has counted nothing")
	}
	// However many users there are, the service gets no more.
	for i := 0; ; i++ {
		r = gw.ask(t, ask{target: "/api/x", header: gold(fmt.Sprint("user-", i%20))})
		if r.StatusCode != 200 {
			break
		}
		if i == 1000 {
			t.Fatal("1,000 requests have passed")
		}
	}
	if r.StatusCode != 429 || r.Header.Get("RateLimit-Policy") != `"upstream api";q=100;w=20` {
		t.Errorf("past the limit of the upstream they are told %d, %v", r.StatusCode, r.Header)
	}
	if passed, r := gw.passes(t, "/reports/x", user("ann")); passed != 6 || r.Header.Get("RateLimit-Policy") != `"reports";q=6;w=60` {
		t.Errorf("%d reports passed, then %v", passed, r.Header)
	}
	gw.reportsAtOnce(t, finish)
	if out := runSluice(t, 0, nil, "status", "--admin", "http://"+gw.AdminAddr().String()); !strings.Contains(out, "per-user ") || !strings.Contains(out, " 2 at once ") {
		t.Errorf("status says %s", out)
	}
	storeOfLimits(t, gw.file)
}

// passes asks again and again, until a request does not pass, and returns how many
// have.
func (g *exampleGateway) passes(t *testing.T, target string, header map[string]string) (passed int, last reply) {
	t.Helper()
	for passed < 1000 {
		if last = g.ask(t, ask{target: target, header: header}); last.StatusCode != 200 {
			break
		}
		passed++
	}
	return passed, last
}

// reportsAtOnce has four of five reports run or wait, until finish is closed.
func (g *exampleGateway) reportsAtOnce(t *testing.T, finish chan struct{}) {
	t.Helper()
	long := func(name string) ask {
		return ask{target: "/reports/long", header: map[string]string{"X-User-Id": name}}
	}
	statuses := make(chan int, 4)
	for i := range cap(statuses) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.URL("web")+long("").target, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-User-Id", fmt.Sprint("long-", i))
		go func() {
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				statuses <- 0
				return
			}
			response.Body.Close()
			statuses <- response.StatusCode
		}()
	}
	gatewaytest.WaitFor(t, "two run and two wait", func() bool {
		var limits []pipeline.LimitStatus
		g.Admin("/_gateway/limits", &limits)
		for _, l := range limits {
			if l.Running == 2 && l.Waiting == 2 {
				return true
			}
		}
		return false
	})
	if r := g.ask(t, long("late")); r.StatusCode != 503 || r.word() != "overloaded" || r.Header.Get("Retry-After") == "" {
		t.Errorf("the fifth is told %d %s, %v", r.StatusCode, r.body, r.Header)
	}
	close(finish)
	for range cap(statuses) {
		if status := <-statuses; status != 200 {
			t.Errorf("one of the four got %d", status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// storeOfLimits validates the example with the part that is commented out.
func storeOfLimits(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"stores:", "  main: {redis:", "store: main", "on_store_failure: local"} {
		before := string(text)
		if text = []byte(strings.Replace(before, "# "+line, line, 1)); string(text) == before {
			t.Errorf("the example has no comment %q", line)
		}
	}
	file = filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	runSluice(t, 0, nil, "validate", "-c", file)
}
