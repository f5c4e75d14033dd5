package server_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/internal/certificate"
	"sluice/internal/lease"
	"sluice/internal/model"
)

// authority signs what tests show.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	file string
	dir  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, dir: t.TempDir()}
	a.key, a.cert = a.sign(&x509.Certificate{
		Subject: pkix.Name{CommonName: "tests"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	})
	a.file = a.write("ca.pem", "CERTIFICATE", a.cert.Raw)
	return a
}

// sign makes a certificate, of itself where the authority has none yet.
func (a *authority) sign(template *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, cert
}

func (a *authority) write(name, kind string, der []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// files writes the certificate of a host and its key.
func (a *authority) files(host string) model.CertificateFile {
	a.t.Helper()
	key, cert := a.sign(&x509.Certificate{DNSNames: []string{host}})
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	return model.CertificateFile{Cert: a.write(host+".pem", "CERTIFICATE", cert.Raw), Key: a.write(host+".key", "PRIVATE KEY", der)}
}

// client is how a client that trusts the authority speaks TLS.
func (a *authority) client(protocols ...string) *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool, ServerName: "one.test", NextProtos: protocols}
}

// identity is a client's certificate.
func (a *authority) identity(name string) tls.Certificate {
	key, cert := a.sign(&x509.Certificate{Subject: pkix.Name{CommonName: name}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	return tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key}
}

// over puts a listener under TLS with the certificate of one.test.
func (a *authority) over(m *model.Listener) {
	m.Protocols = []string{model.H1, model.H2}
	m.TLS = &model.ListenerTLS{Certificates: []model.CertificateFile{a.files("one.test")}, MinVersion: tls.VersionTLS12, ClientAuth: model.ClientAuth{Mode: model.ClientAuthNone}}
}

// secured is what a listener shows, nil without TLS.
func secured(t *testing.T, set *lease.Set, m *model.Listener) *certificate.Serving {
	t.Helper()
	if m.TLS == nil {
		return nil
	}
	return &certificate.Serving{Set: certificate.Acquire(set, m.TLS, certificate.Options{})}
}

// dialTLS is dial with a handshake.
func (f *fixture) dialTLS(config *tls.Config) *client {
	f.Helper()
	c := f.dial()
	secure := tls.Client(c.Conn, config)
	if err := secure.Handshake(); err != nil {
		f.Fatalf("handshake: %v", err)
	}
	return newClient(f.T, secure)
}
