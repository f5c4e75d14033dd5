package model

// The protocols that a listener can speak to clients.
const (
	H1 = "h1"
	H2 = "h2"
	H3 = "h3"
)

// ListenerTLS is how a listener speaks TLS.
type ListenerTLS struct {
	Certificates []CertificateFile // the first one is for clients that name no host, or another one
	ACME         *ACME             // nil: none are ordered
	MinVersion   uint16            // as crypto/tls numbers them
	ClientAuth   ClientAuth
}

// CertificateFile is a certificate with its chain and its key, as PEM files with
// absolute paths. Whoever shows it watches them.
type CertificateFile struct {
	Cert string
	Key  string
}

// ACME is where certificates are ordered (RFC 8555), and for which names.
type ACME struct {
	Email     string
	Domains   []string // canonical, without wildcards
	Directory string   // URL
	CAFile    string   // absolute path of the authorities that the directory itself is trusted by; empty: the system's
	// Storage is the absolute path of the directory that keeps them; empty where
	// Store is set.
	Storage string
	Store   string // a name of Gateway.Stores; empty: none
}

// ClientAuth says what certificates clients show.
type ClientAuth struct {
	Mode string // none, optional or require
	CA   string // absolute path of the authorities; empty with none
	// Forward tells endpoints of the certificate, by X-Forwarded-Client-Cert.
	Forward bool
}

// The values of ClientAuth.Mode.
const (
	ClientAuthNone     = "none"
	ClientAuthOptional = "optional"
	ClientAuthRequire  = "require"
)

// ClientTLS is how the gateway speaks TLS to others. Paths are absolute; empty
// ones stand for the system's authorities, and for no certificate.
type ClientTLS struct {
	CA         string
	Cert       string
	Key        string
	ServerName string // empty: the host of the address
	Insecure   bool   // the other side's certificate is not verified
}

// What endpoints speak.
const (
	UpstreamHTTP1 = "http1"
	UpstreamH2    = "h2"
	UpstreamH2C   = "h2c"
	UpstreamAuto  = "auto" // whichever of h2 and HTTP/1.1 the endpoint picks by ALPN
)
