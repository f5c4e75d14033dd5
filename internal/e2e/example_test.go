package e2e

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

// TestExamples runs every example with its own variables, and holds it to what
// its page claims.
func TestExamples(t *testing.T) {
	tests := map[string]func(t *testing.T, gw *exampleGateway){
		"static":           exampleStatic,
		"virtual-hosts":    exampleVirtualHosts,
		"rewrite-redirect": exampleRewriteRedirect,
		"hardened":         exampleHardened,
		"split-files":      exampleSplitFiles,
		"grpc":             exampleGRPC,
		"resilience":       exampleResilience,
		"canary":           exampleCanary,
		"limits":           exampleLimits,
		"auth":             exampleAuth,
		"tls":              exampleTLS,
	}
	folders, err := os.ReadDir("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		test := tests[folder.Name()]
		if test == nil {
			t.Errorf("no test exercises the example %s", folder.Name())
			continue
		}
		t.Run(folder.Name(), func(t *testing.T) {
			t.Setenv("WEB_ADDRESS", "127.0.0.1:0")
			t.Setenv("ADMIN_ADDRESS", "127.0.0.1:0")
			test(t, &exampleGateway{file: filepath.Join("..", "..", "examples", folder.Name(), "sluice.yaml")})
		})
		delete(tests, folder.Name())
	}
	for name := range tests {
		t.Errorf("the example %s is gone", name)
	}
}

type exampleGateway struct {
	*gatewaytest.Gateway
	file string
}

// start runs the example with an echo endpoint for each of these variables;
// what follows "=" is a base path.
func (g *exampleGateway) start(t *testing.T, variables ...string) {
	t.Helper()
	for _, variable := range variables {
		name, base, _ := strings.Cut(variable, "=")
		t.Setenv(name, gatewaytest.NewEcho(t, name)+base)
	}
	g.Gateway = gatewaytest.StartFile(t, g.file)
}

func (g *exampleGateway) ask(t *testing.T, a ask) reply {
	t.Helper()
	return a.on(t, g.Dial("web"))
}

// went checks which endpoint a request reached, and as what.
func (g *exampleGateway) went(t *testing.T, a ask, endpoint, target string) gatewaytest.Echo {
	t.Helper()
	e := g.ask(t, a).echo(t)
	if e.Endpoint != endpoint || e.Target != target {
		t.Errorf("%s%s reached %s as %s, want %s as %s", a.host, a.target, e.Endpoint, e.Target, endpoint, target)
	}
	return e
}

func (g *exampleGateway) refuses(t *testing.T, a ask, status int, word string) reply {
	t.Helper()
	r := g.ask(t, a)
	if r.StatusCode != status || r.word() != word {
		t.Errorf("%s %s is %d %q, want %d %q", a.method, a.target, r.StatusCode, r.word(), status, word)
	}
	return r
}

func exampleStatic(t *testing.T, gw *exampleGateway) {
	t.Helper()
	gw.start(t, "USERS_URL")
	gw.went(t, ask{target: "/users/"}, "USERS_URL", "/")
	gw.went(t, ask{target: "/users"}, "USERS_URL", "/")
	gw.went(t, ask{target: "/users/42?a=1"}, "USERS_URL", "/42?a=1")
	gw.refuses(t, ask{target: "/elsewhere"}, 404, "no_route")
	gw.refuses(t, ask{target: "/usersx"}, 404, "no_route")
}

func exampleVirtualHosts(t *testing.T, gw *exampleGateway) {
	t.Helper()
	gw.start(t, "SHOP_URL", "SHOP_NEXT_URL", "TENANTS_URL", "TENANTS_SPARE_URL", "SITE_URL")
	const shop = "shop.example.com"
	about := ask{target: "/.well-known/about", host: shop}
	if r := gw.ask(t, about); r.StatusCode != 200 || r.body != "served by shop.example.com\n" {
		t.Errorf("about is %d %q", r.StatusCode, r.body)
	}
	gw.went(t, ask{target: "/", host: shop}, "SHOP_URL", "/")
	gw.went(t, ask{target: "/", host: shop, header: map[string]string{"X-Gray": "true"}}, "SHOP_NEXT_URL", "/")
	gw.went(t, ask{target: "/", host: shop, header: map[string]string{"X-Gray": "false"}}, "SHOP_URL", "/")
	gw.went(t, ask{target: "/?preview=1", host: shop}, "SHOP_NEXT_URL", "/?preview=1")
	gw.went(t, ask{target: "/", host: shop, header: map[string]string{"Cookie": "a=b; beta=on"}}, "SHOP_NEXT_URL", "/")
	gw.went(t, ask{target: "/", host: shop, header: map[string]string{"Cookie": "beta=off"}}, "SHOP_URL", "/")
	gw.went(t, ask{target: "/", host: "other.test"}, "SITE_URL", "/")
	turns := map[string]int{}
	for range 9 {
		turns[gw.ask(t, ask{target: "/", host: "a.b.example.com"}).echo(t).Endpoint]++
	}
	if turns["TENANTS_URL"] != 6 || turns["TENANTS_SPARE_URL"] != 3 {
		t.Errorf("nine requests went to %v, want 6 and 3", turns)
	}
	// What the page says of `sluice explain`.
	out := runSluice(t, 0, nil, "explain", "-c", gw.file, "GET", "http://shop.example.com/cart", "-H", "X-Gray: true", "-o", "json")
	var told struct{ Route string }
	if err := json.Unmarshal([]byte(out), &told); err != nil || told.Route != "shop-gray" {
		t.Errorf("explain tells route %q, %v: %s", told.Route, err, out)
	}
}

func exampleRewriteRedirect(t *testing.T, gw *exampleGateway) {
	t.Helper()
	gw.start(t, "ACCOUNTS_URL=/api", "ARCHIVE_URL")
	ping := gw.ask(t, ask{target: "/ping"})
	if ping.body != "pong" || ping.Header.Get("Content-Type") != "text/plain" || ping.Header.Get("X-Served-By") != "sluice" {
		t.Errorf("ping is %q with %v", ping.body, ping.Header)
	}
	who := gw.ask(t, ask{target: "/whoami"})
	if want := `{"client_ip":"127.0.0.1","request_id":"` + who.Header.Get("X-Request-ID") + `"}`; who.body != want || who.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("whoami is %s, want %s", who.body, want)
	}
	for _, test := range []struct {
		ask    ask
		status int
		to     string
	}{
		{ask{target: "/old?a=1"}, 308, "/new?a=1"},
		{ask{target: "/docs/start"}, 301, "https://docs.example.com/start.html"},
		{ask{target: "/x?y", host: "www.example.com"}, 308, "https://example.com/x?y"},
	} {
		if r := gw.ask(t, test.ask); r.StatusCode != test.status || r.Header.Get("Location") != test.to {
			t.Errorf("%s is %d to %s, want %d to %s", test.ask.target, r.StatusCode, r.Header.Get("Location"), test.status, test.to)
		}
	}
	users := gw.went(t, ask{target: "/users/42?full=1", header: map[string]string{"X-Debug": "1"}}, "ACCOUNTS_URL", "/api/v2/accounts/42?full=1")
	endpoint := strings.TrimSuffix(strings.TrimPrefix(os.Getenv("ACCOUNTS_URL"), "http://"), "/api")
	if users.Host != endpoint || users.Header.Get("X-Route") != "users" || users.Header.Get("X-Client") != "127.0.0.1" || users.Header.Values("X-Debug") != nil {
		t.Errorf("the service saw %s with %v", users.Host, users.Header)
	}
	gw.went(t, ask{target: "/files/2024/a.txt"}, "ARCHIVE_URL", "/archive/2024/a.txt")
}

func exampleHardened(t *testing.T, gw *exampleGateway) {
	t.Helper()
	// Without the token it is refused.
	if out := runSluice(t, 1, []string{"SLUICE_ADMIN_TOKEN"}, "validate", "-c", gw.file); !strings.Contains(out, "SLUICE_ADMIN_TOKEN") {
		t.Errorf("validate without a token says %q", out)
	}
	t.Setenv("SLUICE_ADMIN_TOKEN", "open-sesame")
	t.Setenv("LOAD_BALANCERS", "127.0.0.0/8")
	gw.start(t, "API_URL")
	if r := gw.ask(t, ask{target: "/healthz"}); r.StatusCode != 204 {
		t.Errorf("healthz is %d", r.StatusCode)
	}
	gw.refuses(t, ask{target: "/api/a%2Fb"}, 400, "bad_path")
	if r := gw.refuses(t, ask{method: "PATCH", target: "/api/x"}, 405, "method_not_allowed"); !strings.Contains(r.Header.Get("Allow"), "DELETE") {
		t.Errorf("Allow is %q", r.Header.Get("Allow"))
	}
	gw.refuses(t, ask{method: "POST", target: "/api/x", body: strings.Repeat("\x00", 100_000)}, 413, "body_too_large")
	e := gw.went(t, ask{method: "POST", target: "/api/x", body: "hello", header: map[string]string{"X-Debug": "1"}}, "API_URL", "/api/x")
	if e.Body != "hello" || e.Header.Values("X-Debug") != nil {
		t.Errorf("the service saw %q with %v", e.Body, e.Header)
	}
	// A load balancer speaks for others, as the page says.
	from := func(address string) map[string]string { return map[string]string{"X-Forwarded-For": address} }
	gw.refuses(t, ask{target: "/api/x", header: from("192.0.2.7")}, 403, "forbidden")
	if r := gw.ask(t, ask{target: "/healthz", header: from("192.0.2.7")}); r.StatusCode != 204 {
		t.Errorf("healthz of a blocked client is %d", r.StatusCode)
	}
	gw.went(t, ask{target: "/office"}, "API_URL", "/office")
	gw.refuses(t, ask{target: "/office", header: from("198.51.100.1")}, 403, "forbidden")

	for token, status := range map[string]int{"": 401, "Bearer wrong": 401, "Bearer open-sesame": 200} {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+gw.AdminAddr().String()+"/_gateway/routes", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", token)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != status {
			t.Errorf("the admin API with %q answers %d, want %d", token, response.StatusCode, status)
		}
	}
	if out := runSluice(t, 0, nil, "status", "--admin", "http://"+gw.AdminAddr().String()); !strings.Contains(out, "api") {
		t.Errorf("status says %q", out)
	}
	var logged []string
	gatewaytest.WaitFor(t, "the exchanges are logged", func() bool {
		logged = nil
		for _, line := range gw.LogLines() {
			path, _ := line["path"].(string)
			logged = append(logged, path)
			if _, there := line["user_agent"]; there {
				t.Errorf("a field that was not asked for: %v", line)
			}
		}
		return slices.Contains(logged, "/office")
	})
	if slices.Contains(logged, "/healthz") {
		t.Errorf("/healthz is logged: %v", logged)
	}
}

func exampleSplitFiles(t *testing.T, gw *exampleGateway) {
	t.Helper()
	t.Setenv("ORDERS_TIMEOUT", "5s")
	gw.start(t, "USERS_URL", "ORDERS_URL")
	if e := gw.went(t, ask{target: "/users/1"}, "USERS_URL", "/users/1"); e.Header.Get("Authorization") != "Bearer example-only" {
		t.Errorf("the service saw Authorization %q", e.Header.Get("Authorization"))
	}
	if e := gw.went(t, ask{target: "/orders/1"}, "ORDERS_URL", "/orders/1"); e.Header.Values("Authorization") != nil {
		t.Errorf("the other service saw Authorization %q", e.Header.Get("Authorization"))
	}
	runSluice(t, 0, nil, "validate", "-c", gw.file)
}

// runSluice runs a command of the binary, without some variables, and returns
// what it printed.
func runSluice(t *testing.T, status int, without []string, arguments ...string) string {
	t.Helper()
	command := exec.Command(built(t, sluiceBinary), arguments...)
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); !slices.Contains(without, name) {
			command.Env = append(command.Env, variable)
		}
	}
	out, _ := command.CombinedOutput() // the status tells
	if got := command.ProcessState.ExitCode(); got != status {
		t.Errorf("sluice %v ends with %d, want %d: %s", arguments, got, status, out)
	}
	return string(out)
}
