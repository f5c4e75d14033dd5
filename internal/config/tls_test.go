package config_test

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/certtest"
	"sluice/internal/config"
	"sluice/internal/model"
)

// TestTLSWritten has all that can be said of TLS, on both sides.
func TestTLSWritten(t *testing.T) {
	dir := t.TempDir()
	certtest.SelfSigned(t, "a.test").Write(dir, "a")
	at := func(name string) string { return filepath.Join(dir, name) }
	result := config.Resolve([]config.Document{{Name: "sluice.yaml", Dir: dir, Data: []byte(`
listeners:
  web:
    address: ":8443"
    protocols: [h3, h1]
    tls:
      certificates: [{cert: a.pem, key: a.key}]
      acme: {email: ops@a.test, domains: [A.test.], directory: "https://ca.test/dir", ca_file: a.pem, storage: kept}
      min_version: "1.3"
      client_auth: {mode: optional, ca: a.pem, forward: true}
  shared: {address: ":8444", tls: {acme: {domains: [a.test], store: main}}}
  usual: {address: ":8445", tls: {acme: {domains: [a.test]}}}
  behind: {address: ":8080", proxy_protocol: true, trusted_proxies: [10.0.0.0/8], protocols: [h2c]}
stores:
  main: {redis: {address: "redis:6379", username: u, password: "${p}", database: 2, tls: {}}}
upstreams:
  a: {endpoints: [https://A.test, http://b.test], tls: {ca: a.pem, cert: a.pem, key: a.key, server_name: x.test}, proxy_protocol: v2}
  b: {endpoints: ["https://a.test:8443"], protocol: h2}
routes:
  - {match: {path: /a}, upstream: a}
  - {match: {path: /b}, upstream: b}
  - {match: {path: /c}, upstream: "https://c.test:443/base"}
`)}}, nil, fromOutside())
	g := result.Gateway
	if g == nil || len(result.Problems) > 0 || len(result.Files) > 0 {
		t.Fatalf("%v, files %v", result.Problems, result.Files)
	}
	var secure []*model.ListenerTLS
	var protocols [][]string
	for _, l := range g.Listeners {
		secure, protocols = append(secure, l.TLS), append(protocols, l.Protocols)
	}
	const usual = "https://acme-v02.api.letsencrypt.org/directory"
	if diff := cmp.Diff([]*model.ListenerTLS{
		{
			Certificates: []model.CertificateFile{{Cert: at("a.pem"), Key: at("a.key")}},
			ACME:         &model.ACME{Email: "ops@a.test", Domains: []string{"a.test"}, Directory: "https://ca.test/dir", CAFile: at("a.pem"), Storage: at("kept")},
			MinVersion:   tls.VersionTLS13,
			ClientAuth:   model.ClientAuth{Mode: "optional", CA: at("a.pem"), Forward: true},
		},
		{ACME: &model.ACME{Domains: []string{"a.test"}, Directory: usual, Store: "main"}, MinVersion: tls.VersionTLS12, ClientAuth: model.ClientAuth{Mode: "none"}},
		{ACME: &model.ACME{Domains: []string{"a.test"}, Directory: usual, Storage: at("acme")}, MinVersion: tls.VersionTLS12, ClientAuth: model.ClientAuth{Mode: "none"}},
		nil,
	}, secure); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]string{{"h1", "h3"}, {"h1", "h2"}, {"h1", "h2"}, {"h2"}}, protocols); diff != "" {
		t.Error(diff)
	}
	if !g.Listeners[3].ProxyProtocol || g.Listeners[0].ProxyProtocol || !g.Listeners[3].Speaks("h2") || g.Listeners[3].Speaks("h1") {
		t.Errorf("%+v", g.Listeners[3])
	}
	store := &model.Store{Name: "main", Redis: model.RedisStore{Address: "redis:6379", Username: "u", Password: "p", Database: 2, TLS: &model.ClientTLS{}}}
	if diff := cmp.Diff([]*model.Store{store}, g.Stores); diff != "" {
		t.Error(diff)
	}
	a, b, c := g.Upstreams[0], g.Upstreams[1], g.Upstreams[2]
	if diff := cmp.Diff(&model.ClientTLS{CA: at("a.pem"), Cert: at("a.pem"), Key: at("a.key"), ServerName: "x.test"}, a.TLS); diff != "" {
		t.Error(diff)
	}
	if a.Protocol != "auto" || a.ProxyProtocol != "v2" || a.Endpoints[0].Address != "a.test:443" || a.Endpoints[0].Scheme != "https" || a.Endpoints[1].Scheme != "http" {
		t.Errorf("%+v", a)
	}
	if b.Protocol != "h2" || b.TLS != nil || c.Protocol != "auto" || c.Endpoints[0].Host != "c.test" || c.Endpoints[0].BasePath != "/base" {
		t.Errorf("%+v, %+v", b, c)
	}
}

// TestStorageThatIsAFile is told where it is written, and mended without a change of
// the documents.
func TestStorageThatIsAFile(t *testing.T) {
	dir := t.TempDir()
	resolve := func(text string) config.Result {
		return config.Resolve([]config.Document{{Name: "sluice.yaml", Dir: dir, Data: []byte("listeners: {web: {address: ':0', tls: {acme: {domains: [a.test]" + text + "}}}}")}}, nil, config.Environment{})
	}
	path := filepath.Join(dir, "acme")
	if got := resolve(""); len(got.Problems) > 0 {
		t.Errorf("what is not there: %v", got.Problems)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := resolve(""); len(got.Problems) > 0 {
		t.Errorf("a directory: %v", got.Problems)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for text, column := range map[string]int{"": 46, ", storage: ./acme": 75} {
		got := resolve(text)
		if len(got.Problems) != 1 || got.Problems[0].Line != 1 || got.Problems[0].Col != column || !slices.Contains(got.Files, path) {
			t.Errorf("%q: %v, files %v", text, got.Problems, got.Files)
		}
	}
}
