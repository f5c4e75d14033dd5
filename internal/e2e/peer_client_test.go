package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"testing"

	"sluice/internal/gatewaytest"
)

// TestClients has Go's clients before the gateway, and that of quic-go: small and
// large messages, early refusals, and many requests at once.
func TestClients(t *testing.T) {
	gw := startSite(t, peerEndpoint(t))
	content, err := io.ReadAll(newContent(6, 3<<20))
	if err != nil {
		t.Fatal(err)
	}
	sent, _ := sum(t, bytes.NewReader(content))
	got, _ := sum(t, newContent(5, peerFile))
	for way, protocol := range map[string]string{"h2c": "HTTP/2", "h1 over TLS": "HTTP/1.1", "h2": "HTTP/2", "h3": "HTTP/3"} {
		t.Run(way, func(t *testing.T) {
			client := gw.client(t, way)
			for _, test := range []peerAsk{
				{method: "GET", path: "/hello", status: 200, body: "hello"},
				{method: "POST", path: "/sum", size: 3 << 20, status: 200, body: "POST 3145728 " + sent},
				{method: "PUT", path: "/sum", size: -1, status: 200, body: "PUT 3145728 " + sent},
				{method: "POST", path: "/sum", size: 3 << 20, expect: true, status: 200, body: "POST 3145728 " + sent},
				{method: "HEAD", path: "/file", status: 200},
				{method: "GET", path: "/none", status: 404, body: "404 page not found\n"},
				{method: "POST", path: "/refused", size: 3 << 20, status: 403},
				{method: "GET", path: "/hello", status: 200, body: "hello"},
			} {
				var body io.Reader
				if test.size != 0 {
					body = bytes.NewReader(content)
				}
				var fields []string
				if test.expect {
					fields = []string{"Expect", "100-continue"}
				}
				r := fetch(t, client.Client, test.method, client.base+test.path, test.size, body, fields...)
				if r.StatusCode != test.status || r.body != test.body {
					t.Errorf("%s %s: status %d %.200q, want %d %q", test.method, test.path, r.StatusCode, r.body, test.status, test.body)
				}
				if line := gw.LogLine(r.Header.Get("X-Request-Id")); line["protocol"] != protocol {
					t.Errorf("the log line is %v, want %s", line, protocol)
				}
				if want := fmt.Sprintf(`h3=":%s"; ma=86400`, gw.port(t, "websecure")); way != "h2c" && way != "h3" && !slices.Equal(r.Header.Values("Alt-Svc"), []string{want}) {
					t.Errorf("Alt-Svc %q, want %q", r.Header.Values("Alt-Svc"), want)
				}
			}
			var all sync.WaitGroup
			for range 12 {
				all.Go(func() {
					response, err := client.Get(client.base + "/file")
					if err != nil {
						t.Error(err)
						return
					}
					defer response.Body.Close()
					if sha, n, err := sumOf(response.Body); err != nil || sha != got || n != peerFile {
						t.Errorf("%d bytes came with %s, %v", n, sha, err)
					}
				})
			}
			all.Wait()
		})
	}
}

// TestClientsThatLeave has clients give their requests up: the endpoint is told.
func TestClientsThatLeave(t *testing.T) {
	begun, ended := make(chan struct{}, 1), make(chan struct{}, 1)
	gw := startSite(t, gatewaytest.NewHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		begun <- struct{}{}
		<-r.Context().Done()
		ended <- struct{}{}
	})))
	for way := range spoken {
		t.Run(way, func(t *testing.T) {
			client := gw.client(t, way)
			response, err := client.Get(client.base)
			if err != nil {
				t.Fatal(err)
			}
			hear(t, response.Body, "begun")
			await(t, "the request at the endpoint", begun)
			response.Body.Close()
			await(t, "its end", ended)
			if line := gw.LogLine(response.Header.Get("X-Request-Id")); line["error"] != "client_closed" {
				t.Errorf("the log line is %v", line)
			}
		})
	}
}
