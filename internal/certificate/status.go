package certificate

import (
	"crypto/x509"
	"time"
)

// Status is a pair, or a file of authorities, for people and metrics.
type Status struct {
	Kind string `json:"kind"` // certificate or authorities
	// Cert and Key are absolute paths; of authorities Cert is the file, and Key
	// is empty.
	Cert string `json:"cert"`
	Key  string `json:"key,omitempty"`
	// Names are the DNS names and addresses that the certificate is for.
	Names     []string  `json:"names,omitempty"`
	NotBefore time.Time `json:"not_before,omitzero"`
	// NotAfter is when the certificate ends; of authorities, when the first of
	// them does. Zero where there is none.
	NotAfter time.Time `json:"not_after,omitzero"`
	// Expired says that this is over.
	Expired bool   `json:"expired,omitempty"`
	Issuer  string `json:"issuer,omitempty"`
	Serial  string `json:"serial,omitempty"`   // in lower-case hex
	KeyType string `json:"key_type,omitempty"` // ECDSA, RSA or Ed25519
	// Certificates is how many authorities there are.
	Certificates int       `json:"certificates,omitempty"`
	Loaded       time.Time `json:"loaded,omitzero"` // when it was taken up
	// Error says why what is in the files now is not what is shown; empty: it is.
	Error string    `json:"error,omitempty"`
	Since time.Time `json:"since,omitzero"` // of Error
}

// describe puts in what a certificate says.
func (s *Status) describe(c *x509.Certificate) {
	s.Names = append(s.Names, c.DNSNames...)
	for _, address := range c.IPAddresses {
		s.Names = append(s.Names, address.String())
	}
	s.NotBefore, s.NotAfter = c.NotBefore, c.NotAfter
	s.Issuer = distinguished(c.RawIssuer)
	s.Serial = c.SerialNumber.Text(16)
	s.KeyType = c.PublicKeyAlgorithm.String()
}
