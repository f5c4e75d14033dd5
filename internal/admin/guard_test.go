package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"sluice/internal/admin"
	"sluice/internal/gatewaytest"
	"sluice/internal/model"
	"sluice/internal/snapshot"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// standIn is a gateway that is in any state a test wants.
type standIn struct {
	settings *model.Admin // of the serving snapshot; nil: there is none
	ready    bool
	history  snapshot.History
}

func (s *standIn) Current() *snapshot.Snapshot {
	if s.settings == nil {
		return nil
	}
	return &snapshot.Snapshot{Compiled: &snapshot.Compiled{Gateway: &model.Gateway{Admin: *s.settings}}}
}
func (s *standIn) Ready() bool                   { return s.ready }
func (s *standIn) Problems() []model.Problem     { return nil }
func (s *standIn) History() *snapshot.History    { return &s.history }
func (s *standIn) Gatherer() prometheus.Gatherer { return prometheus.NewRegistry() }

// answer is what the API answers with.
type answer struct {
	*httptest.ResponseRecorder
	problem map[string]any // nil: it is none
}

func serve(t *testing.T, s *standIn, request *http.Request) answer {
	t.Helper()
	recorder := httptest.NewRecorder()
	admin.New(s, slog.New(slog.DiscardHandler)).ServeHTTP(recorder, request)
	a := answer{ResponseRecorder: recorder}
	if recorder.Header().Get("Content-Type") == "application/problem+json" {
		if err := json.Unmarshal(recorder.Body.Bytes(), &a.problem); err != nil {
			t.Fatalf("%q: %v", recorder.Body, err)
		}
		if a.problem["type"] != "about:blank" || a.problem["title"] == "" || a.problem["detail"] == "" || a.problem["status"] != float64(recorder.Code) {
			t.Errorf("the problem document is %v", a.problem)
		}
	}
	if recorder.Header().Get("X-Content-Type-Options") != "nosniff" || recorder.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("%s: the header is %v", request.URL, recorder.Header())
	}
	return a
}

// ask is a request with fields, given as name, value, name, value.
func ask(method, target string, fields ...string) *http.Request {
	request := httptest.NewRequest(method, target, nil)
	request.Host = "127.0.0.1:9901"
	for i := 0; i < len(fields); i += 2 {
		request.Header.Set(fields[i], fields[i+1])
	}
	return request
}

func TestToken(t *testing.T) {
	usual := &standIn{ready: true, settings: &model.Admin{Address: "127.0.0.1:9901", Token: "s3cret", Public: []string{"health", "ready"}}}
	open := &standIn{ready: true, settings: &model.Admin{Address: "127.0.0.1:9901", Public: []string{"health", "ready"}}}
	metrics := &standIn{ready: true, settings: &model.Admin{Address: "127.0.0.1:9901", Token: "s3cret", Public: []string{"metrics"}}}
	for _, test := range []struct {
		gateway       *standIn
		path          string
		authorization string
		status        int
	}{
		{usual, "/metrics", "Bearer s3cret", 200},
		{usual, "/metrics", "bearer s3cret", 200}, // RFC 9110 11.1: the scheme's case does not count
		{usual, "/metrics", "Bearer  s3cret ", 200},
		{usual, "/metrics", "", 401},
		{usual, "/metrics", "Bearer", 401},
		{usual, "/metrics", "Bearer ", 401},
		{usual, "/metrics", "Bearer s3cre", 401},
		{usual, "/metrics", "Bearer s3crets", 401},
		{usual, "/metrics", "Bearer S3cret", 401},
		{usual, "/metrics", "s3cret", 401},
		{usual, "/metrics", "Basic s3cret", 401},
		{usual, "/metrics", "Bearer x, Bearer s3cret", 401},
		{usual, "/_gateway/metrics", "", 401},
		{usual, "/_gateway/config", "", 401},
		{usual, "/_gateway/openapi.json", "", 401},
		{usual, "/debug/pprof/", "", 401},
		{usual, "/debug/pprof/heap", "", 401},
		{usual, "/", "", 401},
		{usual, "/nowhere", "", 401}, // nobody learns what there is
		{usual, "/nowhere", "Bearer s3cret", 404},
		{usual, "/_gateway/health", "", 200},
		{usual, "/_gateway/ready", "", 200},
		{usual, "/_gateway/ready", "Bearer wrong", 200},
		{usual, "/_gateway/health/", "", 401},
		{usual, "/_gateway/healthy", "", 401},
		{open, "/metrics", "", 200},
		{open, "/_gateway/openapi.json", "Bearer whatever", 200},
		{metrics, "/metrics", "", 200},
		{metrics, "/_gateway/metrics", "", 200},
		{metrics, "/_gateway/health", "", 401},
		{metrics, "/_gateway/ready", "", 401},
		{metrics, "/_gateway/config", "", 401},
	} {
		request := ask("GET", test.path)
		if test.authorization != "" {
			request.Header.Set("Authorization", test.authorization)
		}
		got := serve(t, test.gateway, request)
		if got.Code != test.status {
			t.Errorf("%s with %q is %d, want %d", test.path, test.authorization, got.Code, test.status)
		}
		if test.status == 401 && (got.problem["error"] != "unauthenticated" || got.Header().Get("WWW-Authenticate") != `Bearer realm="sluice"`) {
			t.Errorf("%s: %v %v", test.path, got.problem, got.Header())
		}
	}
}

func TestHost(t *testing.T) {
	at := func(address string, hosts ...string) *model.Admin {
		return &model.Admin{Address: address, Public: []string{"health", "ready"}, Hosts: hosts}
	}
	tcp := &net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 9901}
	mapped := &net.TCPAddr{IP: net.ParseIP("::ffff:192.0.2.1"), Port: 9901}
	six := &net.TCPAddr{IP: net.ParseIP("2001:db8::1"), Port: 9901}
	for _, test := range []struct {
		settings *model.Admin
		local    net.Addr
		answers  string // hosts, separated by spaces
		refuses  string
	}{
		{at("127.0.0.1:9901"), nil, "127.0.0.1 127.0.0.1:9901 127.1.2.3 localhost localhost:80 LOCALHOST. [::1] [::1]:9901", "evil.example.com evil.example.com:9901 127.0.0.1.evil.example.com localhost.example.com 192.0.2.1 0.0.0.0 [::2]"},
		{at("0.0.0.0:9901"), tcp, "192.0.2.1 192.0.2.1:80 127.0.0.1 0.0.0.0", "192.0.2.2 evil.example.com"},
		{at(":9901"), mapped, "192.0.2.1:9901", "192.0.2.2"},
		{at("[::]:9901"), six, "[2001:db8::1]:9901 [2001:db8::1] [::]", "[2001:db8::2]"},
		{at("gateway.internal:9901"), tcp, "gateway.internal Gateway.Internal.:80", "internal"},
		{at("127.0.0.1:9901", "admin.example.com", "Two.example.com."), nil, "admin.example.com ADMIN.example.com:443 two.example.com", "example.com x.admin.example.com"},
		{at("unix:/run/sluice.sock"), &net.UnixAddr{Net: "unix", Name: "/run/sluice.sock"}, "localhost anything.example.com", ""},
	} {
		for hosts, want := range map[string]int{test.answers: 200, test.refuses: 421} {
			for host := range strings.FieldsSeq(hosts) {
				for path, want := range map[string]int{"/metrics": want, "/_gateway/health": 200, "/_gateway/ready": 200} {
					request := ask("GET", path)
					request.Host = host
					if test.local != nil {
						request = request.WithContext(context.WithValue(request.Context(), http.LocalAddrContextKey, test.local))
					}
					got := serve(t, &standIn{settings: test.settings, ready: true}, request)
					if got.Code != want || want == 421 && got.problem["error"] != "misdirected" {
						t.Errorf("%s at %s with the host %s is %d %v, want %d", path, test.settings.Address, host, got.Code, got.problem, want)
					}
				}
			}
		}
	}
	request := ask("GET", "/metrics")
	request.Host = "" // HTTP/1.0
	if got := serve(t, &standIn{settings: at("127.0.0.1:9901")}, request); got.Code != 421 {
		t.Errorf("without a host it is %d", got.Code)
	}
}

func TestOriginAndMethod(t *testing.T) {
	s := &standIn{settings: &model.Admin{Address: "127.0.0.1:9901"}, ready: true}
	for _, test := range []struct {
		method, path, origin string
		status               int
	}{
		{"POST", "/_gateway/config", "http://evil.example.com", 403},
		{"PUT", "/_gateway/config", "https://127.0.0.1:9902", 403},
		{"DELETE", "/nowhere", "null", 403},
		{"OPTIONS", "/_gateway/config", "http://evil.example.com", 403},
		{"POST", "/_gateway/config", "http://127.0.0.1:9901", 405},
		{"POST", "/_gateway/config", "", 405},
		{"PUT", "/metrics", "", 405},
		{"DELETE", "/", "", 405},
		{"OPTIONS", "/_gateway/routes", "", 405},
		{"PATCH", "/_gateway/config/history/1", "", 405},
		{"POST", "/debug/pprof/symbol", "", 405},
		{"POST", "/nowhere", "", 404},
		{"GET", "/metrics", "http://evil.example.com", 200}, // CORS keeps the answer from the page
		{"HEAD", "/metrics", "", 200},
		{"GET", "/nowhere", "", 404},
		{"GET", "/_gateway", "", 404},
		{"GET", "/_gateway/config/", "", 404},
		{"GET", "/_gateway/breakers", "", 200},
		{"POST", "/_gateway/breakers", "", 405},
		{"POST", "/_gateway/upstreams/x/endpoints/drain", "http://evil.example.com", 403},
		{"POST", "/_gateway/upstreams/x/endpoints/drain/", "", 404},
		{"POST", "/_gateway/upstreams/x/y/endpoints/drain", "", 404},
	} {
		request := ask(test.method, test.path)
		if test.origin != "" {
			request.Header.Set("Origin", test.origin)
		}
		got := serve(t, s, request)
		words := map[int]any{200: nil, 403: "forbidden", 404: "not_found", 405: "method_not_allowed"}
		if got.Code != test.status || got.problem["error"] != words[test.status] {
			t.Errorf("%s %s from %q is %d %v, want %d", test.method, test.path, test.origin, got.Code, got.problem, test.status)
		}
		if allow := got.Header().Get("Allow"); (test.status == 405) != (allow == "GET, HEAD") {
			t.Errorf("%s %s: Allow is %q", test.method, test.path, allow)
		}
	}
}

func TestBeforeTheFirstSnapshot(t *testing.T) {
	for path, status := range map[string]int{
		"/_gateway/health": 200, "/_gateway/ready": 503, "/_gateway/config": 503, "/_gateway/config/history": 503, "/_gateway/config/history/1": 503,
		"/_gateway/routes": 503, "/metrics": 503, "/debug/pprof/": 503, "/debug/pprof/cmdline": 503, "/_gateway/openapi.json": 503, "/": 503, "/nowhere": 503,
	} {
		got := serve(t, &standIn{}, ask("GET", path))
		if got.Code != status || status == 503 && got.problem["error"] != "not_ready" {
			t.Errorf("%s is %d %v, want %d", path, got.Code, got.problem, status)
		}
	}
	draining := &standIn{settings: &model.Admin{Address: "127.0.0.1:9901"}}
	for path, status := range map[string]int{"/_gateway/health": 200, "/_gateway/ready": 503, "/metrics": 200} {
		if got := serve(t, draining, ask("GET", path)); got.Code != status {
			t.Errorf("while draining %s is %d, want %d", path, got.Code, status)
		}
	}
}

// TestPathsThatAreNotCanonical goes over real sockets, with targets that no
// client library would send.
func TestPathsThatAreNotCanonical(t *testing.T) {
	gw := gatewaytest.Start(t, `
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0", token: s3cret, public: [health, ready, metrics]}
routes: []
`)
	for _, target := range []string{
		"/_gateway/config", "//_gateway/config", "/_gateway//config", "/_gateway/../_gateway/config", "/./_gateway/config", "/_gateway/health/../config", "/_gateway/health/../../_gateway/config",
		"/metrics/../_gateway/config", "/%5Fgateway/config", "/_gateway/%63onfig", "/_gateway%2Fconfig", "/_gateway%2Fhealth/../config", "/metrics/..%2F_gateway%2Fconfig", "/_gateway/config?/_gateway/health", "/_gateway/config#/metrics",
		"http://127.0.0.1/_gateway/config", "http://localhost//_gateway/config", "/_gateway/health;/../config", "/debug/pprof/../../_gateway/config", "/debug/pprof/cmdline", "//debug/pprof/cmdline", "//", "/", "/_gateway/ready/", "//_gateway/health",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "CONNECT"} {
			conn, err := net.Dial("tcp", gw.AdminAddr().String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.WriteString(conn, method+" "+target+" HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
			if err != nil {
				t.Fatalf("%s %s: %v", method, target, err)
			}
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			conn.Close()
			if status := response.StatusCode; status != 401 && status != 400 && status != 421 || strings.Contains(string(body), "listeners") {
				t.Errorf("%s %s without the token is %d %s", method, target, status, body)
			}
		}
	}
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	gw := gatewaytest.Start(t, "listeners: {web: {address: \"127.0.0.1:0\"}}\nadmin: {address: \"unix:"+path+"\"}\nroutes: []\n")
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get("http://any.example.com/_gateway/config")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != 200 || gw.AdminAddr().String() != path {
		t.Errorf("status %d at %s", response.StatusCode, gw.AdminAddr())
	}
}
