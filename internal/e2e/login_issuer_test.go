package e2e

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

// issuerBinary is zitadel/oidc's OpenID provider.
var issuerBinary = sync.OnceValues(func() (string, error) { return buildPeer("sluice/tools/peers/issuer", "issuer") })

// openIDProvider is an issuer in a process of its own, behind a connection that can break.
type openIDProvider struct {
	t       *testing.T
	url     string
	way     net.Listener
	down    atomic.Bool
	process *exec.Cmd
	address atomic.Pointer[string] // nil: it does not run yet
	told    chan string            // lines that it prints
}

// newOpenIDProvider returns one that does not run yet, so that its URL is known: nobody
// answers there.
func newOpenIDProvider(t *testing.T) *openIDProvider {
	t.Helper()
	way, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &openIDProvider{t: t, way: way, url: "http://" + way.Addr().String() + "/", told: make(chan string, 16)}
	var serving sync.WaitGroup
	var open sync.Map
	serving.Go(func() {
		for {
			conn, err := way.Accept()
			if err != nil {
				return
			}
			open.Store(conn, true)
			serving.Go(func() {
				p.pass(conn)
				open.Delete(conn)
			})
		}
	})
	t.Cleanup(func() {
		_ = way.Close()
		open.Range(func(conn, _ any) bool {
			if c, ok := conn.(net.Conn); ok {
				_ = c.Close()
			}
			return true
		})
		serving.Wait()
	})
	return p
}

// pass passes one connection on, for as long as the way is open.
func (p *openIDProvider) pass(conn net.Conn) {
	defer conn.Close() // either side sees that it is gone
	address := p.address.Load()
	if address == nil || p.down.Load() {
		return
	}
	server, err := net.DialTimeout("tcp", *address, gatewaytest.Patience)
	if err != nil {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(conn, server) // one of the two has ended
		_ = conn.Close()
	})
	buffer := make([]byte, 16<<10)
	for {
		n, err := conn.Read(buffer)
		if err != nil || p.down.Load() {
			break
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			break
		}
	}
	_ = server.Close()
	back.Wait()
}

// run runs it, for one gateway whose URL has no path, with tokens that live so long.
func (p *openIDProvider) run(gateway string, life time.Duration) {
	p.t.Helper()
	p.process = exec.Command(built(p.t, issuerBinary), "-issuer", p.url, "-redirect", gateway+"/oauth2/callback", "-post-logout", gateway+"/bye", "-life", life.String())
	var log bytes.Buffer
	p.process.Stderr = &log
	out, err := p.process.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.process.Start(); err != nil {
		p.t.Fatal(err)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			p.told <- lines.Text()
		}
	}()
	p.t.Cleanup(func() {
		_ = p.process.Process.Kill() // it ends in no other way
		<-drained
		_ = p.process.Wait() // it tells of the kill
		if p.t.Failed() {
			p.t.Logf("the issuer's log:\n%s", log.Bytes()[max(0, log.Len()-16<<10):])
		}
	})
	p.expect("signs with ")
	address := p.expect("127.0.0.1:")
	p.address.Store(&address)
}

// expect waits for a line, and returns it.
func (p *openIDProvider) expect(prefix string) string {
	p.t.Helper()
	for {
		select {
		case line := <-p.told:
			if strings.HasPrefix(line, prefix) {
				return line
			}
		case <-time.After(gatewaytest.Patience):
			p.t.Fatalf("the issuer does not say %q", prefix)
		}
	}
}

// rotate has it sign with another key.
func (p *openIDProvider) rotate() {
	p.t.Helper()
	if err := p.process.Process.Signal(syscall.SIGHUP); err != nil {
		p.t.Fatal(err)
	}
	p.expect("signs with ")
}

// loginGateway starts a gateway that has people log in at a provider, over TLS, and
// returns it with its URL. store is where sessions are kept.
func loginGateway(t *testing.T, p *openIDProvider, stores, session string) (gw *gatewaytest.Gateway, url string) {
	t.Helper()
	cert, key := selfSigned(t, "localhost")
	gw = gatewaytest.Start(t, fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0", tls: {certificates: [{cert: %q, key: %q}]}}}
admin: {address: "127.0.0.1:0"}
stores: {%s}
middleware:
  people:
    oidc:
      issuer: %q
      client_id: gateway
      client_secret: secret-of-the-gateway
      scopes: [openid, profile, email, offline_access]
      logout_path: /logout
      post_logout_path: /bye
      session: {%s}
      claims_to_headers: {X-Issued: iat}
routes:
  - {id: bye, match: {path: /bye}, respond: {status: 200, body: "goodbye"}}
  - {id: all, match: {path_prefix: /}, middleware: [people], respond: {status: 200, body: "hello {consumer}, {header.X-Issued} at {path}?{query}, cookies {header.Cookie}."}}
`, cert, key, stores, p.url, session))
	_, port, err := net.SplitHostPort(gw.Addr("web").String())
	if err != nil {
		t.Fatal(err)
	}
	return gw, "https://localhost:" + port
}
