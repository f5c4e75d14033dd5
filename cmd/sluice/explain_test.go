package main

import (
	"encoding/json"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const explained = `listeners:
  web: {address: "127.0.0.1:0"}
  inner: {address: "127.0.0.1:0"}
admin: {address: "127.0.0.1:0", token: "${file:token}"}
middleware: {tag: {headers: {response: {set: {X-A: "1"}}}}}
global: [tag]
upstreams:
  users: {endpoints: [{url: "http://127.0.0.1:1", weight: 3}, "http://127.0.0.1:2/base"]}
routes:
  - {id: user, match: {path: "/users/{id}", methods: [GET]}, upstream: users, middleware: [{body_limit: {max: 1KiB}}]}
  - {id: gray, priority: 10, listeners: [web], match: {path_prefix: /users, headers: {X-Gray: "true"}}, upstream: users, skip: [tag]}
  - {id: near, priority: 20, match: {path_prefix: /near, client_ip: [10.0.0.0/8]}, respond: {status: 204}}
  - {id: shop, match: {hosts: [shop.example.com], path_prefix: /, query: {debug: "1"}}, redirect: {to: /new, status: 308}}
`

// explanation is SPEC 2's JSON.
type explanation struct {
	Route       string              `json:"route"`
	Candidates  []map[string]string `json:"candidates"`
	Middleware  []map[string]string `json:"middleware"`
	Skipped     []map[string]string `json:"skipped"`
	Destination map[string]string   `json:"destination"`
	Refused     string              `json:"refused"`
	Path        string              `json:"path"`
	Upstreams   []any               `json:"upstreams"` // of a running gateway
}

func TestExplain(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "token", "s3cret")
	write(t, dir, "it.yaml", explained)
	gateway := start(t, dir, "run", "-c", "it.yaml")
	admin := gateway.addresses()["admin"]
	both := func(t *testing.T, args ...string) []outcome {
		t.Helper()
		return []outcome{
			sluice(t, dir, append([]string{"explain", "-c", "it.yaml"}, args...)...),
			command{dir: dir, environment: []string{"SLUICE_ADMIN=http://" + admin, "SLUICE_ADMIN_TOKEN=s3cret"}}.run(t, append([]string{"explain"}, args...)...),
		}
	}
	for _, test := range []struct {
		name  string
		args  []string
		route string
		text  string // contained in the JSON
	}{
		{"a path", []string{"GET", "/users/1"}, "user", `"failed": "header X-Gray is not \"true\""`},
		{"a method in lower case", []string{"get", "/users/1"}, "user", ""},
		{"a header", []string{"GET", "/users/1", "-H", "X-Gray: true"}, "gray", `"skipped": [`},
		{"a header in another spelling", []string{"GET", "/users/1", "-H", "x-gray:true"}, "gray", ""},
		{"another listener", []string{"GET", "/users/1", "-H", "X-Gray: true", "--listener", "inner"}, "user", ""},
		{"a host and a query in the URL", []string{"GET", "http://SHOP.example.com:80/x?debug=1"}, "shop", `"kind": "redirect"`},
		{"a host as a header", []string{"GET", "/x?debug=1", "-H", "Host: shop.example.com"}, "shop", ""},
		{"a query without a path", []string{"GET", "http://shop.example.com?debug=1"}, "shop", ""},
		{"an address", []string{"GET", "/near", "--ip", "10.1.2.3"}, "near", `"kind": "respond"`},
		{"an IPv4-mapped address", []string{"GET", "/near", "--ip", "::ffff:10.1.2.3"}, "near", ""},
		{"another address", []string{"GET", "/near", "--ip", "192.0.2.1"}, "", `"refused": "404 no_route:`},
		{"another method", []string{"POST", "/users/1"}, "", `"refused": "405 method_not_allowed: The path is known, but not with this method. Allowed: GET, HEAD."`},
		{"no route", []string{"GET", "/nowhere"}, "", `"refused": "404 no_route: No route matches the request."`},
		{"a path that is refused", []string{"GET", "/a/..%2Fb"}, "", `"refused": "400 bad_path:`},
		{"a path that is not canonical", []string{"GET", "//users/./%31"}, "user", `"path": "/users/1"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			answers := both(t, append(test.args, "-o", "json")...)
			said := make([]explanation, 2)
			for i, got := range answers {
				var e explanation
				decoder := json.NewDecoder(strings.NewReader(got.stdout))
				decoder.DisallowUnknownFields()
				if err := decoder.Decode(&e); err != nil || got.code != 0 || got.stderr != "" {
					t.Fatalf("%v: %+v", err, got)
				}
				if e.Route != test.route || !strings.Contains(got.stdout, test.text) || e.Candidates == nil || e.Middleware == nil || (e.Destination == nil) != (test.route == "") {
					t.Errorf("got %s", got.stdout)
				}
				said[i] = e
			}
			if leads := said[1].Destination["upstream"] != ""; len(said[0].Upstreams) != 0 || (len(said[1].Upstreams) == 1) != leads {
				t.Errorf("the file tells %v of the upstreams, the gateway %v", said[0].Upstreams, said[1].Upstreams)
			}
			said[1].Upstreams = nil
			if diff := cmp.Diff(said[0], said[1]); diff != "" {
				t.Errorf("the file says\n%s\nand the gateway\n%s", answers[0].stdout, answers[1].stdout)
			}
		})
	}

	t.Run("text", func(t *testing.T) {
		want := `path         /users/1
candidates   1. gray  no: header X-Gray is not "true"
             2. near  no: path /users/1 is not under /near
             3. shop  no: host localhost is not shop.example.com
             4. user  matches
route        user
middleware   1. headers     from global tag
             2. body_limit  from route
destination  upstream users: http://127.0.0.1:1 (weight 3), http://127.0.0.1:2/base (weight 1)
because      the route's upstream; round_robin picks the endpoint
`
		now := "now          users http://127.0.0.1:1: available\n             users http://127.0.0.1:2/base: available\n"
		for i, got := range both(t, "GET", "/users/1") {
			if diff := cmp.Diff(want+[]string{"", now}[i], got.stdout); diff != "" || got.code != 0 {
				t.Errorf("status %d, %s\n%s", got.code, got.stderr, diff)
			}
		}
		for _, got := range both(t, "GET", "/users/1", "-H", "X-Gray: true") {
			if !strings.Contains(got.stdout, "\nmiddleware   none\n") {
				t.Errorf("a chain without steps: %s", got.stdout)
			}
		}
		for _, got := range both(t, "POST", "/users/1") {
			if !strings.Contains(got.stdout, "\nrefused     405 method_not_allowed:") {
				t.Errorf("a refusal: %s", got.stdout)
			}
		}
	})

	t.Run("wrong questions", func(t *testing.T) {
		for _, test := range []struct {
			args []string
			code int
			text string
		}{
			{[]string{"GET", "users"}, 2, `sluice: neither a URL, such as http://api.example.com/users, nor a path, such as /users: "users"`},
			{[]string{"GET", "http://"}, 2, "the URL has no valid host"},
			{[]string{"GET", "http://a:b@c/"}, 2, "the URL has no valid host"},
			{[]string{"GET", "ftp://x/"}, 2, "the URL is neither http nor https"},
			{[]string{"GET", "/a b"}, 2, "the URL has a space or a control character"},
			{[]string{"", "/"}, 2, "needs a METHOD and a URL"},
			{[]string{"G T", "/x"}, 2, `the method is none such as GET: "G T"`},
			{[]string{"GET", ""}, 2, "url is missing"},
			{[]string{"GET", "*"}, 2, "neither a URL"},
			{[]string{"GET", "/", "-H", "X-A"}, 2, `a header is not of the form Name: value: "X-A"`},
			{[]string{"GET", "/", "-H", "X A: b"}, 2, "a header is not of the form"},
			{[]string{"GET", "/", "-H", "X-A: b\r\nX-B: c"}, 2, "a header is not of the form"},
			{[]string{"GET", "/", "--ip", "localhost"}, 2, `ip is no address: "localhost"`},
			{[]string{"GET", "/", "--listener", "none"}, 2, `no listener is called "none"; there are web, inner`},
		} {
			for _, got := range both(t, test.args...) {
				if got.code != test.code || !strings.Contains(got.stderr, test.text) || got.stdout != "" {
					t.Errorf("%q: %+v, want %d %s", test.args, got, test.code, test.text)
				}
			}
		}
	})
}

func TestRoutesAndStatus(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "token", "s3cret")
	write(t, dir, "it.yaml", explained)
	gateway := start(t, dir, "run", "-c", "it.yaml")
	addresses := gateway.addresses()
	asked := command{dir: dir, environment: []string{"SLUICE_ADMIN_TOKEN=s3cret"}}

	table := `PRIORITY  ROUTE  LISTENERS  MATCH                              MIDDLEWARE            DESTINATION
10        gray   web        /users/… header X-Gray=true        none (skips headers)  upstream users
20        near   all        /near/… from 10.0.0.0/8            headers               respond status 204
100       shop   all        shop.example.com /… query debug=1  headers               redirect 308 /new
100       user   all        GET /users/{id}                    headers,body_limit    upstream users
`
	for _, got := range []outcome{sluice(t, dir, "routes", "-c", "it.yaml"), asked.run(t, "routes", "--admin", addresses["admin"])} {
		if diff := cmp.Diff(table, got.stdout); diff != "" || got.code != 0 || got.stderr != "" {
			t.Errorf("status %d, %s\n%s", got.code, got.stderr, diff)
		}
	}
	for _, got := range []outcome{sluice(t, dir, "routes", "-c", "it.yaml", "-o", "json"), asked.run(t, "routes", "-o", "json", "--admin", "http://"+addresses["admin"]+"/")} {
		var rows []map[string]any
		if err := json.Unmarshal([]byte(got.stdout), &rows); err != nil || got.code != 0 {
			t.Fatalf("%v: %+v", err, got)
		}
		want := map[string]any{
			"id": "gray", "priority": 10.0, "listeners": []any{"web"}, "middleware": []any{}, "skipped": []any{map[string]any{"kind": "headers", "from": "global tag"}}, "destination": "upstream users",
			"match": map[string]any{"path_prefix": "/users", "headers": map[string]any{"X-Gray": "true"}},
		}
		if diff := cmp.Diff(want, rows[0]); diff != "" || len(rows) != 4 {
			t.Errorf("%d rows\n%s", len(rows), diff)
		}
		if chain := rows[3]["middleware"]; !cmp.Equal(chain, []any{map[string]any{"kind": "headers", "from": "global tag"}, map[string]any{"kind": "body_limit", "from": "route"}}) {
			t.Errorf("the chain is %v", chain)
		}
	}

	got := asked.run(t, "status", "--admin", addresses["admin"])
	for _, text := range []string{
		"revision 1 from file, ", "\nLISTENER  ADDRESS", "web       " + addresses["web"], "inner     " + addresses["inner"],
		"\nUPSTREAM  ENDPOINT ", "users     http://127.0.0.1:2/base  1 ",
	} {
		if !strings.Contains(got.stdout, text) || got.code != 0 {
			t.Errorf("status without %q: %+v", text, got)
		}
	}
	got = asked.run(t, "status", "-o", "json", "--admin", addresses["admin"])
	var status map[string]any
	if err := json.Unmarshal([]byte(got.stdout), &status); err != nil || len(status) != 6 {
		t.Errorf("%v: %+v", err, got)
	}
	if listeners, ok := status["listeners"].([]any); !ok || len(listeners) != 2 {
		t.Errorf("the listeners are %v", status["listeners"])
	}
	drains(t, asked, addresses["admin"])
	// A refused reload shows.
	write(t, dir, "it.yaml", explained+"nonsense: 1\n")
	gateway.logged("configuration refused", 1)
	if got := asked.run(t, "status", "--admin", addresses["admin"]); !strings.Contains(got.stdout, "\nPROBLEMS\nit.yaml:14:1: unknown key") {
		t.Errorf("status does not show a problem: %s", got.stdout)
	}
}

// drains drains an endpoint and undrains it.
func drains(t *testing.T, asked command, admin string) {
	t.Helper()
	for _, test := range []struct{ word, url, state string }{
		{"drain", "http://127.0.0.1:2/base/", "drained"}, {"undrain", "http://127.0.0.1:2//base", "available"},
	} {
		if got := asked.run(t, test.word, "users", test.url, "--admin", admin); got.code != 0 || got.stdout != "users http://127.0.0.1:2/base: "+test.state+", 0 active\n" || got.stderr != "" {
			t.Errorf("%s: %+v", test.word, got)
		}
		if got := asked.run(t, "status", "--admin", admin); !strings.Contains(got.stdout, " "+test.state+" ") {
			t.Errorf("after %s the status is %s", test.word, got.stdout)
		}
	}
	if got := asked.run(t, "drain", "user/s", "http://x", "--admin", admin); got.code != 1 || !strings.Contains(got.stderr, `No upstream is called "user/s"; there `) {
		t.Errorf("an upstream that does not exist: %+v", got)
	}
}

func TestCommandsOnAGatewayThatDoesNotAnswer(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "token", "s3cret")
	write(t, dir, "it.yaml", explained)
	admin := start(t, dir, "run", "-c", "it.yaml").addresses()["admin"]
	refused := refusedAddress(t)
	web := "127.0.0.1:" + strings.TrimPrefix(admin, "127.0.0.1:")
	for _, test := range []struct {
		environment []string
		admin       string
		want        string
	}{
		{nil, refused, "sluice: no gateway answers at " + refused + ": connection refused (another one is named with --admin or SLUICE_ADMIN)\n"},
		{[]string{"SLUICE_ADMIN=http://" + refused}, "", "sluice: no gateway answers at http://" + refused + ": connection refused"},
		{nil, "unix:none.sock", "sluice: no gateway answers at unix:none.sock: no such file or directory"},
		{nil, web, "sluice: the gateway at " + web + " needs its token: set SLUICE_ADMIN_TOKEN\n"},
		{[]string{"SLUICE_ADMIN_TOKEN=wrong"}, web, "sluice: the gateway at " + web + " does not accept the token in SLUICE_ADMIN_TOKEN\n"},
		{[]string{"SLUICE_ADMIN_TOKEN=s3cret"}, "http://" + web + "/nested", "sluice: the gateway at http://" + web + "/nested: The admin API has no such path"},
	} {
		for _, args := range [][]string{{"status"}, {"routes"}, {"explain", "GET", "/"}} {
			if test.admin != "" {
				args = append(args, "--admin", test.admin)
			}
			got := command{dir: dir, environment: test.environment}.run(t, args...)
			if got.code != 1 || !strings.HasPrefix(got.stderr, test.want) || strings.Count(got.stderr, "\n") != 1 || got.stdout != "" {
				t.Errorf("%v: %+v, want %s", args, got, test.want)
			}
		}
	}
	// Another service than the admin API.
	other := start(t, dir, "run", "-c", write(t, dir, "other.yaml", small)).addresses()["web"]
	if got := sluice(t, dir, "status", "--admin", other); got.code != 1 || !strings.Contains(got.stderr, "sluice: the gateway at") && !strings.Contains(got.stderr, "is not Sluice's admin API") {
		t.Errorf("%+v", got)
	}
}

// refusedAddress is one where nobody listens.
func refusedAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestAdminOnAUnixSocket(t *testing.T) {
	dir := t.TempDir()
	config := strings.Replace(small, `admin: {address: "127.0.0.1:0"}`, `admin: {address: "unix:admin.sock"}`, 1)
	write(t, dir, "sluice.yaml", config)
	for range 2 { // the second time over what a killed one left behind
		gateway := start(t, dir, "run")
		gateway.addresses()
		if got := sluice(t, dir, "status", "--admin", "unix:admin.sock"); got.code != 0 || !strings.Contains(got.stdout, "revision 1 from file") {
			t.Errorf("%+v", got)
		}
		gateway.signal(os.Kill)
		gateway.exit()
	}
	gateway := start(t, dir, "run")
	gateway.addresses()
	gateway.signal(os.Interrupt)
	if code := gateway.exit(); code != 0 {
		t.Errorf("exit status %d", code)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "admin.sock" }) {
		t.Error("the socket is left behind")
	}
}
