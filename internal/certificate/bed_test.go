package certificate

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"sluice/internal/certtest"
	"sluice/internal/lease"
	"sluice/internal/logtest"
	"sluice/internal/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 60 * time.Second

// bed is a listener's TLS without the listener.
type bed struct {
	t         *testing.T
	dir       string
	ca        *certtest.Certificate
	registry  lease.Registry
	leases    *lease.Set
	set       *Set
	handshake *Handshake
	logged    *logtest.Buffer
}

func newBed(t *testing.T) *bed {
	t.Helper()
	return &bed{
		t: t, dir: t.TempDir(), ca: certtest.Authority(t, "authority"), handshake: NewHandshake(), logged: &logtest.Buffer{},
	}
}

func (b *bed) options() Options { return Options{Log: slog.New(slog.NewTextHandler(b.logged, nil))} }

func (b *bed) path(name string) string { return filepath.Join(b.dir, name) }

// write saves a file in place.
func (b *bed) write(name string, content []byte) {
	b.t.Helper()
	if err := os.WriteFile(b.path(name), content, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// save writes a pair as NAME.pem and NAME.key and returns where it is.
func (b *bed) save(name string, pair *certtest.Certificate) model.CertificateFile {
	b.t.Helper()
	b.write(name+".pem", pair.CertPEM())
	b.write(name+".key", pair.KeyPEM())
	return b.file(name)
}

func (b *bed) file(name string) model.CertificateFile {
	return model.CertificateFile{Cert: b.path(name + ".pem"), Key: b.path(name + ".key")}
}

func settings(files ...model.CertificateFile) *model.ListenerTLS {
	return &model.ListenerTLS{Certificates: files, MinVersion: tls.VersionTLS12, ClientAuth: model.ClientAuth{Mode: model.ClientAuthNone}}
}

// serve is a reload: the new settings are acquired, then the old ones released.
func (b *bed) serve(m *model.ListenerTLS, edit ...func(*Serving)) {
	b.t.Helper()
	leases := b.registry.NewSet()
	set := Acquire(leases, m, b.options())
	if err := leases.Commit(); err != nil {
		b.t.Fatal(err)
	}
	serving := Serving{Set: set, Protocols: []string{"h2", "http/1.1"}}
	for _, e := range edit {
		e(&serving)
	}
	b.handshake.Use(serving)
	if b.leases != nil {
		b.leases.Release()
	}
	b.leases, b.set = leases, set
}

// end releases everything.
func (b *bed) end() {
	b.t.Helper()
	if b.leases != nil {
		b.leases.Release()
	}
	if err := b.registry.Idle(); err != nil {
		b.t.Error(err)
	}
}

// client is the configuration of a client that asks for a name and believes the
// bed's authority.
func (b *bed) client(name string, edit ...func(*tls.Config)) *tls.Config {
	config := &tls.Config{ServerName: name, RootCAs: b.ca.Pool(), NextProtos: []string{"h2"}}
	for _, e := range edit {
		e(config)
	}
	return config
}

func shows(pair *certtest.Certificate) func(*tls.Config) {
	own := pair.TLS()
	// Whatever authorities the server names: what it does with others is tested.
	return func(c *tls.Config) {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &own, nil }
	}
}

// believes takes any certificate of the server.
func believes(c *tls.Config) { c.InsecureSkipVerify = true }

func only12(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }

// outcome is what both sides have of a handshake.
type outcome struct {
	client, server tls.ConnectionState
	err            error // of the server, else of the client
	told           error // of the client
}

// serial is the certificate that the client saw.
func (o outcome) serial() string {
	if len(o.client.PeerCertificates) == 0 {
		return ""
	}
	return o.client.PeerCertificates[0].SerialNumber.String()
}

// shake makes a handshake. The server then says a byte, so that the client has
// read the tickets that come before it.
func (b *bed) shake(client *tls.Config) outcome {
	b.t.Helper()
	return shake(b.t, b.handshake.Config(), client, nil)
}

// shake with address has the client come to that address.
func shake(t *testing.T, server, client *tls.Config, address net.Addr) (o outcome) {
	t.Helper()
	near, far := newPipe(address)
	served := make(chan error, 1)
	there := tls.Server(far, server)
	go func() {
		defer far.Close()
		err := there.HandshakeContext(context.Background())
		if err == nil {
			_, err = there.Write([]byte("x"))
		}
		served <- err
	}()
	here := tls.Client(near, client)
	err := here.HandshakeContext(t.Context())
	if err == nil {
		_, err = here.Read(make([]byte, 1))
	}
	o.told = err
	near.Close()
	o.client, o.server = here.ConnectionState(), there.ConnectionState()
	if o.err = <-served; o.err == nil || errors.Is(o.err, net.ErrClosed) {
		o.err = err
	}
	return o
}

// expect checks which certificate a client is shown.
func (b *bed) expect(what string, client *tls.Config, want *certtest.Certificate) {
	b.t.Helper()
	o := b.shake(client)
	if o.err != nil {
		b.t.Errorf("%s: %v", what, o.err)
		return
	}
	if got := o.serial(); got != want.SerialNumber.String() {
		b.t.Errorf("%s: the client saw %v", what, o.client.PeerCertificates[0].DNSNames)
	}
}
