package certificate

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"strings"

	"sluice/internal/message"
)

// Client returns who the client of a connection has proved to be, or nil if it
// has shown no certificate that an authority of the listener vouches for. It is
// to be called once, after the handshake.
func Client(state tls.ConnectionState) *message.ClientCertificate {
	if len(state.VerifiedChains) == 0 || len(state.PeerCertificates) == 0 {
		return nil
	}
	leaf := state.PeerCertificates[0]
	sum := sha256.Sum256(leaf.Raw)
	c := &message.ClientCertificate{
		CommonName:  leaf.Subject.CommonName,
		Subject:     distinguished(leaf.RawSubject),
		Issuer:      distinguished(leaf.RawIssuer),
		DNS:         visible(leaf.DNSNames),
		Emails:      visible(leaf.EmailAddresses),
		Serial:      leaf.SerialNumber.Text(16),
		Fingerprint: hex.EncodeToString(sum[:]),
		NotAfter:    leaf.NotAfter,
	}
	uris := make([]string, 0, len(leaf.URIs))
	for _, uri := range leaf.URIs {
		uris = append(uris, uri.String())
	}
	c.URIs = visible(uris)
	c.Forwarded = forwarded(c)
	return c
}

// forwarded is an element of X-Forwarded-Client-Cert as Envoy documents it: keys
// with values, those that have a delimiter in them quoted, the subject always.
func forwarded(c *message.ClientCertificate) string {
	var text strings.Builder
	text.WriteString("Hash=" + c.Fingerprint + `;Subject="` + c.Subject + `"`) // a name has its quotes escaped already
	for _, uri := range c.URIs {
		text.WriteString(";URI=" + quoted(uri))
	}
	for _, name := range c.DNS {
		text.WriteString(";DNS=" + quoted(name))
	}
	return text.String()
}

// quoted is a value as it stands, or between quotes if it has to.
func quoted(value string) string {
	if !strings.ContainsAny(value, `,;="\`) {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}

// visible keeps the names that have nothing but visible ASCII, as all real ones:
// an authority that signs others must not make a field end early.
func visible(names []string) (kept []string) {
	for _, name := range names {
		if name != "" && !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			kept = append(kept, name)
		}
	}
	return kept
}

// attribute is the short name of a type in a distinguished name.
func attribute(oid string) string {
	switch oid {
	case "2.5.4.3":
		return "CN"
	case "2.5.4.5":
		return "serialNumber"
	case "2.5.4.6":
		return "C"
	case "2.5.4.7":
		return "L"
	case "2.5.4.8":
		return "ST"
	case "2.5.4.9":
		return "street"
	case "2.5.4.10":
		return "O"
	case "2.5.4.11":
		return "OU"
	case "2.5.4.17":
		return "postalCode"
	case "0.9.2342.19200300.100.1.1":
		return "UID"
	case "0.9.2342.19200300.100.1.25":
		return "DC"
	case "1.2.840.113549.1.9.1":
		return "emailAddress"
	}
	return ""
}

// distinguished is a name in DER as text (RFC 2253), the last part first, with
// everything escaped that is not visible ASCII. crypto/x509/pkix has a text, too,
// but orders a parsed name anew and lets control characters pass.
func distinguished(der []byte) string {
	var name pkix.RDNSequence
	if rest, err := asn1.Unmarshal(der, &name); err != nil || len(rest) > 0 {
		return ""
	}
	parts := make([]string, 0, len(name))
	for i := len(name) - 1; i >= 0; i-- {
		values := make([]string, 0, 1)
		for _, v := range name[i] {
			values = append(values, assertion(v))
		}
		parts = append(parts, strings.Join(values, "+"))
	}
	return strings.Join(parts, ",")
}

// assertion is one type with its value: as text where both are known, else as
// hex of the DER.
func assertion(v pkix.AttributeTypeAndValue) string {
	oid := v.Type.String()
	short := attribute(oid)
	if text, ok := v.Value.(string); ok && short != "" {
		return short + "=" + escaped(text)
	}
	der, err := asn1.Marshal(v.Value)
	if err != nil {
		der = nil // of a kind that Go reads and does not write
	}
	if short == "" {
		short = oid
	}
	return short + "=#" + hex.EncodeToString(der)
}

// escaped is a value of a name (RFC 2253 2.4).
func escaped(value string) string {
	var text strings.Builder
	for i := range len(value) {
		b := value[i]
		switch {
		case b < ' ' || b > '~':
			fmt.Fprintf(&text, `\%02X`, b)
		case strings.IndexByte(`,+"\<>;`, b) >= 0, b == '#' && i == 0, b == ' ' && (i == 0 || i == len(value)-1):
			text.WriteByte('\\')
			text.WriteByte(b)
		default:
			text.WriteByte(b)
		}
	}
	return text.String()
}
