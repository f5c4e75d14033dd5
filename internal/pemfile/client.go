package pemfile

import "crypto/tls"

// Client is how TLS is spoken to a server, as texts of PEM that were checked.
type Client struct {
	CA         string // the authorities that its certificate must come from; empty: the system's
	Cert, Key  string // what is shown; empty: nothing
	ServerName string // that its certificate must have; empty: the host that is asked
}

// Config returns a new configuration, the caller's to change: TLS 1.2 at least (RFC 9325
// 3.1.1). Of nil it trusts the system's authorities.
func (c *Client) Config() *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c == nil {
		return config
	}
	config.ServerName = c.ServerName
	if c.CA != "" {
		pool, fault := Authorities([]byte(c.CA))
		if fault != nil {
			panic("BUG: authorities that were not checked: " + fault.String())
		}
		config.RootCAs = pool.CertPool
	}
	if c.Cert != "" {
		pair, fault := Pair([]byte(c.Cert), []byte(c.Key))
		if fault != nil {
			panic("BUG: a certificate that was not checked: " + fault.String())
		}
		config.Certificates = []tls.Certificate{*pair}
	}
	return config
}
