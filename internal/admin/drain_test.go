package admin_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

// post sends a body to the admin API with the token.
func post(t *testing.T, gw *gatewaytest.Gateway, path, body string) (status int, answer object) {
	t.Helper()
	request, err := http.NewRequest("POST", gw.AdminURL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+secret)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		t.Fatal(err)
	}
	if want := map[bool]string{true: "application/json", false: "application/problem+json"}[response.StatusCode == 200]; response.Header.Get("Content-Type") != want {
		t.Errorf("%s: status %d with %s", path, response.StatusCode, response.Header.Get("Content-Type"))
	}
	return response.StatusCode, answer
}

// pair is a gateway with two endpoints of which one may be drained.
func pair(t *testing.T) (gw *gatewaytest.Gateway, config, a, b string) {
	t.Helper()
	a, b = gatewaytest.NewEcho(t, "a"), gatewaytest.NewEcho(t, "b")
	config = fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0", token: %s}
upstreams:
  both: {endpoints: [%q, %q]}
  spelt: {endpoints: ["HTTP://LocalHost", "http://localhost:80/", "http://localhost/base/", "https://localhost:80", "unix:/tmp/s.sock"]}
routes:
  - {match: {path_prefix: /both}, upstream: both}
  - {match: {path_prefix: /spelt}, upstream: spelt}
`, secret, a, b)
	return gatewaytest.Start(t, config), config, a, b
}

// asked is the endpoint that answers a request, or the status if that is not 200.
func asked(t *testing.T, gw *gatewaytest.Gateway, path string) (endpoint string) {
	t.Helper()
	response, err := http.Get(gw.URL("web") + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != 200 {
		return response.Status
	}
	return response.Header.Get("X-Endpoint")
}

// serves are the endpoints that answer ten requests.
func serves(t *testing.T, gw *gatewaytest.Gateway, path string) string {
	t.Helper()
	var names []string
	for range 10 {
		name := asked(t, gw, path)
		if !strings.Contains(strings.Join(names, " "), name) {
			names = append(names, name)
		}
	}
	if len(names) == 2 && names[0] > names[1] {
		names[0], names[1] = names[1], names[0]
	}
	return strings.Join(names, " ")
}

func TestDrain(t *testing.T) {
	gw, config, a, b := pair(t)
	if got := serves(t, gw, "/both"); got != "a b" {
		t.Errorf("before the drain %s serve", got)
	}
	drain := func(word, url string) object {
		t.Helper()
		status, answer := post(t, gw, "/_gateway/upstreams/both/endpoints/"+word, `{"url": "`+url+`"}`)
		if status != 200 || answer["url"] != strings.TrimSuffix(url, "/") {
			t.Fatalf("%s %s: %d %v", word, url, status, answer)
		}
		return answer
	}
	if answer := drain("drain", a); fmt.Sprint(answer["drained"], answer["available"]) != "true false" {
		t.Errorf("drained it is %v", answer)
	}
	drain("drain", a) // once more changes nothing
	if got := serves(t, gw, "/both"); got != "b" {
		t.Errorf("after the drain %s serve", got)
	}
	healthy := func(want string) {
		t.Helper()
		_, metrics := get(t, gw, "/metrics")
		if sample := fmt.Sprintf("gateway_endpoint_healthy{endpoint=%q,upstream=\"both\"} %s\n", a, want); !strings.Contains(metrics, sample) {
			t.Errorf("no %s in the metrics", sample)
		}
	}
	healthy("0")
	gw.Load(strings.Replace(config, "prefix: /both", "prefix: /other", 1))
	if got := serves(t, gw, "/other"); got != "b" {
		t.Errorf("after a reload %s serve", got)
	}
	healthy("0")
	drain("drain", b+"/")
	if got := serves(t, gw, "/other"); got != "503 Service Unavailable" {
		t.Errorf("all drained: %s", got)
	}
	drain("undrain", b)
	if answer := drain("undrain", a); fmt.Sprint(answer["drained"], answer["available"]) != "false true" {
		t.Errorf("undrained it is %v", answer)
	}
	if got := serves(t, gw, "/other"); got != "a b" {
		t.Errorf("after the undraining %s serve", got)
	}
	healthy("1")
	for _, word := range []string{"drained", "undrained"} {
		if n := strings.Count(gw.ProcessLog(), `msg="an endpoint was drained or undrained" upstream=both endpoint=`+a+" to="+word); n != 1 {
			t.Errorf("%s is told %d times", word, n)
		}
	}
}

// TestDrainKnowsEndpointsByWhatTheyAre names endpoints otherwise than the
// documents do.
func TestDrainKnowsEndpointsByWhatTheyAre(t *testing.T) {
	gw, _, _, _ := pair(t)
	for asked, want := range map[string]string{
		"http://localhost":       "HTTP://LocalHost http://localhost:80/",
		"http://LOCALHOST:80":    "HTTP://LocalHost http://localhost:80/",
		"http://localhost:80/":   "HTTP://LocalHost http://localhost:80/",
		"http://localhost/base":  "http://localhost/base/",
		"http://localhost//base": "http://localhost/base/",
		"https://localhost:80":   "https://localhost:80",
		"unix:/tmp/s.sock":       "unix:/tmp/s.sock",
	} {
		body := `{"url": "` + asked + `"}`
		if status, answer := post(t, gw, "/_gateway/upstreams/spelt/endpoints/drain", body); status != 200 || !strings.HasPrefix(want, fmt.Sprint(answer["url"])) {
			t.Errorf("%s: %d %v", asked, status, answer)
		}
		var drained []string
		for _, e := range endpoints(t, gw, 1) {
			if fmt.Sprint(e["drained"]) == "true" {
				drained = append(drained, fmt.Sprint(e["url"]))
			}
		}
		if got := strings.Join(drained, " "); got != want {
			t.Errorf("%s drains %s", asked, got)
		}
		post(t, gw, "/_gateway/upstreams/spelt/endpoints/undrain", body)
	}
}

// endpoints are those of an upstream as the API tells them.
func endpoints(t *testing.T, gw *gatewaytest.Gateway, upstream int) (list []object) {
	t.Helper()
	var upstreams []struct {
		Name      string   `json:"name"`
		Policy    string   `json:"policy"`
		Panicking bool     `json:"panicking"`
		InFlight  int      `json:"in_flight"`
		Repeating int      `json:"repeating"`
		Endpoints []object `json:"endpoints"`
	}
	tell(t, gw, "/_gateway/upstreams", &upstreams)
	return upstreams[upstream].Endpoints
}

func TestDrainRefusals(t *testing.T) {
	gw, _, a, b := pair(t)
	for _, test := range []struct {
		upstream, body string
		status         int
		word, detail   string
	}{
		{"none", `{"url": "` + a + `"}`, 404, "not_found", `No upstream is called "none"; there are both, spelt.`},
		{"both", `{"url": "http://127.0.0.1:1"}`, 404, "not_found", `The upstream both has no endpoint "http://127.0.0.1:1"; there are ` + a + ", " + b + "."},
		{"both", `{"url": "nonsense"}`, 404, "not_found", "there are " + a},
		{"both", ``, 400, "bad_request", "The body is not the JSON that is asked for: EOF."},
		{"both", `{`, 400, "bad_request", "unexpected EOF"},
		{"both", `{"url": 1}`, 400, "bad_request", "number"},
		{"both", `{"url": "x", "more": 1}`, 400, "bad_request", `unknown field "more"`},
		{"both", `{"url": "x"}{}`, 400, "bad_request", "something follows the object"},
		{"both", `{"url": "x"}]`, 400, "bad_request", "something follows the object"},
		{"both", `{}`, 400, "bad_request", "The body has no url"},
		{"both", `null`, 400, "bad_request", "The body has no url"},
		{"both", `{"url": "` + strings.Repeat("x", 64<<10) + `"}`, 413, "body_too_large", "larger than 64 KiB"},
	} {
		status, answer := post(t, gw, "/_gateway/upstreams/"+test.upstream+"/endpoints/drain", test.body)
		if status != test.status || answer["error"] != test.word || !strings.Contains(fmt.Sprint(answer["detail"]), test.detail) {
			t.Errorf("%.60s: %d %v", test.body, status, answer)
		}
	}
	response, body := get(t, gw, "/_gateway/upstreams/both/endpoints/drain")
	if response.StatusCode != 405 || response.Header.Get("Allow") != "POST" || !strings.Contains(body, "takes POST.") {
		t.Errorf("GET: %d, Allow %q, %s", response.StatusCode, response.Header.Get("Allow"), body)
	}
	if got := serves(t, gw, "/both"); got != "a b" {
		t.Errorf("after refusals %s serve", got)
	}
}

// A route may name a URL instead of an upstream, which is its upstream's name then.
func TestDrainOfAnUpstreamThatIsAURL(t *testing.T) {
	echo := gatewaytest.NewEcho(t, "a")
	gw := gatewaytest.Start(t, fmt.Sprintf("listeners: {web: {address: \"127.0.0.1:0\"}}\nadmin: {address: \"127.0.0.1:0\", token: %s}\nroutes: [{match: {path: /}, upstream: %q}]\n", secret, echo))
	status, answer := post(t, gw, "/_gateway/upstreams/"+url.PathEscape(echo)+"/endpoints/drain", `{"url": "`+echo+`"}`)
	if status != 200 || fmt.Sprint(answer["drained"]) != "true" {
		t.Errorf("%d %v", status, answer)
	}
}

// TestManyUpstreamsAreNotAllListed bounds an answer.
func TestManyUpstreamsAreNotAllListed(t *testing.T) {
	var config strings.Builder
	fmt.Fprintf(&config, "listeners: {web: {address: \"127.0.0.1:0\"}}\nadmin: {address: \"127.0.0.1:0\", token: %s}\nroutes: []\nupstreams:\n", secret)
	for i := range 23 {
		fmt.Fprintf(&config, "  u%02d: {endpoints: [\"http://127.0.0.1:1\"]}\n", i)
	}
	gw := gatewaytest.Start(t, config.String())
	if status, answer := post(t, gw, "/_gateway/upstreams/x/endpoints/drain", `{"url": "x"}`); status != 404 || !strings.Contains(fmt.Sprint(answer["detail"]), "u18, u19 and 3 more.") {
		t.Errorf("%d %v", status, answer)
	}
}
