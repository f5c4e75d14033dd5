package auth

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

func certificate() *message.ClientCertificate {
	return &message.ClientCertificate{
		CommonName: "shop", Subject: "CN=shop,O=Example", Issuer: "CN=Example CA",
		DNS: []string{"shop.example.org", "s.example.org"}, URIs: []string{"spiffe://example.org/shop"}, Emails: []string{"shop@example.org"},
		Fingerprint: strings.Repeat("0a", 32),
	}
}

// asked is the kind where the listener asks for certificates, whatever it is.
func asked() pipeline.Kind { return Certificate().As(model.Authenticating) }

// TestCertificateNeedsAListener: it stands where the listener asks for certificates alone.
func TestCertificateNeedsAListener(t *testing.T) {
	b := newBed(t, asked(), "{}")
	b.kind = Certificate()
	const want = "client_certificate would refuse everybody: no listener of the route \"r\" asks clients for certificates"
	if _, problems := b.resolve("{}"); len(problems) != 1 || !strings.Contains(problems[0], want) {
		t.Errorf("got %q", problems)
	}
}

func TestCertificate(t *testing.T) {
	fingerprint := strings.TrimSuffix(strings.Repeat("0A:", 32), ":")
	for _, c := range []struct {
		options string
		want    *pipeline.Principal // nil: refused
	}{
		{"", &pipeline.Principal{Name: "shop"}},
		{"{}", &pipeline.Principal{Name: "shop"}},
		{"{name: subject}", &pipeline.Principal{Name: "CN=shop,O=Example"}},
		{"{name: dns}", &pipeline.Principal{Name: "shop.example.org"}},
		{"{name: uri}", &pipeline.Principal{Name: "spiffe://example.org/shop"}},
		{"{name: email}", &pipeline.Principal{Name: "shop@example.org"}},
		{"{name: fingerprint}", &pipeline.Principal{Name: strings.Repeat("0a", 32)}},
		{"{consumers: [{common_name: shop, consumer: s, tier: gold, groups: [a]}]}", &pipeline.Principal{Name: "s", Tier: "gold", Groups: []string{"a"}}},
		{"{consumers: [{common_name: shop, tier: gold}]}", &pipeline.Principal{Name: "shop", Tier: "gold"}},
		{"{name: dns, consumers: [{common_name: shop, groups: [a]}]}", &pipeline.Principal{Name: "shop.example.org", Groups: []string{"a"}}},
		{"{consumers: [{subject: 'CN=shop,O=Example', consumer: s}]}", &pipeline.Principal{Name: "s"}},
		{"{consumers: [{dns: S.Example.org, consumer: s}]}", &pipeline.Principal{Name: "s"}},
		{"{consumers: [{uri: 'spiffe://example.org/shop', consumer: s}]}", &pipeline.Principal{Name: "s"}},
		{"{consumers: [{email: shop@example.org, consumer: s}]}", &pipeline.Principal{Name: "s"}},
		{"{consumers: [{fingerprint: '" + fingerprint + "', consumer: s}]}", &pipeline.Principal{Name: "s"}},
		{"{consumers: [{common_name: app, consumer: a}, {dns: shop.example.org, consumer: s}, {common_name: shop, consumer: t}]}", &pipeline.Principal{Name: "s"}},
		{"{consumers: [{common_name: Shop, consumer: s}]}", nil},
		{"{consumers: [{common_name: shop.example.org, consumer: s}]}", nil},
		{"{consumers: [{dns: example.org, consumer: s}]}", nil},
		{"{consumers: [{dns: '*.example.org', consumer: s}]}", nil},
		{"{consumers: [{subject: 'CN=shop', consumer: s}]}", nil},
		{"{consumers: [{fingerprint: '" + strings.Repeat("0b", 32) + "', consumer: s}]}", nil},
	} {
		b := newBed(t, asked(), c.options)
		x := exchange(t, request("/"))
		x.ClientCertificate = certificate()
		got, err := b.serveExchange(x)
		if c.want == nil {
			b.refused(c.options, err, "ClientCertificate")
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, %s", c.options, err, diff)
		}
		_, err = b.serve(request("/", "X-Forwarded-Client-Cert: Subject=\"CN=shop\""))
		b.refused(c.options+" without one", err, "ClientCertificate")
	}
}

// TestNamelessCertificate: what cannot be a consumer's name is none.
func TestNamelessCertificate(t *testing.T) {
	for options, change := range map[string]func(c *message.ClientCertificate){
		"{}":                                  func(c *message.ClientCertificate) { c.CommonName = "" },
		"{name: common_name}":                 func(c *message.ClientCertificate) { c.CommonName = "a\nb" },
		"{name: dns}":                         func(c *message.ClientCertificate) { c.DNS = nil },
		"{name: uri}":                         func(c *message.ClientCertificate) { c.URIs = []string{"x:" + strings.Repeat("a", 256)} },
		"{consumers: [{dns: s.example.org}]}": func(c *message.ClientCertificate) { c.CommonName = "" },
	} {
		b := newBed(t, asked(), options)
		x := exchange(t, request("/"))
		x.ClientCertificate = certificate()
		change(x.ClientCertificate)
		_, err := b.serveExchange(x)
		b.refused(options, err, "ClientCertificate")
	}
}

func TestCertificateProblems(t *testing.T) {
	b := newBed(t, asked(), "{}")
	for options, want := range map[string]string{
		"{name: serial}":                               `name must be common_name, subject, dns, uri, email or fingerprint, not "serial"`,
		"{consumers: []}":                              "consumers is empty, so that nobody could pass (leave it out for all whom the listener's authorities vouch for)",
		"{consumers: [{consumer: a}]}":                 "consumers[0] must say one thing that its certificate has (write common_name, subject, dns, uri, email or fingerprint)",
		"{consumers: [{dns: a, uri: b}]}":              "consumers[0] must say one thing that its certificate has (write common_name, subject, dns, uri, email or fingerprint)",
		"{consumers: [{fingerprint: 0a0b}]}":           "fingerprint must be 64 hexadecimal digits (openssl x509 -in FILE -noout -fingerprint -sha256 prints it)",
		"{consumers: [{dns: a}, {dns: A}]}":            "dns a is here twice (remove one of them)",
		"{consumers: [{dns: a, consumer: \"\\x01\"}]}": "consumer must be a name of at most 256 bytes without control characters",
		"{consumers: [{dns: a, tier: \"\\x01\"}]}":     "tier must be a name of at most 256 bytes without control characters",
		"{consumers: [{dns: a, groups: [b, '']}]}":     "groups[1] is empty (write a name)",
	} {
		_, problems := b.resolve(options)
		if len(problems) != 1 || !strings.HasSuffix(problems[0], ": "+want) {
			t.Errorf("%s:\n got %q\nwant %s", options, problems, want)
		}
	}
}
