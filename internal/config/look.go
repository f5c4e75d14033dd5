package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// look reports, where it can look, that there is no directory for a file to be
// made in, or that what is at its path is in the way.
func (r *resolver) look(where place, name, path string, inTheWay func(fs.FileMode) string) {
	if r.stat == nil {
		return
	}
	directory := filepath.Dir(path)
	switch info, err := r.stat(directory); {
	case errors.Is(err, fs.ErrNotExist):
		r.out.add(where, fmt.Sprintf("%s cannot be made: its directory %s does not exist", name, short(directory)), "make the directory first")
		return
	case err != nil:
		return // who serves may be another user
	case !info.IsDir():
		r.out.add(where, fmt.Sprintf("%s cannot be made: %s is not a directory", name, short(directory)), "")
		return
	}
	if info, err := r.stat(path); err == nil {
		if text := inTheWay(info.Mode()); text != "" {
			r.out.add(where, fmt.Sprintf("%s cannot be made at %s: %s", name, short(path), text), "")
		}
	}
}

func (r *resolver) lookAtSocket(where place, address string) {
	if path, ok := strings.CutPrefix(address, unixPrefix); ok {
		r.look(where, "the socket", path, func(mode fs.FileMode) string {
			if mode&fs.ModeSocket == 0 {
				return "what is there is not a socket"
			}
			return ""
		})
	}
}

// lookAtPair reports what is wrong with a certificate and its key.
func (r *resolver) lookAtPair(l *located, at, cert, key string) {
	certificate, ok := r.inspected(l.below(at+"cert"), "cert", absolute(l.src.Dir, cert))
	private, also := r.inspected(l.below(at+"key"), "key", absolute(l.src.Dir, key))
	if !ok || !also {
		return
	}
	if _, err := tls.X509KeyPair(certificate, private); err != nil {
		r.out.add(l.below(at+"cert"), fmt.Sprintf("%s and %s are no certificate with its key: %v", short(cert), short(key), err), "")
	}
}

// lookAtAuthorities reports what is wrong with a file of authorities.
func (r *resolver) lookAtAuthorities(where place, name, path string) {
	if text, ok := r.inspected(where, name, path); ok && !x509.NewCertPool().AppendCertsFromPEM(text) {
		r.out.add(where, fmt.Sprintf("%s names a file without any certificate in it", name), "it must be PEM: a block that begins with -----BEGIN CERTIFICATE-----")
	}
}

// inspected reads a file that is watched by whoever uses it.
func (r *resolver) inspected(where place, name, path string) ([]byte, bool) {
	text, err := r.inspect(path)
	if err != nil {
		r.out.add(where, fmt.Sprintf("%s cannot be read: %v", name, reason(err)), "")
		return nil, false
	}
	return text, true
}
