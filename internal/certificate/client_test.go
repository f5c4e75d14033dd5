package certificate

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/certtest"
	"sluice/internal/message"
	"sluice/internal/model"
)

func TestClientCertificates(t *testing.T) {
	b := newBed(t)
	defer b.end()
	clients := certtest.Authority(t, "clients")
	b.write("clients.pem", clients.CertPEM())
	alice := clients.Issue("alice.test")
	eve := certtest.Authority(t, "clients").Issue("eve.test") // an authority of the same name
	expired := clients.IssueFor(certtest.NewKey(t), func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	server := clients.IssueFor(certtest.NewKey(t), func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })
	one := b.save("one", b.ca.Issue("one.test"))
	nobody := func(*tls.Config) {}

	for _, mode := range []string{model.ClientAuthNone, model.ClientAuthOptional, model.ClientAuthRequire} {
		m := settings(one)
		m.ClientAuth.Mode = mode
		if mode != model.ClientAuthNone {
			m.ClientAuth.CA = b.path("clients.pem")
		}
		b.serve(m)
		for _, version := range []func(*tls.Config){nobody, only12} {
			for _, c := range []struct {
				name                     string
				edit                     func(*tls.Config)
				none, optional, required bool // whether it passes
				identity                 bool // and is somebody, where certificates are asked for
			}{
				{"nobody", nobody, true, true, false, false},
				{"alice", shows(alice), true, true, true, true},
				{"eve", shows(eve), true, false, false, false},
				{"expired", shows(expired), true, false, false, false},
				{"a server's", shows(server), true, false, false, false},
			} {
				o := b.shake(b.client("one.test", version, c.edit))
				passes := map[string]bool{model.ClientAuthNone: c.none, model.ClientAuthOptional: c.optional, model.ClientAuthRequire: c.required}[mode]
				if (o.err == nil) != passes {
					t.Errorf("%s %s: %v", mode, c.name, o.err)
				}
				if o.err != nil {
					continue
				}
				identity := Client(o.server)
				if (identity != nil) != (c.identity && mode != model.ClientAuthNone) {
					t.Errorf("%s %s: is %+v", mode, c.name, identity)
				}
				if identity != nil && !cmp.Equal(identity.DNS, []string{"alice.test"}) {
					t.Errorf("is %+v", identity)
				}
			}
		}
	}
}

// A certificate that nobody vouches for is nobody.
func TestUnverifiedIsNobody(t *testing.T) {
	if c := Client(tls.ConnectionState{PeerCertificates: []*x509.Certificate{certtest.Authority(t, "x").Certificate}}); c != nil {
		t.Errorf("got %+v", c)
	}
}

func state(leaf *x509.Certificate) tls.ConnectionState {
	return tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
}

func TestIdentity(t *testing.T) {
	a := certtest.Authority(t, `A "CA", Inc.`)
	uri := func(text string) *url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	pair := a.IssueFor(certtest.NewKey(t), func(c *x509.Certificate) {
		c.SerialNumber.SetInt64(0x1f2e)
		c.Subject = pkix.Name{CommonName: "alice", Organization: []string{"Example, Inc."}, Country: []string{"DE"}}
		c.URIs = []*url.URL{uri("spiffe://example.org/ns/a"), uri("urn:x;y=z,w")}
		c.EmailAddresses = []string{"alice@example.org"}
	}, "alice.example.org", "b.example.org")
	sum := sha256.Sum256(pair.Raw)
	hash := hex.EncodeToString(sum[:])
	want := &message.ClientCertificate{
		CommonName: "alice", Subject: `CN=alice,O=Example\, Inc.,C=DE`, Issuer: `CN=A \"CA\"\, Inc.`,
		DNS: []string{"alice.example.org", "b.example.org"}, URIs: []string{"spiffe://example.org/ns/a", "urn:x;y=z,w"}, Emails: []string{"alice@example.org"},
		Serial: "1f2e", Fingerprint: hash, NotAfter: pair.NotAfter,
		Forwarded: `Hash=` + hash + `;Subject="CN=alice,O=Example\, Inc.,C=DE";URI=spiffe://example.org/ns/a;URI="urn:x;y=z,w";DNS=alice.example.org;DNS=b.example.org`,
	}
	if diff := cmp.Diff(want, Client(state(pair.Certificate))); diff != "" {
		t.Error(diff)
	}

	bare := a.IssueFor(certtest.NewKey(t), nil)
	if got := Client(state(bare.Certificate)).Forwarded; !strings.HasSuffix(got, `;Subject=""`) {
		t.Errorf("no subject: %s", got)
	}
}

// Whatever an authority signs, the text stays one element on one line.
func TestHostileNames(t *testing.T) {
	a := certtest.Authority(t, "a")
	pair := a.IssueFor(certtest.NewKey(t), func(c *x509.Certificate) {
		c.Subject = pkix.Name{CommonName: "x\"\r\nX-Admin: 1\\\x00é,Hash=1;"}
	}, "fine.test")
	leaf := *pair.Certificate
	leaf.DNSNames = []string{"a b", "c\r\nd", "", "é", `q"u\o`, "k=v", "fine.test"} // as Go lets some of them pass
	leaf.EmailAddresses = []string{"a\nb"}
	c := Client(state(&leaf))
	if want := `CN=x\"\0D\0AX-Admin: 1\\\00\C3\A9\,Hash=1\;`; c.Subject != want {
		t.Errorf("got  %s\nwant %s", c.Subject, want)
	}
	if want := `;Subject="` + c.Subject + `";DNS="q\"u\\o";DNS="k=v";DNS=fine.test`; !strings.HasSuffix(c.Forwarded, want) {
		t.Errorf("got  %s\nwant %s", c.Forwarded, want)
	}
	if c.Emails != nil || strings.ContainsFunc(c.Forwarded, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Errorf("got %q %s", c.Emails, c.Forwarded)
	}
}

func TestDistinguishedNames(t *testing.T) {
	marshal := func(sequence pkix.RDNSequence) []byte {
		der, err := asn1.Marshal(sequence)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	one := func(oid asn1.ObjectIdentifier, value any) pkix.RelativeDistinguishedNameSET {
		return pkix.RelativeDistinguishedNameSET{{Type: oid, Value: value}}
	}
	cn := asn1.ObjectIdentifier{2, 5, 4, 3}
	var all pkix.RDNSequence
	for _, oid := range []asn1.ObjectIdentifier{
		{2, 5, 4, 5}, {2, 5, 4, 6}, {2, 5, 4, 7}, {2, 5, 4, 8}, {2, 5, 4, 9}, {2, 5, 4, 10}, {2, 5, 4, 11}, {2, 5, 4, 17},
		{0, 9, 2342, 19200300, 100, 1, 1}, {0, 9, 2342, 19200300, 100, 1, 25}, {1, 2, 840, 113549, 1, 9, 1},
	} {
		all = append(all, one(oid, "x"))
	}
	for _, c := range []struct {
		der  []byte
		want string
	}{
		{marshal(nil), ""},
		{[]byte{1, 2, 3}, ""},
		{append(marshal(nil), 0), ""},
		{marshal(all), "emailAddress=x,DC=x,UID=x,postalCode=x,OU=x,O=x,street=x,ST=x,L=x,C=x,serialNumber=x"},
		{marshal(pkix.RDNSequence{one(cn, " #a ")}), `CN=\ #a\ `},
		{marshal(pkix.RDNSequence{one(cn, "#a+b<c>")}), `CN=\#a\+b\<c\>`},
		{marshal(pkix.RDNSequence{one(cn, 5)}), "CN=#020105"},
		{marshal(pkix.RDNSequence{one(asn1.ObjectIdentifier{1, 2, 3}, "ab")}), "1.2.3=#13026162"},
		{marshal(pkix.RDNSequence{{{Type: cn, Value: "a"}, {Type: asn1.ObjectIdentifier{2, 5, 4, 10}, Value: "b"}}}), "CN=a+O=b"},
	} {
		if got := distinguished(c.der); got != c.want {
			t.Errorf("%x: got %s, want %s", c.der, got, c.want)
		}
	}
}
