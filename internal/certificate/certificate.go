// Package certificate is what a TLS listener shows to its clients, and what it
// asks of them: certificates of files, picked by the name that a client asks
// for, authorities of client certificates, session tickets, and the crypto/tls
// configuration that they make together. Files are watched; what changes in
// them is taken up without a reload, and no connection notices.
//
// It accepts no connection and orders no certificate: a source of others, as an
// ACME account is one, comes in from outside.
package certificate

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/lease"
	"sluice/internal/model"
	"sluice/internal/pemfile"
)

// Options are what the package is given by the program.
type Options struct {
	// Log is told of certificates that changed, that cannot be taken up, and
	// that come to their end. nil: nobody is.
	Log *slog.Logger
}

func (o Options) log() *slog.Logger {
	if o.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return o.Log
}

// Pair is a certificate with its key, as of two files that are watched.
type Pair struct {
	watched[tls.Certificate]
}

// AcquirePair returns the pair of two files, the live one if there is one. The
// files are read at once and watched from the set's commit until the last set
// that holds the pair is released. A pair that cannot be read makes the commit fail; one
// that can no longer be read stays what it was.
func AcquirePair(set *lease.Set, m model.CertificateFile, o Options) *Pair {
	w := acquireWatch(set)
	return lease.Acquire(set, "certificate\n"+m.Cert+"\n"+m.Key, func() *Pair {
		p := &Pair{watched[tls.Certificate]{watch: w, log: o.log(), kind: "certificate", paths: []string{m.Cert, m.Key}, parse: parsePair, leaf: leaf}}
		p.begin(time.Now())
		return p
	})
}

func leaf(c *tls.Certificate) *x509.Certificate { return c.Leaf }

func parsePair(contents [][]byte) (*tls.Certificate, *pemfile.Fault) {
	return pemfile.Pair(contents[0], contents[1])
}

// Certificate returns the pair as it is now; nil before a commit that succeeded,
// if the files could not be read. Nobody changes it.
func (p *Pair) Certificate() *tls.Certificate { return p.current.Load() }

// Authorities are the certificates of a file that is watched, which vouch for
// others.
type Authorities struct {
	watched[pemfile.Pool]
}

// AcquireAuthorities is AcquirePair for a file of authorities.
func AcquireAuthorities(set *lease.Set, path string, o Options) *Authorities {
	w := acquireWatch(set)
	return lease.Acquire(set, "authorities\n"+path, func() *Authorities {
		a := &Authorities{watched[pemfile.Pool]{watch: w, log: o.log(), kind: "authorities", paths: []string{path}, parse: parsePool}}
		a.begin(time.Now())
		return a
	})
}

func parsePool(contents [][]byte) (*pemfile.Pool, *pemfile.Fault) {
	return pemfile.Authorities(contents[0])
}

// Pool returns the authorities as they are now; nil as with Pair.Certificate.
// Nobody changes it.
func (a *Authorities) Pool() *pemfile.Pool { return a.current.Load() }

// Set is the certificates of one listener's files, and the authorities of its
// clients. Listeners with equal settings share one. Safe for concurrent use.
type Set struct {
	model       *model.ListenerTLS
	watch       *watch
	pairs       []*Pair
	authorities *Authorities // nil: clients are not asked
	table       atomic.Pointer[table]
	refreshing  sync.Mutex // so that no older table comes after a newer one
}

// Acquire returns the set of a listener's settings, the live one if there is
// one. Files are read at once; they are watched from the commit on.
func Acquire(set *lease.Set, m *model.ListenerTLS, o Options) *Set {
	w := acquireWatch(set)
	// Pairs are acquired outside of the set's own lease, since a registry is
	// locked while it builds; they start before the set and end after it.
	pairs := make([]*Pair, 0, len(m.Certificates))
	for _, file := range m.Certificates {
		pairs = append(pairs, AcquirePair(set, file, o))
	}
	var authorities *Authorities
	switch m.ClientAuth.Mode {
	case model.ClientAuthNone, "":
	case model.ClientAuthOptional, model.ClientAuthRequire:
		authorities = AcquireAuthorities(set, m.ClientAuth.CA, o)
	default:
		panic("BUG: client certificates have no mode " + m.ClientAuth.Mode)
	}
	sum := sha256.Sum256([]byte(model.Text(m)))
	return lease.Acquire(set, "certificates "+hex.EncodeToString(sum[:]), func() *Set {
		s := &Set{model: m, watch: w, pairs: pairs, authorities: authorities}
		s.refresh()
		return s
	})
}

// Start begins to take up what changes. It is for the registry of leases.
func (s *Set) Start() error {
	s.watch.follow(s)
	return nil
}

// Release ends that; the set stays as it is then.
func (s *Set) Release() { s.watch.leave(s) }

// refresh makes the table of what the pairs are now.
func (s *Set) refresh() {
	s.refreshing.Lock()
	defer s.refreshing.Unlock()
	certificates := make([]*tls.Certificate, 0, len(s.pairs))
	for _, p := range s.pairs {
		if c := p.Certificate(); c != nil {
			certificates = append(certificates, c)
		}
	}
	s.table.Store(newTable(certificates))
}

// Status is the set for people: its files in the order of the configuration, the
// authorities last.
func (s *Set) Status() []Status {
	now := time.Now()
	all := make([]Status, 0, len(s.pairs)+1)
	for _, p := range s.pairs {
		status := p.status()
		if c := p.Certificate(); c != nil {
			status.describe(c.Leaf)
			status.Expired = now.After(status.NotAfter)
		}
		all = append(all, status)
	}
	if s.authorities != nil {
		status := s.authorities.status()
		if pool := s.authorities.Pool(); pool != nil {
			status.Certificates = len(pool.Certificates)
			for _, c := range pool.Certificates { // the first one that ends
				if status.NotAfter.IsZero() || c.NotAfter.Before(status.NotAfter) {
					status.NotBefore, status.NotAfter = c.NotBefore, c.NotAfter
				}
			}
			status.Expired = now.After(status.NotAfter)
		}
		all = append(all, status)
	}
	return all
}
