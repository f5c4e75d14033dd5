package certificate

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"sluice/internal/certtest"
	"sluice/internal/model"
)

// ordered is a source of certificates that notes what it is asked for.
type ordered struct {
	pairs map[string]*certtest.Certificate
	asked []string
}

func (o *ordered) source(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	o.asked = append(o.asked, hello.ServerName)
	if pair, ok := o.pairs[hello.ServerName]; ok {
		own := pair.TLS()
		return &own, nil
	}
	return nil, errors.New("not ordered")
}

func TestSourceComesAfterFiles(t *testing.T) {
	b := newBed(t)
	defer b.end()
	file := b.ca.Issue("file.test", "*.file.test")
	acme := &ordered{pairs: map[string]*certtest.Certificate{"acme.test": b.ca.Issue("acme.test"), "file.test": b.ca.Issue("file.test"), "": b.ca.Issue("default.test")}}
	source := func(s *Serving) { s.Source = acme.source }
	files := b.save("file", file)
	b.serve(settings(files), source)
	b.expect("a file's name", b.client("file.test"), file)
	b.expect("a file's wildcard", b.client("x.file.test"), file)
	b.expect("no name", b.client("", believes), file)
	if len(acme.asked) != 0 {
		t.Errorf("asked for %q", acme.asked)
	}
	b.expect("ordered", b.client("acme.test"), acme.pairs["acme.test"])
	b.expect("neither", b.client("none.test", believes), file)
	if !slices.Equal(acme.asked, []string{"acme.test", "none.test"}) {
		t.Errorf("asked for %q", acme.asked)
	}

	b.serve(settings(), source)
	b.expect("ordered, no files", b.client("acme.test"), acme.pairs["acme.test"])
	b.expect("no name, no files", b.client("", believes), acme.pairs[""])
	if o := b.shake(b.client("none.test")); o.err == nil || !strings.Contains(o.err.Error(), "not ordered") {
		t.Errorf("neither: %v", o.err)
	}

	// The source went away with a reload.
	b.serve(settings(files))
	b.expect("no source", b.client("acme.test", believes), file)
}

func TestSourceWithNothing(t *testing.T) {
	b := newBed(t)
	defer b.end()
	b.serve(settings(), func(s *Serving) {
		s.Source = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, nil }
	})
	if o := b.shake(b.client("one.test")); o.told == nil || !strings.Contains(o.told.Error(), "unrecognized name") {
		t.Errorf("a name that nobody has: %v, %v", o.err, o.told)
	}
	if o := b.shake(b.client("", believes)); o.err == nil || !strings.Contains(o.err.Error(), errNoCertificate.Error()) {
		t.Errorf("no name: %v", o.err)
	}
}

// blocking is a connection of an engine that shares a thread.
type blocking struct {
	net.Conn
	blocked int
}

func (c *blocking) Block(wait func()) { c.blocked++; wait() }

func TestSourceIsWaitedForElsewhere(t *testing.T) {
	b := newBed(t)
	defer b.end()
	acme := &ordered{pairs: map[string]*certtest.Certificate{"acme.test": b.ca.Issue("acme.test")}}
	file := b.save("file", b.ca.Issue("file.test"))
	ask := func(name string) (conn *blocking) {
		t.Helper()
		conn = &blocking{}
		config, err := b.handshake.Config().GetConfigForClient(&tls.ClientHelloInfo{})
		if err != nil {
			t.Fatal(err)
		}
		if c, err := config.GetCertificate(&tls.ClientHelloInfo{ServerName: name, Conn: conn, SupportedVersions: []uint16{tls.VersionTLS13}}); c == nil || err != nil {
			t.Errorf("%v, %v", c, err)
		}
		return conn
	}
	b.serve(settings(file), func(s *Serving) { s.Source = acme.source })
	if conn := ask("acme.test"); conn.blocked != 1 {
		t.Errorf("the connection blocked %d times", conn.blocked)
	}
	if conn := ask("file.test"); conn.blocked != 0 {
		t.Errorf("for a file the connection blocked %d times", conn.blocked)
	}
	given := 0
	b.serve(settings(file), func(s *Serving) {
		s.Source = acme.source
		s.Block = func(hello *tls.ClientHelloInfo, wait func()) {
			if hello.ServerName == "acme.test" {
				given++
			}
			wait()
		}
	})
	if conn := ask("acme.test"); conn.blocked != 0 || given != 1 {
		t.Errorf("the connection blocked %d times, the given one %d", conn.blocked, given)
	}
}

// An authority that validates a name is shown the answer to it, not asked
// for a certificate, and gets no session to come back with.
func TestValidationOfNames(t *testing.T) {
	b := newBed(t)
	defer b.end()
	b.write("ca.pem", b.ca.CertPEM())
	m := settings(b.save("file", b.ca.Issue("one.test")))
	m.MinVersion = tls.VersionTLS13
	m.ClientAuth = model.ClientAuth{Mode: model.ClientAuthRequire, CA: b.path("ca.pem")}
	challenge := b.ca.Issue("one.test")
	acme := &ordered{pairs: map[string]*certtest.Certificate{"one.test": challenge}}
	validates := func(c *tls.Config) { c.NextProtos = []string{ACMEProtocol} }

	b.serve(m, func(s *Serving) { s.Validation = acme.source }) // of another listener: this one orders nothing
	for _, version := range []func(*tls.Config){func(*tls.Config) {}, only12} {
		client := b.client("one.test", validates, version, remembers())
		for range 2 {
			o := b.shake(client)
			if o.err != nil || o.serial() != challenge.SerialNumber.String() || o.server.NegotiatedProtocol != ACMEProtocol || o.server.DidResume {
				t.Errorf("%+v", o)
			}
		}
	}
	// Who offers anything else is a client like others.
	both := func(c *tls.Config) { c.NextProtos = []string{ACMEProtocol, "h2"} }
	if o := b.shake(b.client("one.test", both)); o.err == nil {
		t.Error("a client passes without a certificate")
	}
	if o := b.shake(b.client("one.test", both, shows(b.ca.Issue("client")))); o.err != nil || o.server.NegotiatedProtocol != "h2" {
		t.Errorf("%+v", o)
	}
	// No challenge: no handshake.
	if o := b.shake(b.client("two.test", validates)); o.err == nil || !strings.Contains(o.err.Error(), "not ordered") {
		t.Errorf("%v", o.err)
	}
	// Nobody to ask: the protocol is unknown.
	b.serve(m, func(s *Serving) { s.Source = acme.source })
	if o := b.shake(b.client("one.test", validates)); o.err == nil || o.server.NegotiatedProtocol == ACMEProtocol {
		t.Errorf("%+v", o)
	}
}
