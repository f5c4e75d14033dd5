package certificate

import (
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/internal/model"
	"sluice/internal/pemfile"
)

const (
	// ACMEProtocol is negotiated with an authority that validates a name by
	// TLS-ALPN-01 (RFC 8737). It is not asked for a client certificate, so
	// whoever serves the connection closes it after the handshake: no
	// application data belongs on it.
	ACMEProtocol = "acme-tls/1"

	protocolH3 = "h3"
)

var (
	errUnused        = errors.New("the listener has no TLS settings yet")
	errNoCertificate = errors.New("there is no certificate to show")
)

// Source yields certificates that no file holds, as an ACME account does. It is
// called during a handshake and may wait.
type Source func(hello *tls.ClientHelloInfo) (*tls.Certificate, error)

// Serving is what a listener shows at one time.
type Serving struct {
	Set *Set
	// Protocols are those of TLS over TCP, by their names in ALPN, the preferred
	// one first.
	Protocols []string
	// Source is asked for what the files have no certificate for. nil: there is
	// none.
	Source Source
	// Validation is asked for what an authority is shown that validates a name,
	// whichever listener's it is. nil: nobody may validate.
	Validation Source
	// Block runs what may wait, during the handshake of hello, for engines that
	// share a thread between connections. nil: hello.Conn's own Block, if it has
	// one, else a plain call.
	Block func(hello *tls.ClientHelloInfo, wait func())
}

// Handshake is how the connections of one listener begin, over all reloads of
// its settings: it belongs to the address and keeps the keys of session tickets.
// Safe for concurrent use.
type Handshake struct {
	serving atomic.Pointer[Serving]
	tickets tickets
	tcp     side
	quic    side
}

// NewHandshake returns a handshake, which fails every client until Use.
func NewHandshake() *Handshake { return &Handshake{} }

// Use has handshakes that begin from now on follow s. Those under way and
// connections that were made go on. It is called by one goroutine at a time.
func (h *Handshake) Use(s Serving) {
	s.Protocols = slices.Clone(s.Protocols)
	h.serving.Store(&s)
	h.tcp.refresh(h, &s, s.Protocols, s.Set.model.MinVersion)
	h.quic.refresh(h, &s, []string{protocolH3}, tls.VersionTLS13)
}

// Config returns the configuration for connections of TCP. It stays the same
// for good and follows Use by itself.
func (h *Handshake) Config() *tls.Config { return h.config(&h.tcp, tls.VersionTLS12) }

// QUIC is Config for HTTP/3: it has ALPN h3 and TLS 1.3 (RFC 9001, RFC 9114).
func (h *Handshake) QUIC() *tls.Config {
	config := h.config(&h.quic, tls.VersionTLS13)
	config.NextProtos = []string{protocolH3}
	return config
}

func (h *Handshake) config(side *side, version uint16) *tls.Config {
	return &tls.Config{
		MinVersion: version, // read by QUIC before there is a client
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			current := side.now(h)
			switch {
			case current == nil:
				return nil, errUnused
			case validates(hello) && current.validation != nil:
				return current.validation, nil
			}
			return current.config, nil
		},
	}
}

// validates tells whether an authority validates a name: it offers this protocol
// and no other (RFC 8737 3).
func validates(hello *tls.ClientHelloInfo) bool {
	return len(hello.SupportedProtos) == 1 && hello.SupportedProtos[0] == ACMEProtocol
}

// side is the handshakes of one transport.
type side struct {
	current atomic.Pointer[built]
	mu      sync.Mutex // of who makes the next one
}

// built is a configuration, with what it was built from. It is never changed.
type built struct {
	serving    *Serving
	protocols  []string
	version    uint16
	pool       *pemfile.Pool // nil: clients are not asked
	until      time.Time     // when the keys of tickets change
	config     *tls.Config
	validation *tls.Config // for ACMEProtocol; nil: nobody may validate
}

// now returns what rules a handshake that begins now; nil before Use. It takes
// no lock: while one handshake renews it, others go by what there was.
func (s *side) now(h *Handshake) *built {
	b := s.current.Load()
	if b == nil || (b.pool == b.serving.Set.pool() && time.Now().Before(b.until)) {
		return b
	}
	if s.mu.TryLock() {
		defer s.mu.Unlock()
		b = s.current.Load()
		s.build(h, b.serving, b.protocols, b.version)
	}
	return s.current.Load()
}

func (s *side) refresh(h *Handshake, serving *Serving, protocols []string, version uint16) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.build(h, serving, protocols, max(version, tls.VersionTLS12))
}

// build makes and stores the configuration; mu is held.
func (s *side) build(h *Handshake, serving *Serving, protocols []string, version uint16) {
	b := &built{serving: serving, protocols: protocols, version: version, pool: serving.Set.pool()}
	b.config = &tls.Config{
		MinVersion:     version,
		NextProtos:     protocols,
		GetCertificate: serving.certificate,
	}
	auth := &serving.Set.model.ClientAuth
	scope := model.ClientAuthNone
	if b.pool != nil {
		b.config.ClientCAs = b.pool.CertPool
		b.config.ClientAuth = tls.RequireAndVerifyClientCert
		if auth.Mode == model.ClientAuthOptional {
			b.config.ClientAuth = tls.VerifyClientCertIfGiven
		}
		scope = fmt.Sprintf("%s %x", auth.Mode, b.pool.Sum)
	}
	// A session carries over who the client was verified to be. One that was
	// verified by other rules is not taken up again: it cannot be decrypted.
	var keys [][32]byte
	keys, b.until = h.tickets.keys(scope, time.Now())
	b.config.SetSessionTicketKeys(keys)
	if serving.Validation != nil && !slices.Equal(protocols, []string{protocolH3}) {
		b.validation = &tls.Config{
			MinVersion:             tls.VersionTLS12,
			NextProtos:             []string{ACMEProtocol},
			GetCertificate:         serving.validate,
			SessionTicketsDisabled: true,
		}
	}
	s.current.Store(b)
}

// pool is the authorities of clients now; nil where they are not asked.
func (s *Set) pool() *pemfile.Pool {
	if s.authorities == nil {
		return nil
	}
	pool := s.authorities.Pool()
	if pool == nil {
		panic("BUG: a listener serves before its authorities were read")
	}
	return pool
}

// certificate picks what a client is shown: the files' certificate for what it
// asks for, else the source's, else the first file's.
func (s *Serving) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	t := s.Set.table.Load()
	if c := t.match(hello); c != nil {
		return c, nil
	}
	fallback := t.fallback(hello)
	if s.Source == nil || (hello.ServerName == "" && fallback != nil) {
		if fallback == nil {
			return nil, errNoCertificate
		}
		return fallback, nil
	}
	c, err := s.ask(s.Source, hello)
	switch {
	case err != nil && fallback != nil: // the source tells of its own failures
		return fallback, nil
	case errors.Is(err, errNoCertificate) && hello.ServerName != "":
		return nil, nil // crypto/tls tells the client then that the name is unknown (RFC 6066 3)
	}
	return c, err
}

// validate is what an authority is shown.
func (s *Serving) validate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.ask(s.Validation, hello)
}

// ask asks a source.
func (s *Serving) ask(source Source, hello *tls.ClientHelloInfo) (c *tls.Certificate, err error) {
	wait := func() { c, err = source(hello) }
	blocker, ok := hello.Conn.(interface{ Block(wait func()) })
	switch {
	case s.Block != nil:
		s.Block(hello, wait)
	case ok:
		blocker.Block(wait)
	default:
		wait()
	}
	if c == nil && err == nil {
		err = errNoCertificate
	}
	return c, err
}
