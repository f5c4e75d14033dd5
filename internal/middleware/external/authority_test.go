package external_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/pipeline"
)

// authority is a certificate for 127.0.0.1 and auth.test that vouches for itself, with
// the paths of its files.
type authority struct {
	pair          tls.Certificate
	pool          *x509.CertPool
	ca, cert, key string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{"auth.test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{pair: pair, pool: x509.NewCertPool()}
	a.pool.AppendCertsFromPEM(cert)
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	a.cert, a.key = write("cert.pem", cert), write("key.pem", key)
	a.ca = a.cert
	return a
}

func TestHTTPOverTLS(t *testing.T) {
	keys := newAuthority(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{keys.pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: keys.pool, MinVersion: tls.VersionTLS12}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // clients without a certificate are meant
	server.StartTLS()
	t.Cleanup(server.Close)
	for options, want := range map[string]pipeline.Word{
		`{ca: ` + keys.ca + `, cert: ` + keys.cert + `, key: ` + keys.key + `}`:                          "",
		`{ca: ` + keys.ca + `, cert: ` + keys.cert + `, key: ` + keys.key + `, server_name: auth.test}`:  "",
		`{ca: ` + keys.ca + `, cert: ` + keys.cert + `, key: ` + keys.key + `, server_name: other.test}`: pipeline.AuthUnavailable,
		`{ca: ` + keys.ca + `}`:                            pipeline.AuthUnavailable,
		`{cert: ` + keys.cert + `, key: ` + keys.key + `}`: pipeline.AuthUnavailable,
	} {
		m, _ := newBed(t).build(`{http: {url: "` + server.URL + `", tls: ` + options + `}, timeout: 10s}`)
		if reached, err := serve(m, asked(t.Context(), "GET /")); word(err) != want || (reached != nil) != (want == "") {
			t.Errorf("%s: %v", options, err)
		}
	}
}
