package upstream_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"sluice/internal/certtest"
	"sluice/internal/gatewaytest"
	"sluice/internal/upstream"
)

// gateway is one whose upstream "up" is written as given.
func gateway(t *testing.T, up string) *gatewaytest.Gateway {
	t.Helper()
	return gatewaytest.Start(t, config(up))
}

func config(up string) string {
	return fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
access_log: {output: none}
upstreams: {up: %s}
routes: [{match: {path_prefix: /}, upstream: up}]
`, up)
}

// endpoints are those of the upstream as the admin API tells them.
func endpoints(gw *gatewaytest.Gateway) []upstream.EndpointStatus {
	var list []upstream.Status
	gw.Admin("/_gateway/upstreams", &list)
	return list[0].Endpoints
}

// becomes waits until the health of the first endpoint is as it should be, with a
// fault that says so much.
func becomes(t *testing.T, gw *gatewaytest.Gateway, word, fault string) {
	t.Helper()
	var last upstream.EndpointStatus
	defer func() {
		if t.Failed() {
			t.Logf("it is %s: %s", last.Health, last.Fault)
		}
	}()
	gatewaytest.WaitFor(t, "the endpoint is "+word+", "+fault, func() bool {
		last = endpoints(gw)[0]
		return last.Health == word && strings.Contains(last.Fault, fault) && (word != "healthy" || last.Fault == "")
	})
}

// quick is a check that finds out soon. What a slow machine makes of it the next one
// mends.
const quick = `interval: 50ms, healthy_after: 1, unhealthy_after: 1`

func TestChecksByHTTP(t *testing.T) {
	var status atomic.Int64
	var body, got atomic.Value
	body.Store("all is well")
	url := gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Method + " " + r.RequestURI + " " + r.Host + " " + r.UserAgent())
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(int(status.Load()))
		io.WriteString(w, body.Load().(string))
	}))
	status.Store(200)
	address := strings.TrimPrefix(url, "http://")
	for _, test := range []struct {
		check  string
		asked  string
		good   []int
		bad    []int
		fault  string // of the bad ones; %d is the status
		change func()
	}{
		{"", "GET /health " + address, []int{200, 302, 399}, []int{400, 404, 503}, "status %d", nil},
		{`path: "/up?deep=1&x=%2F"`, "GET /up?deep=1&x=%2F " + address, []int{204}, nil, "", nil},
		{`host: "api.example.com:81"`, "GET /health api.example.com:81", []int{200}, nil, "", nil},
		{`expect_status: [204, 500-503]`, "GET /health " + address, []int{204, 500, 503}, []int{200, 302, 504}, "status %d", nil},
		{`expect_body: "is w.ll$"`, "GET /health " + address, []int{200}, nil, "", nil},
		{`expect_body: "^is"`, "GET /health " + address, nil, []int{200}, "the body does not match ^is", nil},
		{`expect_body: "needle"`, "GET /health " + address, []int{200}, nil, "", func() { body.Store(strings.Repeat("x", 60<<10) + "needle") }},
		{`expect_body: "needle"`, "GET /health " + address, nil, []int{200}, "the body does not match needle", func() { body.Store(strings.Repeat("x", 65<<10) + "needle") }},
	} {
		t.Run(test.check, func(t *testing.T) {
			if test.change != nil {
				test.change()
			}
			check := quick
			if test.check != "" {
				check += ", " + test.check
			}
			// A base path is not put before what is asked.
			gw := gateway(t, fmt.Sprintf(`{endpoints: [%s/base], health_check: {%s}}`, url, check))
			for _, code := range test.bad {
				status.Store(int64(code))
				fault := test.fault
				if strings.Contains(fault, "%d") {
					fault = fmt.Sprintf(fault, code)
				}
				becomes(t, gw, "unhealthy", fault)
			}
			for _, code := range test.good {
				status.Store(int64(code))
				becomes(t, gw, "healthy", "")
			}
			if asked := got.Load(); asked != test.asked+" sluice-health-check" {
				t.Errorf("asked %q, want %q", asked, test.asked)
			}
		})
	}
}

// Nobody listens, one says nothing, one breaks off, and one speaks something else.
func TestChecksThatGetNoAnswer(t *testing.T) {
	saying := func(text string, silent bool) string {
		return gatewaytest.NewScripted(t, func(conn net.Conn, in *bufio.Reader) {
			_, _ = gatewaytest.ReadHead(in)
			io.WriteString(conn, text)
			if silent {
				_, _ = in.ReadByte() // until the other one gives up
			}
		}).URL
	}
	for name, test := range map[string]struct{ url, fault string }{
		"refused":      {gatewaytest.Refused(t), "refused"},
		"silent":       {saying("", true), "no answer within 100ms"},
		"half a body":  {saying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", false), "upstream_reset"},
		"a slow body":  {saying("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok", true), "no answer within 100ms"},
		"not HTTP":     {saying("SSH-2.0-OpenSSH_9.2\r\n\r\n", false), "upstream_protocol"},
		"nothing said": {saying("", false), "upstream_reset"},
	} {
		t.Run(name, func(t *testing.T) {
			becomes(t, gateway(t, fmt.Sprintf(`{endpoints: [%q], health_check: {interval: 100ms, unhealthy_after: 2}}`, test.url)), "unhealthy", test.fault)
		})
	}
}

func TestChecksByTCP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	gw := gateway(t, fmt.Sprintf(`{endpoints: ["http://%s"], health_check: {type: tcp, %s}}`, address, quick))
	becomes(t, gw, "healthy", "")
	listener.Close()
	becomes(t, gw, "unhealthy", "refused")
	if listener, err = net.Listen("tcp", address); err != nil {
		t.Skip("the port was taken by another")
	}
	defer listener.Close()
	becomes(t, gw, "healthy", "")
}

func TestChecksOfUnixSockets(t *testing.T) {
	for _, kind := range []string{"tcp", "http"} {
		path := filepath.Join(t.TempDir(), "s")
		gw := gateway(t, fmt.Sprintf(`{endpoints: ["unix:%s"], health_check: {type: %s, %s}}`, path, kind, quick))
		becomes(t, gw, "unhealthy", "")
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		var serving sync.WaitGroup
		serving.Go(func() { _ = server.Serve(listener) })
		becomes(t, gw, "healthy", "")
		server.Close()
		serving.Wait()
		becomes(t, gw, "unhealthy", "")
	}
}

// A check speaks as the upstream does: by TLS, trusting its authority.
func TestChecksOverTLS(t *testing.T) {
	own := certtest.SelfSigned(t, "127.0.0.1")
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own.TLS()}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	defer serving.Wait()
	defer server.Close()
	url := "https://" + listener.Addr().String()
	check := `interval: 500ms, timeout: 500ms, healthy_after: 1, unhealthy_after: 3` // for handshakes on a slow machine
	becomes(t, gateway(t, fmt.Sprintf(`{endpoints: [%q], tls: {ca: %q}, health_check: {%s}}`, url, own.CertFile(), check)), "healthy", "")
	becomes(t, gateway(t, fmt.Sprintf(`{endpoints: [%q], health_check: {interval: 500ms, timeout: 500ms, unhealthy_after: 1}}`, url)), "unhealthy", "certificate")
}

func TestChecksByGRPC(t *testing.T) {
	own := certtest.SelfSigned(t, "127.0.0.1")
	certificate := own.TLS()
	for name, test := range map[string]struct {
		options []grpc.ServerOption
		scheme  string
		more    string
	}{
		"cleartext": {nil, "http", "protocol: h2c"},
		"TLS": {
			[]grpc.ServerOption{grpc.Creds(credentials.NewServerTLSFromCert(&certificate))}, "https", fmt.Sprintf("protocol: h2, tls: {ca: %q}", own.CertFile()),
		},
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			server, service := grpc.NewServer(test.options...), health.NewServer()
			grpc_health_v1.RegisterHealthServer(server, service)
			var serving sync.WaitGroup
			serving.Go(func() { _ = server.Serve(listener) })
			defer serving.Wait()
			defer server.Stop()
			check := "type: grpc, interval: 500ms, timeout: 500ms, healthy_after: 1, unhealthy_after: 1"
			up := `{endpoints: ["%s://%s"], %s, health_check: {%s}}`
			whole := gateway(t, fmt.Sprintf(up, test.scheme, listener.Addr(), test.more, check))
			becomes(t, whole, "healthy", "")
			one := gateway(t, fmt.Sprintf(up, test.scheme, listener.Addr(), test.more, check+", service: shop.Orders"))
			becomes(t, one, "unhealthy", "grpc-status 5") // it is not known
			service.SetServingStatus("shop.Orders", grpc_health_v1.HealthCheckResponse_SERVING)
			becomes(t, one, "healthy", "")
			service.SetServingStatus("shop.Orders", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
			becomes(t, one, "unhealthy", "not serving")
			becomes(t, whole, "healthy", "")
			service.SetServingStatus("", grpc_health_v1.HealthCheckResponse_UNKNOWN)
			becomes(t, whole, "unhealthy", "does not tell that it is serving")
		})
	}
}

// A service that knows no grpc.health.v1, and what is no gRPC at all, are not well.
func TestChecksByGRPCOfSomethingElse(t *testing.T) {
	server := &http.Server{Protocols: new(http.Protocols)}
	server.Protocols.SetUnencryptedHTTP2(true)
	var answer atomic.Value
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer.Load().(func(http.ResponseWriter))(w) })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	answer.Store(func(w http.ResponseWriter) { w.WriteHeader(404) })
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	defer serving.Wait()
	defer server.Close()
	gw := gateway(t, fmt.Sprintf(`{endpoints: ["http://%s"], protocol: h2c, health_check: {type: grpc, interval: 500ms, unhealthy_after: 1}}`, listener.Addr()))
	becomes(t, gw, "unhealthy", "status 404")
	answer.Store(func(w http.ResponseWriter) { io.WriteString(w, "hello") })
	becomes(t, gw, "unhealthy", "no grpc-status")
	answer.Store(func(w http.ResponseWriter) { w.Header().Set("Grpc-Status", "12") }) // no more than a head
	becomes(t, gw, "unhealthy", "grpc-status 12")
	answer.Store(func(w http.ResponseWriter) { w.Header().Set("Grpc-Status", "0") })
	becomes(t, gw, "unhealthy", "does not tell that it is serving")
	answer.Store(func(w http.ResponseWriter) {
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	becomes(t, gw, "unhealthy", "upstream_reset")
	server.Close()
	becomes(t, gw, "unhealthy", "connection refused")
}

// A route that is changed, an endpoint that is added and a weight that is changed do
// not disturb the checks of what stays, and a drained endpoint stays drained.
func TestChecksGoOnOverReloads(t *testing.T) {
	var asked atomic.Int64
	bad := gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.WriteHeader(500)
	}))
	good := gatewaytest.NewEcho(t, "good")
	up := func(weight int, more string) string {
		return fmt.Sprintf(`{endpoints: [{url: %q, weight: %d}, %q%s], panic_threshold: 0%%, health_check: {interval: 50ms, unhealthy_after: 2}}`, bad, weight, good, more)
	}
	gw := gateway(t, up(1, ""))
	becomes(t, gw, "unhealthy", "status 500")
	gw.Load(config(up(3, ", "+gatewaytest.NewEcho(t, "new"))))
	list := endpoints(gw)
	if len(list) != 3 || list[0].Health != "unhealthy" || list[0].Weight != 3 || list[0].Available {
		t.Errorf("after a reload: %+v", list)
	}
	before := asked.Load()
	gatewaytest.WaitFor(t, "more checks", func() bool { return asked.Load() > before+2 })
	if got := endpoints(gw)[0].Health; got != "unhealthy" {
		t.Errorf("then it is %s", got)
	}
}
