// Package certtest makes certificates: authorities, what they issue, and the files
// that they are kept in. It is for tests only, and imports nothing of Sluice, so that
// every package's tests can have it.
package certtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificate is a certificate with its key. All are valid from an hour ago, those
// that sign for ten years, others for 90 days; and have a serial number of their own.
type Certificate struct {
	*x509.Certificate
	Key crypto.Signer
	t   testing.TB
}

// Authority makes a certificate of a common name that signs others.
func Authority(t testing.TB, name string) *Certificate {
	t.Helper()
	return signsItself(t, name)
}

// SelfSigned makes a certificate for names, which are hosts and addresses. It signs
// others, too; its common name is the first name.
func SelfSigned(t testing.TB, names ...string) *Certificate {
	t.Helper()
	return signsItself(t, names[0], names...)
}

func signsItself(t testing.TB, commonName string, names ...string) *Certificate {
	t.Helper()
	template := newTemplate(t, names)
	template.Subject = pkix.Name{CommonName: commonName}
	template.NotAfter = time.Now().AddDate(10, 0, 0)
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	key := NewKey(t)
	return sign(t, template, template, key, key)
}

// Issue makes a certificate for names, of a new key.
func (c *Certificate) Issue(names ...string) *Certificate {
	c.t.Helper()
	return c.IssueFor(NewKey(c.t), nil, names...)
}

// IssueFor makes a certificate of a key for names. What it says may be edited; nil
// leaves it.
func (c *Certificate) IssueFor(key crypto.Signer, edit func(*x509.Certificate), names ...string) *Certificate {
	c.t.Helper()
	template := newTemplate(c.t, names)
	if edit != nil {
		edit(template)
	}
	return sign(c.t, template, c.Certificate, key, c.Key)
}

// NewKey makes a key, of ECDSA.
func NewKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newTemplate(t testing.TB, names []string) *x509.Certificate {
	t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: serial,
		NotBefore:    time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 0, 90),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return template
}

func sign(t testing.TB, template, parent *x509.Certificate, key, signer crypto.Signer) *Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &Certificate{leaf, key, t}
}

// TLS is the certificate as crypto/tls shows it.
func (c *Certificate) TLS() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{c.Raw}, PrivateKey: c.Key, Leaf: c.Certificate}
}

// Pool is of those who trust the certificate, and what it signs.
func (c *Certificate) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.Certificate)
	return pool
}

// CertPEM is the certificate as text.
func (c *Certificate) CertPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// KeyPEM is the key as text (PKCS #8).
func (c *Certificate) KeyPEM() []byte {
	c.t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(c.Key)
	if err != nil {
		c.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// CertFile saves the certificate in a directory of its own and returns its path.
func (c *Certificate) CertFile() string {
	c.t.Helper()
	path := filepath.Join(c.t.TempDir(), "cert.pem")
	if err := os.WriteFile(path, c.CertPEM(), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// Write saves NAME.pem and NAME.key in a directory and returns their paths.
func (c *Certificate) Write(dir, name string) (cert, key string) {
	c.t.Helper()
	cert, key = filepath.Join(dir, name+".pem"), filepath.Join(dir, name+".key")
	for path, text := range map[string][]byte{cert: c.CertPEM(), key: c.KeyPEM()} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	return cert, key
}
