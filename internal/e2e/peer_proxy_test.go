package e2e

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

// clientIP is where the clients before a proxy speak from: any address of this
// machine is a client's as well.
const clientIP = "127.0.0.2"

// startTCPProxy runs Debian's HAProxy before an address until the test ends, and
// returns where it listens. It passes connections on as they are, behind a PROXY
// header; send is the option that says which.
func startTCPProxy(t *testing.T, to, send string) string {
	t.Helper()
	return startService(t, "haproxy", func(folder, address string) []string {
		file := filepath.Join(folder, "haproxy.cfg")
		config := fmt.Sprintf(`
global
  maxconn 1000
defaults
  mode tcp
  timeout connect 5s
  timeout client 30s
  timeout server 30s
listen all
  bind %s
  server one %s %s check inter 100ms
`, address, to, send)
		if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		return []string{"-db", "-f", file}
	}).address
}

// behind is a client that speaks from clientIP with a proxy.
func behind(t *testing.T, way, address string, roots *x509.CertPool) *siteClient {
	t.Helper()
	client := newSiteClient(t, way, address, roots)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(clientIP)}}
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
		return dialer.DialContext(ctx, network, to)
	}
	return client
}

// proxiedSite is a gateway whose listeners are for proxies alone.
func proxiedSite(t *testing.T, trusted, upstream string) (gw *gatewaytest.Gateway, roots *x509.CertPool) {
	t.Helper()
	if gatewaytest.Engine() == gatewaytest.Standard {
		t.Skip("net/http's own server knows no PROXY headers")
	}
	cert, key := selfSigned(t, siteHost)
	roots = x509.NewCertPool()
	trust(t, roots, cert)
	gw = gatewaytest.Start(t, fmt.Sprintf(`
listeners:
  web: {address: "127.0.0.1:0", proxy_protocol: true, trusted_proxies: [%[1]s]}
  websecure: {address: "127.0.0.1:0", proxy_protocol: true, trusted_proxies: [%[1]s], tls: {certificates: [{cert: %[2]q, key: %[3]q}]}}
admin: {address: "127.0.0.1:0"}
upstreams: {up: %[4]s}
routes: [{id: all, match: {path_prefix: /}, upstream: up}]
`, trusted, cert, key, upstream))
	return gw, roots
}

// proxiedWays are the ways to speak that go through a proxy of TCP.
var proxiedWays = []string{"h1", "h2c", "h1 over TLS", "h2"}

// TestBehindHAProxy has HAProxy before the gateway: the client's address comes
// through, and nothing else that the client says about itself.
func TestBehindHAProxy(t *testing.T) {
	gw, roots := proxiedSite(t, "127.0.0.1/32", fmt.Sprintf("{endpoints: [%q]}", gatewaytest.NewEcho(t, "up")))
	for _, send := range []string{"send-proxy", "send-proxy-v2"} {
		for _, listener := range []string{"web", "websecure"} {
			address := startTCPProxy(t, gw.Addr(listener).String(), send)
			for _, way := range proxiedWays {
				if listenerFor(way) != listener {
					continue
				}
				t.Run(send+" "+way, func(t *testing.T) {
					client := behind(t, way, address, roots)
					for range 3 { // the header is there once
						r := fetch(t, client.Client, "GET", client.base+"/", 0, nil, "X-Forwarded-For", "198.51.100.1")
						saw := r.echo(t)
						if got := saw.Header["X-Forwarded-For"]; !sameList(got, clientIP) {
							t.Errorf("the endpoint saw X-Forwarded-For %q", got)
						}
						if got, want := saw.Header["X-Forwarded-Proto"], strings.Split(client.base, ":")[0]; !sameList(got, want) {
							t.Errorf("the endpoint saw X-Forwarded-Proto %q, want %q", got, want)
						}
						if line := gw.LogLine(r.Header.Get("X-Request-Id")); line["client_ip"] != clientIP {
							t.Errorf("the log line is %v", line)
						}
					}
				})
			}
		}
	}
}

// TestUntrustedHAProxy has HAProxy before a gateway that does not trust it: no
// request comes through, and none without its header.
func TestUntrustedHAProxy(t *testing.T) {
	reached := make(chan struct{}, 100)
	url := gatewaytest.NewHTTP(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached <- struct{}{} }))
	gw, roots := proxiedSite(t, "127.0.0.3/32", fmt.Sprintf("{endpoints: [%q]}", url))
	for _, way := range proxiedWays {
		t.Run(way, func(t *testing.T) {
			own := gw.Addr(listenerFor(way)).String()
			before := connectionsFailed(gw, listenerFor(way))
			for name, address := range map[string]string{"v1": startTCPProxy(t, own, "send-proxy"), "v2": startTCPProxy(t, own, "send-proxy-v2"), "no proxy": own} {
				client := behind(t, way, address, roots)
				response, err := client.Get(client.base)
				if err == nil {
					response.Body.Close()
					t.Errorf("%s: status %d", name, response.StatusCode)
				}
			}
			gatewaytest.WaitFor(t, "the connections are counted", func() bool { return connectionsFailed(gw, listenerFor(way)) >= before+3 })
		})
	}
	if len(reached) > 0 || len(gw.LogLines()) > 0 {
		t.Errorf("%d requests reached the endpoint; the log has %v", len(reached), gw.LogLines())
	}
}

// connectionsFailed is how many of a listener's connections came to no request.
func connectionsFailed(gw *gatewaytest.Gateway, listener string) int {
	var all []struct {
		Name   string
		Failed int
	}
	gw.Admin("/_gateway/listeners", &all)
	for _, l := range all {
		if l.Name == listener {
			return l.Failed
		}
	}
	return 0
}

// TestPROXYToNginx has HAProxy before the gateway and nginx behind it: the
// client's address goes through both.
func TestPROXYToNginx(t *testing.T) {
	listens := startNginxProxied(t)
	for _, version := range []string{"v1", "v2"} {
		gw, roots := proxiedSite(t, "127.0.0.1/32", fmt.Sprintf("{proxy_protocol: %s, endpoints: [%q]}", version, listens))
		for _, listener := range []string{"web", "websecure"} {
			address := startTCPProxy(t, gw.Addr(listener).String(), "send-proxy-v2")
			for _, way := range proxiedWays {
				if listenerFor(way) != listener {
					continue
				}
				t.Run(version+" "+way, func(t *testing.T) {
					client := behind(t, way, address, roots)
					r := fetch(t, client.Client, "GET", client.base+"/", 0, nil)
					var saw struct{ Proxy, Forwarded string }
					if err := json.Unmarshal([]byte(r.body), &saw); err != nil || saw.Proxy != clientIP || saw.Forwarded != clientIP {
						t.Errorf("status %d %q, %v", r.StatusCode, r.body, err)
					}
				})
			}
		}
	}
}

// startNginxProxied runs an nginx to which every connection has to begin with a
// PROXY header, and which tells what that says.
func startNginxProxied(t *testing.T) (url string) {
	t.Helper()
	file := filepath.Join(gatewaytest.ShortDir(t), "socket")
	_ = startNginx(t, fmt.Sprintf(`
    listen unix:%s proxy_protocol;
    location / { return 200 '{"proxy":"$proxy_protocol_addr","forwarded":"$http_x_forwarded_for"}'; }
`, file))
	return "unix:" + file
}
