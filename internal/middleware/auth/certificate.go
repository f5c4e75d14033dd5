package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// CertificateOptions are the options of client_certificate.
type CertificateOptions struct {
	Name      string                `config:"name" enum:"common_name|subject|dns|uri|email|fingerprint" doc:"what of a certificate is the consumer's name where consumers does not say: the first one, where it has several"`
	Consumers []CertificateConsumer `config:"consumers" doc:"whose certificates may pass; the first that fits counts" default:"all that the listener's authorities vouch for"`
}

// CertificateConsumer is a consumer, by what its certificate has.
type CertificateConsumer struct {
	CommonName  string   `config:"common_name" doc:"the common name of the subject"`
	Subject     string   `config:"subject" doc:"or the whole subject, as RFC 2253 writes it: CN=shop,O=Example"`
	DNS         string   `config:"dns" doc:"or one of its DNS names"`
	URI         string   `config:"uri" doc:"or one of its URIs, as spiffe://example.org/shop"`
	Email       string   `config:"email" doc:"or one of its addresses of mail"`
	Fingerprint string   `config:"fingerprint" doc:"or its SHA-256, in hexadecimal, with or without colons"`
	Consumer    string   `config:"consumer" doc:"who that is" default:"by name"`
	Tier        string   `config:"tier" doc:"the consumer's tier, for limits"`
	Groups      []string `config:"groups" doc:"the groups that the consumer is in"`
}

// What of a certificate can name or tell a consumer.
const (
	byCommonName  = "common_name"
	bySubject     = "subject"
	byDNS         = "dns"
	byURI         = "uri"
	byEmail       = "email"
	byFingerprint = "fingerprint"
)

// clientCertificate is the settings of client_certificate.
type clientCertificate struct {
	Name      string
	Consumers []certified // empty: all
}

// certified is a consumer with a certificate that has Value as By.
type certified struct {
	By, Value string
	Principal *pipeline.Principal // without a name: by clientCertificate.Name
}

// Certificate is the kind client_certificate: a request on a connection whose client has
// shown no certificate that the listener verified, or none of a consumer, is 401
// unauthenticated.
func Certificate() pipeline.Kind {
	return pipeline.NewKind("client_certificate", func() *CertificateOptions { return &CertificateOptions{Name: byCommonName} }, validateCertificate,
		func(_ *pipeline.Site, c *clientCertificate) pipeline.Middleware { return c.middleware }).As(model.Authenticating | model.Certifying)
}

func validateCertificate(o *CertificateOptions, report model.Report) *clientCertificate {
	c := &clientCertificate{Name: o.Name}
	for i := range o.Consumers {
		entry, path := &o.Consumers[i], fmt.Sprintf("consumers[%d]", i)
		one := certified{Principal: &pipeline.Principal{Name: entry.Consumer, Tier: entry.Tier, Groups: entry.Groups}}
		named := 0
		for _, by := range []struct{ by, value string }{
			{byCommonName, entry.CommonName}, {bySubject, entry.Subject}, {byDNS, strings.ToLower(entry.DNS)}, {byURI, entry.URI},
			{byEmail, entry.Email}, {byFingerprint, strings.ToLower(strings.ReplaceAll(entry.Fingerprint, ":", ""))},
		} {
			if by.value != "" {
				one.By, one.Value = by.by, by.value
				named++
			}
		}
		switch {
		case named != 1:
			report(path, path+" must say one thing that its certificate has", "write common_name, subject, dns, uri, email or fingerprint")
		case one.By == byFingerprint && (len(one.Value) != 64 || strings.Trim(one.Value, "0123456789abcdef") != ""):
			report(path+".fingerprint", "fingerprint must be 64 hexadecimal digits", "openssl x509 -in FILE -noout -fingerprint -sha256 prints it")
		case slices.ContainsFunc(c.Consumers, func(other certified) bool { return other.By == one.By && other.Value == one.Value }):
			report(path+"."+one.By, fmt.Sprintf("%s %s is here twice", one.By, one.Value), "remove one of them")
		}
		below := func(key, message, hint string) { report(path+"."+key, message, hint) }
		if one.Principal.Name != "" {
			checkName("consumer", one.Principal.Name, below)
		}
		checkStanding(entry.Tier, entry.Groups, below)
		c.Consumers = append(c.Consumers, one)
	}
	if o.Consumers != nil && len(o.Consumers) == 0 {
		report("consumers", "consumers is empty, so that nobody could pass", "leave it out for all whom the listener's authorities vouch for")
	}
	return c
}

// valuesOf are what a certificate has of one sort.
func valuesOf(certificate *message.ClientCertificate, by string) []string {
	switch by {
	case bySubject:
		return []string{certificate.Subject}
	case byDNS:
		return certificate.DNS
	case byURI:
		return certificate.URIs
	case byEmail:
		return certificate.Emails
	case byFingerprint:
		return []string{certificate.Fingerprint}
	}
	return []string{certificate.CommonName}
}

var (
	errNoCertificate = errors.New("the client has shown no certificate")
	errNotListed     = errors.New("the certificate is not one of a consumer")
	errNameless      = errors.New("the certificate has no name that can be a consumer's")
)

func (c *clientCertificate) middleware(next pipeline.Handler) pipeline.Handler {
	return pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		principal, err := c.identify(x.ClientCertificate)
		if err != nil {
			return unauthenticated("ClientCertificate", err)
		}
		x.Authenticate(principal)
		return next.Serve(x)
	})
}

func (c *clientCertificate) identify(certificate *message.ClientCertificate) (*pipeline.Principal, error) {
	if certificate == nil {
		return nil, errNoCertificate
	}
	known := &pipeline.Principal{}
	if len(c.Consumers) > 0 {
		at := slices.IndexFunc(c.Consumers, func(one certified) bool { return one.fits(certificate) })
		if at < 0 {
			return nil, errNotListed
		}
		if known = c.Consumers[at].Principal; known.Name != "" {
			return known, nil
		}
	}
	names := valuesOf(certificate, c.Name)
	if len(names) == 0 || names[0] == "" || !pipeline.ValidName(names[0]) {
		return nil, errNameless
	}
	return &pipeline.Principal{Name: names[0], Tier: known.Tier, Groups: known.Groups}, nil
}

// fits tells whether a certificate is the consumer's. Names of DNS have no case.
func (c *certified) fits(certificate *message.ClientCertificate) bool {
	return slices.ContainsFunc(valuesOf(certificate, c.By), func(value string) bool {
		return value == c.Value || c.By == byDNS && strings.EqualFold(value, c.Value)
	})
}
