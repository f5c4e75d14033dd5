package certificate

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/internal/certtest"
)

func TestCertificateByName(t *testing.T) {
	b := newBed(t)
	defer b.end()
	one, two, wild := b.ca.Issue("one.test", "www.one.test"), b.ca.Issue("Two.Test"), b.ca.Issue("*.wild.test", "wild.test")
	special := b.ca.Issue("special.wild.test")
	common := b.ca.IssueFor(certtest.NewKey(t), func(c *x509.Certificate) { c.Subject = pkix.Name{CommonName: "common.test"} })
	b.serve(settings(b.save("one", one), b.save("two", two), b.save("wild", wild), b.save("special", special), b.save("common", common)))
	for _, c := range []struct {
		name string
		want *certtest.Certificate
	}{
		{"one.test", one},
		{"www.one.test", one},
		{"ONE.test", one},
		{"two.test", two},
		{"wild.test", wild},
		{"a.wild.test", wild},
		{"special.wild.test", special}, // the exact name before the wildcard
		{"a.b.wild.test", one},         // a wildcard is one label
		{"other.test", one},            // the default
		{"x.one.test", one},
		{"common.test", one}, // a common name is no name
		{"", one},            // no name
	} {
		b.expect("name "+c.name, b.client(c.name, believes), c.want)
	}
}

func TestCertificateByAddress(t *testing.T) {
	b := newBed(t)
	defer b.end()
	one := b.ca.Issue("one.test")
	address := b.ca.IssueFor(certtest.NewKey(t), func(c *x509.Certificate) {
		c.IPAddresses = []net.IP{net.ParseIP("192.0.2.1"), net.ParseIP("2001:db8::1")}
	})
	b.serve(settings(b.save("one", one), b.save("address", address)))
	for _, c := range []struct {
		local net.Addr
		name  string
		want  *certtest.Certificate
	}{
		{&net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 443}, "", address},
		{&net.TCPAddr{IP: net.ParseIP("192.0.2.1").To16(), Port: 443}, "", address},
		{&net.UDPAddr{IP: net.ParseIP("2001:db8::1"), Port: 443}, "", address},
		{&net.TCPAddr{IP: net.ParseIP("192.0.2.2"), Port: 443}, "", one},
		{&net.UnixAddr{Name: "/x", Net: "unix"}, "", one},
		{&net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 443}, "one.test", one}, // the name goes first
		{&net.TCPAddr{IP: net.ParseIP("192.0.2.1"), Port: 443}, "none.test", one},
	} {
		o := shake(t, b.handshake.Config(), b.client(c.name, believes), c.local)
		if o.err != nil || o.serial() != c.want.SerialNumber.String() {
			t.Errorf("%v %q: %v, %v", c.local, c.name, o.client.PeerCertificates, o.err)
		}
	}
	// Go's client names no address; others do.
	hello := &tls.ClientHelloInfo{ServerName: "192.0.2.1"}
	if c := b.set.table.Load().match(hello); c == nil || !c.Leaf.Equal(address.Certificate) {
		t.Errorf("an address as name: %v", c)
	}
}

func TestCertificateByKeyType(t *testing.T) {
	b := newBed(t)
	defer b.end()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ec, withRSA := b.ca.Issue("one.test"), b.ca.IssueFor(key, nil, "one.test")
	wildRSA := b.ca.IssueFor(key, nil, "*.test")
	other := b.ca.Issue("two.test")
	b.serve(settings(b.save("ec", ec), b.save("rsa", withRSA), b.save("other", other), b.save("wild", wildRSA)))
	onlyRSA := func(c *tls.Config) {
		c.MaxVersion = tls.VersionTLS12
		c.CipherSuites = []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256}
	}
	onlyEC := func(c *tls.Config) {
		c.MaxVersion = tls.VersionTLS12
		c.CipherSuites = []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256}
	}
	b.expect("either", b.client("one.test"), ec)
	b.expect("ECDSA", b.client("one.test", onlyEC), ec)
	b.expect("RSA", b.client("one.test", onlyRSA), withRSA)
	b.expect("RSA by the wildcard", b.client("two.test", onlyRSA), wildRSA)
	b.expect("RSA, another name", b.client("none.example", believes, onlyRSA), withRSA)
	b.expect("RSA, no name", b.client("", believes, onlyRSA), withRSA)

	// Without a fitting key the client is told so by its own name's certificate.
	b.serve(settings(b.save("ec", ec), b.save("other", other)))
	if o := b.shake(b.client("one.test", onlyRSA)); o.err == nil || !strings.Contains(o.err.Error(), "cipher suite") {
		t.Errorf("no key fits: %v", o.err)
	}
	if c := b.set.table.Load().match(&tls.ClientHelloInfo{ServerName: "two.test", SupportedVersions: []uint16{tls.VersionTLS13}, SignatureSchemes: []tls.SignatureScheme{tls.PSSWithSHA256}}); c == nil || !c.Leaf.Equal(other.Certificate) {
		t.Errorf("no key fits: %v", c)
	}
}

// Of two certificates for a name, one that is valid is shown.
func TestOutdatedCertificateStandsBack(t *testing.T) {
	b := newBed(t)
	defer b.end()
	old := b.ca.IssueFor(certtest.NewKey(t), func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, "one.test")
	young := b.ca.IssueFor(certtest.NewKey(t), func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Hour) }, "one.test")
	good := b.ca.Issue("one.test")
	b.serve(settings(b.save("old", old), b.save("young", young), b.save("good", good)))
	b.expect("three", b.client("one.test"), good)
	b.serve(settings(b.save("old", old), b.save("young", young)))
	b.expect("none is valid", b.client("one.test", believes), old)
}

func TestVersionsAndProtocols(t *testing.T) {
	b := newBed(t)
	defer b.end()
	m := settings(b.save("one", b.ca.Issue("one.test")))
	b.serve(m)
	old := func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS11, tls.VersionTLS11 }
	if o := b.shake(b.client("one.test", old)); o.err == nil || !strings.Contains(o.err.Error(), "unsupported versions") {
		t.Errorf("TLS 1.1: %v", o.err)
	}
	if o := b.shake(b.client("one.test", only12)); o.err != nil || o.server.Version != tls.VersionTLS12 || o.server.NegotiatedProtocol != "h2" || o.server.ServerName != "one.test" {
		t.Errorf("TLS 1.2: %+v", o)
	}
	if o := b.shake(b.client("one.test", func(c *tls.Config) { c.NextProtos = []string{"http/1.1", "h2"} })); o.err != nil || o.server.Version != tls.VersionTLS13 || o.server.NegotiatedProtocol != "h2" {
		t.Errorf("TLS 1.3: %+v", o)
	}
	if o := b.shake(b.client("one.test", func(c *tls.Config) { c.NextProtos = nil })); o.err != nil || o.server.NegotiatedProtocol != "" {
		t.Errorf("no ALPN: %+v", o)
	}
	if o := b.shake(b.client("one.test", func(c *tls.Config) { c.NextProtos = []string{"x"} })); o.err == nil {
		t.Error("an unknown protocol is no error")
	}
	strict := *m
	strict.MinVersion = tls.VersionTLS13
	b.serve(&strict, func(s *Serving) { s.Protocols = []string{"http/1.1"} })
	if o := b.shake(b.client("one.test", only12)); o.err == nil || !strings.Contains(o.err.Error(), "unsupported versions") {
		t.Errorf("TLS 1.2 where 1.3 is the least: %v", o.err)
	}
	if o := b.shake(b.client("one.test", func(c *tls.Config) { c.NextProtos = []string{"h2", "http/1.1"} })); o.err != nil || o.server.NegotiatedProtocol != "http/1.1" {
		t.Errorf("protocols do not follow Use: %+v", o)
	}
}

func TestNothingToShow(t *testing.T) {
	b := newBed(t)
	defer b.end()
	if o := b.shake(b.client("one.test")); o.err == nil || !strings.Contains(o.err.Error(), errUnused.Error()) {
		t.Errorf("before Use: %v", o.err)
	}
	b.serve(settings())
	for _, name := range []string{"one.test", ""} {
		if o := b.shake(b.client(name, believes)); o.err == nil || !strings.Contains(o.err.Error(), errNoCertificate.Error()) {
			t.Errorf("%q: %v", name, o.err)
		}
	}
}

func TestConfigForQUIC(t *testing.T) {
	b := newBed(t)
	defer b.end()
	one := b.ca.Issue("one.test")
	b.serve(settings(b.save("one", one)), func(s *Serving) {
		s.Source = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errNoCertificate }
		s.Validation = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, errNoCertificate }
	})
	config := b.handshake.QUIC()
	if config.MinVersion != tls.VersionTLS13 || len(config.NextProtos) != 1 || config.NextProtos[0] != "h3" {
		t.Errorf("%v %v", config.MinVersion, config.NextProtos)
	}
	h3 := func(c *tls.Config) { c.NextProtos = []string{"h3"} }
	if o := shake(t, config, b.client("one.test", h3), nil); o.err != nil || o.server.NegotiatedProtocol != "h3" {
		t.Errorf("%+v", o)
	}
	if o := shake(t, config, b.client("one.test", only12), nil); o.err == nil {
		t.Error("TLS 1.2 for QUIC")
	}
	// Names are validated over TCP only (RFC 8737 3).
	if o := shake(t, config, b.client("one.test", func(c *tls.Config) { c.NextProtos = []string{ACMEProtocol} }), nil); o.err == nil {
		t.Error("validated over QUIC")
	}
}
