package transport

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/internal/certificate"
	"sluice/internal/model"
	"sluice/internal/regularfile"
)

// fileCheck is how often the files of TLS settings are looked at, at most: a
// changed one is taken up by connections that are made after that.
const fileCheck = time.Second

// credentials are whom connections of an upstream trust, and what they show of
// themselves. Files are read when the first connection is made, and again when
// they have changed; as long as the new ones are broken, the old ones stay.
type credentials struct {
	upstream string
	settings model.ClientTLS
	faulty   func(upstream string, err error) // may be nil

	mu      sync.Mutex
	checked time.Time // when the files were looked at
	files   []fs.FileInfo
	current *certificate.Material // nil: none was good so far
	fault   error                 // of the files as they are
}

func newCredentials(upstream string, settings *model.ClientTLS, faulty func(string, error)) *credentials {
	c := &credentials{upstream: upstream, faulty: faulty}
	if settings != nil {
		c.settings = *settings
	}
	return c
}

// fresh tells whether get needs no look at a file.
func (c *credentials) fresh() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.checked) < fileCheck
}

// get returns what the files hold. It may wait for a disk.
func (c *credentials) get() (*certificate.Material, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.checked) >= fileCheck {
		c.checked = now
		c.look()
	}
	if c.current == nil {
		return nil, c.fault
	}
	return c.current, nil
}

// look reads the files if they have changed. The caller holds the lock.
func (c *credentials) look() {
	files, err := c.stat()
	if err == nil && c.files != nil && slices.EqualFunc(c.files, files, regularfile.Same) {
		return
	}
	var next *certificate.Material
	if err == nil {
		next, err = certificate.ReadMaterial(&c.settings)
	}
	if c.files = files; err == nil {
		c.current, c.fault = next, nil
		return
	}
	known := c.fault != nil && c.fault.Error() == err.Error()
	c.fault = err
	if !known && c.faulty != nil {
		c.faulty(c.upstream, err)
	}
}

// stat is what the files are; never nil without an error.
func (c *credentials) stat() ([]fs.FileInfo, error) {
	files := []fs.FileInfo{}
	for _, path := range []string{c.settings.CA, c.settings.Cert, c.settings.Key} {
		if path == "" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("a TLS file: %w", err)
		}
		files = append(files, info)
	}
	return files, nil
}

// The protocols that are offered by ALPN (RFC 7301).
const (
	alpnHTTP1 = "http/1.1"
	alpnH2    = "h2"
)

// sessions is how many TLS sessions are kept to be resumed, of a pool with one
// server.
const sessions = 16

// encryption is how the connections of a pool are encrypted.
type encryption struct {
	credentials *credentials
	server      string // whom the certificate must name

	mu      sync.Mutex
	from    *certificate.Material
	configs map[string]*tls.Config // by what they offer
}

func newEncryption(c *credentials, host string) *encryption {
	e := &encryption{credentials: c, server: c.settings.ServerName}
	if e.server == "" {
		e.server = strings.TrimSuffix(host, ".")
	}
	return e
}

// config is for a connection that offers protocols. It may wait for a disk. Other
// files begin with no session that could be resumed: who was trusted by the old
// ones is none.
func (e *encryption) config(offer ...string) (*tls.Config, error) {
	m, err := e.credentials.get()
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.from != m {
		e.from, e.configs = m, map[string]*tls.Config{}
	}
	key := strings.Join(offer, " ")
	if config := e.configs[key]; config != nil {
		return config, nil
	}
	config := m.Config()
	config.ServerName, config.NextProtos = e.server, offer
	config.ClientSessionCache = tls.NewLRUClientSessionCache(sessions)
	config.InsecureSkipVerify = e.credentials.settings.Insecure
	if m.Certificate != nil { // whichever authorities the server names
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return m.Certificate, nil }
	}
	e.configs[key] = config
	return config, nil
}
