package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"

	"sluice/internal/certificate"
	"sluice/internal/certtest"
	"sluice/internal/lease"
	"sluice/internal/model"
)

// authority signs what tests show.
type authority struct {
	*certtest.Certificate
	t    *testing.T
	file string
	dir  string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{Certificate: certtest.Authority(t, "tests"), t: t, dir: t.TempDir()}
	a.file = a.CertFile()
	return a
}

// files writes the certificate of a host and its key.
func (a *authority) files(host string) (files model.CertificateFile) {
	files.Cert, files.Key = a.Issue(host).Write(a.dir, host)
	return files
}

// client is how a client that trusts the authority speaks TLS.
func (a *authority) client(protocols ...string) *tls.Config {
	return &tls.Config{RootCAs: a.Pool(), ServerName: "one.test", NextProtos: protocols}
}

// identity is a client's certificate.
func (a *authority) identity(name string) tls.Certificate {
	return a.IssueFor(certtest.NewKey(a.t), func(c *x509.Certificate) {
		c.Subject, c.ExtKeyUsage = pkix.Name{CommonName: name}, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}).TLS()
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
