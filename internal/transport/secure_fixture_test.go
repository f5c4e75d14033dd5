package transport

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// authority issues certificates.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: serial(t), Subject: pkix.Name{CommonName: "test authority"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	return &authority{t, sign(t, template, template, key, key), key}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func serial(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func sign(t testing.TB, template, parent *x509.Certificate, key, by *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// issue makes a certificate for names; change may be nil.
func (a *authority) issue(change func(c *x509.Certificate), names ...string) tls.Certificate {
	a.t.Helper()
	key := newKey(a.t)
	template := &x509.Certificate{
		SerialNumber: serial(a.t), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	if change != nil {
		change(template)
	}
	cert := sign(a.t, template, a.cert, key, a.key)
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

func certPEM(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// file writes the authority's certificate.
func (a *authority) file(t testing.TB) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "ca.pem"), certPEM(a.cert))
}

func write(t testing.TB, path string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// served starts net/http's server with TLS, or, without a config, for HTTP/2 by
// prior knowledge and HTTP/1.1 in clear.
func served(t testing.TB, config *tls.Config, handler http.Handler, change ...func(s *http.Server)) model.Endpoint {
	t.Helper()
	return servedOn(t, func(l net.Listener) net.Listener { return l }, config, handler, change...)
}

// serverConfig is for a server at the loopback address.
func serverConfig(a *authority) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{a.issue(nil, "127.0.0.1")}}
}

// servedOn is served behind a listener that is wrapped.
func servedOn(t testing.TB, wrap func(l net.Listener) net.Listener, config *tls.Config, handler http.Handler, change ...func(s *http.Server)) model.Endpoint {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), Protocols: new(http.Protocols)}
	server.Protocols.SetHTTP1(true)
	server.Protocols.SetHTTP2(true)
	server.Protocols.SetUnencryptedHTTP2(true)
	scheme, done := "http", make(chan struct{})
	serve := func() error { return server.Serve(wrap(listener)) }
	if config != nil {
		scheme, server.TLSConfig = "https", config
		if len(config.NextProtos) == 1 && config.NextProtos[0] == alpnHTTP1 {
			server.Protocols.SetHTTP2(false)
		}
		serve = func() error { return server.ServeTLS(wrap(listener), "", "") }
	}
	for _, f := range change {
		f(server)
	}
	go func() { defer close(done); _ = serve() }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	address := listener.Addr().String()
	return model.Endpoint{URL: scheme + "://" + address, Scheme: scheme, Address: address, Host: address, Weight: 1}
}

// secured is served by a certificate of a new authority, and the settings that
// trust it.
func secured(t testing.TB, handler http.Handler, protocols ...string) (model.Endpoint, *model.ClientTLS) {
	t.Helper()
	a := newAuthority(t)
	config := &tls.Config{Certificates: []tls.Certificate{a.issue(nil, "127.0.0.1")}, NextProtos: protocols}
	return served(t, config, handler), &model.ClientTLS{CA: a.file(t)}
}

// reach is Acquire for a test.
func reach(t *bed, upstream *model.Upstream, endpoint model.Endpoint, observer Observer) pipeline.Transport {
	t.Helper()
	raw := acquired(t, upstream, endpoint, observer)
	return by(t.own, raw)
}

// acquired is Acquire until the end of the test.
func acquired(t *bed, upstream *model.Upstream, endpoint model.Endpoint, observer Observer) pipeline.Transport {
	t.Helper()
	return acquire(t, t.engine, upstream, endpoint, observer)
}

func acquire(t testing.TB, engine *Engine, upstream *model.Upstream, endpoint model.Endpoint, observer Observer) pipeline.Transport {
	t.Helper()
	var registry lease.Registry
	set := registry.NewSet()
	if upstream.Name == "" {
		upstream.Name = "up"
	}
	transport := Acquire(set, upstream, endpoint, observer, engine)
	if err := set.Commit(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Release)
	return transport
}

// files writes a certificate and its key.
func files(t testing.TB, c tls.Certificate) (cert, key string) {
	t.Helper()
	dir := t.TempDir()
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Join(dir, "cert.pem"), certPEM(c.Leaf)),
		write(t, filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// bundle writes a certificate and its key to one file.
func bundle(t testing.TB, c tls.Certificate) string {
	t.Helper()
	cert, key := files(t, c)
	var all []byte
	for _, path := range []string{cert, key} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return write(t, filepath.Join(t.TempDir(), "bundle.pem"), all)
}

// freePort is one that nobody listens on.
func freePort(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	return port
}

// at is an endpoint at a port.
func at(scheme, port string) model.Endpoint {
	address := "127.0.0.1:" + port
	return model.Endpoint{URL: scheme + "://" + address, Scheme: scheme, Address: address, Host: address, Weight: 1}
}

// run runs a program until the end of the test; scripts/test-setup installs it.
func run(t testing.TB, name string, arguments ...string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		if path, err = exec.LookPath("/usr/sbin/" + name); err != nil {
			t.Fatalf("%s is not installed: see scripts/test-setup", name)
		}
	}
	var said bytes.Buffer
	command := exec.Command(path, arguments...)
	command.Stdout, command.Stderr = &said, &said
	command.WaitDelay = time.Second // for what it has started
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Logf("%s said: %s", name, &said)
		}
	})
	return name
}

// listens waits until somebody listens on a port.
func listens(t testing.TB, port string) {
	t.Helper()
	eventually(t, "port "+port+" answers", func() bool {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}
