package admin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/gatewaytest"
)

const secret = "0e7a1c"

// whole is a gateway with something to tell at every path.
func whole(t *testing.T, more string) *gatewaytest.Gateway {
	t.Helper()
	return gatewaytest.Start(t, fmt.Sprintf(`
listeners:
  web: {address: "127.0.0.1:0"}
  more: {address: "127.0.0.1:0"}
admin: {address: "127.0.0.1:0", token: %s}
middleware: {tag: {headers: {response: {set: {X-A: "1"}}}}}
upstreams:
  users: {endpoints: [{url: %q, weight: 3, version: v1}, {url: "http://127.0.0.1:1/base"}]}
routes:
  - {id: user, listeners: [web], match: {hosts: [a.example.com], path: "/users/{id}", methods: [GET], query: {debug: "1"}, cookies: {beta: {present: true}}, client_ip: [10.0.0.0/8]}, upstream: users, middleware: [tag]}
  - {id: users, match: {path_prefix: /users, headers: {X-A: {regex: "^t"}, X-B: {present: false}}}, upstream: users}
  - {id: old, priority: 200, match: {path_regex: "^/old"}, redirect: {to: /new, status: 308}}
%s`, secret, gatewaytest.NewEcho(t, "users"), more))
}

// head is what an answer has besides its body.
type head struct {
	StatusCode int
	Header     http.Header
}

// get asks the admin API with the token.
func get(t *testing.T, gw *gatewaytest.Gateway, path string, fields ...string) (head, string) {
	t.Helper()
	request, err := http.NewRequest("GET", gw.AdminURL()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+secret)
	for i := 0; i < len(fields); i += 2 {
		request.Header.Set(fields[i], fields[i+1])
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return head{response.StatusCode, response.Header}, string(body)
}

// tell asks for JSON, and checks that it is told as such.
func tell(t *testing.T, gw *gatewaytest.Gateway, path string, into any) head {
	t.Helper()
	response, body := get(t, gw, path)
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil || response.StatusCode != 200 || response.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s: status %d, %s, %v: %s", path, response.StatusCode, response.Header.Get("Content-Type"), err, body)
	}
	return response
}

type object = map[string]any

func TestReads(t *testing.T) {
	gw := whole(t, "")
	echo := gw.Current().Gateway.Upstreams[0].Endpoints[0].URL
	for range 4 { // three of them reach the first endpoint
		request, err := http.NewRequest("GET", gw.URL("web")+"/users/1", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("X-A", "t")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, response.Body); err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	for path, want := range map[string]any{
		"/_gateway/health": object{"status": "ok"},
		"/_gateway/ready":  object{"status": "ready"},
		"/_gateway/routes": []any{
			object{"id": "user", "priority": 100.0, "listeners": []any{"web"}, "destination": "upstream users", "middleware": []any{object{"kind": "headers", "from": "route tag"}}, "match": object{
				"hosts": []any{"a.example.com"}, "path": "/users/{id}", "methods": []any{"GET"}, "query": object{"debug": "1"}, "cookies": object{"beta": "(present)"}, "client_ip": []any{"10.0.0.0/8"},
			}},
			object{"id": "users", "priority": 100.0, "listeners": []any{}, "destination": "upstream users", "middleware": []any{}, "match": object{"path_prefix": "/users", "headers": object{"X-A": "~ ^t", "X-B": "(absent)"}}},
			object{"id": "old", "priority": 200.0, "listeners": []any{}, "destination": "redirect 308 /new", "middleware": []any{}, "match": object{"path_regex": "^/old"}},
		},
		"/_gateway/upstreams": []any{object{"name": "users", "policy": "round_robin", "panicking": false, "in_flight": 0.0, "repeating": 0.0, "endpoints": []any{
			object{"url": echo, "weight": 3.0, "version": "v1", "available": true, "drained": false, "ejections": 0.0, "active": 0.0, "requests": 3.0, "failures": 0.0},
			object{"url": "http://127.0.0.1:1/base", "weight": 1.0, "available": true, "drained": false, "ejections": 0.0, "active": 0.0, "requests": 1.0, "failures": 1.0},
		}}},
		"/_gateway/breakers": []any{},
		"/_gateway/limits":   []any{},
		"/_gateway/problems": []any{object{
			"file": gw.Current().Documents[0].Name, "line": 5.0, "col": 40.0, "warning": true, "source": `admin: {address: "127.0.0.1:0", token: REDACTED}`,
			"message": "token is written down: whoever may read the document can use it", "hint": "write '${file:PATH}' or '${NAME}'",
		}},
		"/_gateway/releases": []any{},
	} {
		var got any
		gatewaytest.WaitFor(t, path+" is as it should be", func() bool { // the counts come after the answers
			got = nil
			tell(t, gw, path, &got)
			return cmp.Equal(want, got) || path != "/_gateway/upstreams"
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", path, diff)
		}
	}
	var listeners []object
	tell(t, gw, "/_gateway/listeners", &listeners)
	for i, name := range []string{"web", "more"} {
		if l := listeners[i]; l["name"] != name || l["address"] != gw.Addr(name).String() || l["refused"] != 0.0 || l["failed"] != 0.0 || l["tunnels"] != 0.0 || len(l) != 6 {
			t.Errorf("the listener is %v", l)
		}
	}
	if response, body := get(t, gw, "/debug/pprof/"); response.StatusCode != 200 || !strings.Contains(body, "goroutine") {
		t.Errorf("pprof: %d %s", response.StatusCode, body)
	}
	for path, text := range map[string]string{"goroutine?debug=1": "goroutine profile:", "cmdline": os.Args[0], "symbol": "num_symbols", "profile?seconds=1": "", "trace?seconds=0.1": ""} {
		if response, body := get(t, gw, "/debug/pprof/"+path); response.StatusCode != 200 || !strings.Contains(body, text) || body == "" {
			t.Errorf("pprof %s: %d %.100s", path, response.StatusCode, body)
		}
	}
}

func TestConfigAndHistory(t *testing.T) {
	gw := whole(t, "access_log: {output: none}\n")
	type revision struct {
		Number                               int `json:"revision"`
		SHA256, Time, Author, Reason, Source string
		Documents                            []struct{ Name, Provider, Content string }
	}
	var first revision
	response := tell(t, gw, "/_gateway/config", &first)
	if response.Header.Get("ETag") != `"1"` || first.Number != 1 || len(first.SHA256) != 64 || first.Source != "file" || first.Time == "" || len(first.Documents) != 1 {
		t.Errorf("ETag %s, %+v", response.Header.Get("ETag"), first)
	}
	document := first.Documents[0]
	if document.Provider != "file" || !strings.HasSuffix(document.Name, "sluice.yaml") || !strings.Contains(document.Content, "id: users") || !strings.Contains(document.Content, "token: REDACTED") || strings.Contains(document.Content, secret) {
		t.Errorf("the document is %+v", document)
	}

	gw.Load(strings.ReplaceAll(string(gw.Current().Documents[0].Data), "/new", "/newer"))
	var second revision
	if response := tell(t, gw, "/_gateway/config", &second); response.Header.Get("ETag") != `"2"` || second.Number != 2 || second.SHA256 == first.SHA256 {
		t.Errorf("ETag %s, %+v", response.Header.Get("ETag"), second)
	}
	var list []revision
	tell(t, gw, "/_gateway/config/history", &list)
	if len(list) != 2 || list[0].Number != 2 || list[1].Number != 1 || list[1].SHA256 != first.SHA256 || list[0].Documents != nil {
		t.Errorf("the history is %+v", list)
	}
	var raw []object
	tell(t, gw, "/_gateway/config/history", &raw)
	for _, key := range []string{"revision", "sha256", "time", "author", "reason", "source"} {
		if _, ok := raw[0][key]; !ok || len(raw[0]) != 6 {
			t.Errorf("a revision of the history is %v", raw[0])
		}
	}
	var again revision
	tell(t, gw, "/_gateway/config/history/1", &again)
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("revision 1 was another:\n%s", diff)
	}
	if !strings.Contains(again.Documents[0].Content, "token: REDACTED") {
		t.Errorf("the token shows in the history: %s", again.Documents[0].Content)
	}
	for _, number := range []string{"0", "3", "-1", "x", "1x", "99999999999999999999"} {
		response, body := get(t, gw, "/_gateway/config/history/"+number)
		if response.StatusCode != 404 || !strings.Contains(body, `"error":"not_found"`) || !strings.Contains(body, "GET /_gateway/config/history lists") {
			t.Errorf("revision %s: %d %s", number, response.StatusCode, body)
		}
	}
}

func TestProblems(t *testing.T) {
	gw := whole(t, "")
	gw.Write(string(gw.Current().Documents[0].Data) + "  - {id: x, match: {path: /x}, upstream: user}\n")
	var problems []object
	gatewaytest.WaitFor(t, "the problem shows", func() bool {
		problems = nil
		tell(t, gw, "/_gateway/problems", &problems)
		return len(problems) > 1
	})
	p := problems[1] // after the warning of the token
	if file, ok := p["file"].(string); !ok || !strings.HasSuffix(file, "sluice.yaml") {
		t.Errorf("the problem is %v", p)
	}
	delete(p, "file")
	if diff := cmp.Diff(object{"line": 13.0, "col": 42.0, "message": `there is no upstream "user"`, "hint": `did you mean "users"?`, "source": "  - {id: x, match: {path: /x}, upstream: user}"}, p); diff != "" || len(problems) != 2 {
		t.Errorf("%d problems, the second\n%s", len(problems), diff)
	}
	if gw.Current().Revision.Number != 1 {
		t.Error("the snapshot changed")
	}
}

func TestExplainParameters(t *testing.T) {
	gw := whole(t, "")
	for _, test := range []struct {
		query  string
		status int
		text   string
	}{
		{"url=/users/1", 200, `"route": ""`},
		{"url=/users/1&header=X-A:+t1", 200, `"route": "users"`},
		{"url=/users/1&header=X-A:+t1&header=X-B:+1", 200, `"failed": "header X-B is there"`},
		{"method=get&url=http://a.example.com/users/1?debug%3D1&header=Cookie:+beta%3D1&ip=10.1.2.3", 200, `"route": "user"`},
		{"method=POST&url=http://a.example.com/users/1?debug%3D1&header=Cookie:+beta%3D1&ip=10.1.2.3", 200, `"refused": "405 method_not_allowed:`},
		{"url=/users/1&header=X-A:+t&listener=more", 200, `"route": "users"`},
		{"url=http://a.example.com/users/1?debug%3D1&header=Cookie:+beta%3D1&ip=10.1.2.3&listener=more", 200, `"failed": "listener`},
		{"", 400, "url is missing; give an absolute URL or a path"},
		{"method=GET", 400, "url is missing"},
		{"url=users", 400, "neither a URL, such as"},
		{"url=http://", 400, "no valid host"},
		{"url=/&header=X", 400, "a header is not of the form Name: value"},
		{"url=/&ip=here", 400, "ip is no address"},
		{"url=/&listener=none", 400, "no listener is called"},
	} {
		response, body := get(t, gw, "/_gateway/explain?"+test.query)
		if response.StatusCode != test.status || !strings.Contains(body, test.text) {
			t.Errorf("%s: %d %s", test.query, response.StatusCode, body)
		}
		if test.status == 400 && !strings.Contains(body, `"error":"bad_request"`) {
			t.Errorf("%s: %s", test.query, body)
		}
	}
}

// TestOpenAPI asks for every path that the description lists, and looks for
// every path of SPEC 6 that is due.
func TestOpenAPI(t *testing.T) {
	gw := whole(t, "")
	var api struct {
		OpenAPI    string
		Info       object
		Security   any
		Components object
		Paths      map[string]map[string]struct {
			Summary    string
			Parameters []struct {
				Name, In, Description string
				Required              bool
				Schema                object
			}
			RequestBody, Responses object
		}
	}
	tell(t, gw, "/_gateway/openapi.json", &api)
	if !strings.HasPrefix(api.OpenAPI, "3.1") {
		t.Errorf("the version is %s", api.OpenAPI)
	}
	for _, path := range []string{
		"/", "/metrics", "/debug/pprof/", "/_gateway/health", "/_gateway/ready", "/_gateway/metrics", "/_gateway/upstreams", "/_gateway/breakers", "/_gateway/limits", "/_gateway/routes", "/_gateway/explain", "/_gateway/listeners",
		"/_gateway/problems", "/_gateway/config", "/_gateway/config/history", "/_gateway/config/history/{revision}", "/_gateway/releases", "/_gateway/openapi.json",
	} {
		if _, ok := api.Paths[path]; !ok {
			t.Errorf("%s is not described", path)
		}
	}
	for _, word := range []string{"drain", "undrain"} {
		path := "/_gateway/upstreams/{upstream}/endpoints/" + word
		if described, ok := api.Paths[path]["post"]; !ok || described.Summary == "" || described.RequestBody == nil || len(described.Parameters) != 1 || len(api.Paths[path]) != 1 {
			t.Errorf("%s is described as %v", path, api.Paths[path])
		}
		delete(api.Paths, path)
	}
	for path, methods := range api.Paths {
		described := methods["get"]
		query := url.Values{}
		for _, p := range described.Parameters {
			switch {
			case p.In == "path":
				path = strings.ReplaceAll(path, "{"+p.Name+"}", "1")
			case p.Required:
				query.Set(p.Name, "/")
			case p.Name == "seconds":
				query.Set(p.Name, "1")
			}
		}
		if response, body := get(t, gw, path+"?"+query.Encode()); response.StatusCode != 200 || described.Summary == "" || len(methods) != 1 || strings.Contains(path, "{") {
			t.Errorf("%s: %d %.200s", path, response.StatusCode, body)
		}
	}
}

func TestMetricsFormats(t *testing.T) {
	gw := whole(t, "")
	for _, path := range []string{"/metrics", "/_gateway/metrics"} {
		for accept, want := range map[string]string{
			"":                             "text/plain; version=0.0.4",
			"text/plain":                   "text/plain; version=0.0.4",
			"application/openmetrics-text": "application/openmetrics-text",
		} {
			response, body := get(t, gw, path, "Accept", accept)
			if got := response.Header.Get("Content-Type"); response.StatusCode != 200 || !strings.HasPrefix(got, want) || !strings.Contains(body, "\ngateway_config_revision 1") || strings.Contains(accept, "openmetrics") != strings.HasSuffix(body, "# EOF\n") {
				t.Errorf("%s as %q: %d %s", path, accept, response.StatusCode, got)
			}
		}
	}
}
