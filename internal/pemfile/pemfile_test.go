package pemfile

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 5, 17, 12, 0, 0, 0, time.UTC)

func ecKey(t *testing.T, curve elliptic.Curve) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// made is a self-signed certificate, in DER.
func made(t *testing.T, key crypto.Signer, edit ...func(*x509.Certificate)) []byte {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "common"}, DNSNames: []string{"a.test"},
		NotBefore: now.AddDate(0, -1, 0), NotAfter: now.AddDate(0, 2, 0),
	}
	for _, e := range edit {
		e(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func pkcs8(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// text is faults as a document would tell of them.
func text(faults []Fault) string {
	var lines []string
	for _, f := range faults {
		line := string(f.In) + ": " + f.String()
		if f.Warning {
			line = "warning: " + line
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestCheckServer(t *testing.T) {
	key, other := ecKey(t, elliptic.P256()), ecKey(t, elliptic.P256())
	cert, keyFile := block("CERTIFICATE", made(t, key)), block("PRIVATE KEY", pkcs8(t, key))
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	shortKey, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p224 := ecKey(t, elliptic.P224())
	with := func(edit func(*x509.Certificate)) []byte { return block("CERTIFICATE", made(t, key, edit)) }
	broken := bytes.Clone(cert)
	copy(broken[60:], "!!!!")
	noCert := "cert: the file has no certificate (PEM begins with \"-----BEGIN CERTIFICATE-----\")"
	noKey := "key: the file has no private key (PEM begins with \"-----BEGIN PRIVATE KEY-----\")"
	const brokenBlock = "the file has a PEM block that is broken or has no end (write the file again, whole)"

	for _, c := range []struct {
		name      string
		cert, key []byte
		want      string
	}{
		{"good", cert, keyFile, ""},
		{"both in one file", join(keyFile, cert), join(keyFile, cert), ""},
		{"text around", join([]byte("Bag Attributes\n"), cert, []byte("\n\n")), join([]byte("# mine\n"), keyFile), ""},
		{"SEC 1, after its parameters", cert, join(block("EC PARAMETERS", []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7}), block("EC PRIVATE KEY", sec1)), ""},
		{"PKCS #1", block("CERTIFICATE", made(t, rsaKey)), block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey)), ""},
		{"RSA in PKCS #8", block("CERTIFICATE", made(t, rsaKey)), block("PRIVATE KEY", pkcs8(t, rsaKey)), ""},
		{"short RSA", block("CERTIFICATE", made(t, shortKey)), block("PRIVATE KEY", pkcs8(t, shortKey)), "warning: key: the key is RSA of 1024 bits, which is too short (the other side refuses it: take ECDSA, or RSA of 2048 bits)"},
		{"Ed25519", block("CERTIFICATE", made(t, edKey)), block("PRIVATE KEY", pkcs8(t, edKey)), ""},

		{"empty certificate", []byte(" \n"), keyFile, "cert: the file is empty"},
		{"empty key", cert, nil, "key: the file is empty"},
		{"no PEM", []byte("hello"), keyFile, noCert},
		{"DER", made(t, key), keyFile, "cert: the certificate is DER, not PEM (convert it: openssl x509 -inform DER -in FILE)"},
		{"key is DER", cert, pkcs8(t, key), "key: the key is DER, not PEM (convert it: openssl pkey -inform DER -in FILE)"},
		{"the wrong way round", keyFile, cert, "cert: the file has a key and no certificate (the two files may be the wrong way round)"},
		{"a certificate for a key", cert, cert, "key: the file has a certificate and no private key (the two files may be the wrong way round)"},
		{"no key", cert, []byte("hello"), noKey},
		{"another key", cert, block("PRIVATE KEY", pkcs8(t, other)), `key: the key is not that of the certificate "a.test" (use the key that the certificate was asked for with)`},
		{"a key of another type", cert, block("PRIVATE KEY", pkcs8(t, rsaKey)), `key: the key is not that of the certificate "a.test" (use the key that the certificate was asked for with)`},
		{"chain the wrong way round", join(block("CERTIFICATE", made(t, other)), cert), keyFile, "cert: the key is that of the second certificate of the file (the server's own certificate comes first, then those that vouch for it)"},
		{"cut in the middle", join(cert, cert[:100]), keyFile, "cert: " + brokenBlock},
		{"broken block", join(broken, cert), keyFile, "cert: " + brokenBlock},
		{"broken key block", cert, keyFile[:50], "key: " + brokenBlock},
		{"no certificate inside", block("CERTIFICATE", []byte{1, 2}), keyFile, "cert: the first certificate of the file cannot be read: malformed certificate"},
		{"a bad second one", join(cert, block("CERTIFICATE", []byte{1, 2})), keyFile, "cert: the second certificate of the file cannot be read: malformed certificate"},
		{"encrypted", cert, block("ENCRYPTED PRIVATE KEY", []byte{1}), "key: the key is encrypted with a passphrase (store it without one, readable by the gateway only: openssl pkey -in FILE -out NEW)"},
		{
			"encrypted, the old way", cert, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"}, Bytes: []byte{1}}),
			"key: the key is encrypted with a passphrase (store it without one, readable by the gateway only: openssl pkey -in FILE -out NEW)",
		},
		{"a curve that TLS lacks", block("CERTIFICATE", made(t, p224)), block("PRIVATE KEY", pkcs8(t, p224)), "key: the key cannot be read: it is of a kind that TLS does not use; RSA, ECDSA on P-256, P-384 or P-521, and Ed25519 are"},

		{"expired", with(func(c *x509.Certificate) { c.NotAfter = now.Add(-time.Second) }), keyFile, `warning: cert: the certificate "a.test" expired on 2026-05-17 11:59 UTC (renew it; changed files are taken up without a reload)`},
		{"not yet", with(func(c *x509.Certificate) { c.NotBefore = now.Add(time.Hour) }), keyFile, `warning: cert: the certificate "a.test" is not valid before 2026-05-17 13:00 UTC (wait until then, or check the clock of this machine)`},
		{"soon", with(func(c *x509.Certificate) { c.NotAfter = now.AddDate(0, 0, 6) }), keyFile, `warning: cert: the certificate "a.test" expires on 2026-05-23 12:00 UTC, in less than 7 days (renew it; changed files are taken up without a reload)`},
		{"not that soon", with(func(c *x509.Certificate) { c.NotAfter = now.AddDate(0, 0, 7) }), keyFile, ""},
		{"no names", with(func(c *x509.Certificate) { c.DNSNames = nil }), keyFile, "warning: cert: the certificate is for no host: it has no DNS name among its subjectAltNames (clients refuse it; the common name does not count)"},
		{"an address", with(func(c *x509.Certificate) { c.DNSNames, c.IPAddresses = nil, []net.IP{{127, 0, 0, 1}} }), keyFile, ""},
		{"for clients", with(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }), keyFile, "warning: cert: the certificate is not for servers: its extended key usage lacks serverAuth (clients refuse it)"},
		{"for both", with(func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
		}), keyFile, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			faults := CheckServer(c.cert, c.key, now)
			if got := text(faults); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			pair, fault := Pair(c.cert, c.key)
			usable := len(faults) == 0 || faults[0].Warning
			if (fault == nil) != usable || usable && (pair.Leaf == nil || len(pair.Certificate) == 0) {
				t.Errorf("pair %v, %v", pair, fault)
			}
		})
	}
}

// A client's certificate needs no name.
func TestCheckPair(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	cert := block("CERTIFICATE", made(t, key, func(c *x509.Certificate) { c.DNSNames, c.NotAfter = nil, now.Add(-time.Hour) }))
	if got, want := text(CheckPair(cert, block("PRIVATE KEY", pkcs8(t, key)), now)), `warning: cert: the certificate "common" expired on 2026-05-17 11:00 UTC (renew it; changed files are taken up without a reload)`; got != want {
		t.Errorf("got %s", got)
	}
	if got, want := text(CheckPair(cert, nil, now)), "key: the file is empty"; got != want {
		t.Errorf("got %s", got)
	}
}

func TestCheckAuthorities(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	vouching := func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true }
	one, two := block("CERTIFICATE", made(t, key, vouching)), block("CERTIFICATE", made(t, key, func(c *x509.Certificate) {
		c.DNSNames, c.Subject, c.NotAfter = nil, pkix.Name{}, now.Add(-time.Hour)
	}))
	for _, c := range []struct {
		name string
		ca   []byte
		want string
	}{
		{"good", one, ""},
		{"of a server", block("CERTIFICATE", made(t, key)), "warning: ca: the file has no certificate of an authority: nobody is believed but who shows one of its own (name the file of the authority that issued them)"},
		{"one has expired", join(one, two), "warning: ca: the certificate number 7 expired on 2026-05-17 11:00 UTC (renew it; changed files are taken up without a reload)"},
		{"none", []byte("x"), "ca: the file has no certificate (PEM begins with \"-----BEGIN CERTIFICATE-----\")"},
		{"a key", block("PRIVATE KEY", pkcs8(t, key)), "ca: the file has no certificate (PEM begins with \"-----BEGIN CERTIFICATE-----\")"},
		{"empty", nil, "ca: the file is empty"},
		{"cut", one[:80], "ca: the file has a PEM block that is broken or has no end (write the file again, whole)"},
	} {
		if got := text(CheckAuthorities(c.ca, now)); got != c.want {
			t.Errorf("%s: got  %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestSumOfAuthorities(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	one, two := block("CERTIFICATE", made(t, key)), block("CERTIFICATE", made(t, key))
	sum := func(parts ...[]byte) [32]byte {
		pool, fault := Authorities(join(parts...))
		if fault != nil {
			t.Fatal(fault)
		}
		return pool.Sum
	}
	if sum(one, two) != sum(two, []byte("\nmore\n"), one, two) {
		t.Error("equal pools have two sums")
	}
	if sum(one) == sum(two) || sum(one) == sum(one, two) {
		t.Error("two pools have one sum")
	}
}

func TestTitle(t *testing.T) {
	for want, c := range map[string]*x509.Certificate{
		`"a.test"`:   {DNSNames: []string{"a.test"}, Subject: pkix.Name{CommonName: "b"}},
		"127.0.0.1":  {IPAddresses: []net.IP{{127, 0, 0, 1}}},
		`"b\n"`:      {Subject: pkix.Name{CommonName: "b\n"}},
		"number 123": {SerialNumber: big.NewInt(123)},
	} {
		if got := Title(c); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
