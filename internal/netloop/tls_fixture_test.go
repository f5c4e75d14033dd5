//go:build unix

package netloop

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"sluice/internal/certtest"
)

// configs are those of a server named "server" and a client that knows it.
func configs(t testing.TB) (server, client *tls.Config) {
	t.Helper()
	a := certtest.Authority(t, "authority")
	return &tls.Config{Certificates: []tls.Certificate{a.Issue("server").TLS()}},
		&tls.Config{RootCAs: a.Pool(), ServerName: "server"}
}

// of one version.
func of(config *tls.Config, version uint16) *tls.Config {
	config = config.Clone()
	config.MinVersion, config.MaxVersion = version, version
	return config
}

// versions runs a test by each version of TLS.
func versions(t *testing.T, test func(t *testing.T, version uint16)) {
	t.Helper()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) { test(t, version) })
	}
}

// eachVersion runs a test as a task of each driver, by each version of TLS.
func eachVersion(t *testing.T, test func(b *bed, x Executor, version uint16)) {
	t.Helper()
	versions(t, func(t *testing.T, version uint16) {
		t.Helper()
		eachTask(t, func(b *bed, x Executor) { test(b, x, version) })
	})
}

// tlsServed returns our server's side of a connection and the client's, which
// is crypto/tls's own.
func tlsServed(t testing.TB, x Executor, server, client *tls.Config) (*TLS, *tls.Conn) {
	t.Helper()
	c, peer := pair(t, x, "tcp")
	own, other := ServeTLS(c, nil, server), tls.Client(peer, client)
	shake(t, own, other)
	return own, other
}

// tlsDialed is the other way round.
func tlsDialed(t testing.TB, x Executor, server, client *tls.Config) (*TLS, *tls.Conn) {
	t.Helper()
	c, peer := pair(t, x, "tcp")
	own, other := DialTLS(c, client), tls.Server(peer, server)
	shake(t, own, other)
	return own, other
}

func shake(t testing.TB, own *TLS, other *tls.Conn) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- other.Handshake() }()
	err := own.Handshake(time.Now().Add(time.Minute))
	if err == nil {
		own.Executor().Block(func() { err = <-done })
	}
	if err != nil {
		t.Errorf("handshake: %v", err)
		panic(err)
	}
}

// inGoroutine runs f where it may block, while the tasks go on.
func inGoroutine(x Executor, f func()) { x.Block(f) }

// atRest tells whether a connection holds any buffer of ours.
func atRest(t testing.TB, c *TLS) {
	t.Helper()
	r := &c.records
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buffer != nil || r.data != nil || r.out != nil || r.flushing || r.idle != nil {
		t.Errorf("at rest it holds %d bytes read, and what is to be written: %v", len(r.data), r.out)
	}
}

// dribble writes every byte by itself.
type dribble struct{ net.Conn }

func (d dribble) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := d.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}
