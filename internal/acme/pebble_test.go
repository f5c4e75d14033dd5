package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mholt/acmez/v3"
	"go.uber.org/goleak"
	"golang.org/x/net/dns/dnsmessage"

	"sluice/internal/certtest"
	"sluice/internal/lease"
	"sluice/internal/logtest"
	"sluice/internal/model"
	"sluice/internal/waittest"
)

// programs are built once, when the first test wants them, into a folder that
// TestMain removes.
var programs struct{ pebble func() (string, error) }

func TestMain(m *testing.M) {
	if os.Getenv(holderVariable) != "" {
		holdLock()
		return
	}
	os.Exit(func() int {
		folder, err := os.MkdirTemp("", "acme")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(folder)
		programs.pebble = sync.OnceValues(func() (string, error) {
			path := filepath.Join(folder, "pebble")
			build := exec.Command("go", "-C", "../../tools/peers", "build", "-o", path, "github.com/letsencrypt/pebble/v2/cmd/pebble")
			if out, err := build.CombinedOutput(); err != nil {
				return "", fmt.Errorf("build Pebble: %w\n%s", err, out)
			}
			return path, nil
		})
		status := m.Run()
		if err := goleak.Find(); status == 0 && err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
		return status
	}())
}

// patience is how long a test waits for what must happen.
const patience = time.Minute

// newLog is a log of everything, shown where the test fails.
func newLog(t *testing.T) (*slog.Logger, *logtest.Buffer) {
	t.Helper()
	j := &logtest.Buffer{}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", j)
		}
	})
	return slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug})), j
}

// given are the ports that freePort has given away.
var given sync.Map

// freePort is a port on loopback that nobody had a moment ago, and that nobody
// gets who asks the system for any: it is below those.
func freePort(t *testing.T) int {
	t.Helper()
	for range 1000 {
		port := 20000 + mathrand.IntN(12000)
		if _, again := given.LoadOrStore(port, true); again {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			l.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return 0
}

// directory is Pebble, an ACME directory that asks for challenges in earnest.
type directory struct {
	t        *testing.T
	folder   string
	port     int
	manage   int
	root     *certtest.Certificate
	rootFile string
	output   *logtest.Buffer
	command  *exec.Cmd
	ended    chan struct{}
	resolver string
	client   *http.Client
}

// newDirectory prepares a Pebble which asks at the ports of the site and whose
// certificates live for so long. It does not run yet.
func newDirectory(t *testing.T, s *site, life time.Duration) *directory {
	t.Helper()
	folder := t.TempDir()
	d := &directory{t: t, folder: folder, port: freePort(t), manage: freePort(t), root: certtest.Authority(t, "test authority"), output: &logtest.Buffer{}, resolver: newResolver(t)}
	d.rootFile = d.root.CertFile()
	cert, key := d.root.Issue("localhost", "127.0.0.1").Write(folder, "own")
	config := map[string]any{"pebble": map[string]any{
		"listenAddress": fmt.Sprintf("127.0.0.1:%d", d.port), "managementListenAddress": fmt.Sprintf("127.0.0.1:%d", d.manage),
		"certificate": cert, "privateKey": key, "httpPort": s.httpPort, "tlsPort": s.tlsPort, "keyAlgorithm": "ecdsa",
		"domainBlocklist": []string{"blocked.example"},
		"retryAfter":      map[string]int{"authz": 1, "order": 1},
		"profiles":        map[string]any{"default": map[string]any{"description": "as told", "validityPeriod": int(life / time.Second)}},
	}}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "pebble.json"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	d.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: d.root.Pool()}, DisableKeepAlives: true}}
	t.Cleanup(func() {
		d.stop()
		if t.Failed() {
			t.Logf("pebble:\n%s", d.output)
		}
	})
	return d
}

func (d *directory) url() string { return fmt.Sprintf("https://127.0.0.1:%d/dir", d.port) }

// start runs it, with an empty memory, and waits until it answers.
func (d *directory) start() {
	d.t.Helper()
	program, err := programs.pebble()
	if err != nil {
		d.t.Fatal(err)
	}
	d.command = exec.Command(program, "-config", filepath.Join(d.folder, "pebble.json"), "-dnsserver", d.resolver)
	d.command.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0", "PEBBLE_AUTHZREUSE=0")
	d.command.Stdout, d.command.Stderr = d.output, d.output
	if err := d.command.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.ended = make(chan struct{})
	go func() {
		_ = d.command.Wait()
		close(d.ended)
	}()
	for _, url := range []string{d.url(), d.managed("/roots/0")} {
		waittest.Until(d.t, "Pebble answers", func() bool {
			select {
			case <-d.ended:
				d.t.Fatalf("Pebble ended")
			default:
			}
			_, err := d.read(http.MethodGet, url, nil)
			return err == nil
		})
	}
}

func (d *directory) stop() {
	if d.command != nil {
		_ = d.command.Process.Kill()
		<-d.ended
		d.command = nil
	}
}

func (d *directory) managed(path string) string {
	return fmt.Sprintf("https://127.0.0.1:%d%s", d.manage, path)
}

func (d *directory) read(method, url string, body io.Reader) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, body)
	if err != nil {
		return nil, err
	}
	response, err := d.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", response.Status, text)
	}
	return text, err
}

// issuedBy are the authorities of the certificates that it issues.
func (d *directory) issuedBy() *x509.CertPool {
	d.t.Helper()
	text, err := d.read(http.MethodGet, d.managed("/roots/0"), nil)
	if err != nil {
		d.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		d.t.Fatalf("no root in %q", text)
	}
	return pool
}

// issued counts its certificates.
func (d *directory) issued() int { return d.output.Count("Issued certificate serial") }

// settings are those of a listener that uses the directory.
func (d *directory) settings(storage string, domains ...string) model.ACME {
	return model.ACME{Email: "ops@example.com", Domains: domains, Directory: d.url(), CAFile: d.rootFile, Storage: storage}
}

// newResolver is a DNS server on TCP, for which every name is on loopback.
func newResolver(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { resolve(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return l.Addr().String()
}

func resolve(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return
	}
	question := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, question); err != nil {
		return
	}
	var message dnsmessage.Message
	if err := message.Unpack(question); err != nil || len(message.Questions) != 1 {
		return
	}
	message.Response, message.Authoritative, message.Additionals = true, true, nil
	if asked := message.Questions[0]; asked.Type == dnsmessage.TypeA {
		message.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: asked.Name, Class: asked.Class, TTL: 1},
			Body:   &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	answer, err := message.AppendPack([]byte{0, 0})
	if err != nil {
		return
	}
	binary.BigEndian.PutUint16(answer, uint16(len(answer)-2))
	_, _ = conn.Write(answer)
}

// site is what a gateway's listeners are to a Manager: cleartext HTTP that asks
// HTTPChallenge first, and TLS by GetCertificate and Validation.
type site struct {
	httpPort, tlsPort int
	manager           atomic.Pointer[Manager]
	other             atomic.Pointer[Manager] // of another listener, where the directory does not come to
	challenged        func()                  // called whenever a challenge was answered
	byHTTP, byTLS     atomic.Int32
	log               *slog.Logger
	journal           *logtest.Buffer
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{}
	s.log, s.journal = newLog(t)
	plain, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	secure, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		NextProtos: []string{"http/1.1", acmez.ACMETLS1Protocol},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			m := s.manager.Load()
			if m == nil {
				return nil, nil
			}
			if !slices.Equal(hello.SupportedProtos, []string{acmez.ACMETLS1Protocol}) {
				return m.GetCertificate(hello)
			}
			asked := []*Manager{m}
			if other := s.other.Load(); other != nil {
				asked = append(asked, other)
			}
			proof, err := Validation(asked)(hello)
			if err == nil {
				s.byTLS.Add(1)
				if s.challenged != nil {
					s.challenged()
				}
			}
			return proof, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.httpPort, s.tlsPort = plain.Addr().(*net.TCPAddr).Port, secure.Addr().(*net.TCPAddr).Port
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(s.serveHTTP)}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(plain) })
	serving.Go(func() {
		for {
			conn, err := secure.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
				_ = conn.(*tls.Conn).Handshake()
			})
		}
	})
	t.Cleanup(func() {
		server.Close()
		secure.Close()
		serving.Wait()
	})
	return s
}

func (s *site) serveHTTP(w http.ResponseWriter, r *http.Request) {
	m := s.manager.Load()
	if m == nil {
		http.NotFound(w, r)
		return
	}
	body, ok := m.HTTPChallenge(r.Host, r.URL.Path)
	if !ok {
		http.NotFound(w, r)
		return
	}
	s.byHTTP.Add(1)
	if s.challenged != nil {
		s.challenged()
	}
	_, _ = io.WriteString(w, body)
}

// handshake returns the certificate that a client of a name gets.
func (s *site) handshake(name string, roots *x509.CertPool) (*x509.Certificate, error) {
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{ServerName: name, RootCAs: roots, NextProtos: []string{"http/1.1"}}}
	conn, err := dialer.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.tlsPort))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// quick is a pace for tests.
func quick() pace {
	p := usualPace()
	p.check, p.firstLoad = 50*time.Millisecond, 5*time.Second
	p.unreached = backoff{50 * time.Millisecond, 200 * time.Millisecond}
	p.refused = backoff{100 * time.Millisecond, time.Second}
	p.lock = time.Second
	return p
}

// serve starts a Manager and shows it at the site until the test, or what is
// returned, ends it.
func (s *site) serve(t *testing.T, settings model.ACME, options Options, p pace) (*Manager, func()) {
	t.Helper()
	options.Log = s.log
	var registry lease.Registry
	set := registry.NewSet()
	m := lease.Acquire(set, "manager", func() *Manager { return build(settings, options, p) })
	s.manager.Store(m)
	if err := set.Commit(); err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() {
		set.Release()
		select {
		case <-m.Done():
		case <-time.After(patience):
			t.Error("a released manager does not end")
		}
	})
	t.Cleanup(end)
	return m, end
}
