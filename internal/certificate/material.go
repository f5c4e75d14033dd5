package certificate

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"sluice/internal/model"
	"sluice/internal/pemfile"
	"sluice/internal/regularfile"
)

// Material is what the files of TLS settings towards others hold. It does not
// change.
type Material struct {
	Roots       *x509.CertPool
	Certificate *tls.Certificate // nil: none is shown
}

// ReadMaterial reads the files of settings, of which an empty CA stands for the
// system's authorities. Its errors have the path.
func ReadMaterial(m *model.ClientTLS) (*Material, error) {
	material := &Material{}
	if m.CA == "" {
		system, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("the system's authorities: %w", err)
		}
		material.Roots = system
	} else {
		pool, err := ReadAuthorities(m.CA)
		if err != nil {
			return nil, err
		}
		material.Roots = pool.CertPool
	}
	if m.Cert == "" {
		return material, nil
	}
	cert, err := read(m.Cert)
	if err != nil {
		return nil, err
	}
	key, err := read(m.Key)
	if err != nil {
		return nil, err
	}
	pair, fault := pemfile.Pair(cert, key)
	if fault != nil {
		return nil, at(fault, m.Cert, m.Key)
	}
	material.Certificate = pair
	return material, nil
}

// Config returns a new configuration of a client, the caller's to change: TLS 1.2 at
// least (RFC 9325 3.1.1), trusting the roots and showing the certificate.
func (m *Material) Config() *tls.Config {
	config := &tls.Config{RootCAs: m.Roots, MinVersion: tls.VersionTLS12}
	if m.Certificate != nil {
		config.Certificates = []tls.Certificate{*m.Certificate}
	}
	return config
}

// ReadAuthorities reads a file of authorities. Its errors have the path.
func ReadAuthorities(path string) (*pemfile.Pool, error) {
	data, err := read(path)
	if err != nil {
		return nil, err
	}
	pool, fault := pemfile.Authorities(data)
	if fault != nil {
		return nil, at(fault, path)
	}
	return pool, nil
}

// read reads a file, and says in plain words what keeps it from that.
func read(path string) ([]byte, error) {
	data, err := regularfile.Read(path, pemfile.Largest)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, regularfile.Plain(err))
	}
	return data, nil
}

// at puts the path of the one of several files, a key's being the last, in front
// of what is wrong with it.
func at(fault *pemfile.Fault, paths ...string) error {
	path := paths[0]
	if fault.In == pemfile.Key {
		path = paths[len(paths)-1]
	}
	return fmt.Errorf("%s: %v", path, fault)
}
