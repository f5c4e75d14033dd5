package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

func exampleTLS(t *testing.T, gw *exampleGateway) {
	t.Helper()
	dir := t.TempDir()
	roots := ownCertificate(t, dir)
	t.Setenv("CERT", filepath.Join(dir, "site.pem"))
	t.Setenv("KEY", filepath.Join(dir, "site.key"))
	t.Setenv("WEBSECURE_ADDRESS", "127.0.0.1:0")
	t.Setenv("ACME_STORAGE", filepath.Join(dir, "acme"))
	runSluice(t, 0, nil, "validate", "-c", gw.file)
	runSluice(t, 0, nil, "validate", "-c", filepath.Join(filepath.Dir(gw.file), "acme.yaml"))
	gw.start(t)
	if r := gw.ask(t, ask{target: "/page?a=1", host: "localhost:8080"}); r.StatusCode != 308 || r.Header.Get("Location") != "https://localhost:8443/page?a=1" {
		t.Errorf("in clear: %d to %q", r.StatusCode, r.Header.Get("Location"))
	}
	if gatewaytest.Engine() == gatewaytest.Standard { // it speaks no TLS
		return
	}
	for _, protocols := range [][]string{{"h2"}, {"http/1.1"}} {
		config := &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: protocols}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: protocols[0] == "h2", DisableKeepAlives: true}}
		response, err := client.Get("https://" + gw.Addr("websecure").String() + "/")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || string(body) != "hello over TLS\n" || !strings.Contains(response.Header.Get("Alt-Svc"), "h3=") {
			t.Errorf("%s: %q, %v, Alt-Svc %q", response.Proto, body, err, response.Header.Get("Alt-Svc"))
		}
		if response.TLS.Version != tls.VersionTLS13 || response.TLS.NegotiatedProtocol != protocols[0] {
			t.Errorf("TLS %x, %q", response.TLS.Version, response.TLS.NegotiatedProtocol)
		}
	}
}

// ownCertificate writes site.pem and site.key, as the page of the example has them
// made, and returns who believes them.
func ownCertificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 0, 30),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for name, content := range map[string][]byte{"site.pem": certificate, "site.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	return roots
}
