package snapshot_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/snapshot"
)

// pair is the directory of a certificate, cert.pem, and its key, key.pem.
func pair(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"files.test"}, NotAfter: time.Now().AddDate(1, 0, 0)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, block := range map[string]*pem.Block{"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A directory that validates a name may come to any listener with TLS, whichever
// listener orders certificates for the name.
func TestNamesAreValidatedOnEveryListener(t *testing.T) {
	e := newEngine(t)
	built := e.builder.Build(compile(t, fmt.Sprintf(`
listeners:
  one: {address: ":0", tls: {acme: {domains: [one.test]}}}
  two: {address: "127.0.0.1:0", tls: {acme: {domains: [two.test]}}}
  files: {address: "unix:/files", tls: {certificates: [{cert: %[1]s/cert.pem, key: %[1]s/key.pem}]}}
  plain: {address: "unix:/plain"}
admin: {address: "127.0.0.1:0"}
routes: [{match: {path: /}, respond: {status: 204}}]
`, pair(t))), snapshot.Revision{Number: 1})
	defer built.Release()
	for i, m := range built.Gateway.Listeners {
		if m.TLS == nil {
			continue
		}
		for _, name := range []string{"one.test", "two.test"} {
			// It is looked up, and not known, because nothing has begun.
			_, err := built.Secure[i].Validation(&tls.ClientHelloInfo{ServerName: name})
			if err == nil || !strings.Contains(e.log.String(), "asked for a challenge\" domain="+name) {
				t.Errorf("%s, %s: %v\n%s", m.Name, name, err, e.log.String())
			}
		}
		e.log.Reset()
		if orders := m.TLS.ACME != nil; orders != (built.Secure[i].Source != nil) {
			t.Errorf("%s: whether it has certificates that are ordered is wrong", m.Name)
		}
	}
}

// Without ACME nobody validates.
func TestNoNamesAreValidatedWithoutACME(t *testing.T) {
	e := newEngine(t)
	built := e.builder.Build(compile(t, fmt.Sprintf(`
listeners: {files: {address: ":0", tls: {certificates: [{cert: %[1]s/cert.pem, key: %[1]s/key.pem}]}}}
admin: {address: "127.0.0.1:0"}
routes: [{match: {path: /}, respond: {status: 204}}]
`, pair(t))), snapshot.Revision{Number: 1})
	defer built.Release()
	if built.Secure[0].Validation != nil {
		t.Error("names are validated")
	}
}
