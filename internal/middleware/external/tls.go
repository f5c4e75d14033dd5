package external

import (
	"crypto/tls"

	"sluice/internal/pemfile"
)

// config is how TLS is spoken; the texts are sound.
func (s *tlsSettings) config() *tls.Config {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s == nil {
		return c
	}
	c.ServerName = s.ServerName
	if s.CA != "" {
		pool, fault := pemfile.Authorities([]byte(s.CA))
		if fault != nil {
			panic("BUG: authorities that were not checked: " + fault.String())
		}
		c.RootCAs = pool.CertPool
	}
	if s.Cert != "" {
		pair, fault := pemfile.Pair([]byte(s.Cert), []byte(s.Key))
		if fault != nil {
			panic("BUG: a certificate that was not checked: " + fault.String())
		}
		c.Certificates = []tls.Certificate{*pair}
	}
	return c
}
