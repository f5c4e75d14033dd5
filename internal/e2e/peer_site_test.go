package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/quic-go/quic-go/http3"

	"sluice/internal/gatewaytest"
)

// siteHost is the name in the certificates of sites.
const siteHost = "site.test"

// site is a gateway that speaks every protocol: web without TLS, websecure with,
// and prior HTTP/2 alone, without TLS.
type site struct {
	*gatewaytest.Gateway
	cert, key string // files
	roots     *x509.CertPool
}

// startSite runs a gateway before one endpoint.
func startSite(t *testing.T, url string) *site {
	t.Helper()
	if gatewaytest.Engine() == gatewaytest.Standard {
		t.Skip("net/http's own server is there for HTTP/1.1 alone")
	}
	s := &site{roots: x509.NewCertPool()}
	s.cert, s.key = selfSigned(t, siteHost)
	trust(t, s.roots, s.cert)
	s.Gateway = gatewaytest.Start(t, fmt.Sprintf(`
listeners:
  web: {address: "127.0.0.1:0"}
  prior: {address: "127.0.0.1:0", protocols: [h2c]}
  websecure: {address: "127.0.0.1:0", protocols: [h1, h2, h3], tls: {certificates: [{cert: %q, key: %q}]}}
admin: {address: "127.0.0.1:0"}
upstreams: {up: {endpoints: [%q]}}
routes: [{id: all, match: {path_prefix: /}, upstream: up}]
`, s.cert, s.key, url))
	return s
}

func trust(t *testing.T, roots *x509.CertPool, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatalf("%s is no certificate: %v", file, err)
	}
}

// spoken are the ways to speak with a gateway, by how a client does it.
var spoken = map[string]func(*http.Protocols){
	"h1":          func(p *http.Protocols) { p.SetHTTP1(true) },
	"h2c":         func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	"h1 over TLS": func(p *http.Protocols) { p.SetHTTP1(true) },
	"h2":          func(p *http.Protocols) { p.SetHTTP2(true) },
	"h3":          nil, // by a library of its own
}

// listenerFor is the name of the listener that a way of speaking is for.
func listenerFor(way string) string {
	if way == "h1" || way == "h2c" {
		return "web"
	}
	return "websecure"
}

// siteClient is a client of its own, which speaks one protocol with one address.
type siteClient struct {
	*http.Client
	base string // of its URLs
}

// newSiteClient returns a client whose connections end with the test.
func newSiteClient(t *testing.T, way, address string, roots *x509.CertPool) *siteClient {
	t.Helper()
	scheme := "https"
	if listenerFor(way) == "web" {
		scheme = "http"
	}
	s := &siteClient{&http.Client{Timeout: gatewaytest.Patience}, scheme + "://" + address}
	config := &tls.Config{RootCAs: roots, ServerName: siteHost, MinVersion: tls.VersionTLS12}
	if way == "h3" {
		transport := &http3.Transport{TLSClientConfig: config}
		t.Cleanup(func() { _ = transport.Close() }) // the gateway may have been first
		s.Transport = transport
		return s
	}
	transport := &http.Transport{TLSClientConfig: config, Protocols: new(http.Protocols), ExpectContinueTimeout: gatewaytest.Patience}
	spoken[way](transport.Protocols)
	t.Cleanup(transport.CloseIdleConnections)
	s.Transport = transport
	return s
}

// client is newSiteClient for a site.
func (s *site) client(t *testing.T, way string) *siteClient {
	t.Helper()
	return newSiteClient(t, way, s.Addr(listenerFor(way)).String(), s.roots)
}

// port is that of a listener.
func (s *site) port(t *testing.T, listener string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr(listener).String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
