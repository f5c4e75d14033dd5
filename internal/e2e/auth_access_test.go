package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"sluice/internal/gatewaytest"
)

// authorizer decides by Envoy's protocol: "good" may pass, as ann.
type authorizer struct {
	authv3.UnimplementedAuthorizationServer
}

func (authorizer) Check(_ context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	request := r.GetAttributes().GetRequest().GetHttp()
	if request.GetHeaders()["authorization"] != "good" {
		return &authv3.CheckResponse{Status: grpcstatus.New(codes.PermissionDenied, "").Proto(), HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: &authv3.DeniedHttpResponse{
			Status: &typev3.HttpStatus{Code: typev3.StatusCode_Unauthorized}, Body: "who are you",
		}}}, nil
	}
	return &authv3.CheckResponse{Status: grpcstatus.New(codes.OK, "").Proto(), HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: &authv3.OkHttpResponse{
		Headers: []*corev3.HeaderValueOption{{Header: &corev3.HeaderValue{Key: "x-user", Value: "ann"}}, {Header: &corev3.HeaderValue{Key: "x-asked", Value: request.GetMethod() + " " + request.GetPath()}}},
	}}}, nil
}

// startAuthorizers starts the service twice: for HTTP and for gRPC.
func startAuthorizers(t *testing.T) (url, address string) {
	t.Helper()
	forward := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "good" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		w.Header().Set("X-User", "ann")
		w.Header().Set("X-Asked", r.Header.Get("X-Forwarded-Method")+" "+r.Header.Get("X-Forwarded-Uri"))
	}))
	t.Cleanup(forward.Close)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	authv3.RegisterAuthorizationServer(server, authorizer{})
	var over sync.WaitGroup
	over.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		over.Wait()
	})
	return forward.URL, listener.Addr().String()
}

// startDecided runs a gateway that asks services, has roles, and lets pages of app.test
// ask.
func startDecided(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	url, address := startAuthorizers(t)
	return gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
upstreams: {up: {endpoints: [%q]}}
middleware:
  pages: {cors: {origins: [https://app.test], credentials: true, expose: [X-Total]}}
  key: {api_key: {keys: [{key: %q, consumer: shop, groups: [staff]}]}}
routes:
  - {match: {path_prefix: /forward}, upstream: up, middleware: [{external_auth: {http: {url: %q, response_headers: [X-User, X-Asked]}, consumer_header: X-User}}, {rbac: {allow: 'consumer == "ann"'}}, pages]}
  - {match: {path_prefix: /envoy}, upstream: up, middleware: [{external_auth: {grpc: {address: %q, drop_headers: [X-Asked]}, consumer_header: X-User}}, pages]}
  - {match: {path_prefix: /gone}, upstream: up, middleware: [{external_auth: {http: {url: "http://127.0.0.1:1"}}}, pages]}
  - {match: {path: /staff}, upstream: up, middleware: [key, {rbac: {roles: [staff]}}]}
  - {match: {path: /root}, upstream: up, middleware: [key, {rbac: {roles: [root]}}]}
  - {match: {path: /mixed, methods: [GET]}, upstream: up, middleware: [pages, key]}
  - {match: {path: /mixed, methods: [PUT]}, respond: {status: 200, body: put}}
`, gatewaytest.NewEcho(t, "a"), digestOf("key-one"), url, address))
}

// decidedWays are those to speak with the gateway.
func decidedWays() []string {
	if gatewaytest.Engine() == gatewaytest.Standard {
		return []string{"h1"}
	}
	return []string{"h1", "h2c"}
}

// asking is a request with header fields, as "Name: value".
func asking(t *testing.T, c *siteClient, method, path, body string, fields ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range fields {
		name, value, _ := strings.Cut(field, ": ")
		r.Header[name] = append(r.Header[name], value)
	}
	return r
}

// TestExternalDecisions are obeyed on every engine: requests go on with their bodies, or
// are answered as the service says.
func TestExternalDecisions(t *testing.T) {
	g := startDecided(t)
	for _, way := range decidedWays() {
		client := newSiteClient(t, way, g.Addr("web").String(), nil)
		for _, path := range []string{"/forward/x?y=1", "/envoy/x?y=1"} {
			for method, content := range map[string]string{"GET": "", "POST": strings.Repeat("x", 100_000)} {
				status, _, echo := answerOf(t, client, asking(t, client, method, path, content, "Authorization: good", "X-User: root", "X_User: root", "X-Asked: nothing"))
				told := strings.Join(append(append(echo.Header["X-User"], echo.Header["X_user"]...), echo.Header["X-Asked"]...), "|")
				if status != http.StatusOK || told != "ann|"+method+" "+path || echo.Body != content {
					t.Errorf("%s: %s %s: %d, told %s, %d bytes", way, method, path, status, told, len(echo.Body))
				}
				for _, authorization := range []string{"Authorization: bad", "X-User: root"} {
					status, header, _ := answerOf(t, client, asking(t, client, method, path, content, authorization, "Origin: https://app.test"))
					if status != http.StatusUnauthorized || header.Get("X-Request-Id") == "" || header.Get("Access-Control-Allow-Origin") != "https://app.test" {
						t.Errorf("%s: %s %s with %s: %d, %v", way, method, path, authorization, status, header)
					}
				}
			}
			response, err := client.Do(asking(t, client, "HEAD", path, ""))
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: HEAD %s: %d", way, path, response.StatusCode)
			}
		}
		if status, header, _ := answerOf(t, client, asking(t, client, "GET", "/gone", "", "Origin: https://app.test")); status != http.StatusServiceUnavailable || header.Get("Access-Control-Allow-Origin") != "https://app.test" {
			t.Errorf("%s: a service that is gone: %d, %v", way, status, header)
		}
	}
	if line := g.LogLineWith("error", "auth_unavailable"); line["status"] != float64(http.StatusServiceUnavailable) {
		t.Error(line)
	}
	if line := g.LogLineWith("consumer", "ann"); line["status"] != float64(http.StatusOK) {
		t.Error(line)
	}
}

// TestRolesOfAConsumer are its groups.
func TestRolesOfAConsumer(t *testing.T) {
	g := startDecided(t)
	client := newSiteClient(t, "h1", g.Addr("web").String(), nil)
	for _, test := range []struct {
		path, key string
		want      int
	}{{"/staff", "key-one", 200}, {"/root", "key-one", 403}, {"/staff", "key-two", 401}, {"/root", "", 401}} {
		if status, _, _ := answerOf(t, client, asking(t, client, "GET", test.path, "", "X-Api-Key: "+test.key)); status != test.want {
			t.Errorf("%s with %q: %d", test.path, test.key, status)
		}
	}
}

// TestPreflights are answered before authentication, on the route of the method that
// they ask about.
func TestPreflights(t *testing.T) {
	g := startDecided(t)
	for _, way := range decidedWays() {
		client := newSiteClient(t, way, g.Addr("web").String(), nil)
		for _, test := range []struct {
			origin, method string
			status         int
			allowed        string
		}{
			{"https://app.test", "GET", 204, "https://app.test"},
			{"https://evil.test", "GET", 204, ""},
			{"https://app.test", "PUT", 200, ""}, // a route without cors
			{"https://app.test", "PATCH", 405, ""},
		} {
			response, err := client.Do(asking(t, client, "OPTIONS", "/mixed", "", "Origin: "+test.origin, "Access-Control-Request-Method: "+test.method))
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode != test.status || response.Header.Get("Access-Control-Allow-Origin") != test.allowed {
				t.Errorf("%s: %s asks about %s: %d, %v", way, test.origin, test.method, response.StatusCode, response.Header)
			}
		}
		status, header, _ := answerOf(t, client, asking(t, client, "GET", "/mixed", "", "Origin: https://app.test", "X-Api-Key: key-one"))
		if status != http.StatusOK || header.Get("Access-Control-Allow-Origin") != "https://app.test" || header.Get("Vary") != "Origin" || header.Get("Access-Control-Expose-Headers") != "X-Total" {
			t.Errorf("%s: %d, %v", way, status, header)
		}
	}
}
