package message

import "time"

// ClientCertificate is who a client has proved to be by its certificate, which
// an authority of the listener vouches for. It is shared by all exchanges of a
// connection; nobody changes it.
type ClientCertificate struct {
	CommonName string   // of the subject; any text, empty for none
	Subject    string   // the distinguished name (RFC 2253), in ASCII
	Issuer     string   // alike
	DNS        []string // subjectAltNames, in visible ASCII
	URIs       []string
	Emails     []string
	Serial     string // in lower-case hex
	// Fingerprint is the SHA-256 of the certificate in lower-case hex.
	Fingerprint string
	NotAfter    time.Time
	// Forwarded is the certificate as X-Forwarded-Client-Cert tells of it: one
	// element, as Envoy writes it.
	Forwarded string
}
