package e2e

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"
	"golang.org/x/crypto/bcrypt"

	"sluice/internal/gatewaytest"
)

// guarded is a gateway that has a route for each kind of credential.
type guarded struct {
	*gatewaytest.Gateway
	dir   string // of the files of keys and users
	roots *x509.CertPool
	shown []tls.Certificate // by clients
}

const signingSecret = "a-secret-that-nobody-knows"

// startGuarded runs a gateway whose user ann has the password opensesame.
func startGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{dir: t.TempDir(), roots: x509.NewCertPool()}
	cert, key := selfSigned(t, siteHost)
	trust(t, g.roots, cert)
	clientCert, clientKey := selfSigned(t, "shop.test")
	pair, err := tls.LoadX509KeyPair(clientCert, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	g.shown = []tls.Certificate{pair}
	g.write(t, "users", "ann:"+hashOf(t, "opensesame", bcrypt.MinCost)+"\n")
	g.write(t, "keys.yaml", "- {key: '"+digestOf("key-one")+"', consumer: shop}\n")
	listeners, certified := `web: {address: "127.0.0.1:0"}`, ""
	if gatewaytest.Engine() != gatewaytest.Standard { // it speaks HTTP/1.1 alone
		listeners += fmt.Sprintf(`, websecure: {address: "127.0.0.1:0", protocols: [h1, h2, h3], tls: {certificates: [{cert: %q, key: %q}], client_auth: {mode: optional, ca: %q}}}`, cert, key, clientCert)
		certified = "\n  - {match: {path: /certificate}, upstream: up, middleware: [{client_certificate: {}}, who]}"
	}
	g.Gateway = gatewaytest.Start(t, fmt.Sprintf(`
listeners: {%s}
admin: {address: "127.0.0.1:0"}
upstreams: {up: {endpoints: [%q]}}
middleware: {who: {headers: {request: {set: {X-Consumer: "{consumer}"}}}}}
routes:
  - {match: {path: /key}, upstream: up, middleware: [{api_key: {keys_file: %q, forward: false}}, who]}
  - {match: {path: /basic}, upstream: up, middleware: [{basic_auth: {users_file: %q}}, who]}
  - {match: {path_prefix: /signed}, upstream: up, middleware: [{hmac_auth: {keys: [{id: shop, secret: %s}], nonce: {}}}, who]}%s
  - {match: {path: /dear}, upstream: up, middleware: [{basic_auth: {users: [{name: ann, hash: %q}]}}]}
  - {match: {path: /open}, upstream: up}
`, listeners, gatewaytest.NewEcho(t, "a"), filepath.Join(g.dir, "keys.yaml"), filepath.Join(g.dir, "users"), signingSecret, certified, hashOf(t, "opensesame", 8)))
	return g
}

func (g *guarded) write(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func hashOf(t *testing.T, password string, cost int) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), cost)
	if err != nil {
		t.Fatal(err)
	}
	return string(hash)
}

func digestOf(key string) string {
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ways are those to speak with the gateway.
func (g *guarded) ways() []string {
	if gatewaytest.Engine() == gatewaytest.Standard {
		return []string{"h1"}
	}
	return []string{"h1", "h2c", "h1 over TLS", "h2", "h3"}
}

func (g *guarded) client(t *testing.T, way string) *siteClient {
	t.Helper()
	return newSiteClient(t, way, g.Addr(listenerFor(way)).String(), g.roots)
}

// answerOf sends a request and reads the answer.
func answerOf(t *testing.T, c *siteClient, r *http.Request) (status int, header http.Header, echo gatewaytest.Echo) {
	t.Helper()
	response, err := c.Do(r)
	if err != nil {
		t.Error(err)
		return 0, nil, echo
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	if response.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, &echo); err != nil {
			t.Error(err)
		}
	}
	return response.StatusCode, response.Header, echo
}

func newRequest(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// signed signs a request with a body.
func signed(r *http.Request, nonce, body string) *http.Request {
	sum := sha256.Sum256([]byte(body))
	r.Header.Set("Content-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum[:])+":")
	params := fmt.Sprintf(`("@method" "@path" "@query" "content-digest");created=%d;keyid="shop";nonce=%q`, time.Now().Unix(), nonce)
	query := "?" + r.URL.RawQuery
	base := fmt.Sprintf("\"@method\": %s\n\"@path\": %s\n\"@query\": %s\n\"content-digest\": %s\n\"@signature-params\": %s", r.Method, r.URL.EscapedPath(), query, r.Header.Get("Content-Digest"), params)
	mac := hmac.New(sha256.New, []byte(signingSecret))
	mac.Write([]byte(base))
	r.Header.Set("Signature-Input", "sig="+params)
	r.Header.Set("Signature", "sig=:"+base64.StdEncoding.EncodeToString(mac.Sum(nil))+":")
	return r
}

// TestCredentials shows each kind of credential, good and bad, by every protocol.
func TestCredentials(t *testing.T) {
	g := startGuarded(t)
	for _, way := range g.ways() {
		t.Run(way, func(t *testing.T) {
			c := g.client(t, way)
			for path, set := range map[string]func(r *http.Request, good bool){
				"/key": func(r *http.Request, good bool) {
					r.Header.Set("X-API-Key", map[bool]string{true: "key-one", false: "key-two"}[good])
				},
				"/basic": func(r *http.Request, good bool) {
					r.SetBasicAuth("ann", map[bool]string{true: "opensesame", false: "opensesam"}[good])
				},
				"/signed/a%7eb/c?d=e": func(r *http.Request, good bool) {
					signed(r, way+fmt.Sprint(good), "")
					if !good {
						r.URL.RawQuery = "d=f"
					}
				},
			} {
				for _, good := range []bool{true, false} {
					r := newRequest(t, http.MethodGet, c.base+path, nil)
					r.Header.Set("X-Consumer", "forged")
					set(r, good)
					status, header, echo := answerOf(t, c, r)
					switch {
					case good && (status != http.StatusOK || echo.Header.Get("X-Consumer") == "forged" || echo.Header.Get("X-Consumer") == ""):
						t.Errorf("%s: %d, %v", path, status, echo.Header)
					case !good && (status != http.StatusUnauthorized || header.Get("WWW-Authenticate") == ""):
						t.Errorf("%s, bad: %d, %v", path, status, header)
					case good && echo.Header.Get("X-API-Key") != "":
						t.Errorf("%s: the key goes on", path)
					}
				}
			}
		})
	}
	for _, secret := range []string{"key-one", "key-two", "opensesam", signingSecret} {
		if strings.Contains(g.ProcessLog(), secret) {
			t.Errorf("%s is in the log", secret)
		}
	}
}

// TestSignedBodies sends bodies that are longer than any buffer, with their length and
// without; they go on as they are, and once.
func TestSignedBodies(t *testing.T) {
	g := startGuarded(t)
	text := strings.Repeat("0123456789abcdef", 40_000)
	for _, way := range g.ways() {
		t.Run(way, func(t *testing.T) {
			c := g.client(t, way)
			for what, body := range map[string]io.Reader{"told": strings.NewReader(text), "untold": io.MultiReader(strings.NewReader(text))} {
				r := signed(newRequest(t, http.MethodPost, c.base+"/signed", body), way+what, text)
				again := r.Header.Clone()
				status, _, echo := answerOf(t, c, r)
				if status != http.StatusOK || echo.Body != text || echo.Header.Get("X-Consumer") != "shop" {
					t.Errorf("%s: %d, a body of %d bytes", what, status, len(echo.Body))
				}
				r = newRequest(t, http.MethodPost, c.base+"/signed", strings.NewReader(text))
				r.Header = again
				if status, _, _ := answerOf(t, c, r); status != http.StatusUnauthorized {
					t.Errorf("%s, once more: %d", what, status)
				}
			}
			r := signed(newRequest(t, http.MethodPost, c.base+"/signed", strings.NewReader(text+"x")), way+"longer", text)
			if status, _, _ := answerOf(t, c, r); status != http.StatusUnauthorized {
				t.Errorf("a longer body: %d", status)
			}
			large := strings.Repeat(text, 2)
			r = signed(newRequest(t, http.MethodPost, c.base+"/signed", strings.NewReader(large)), way+"large", large)
			r.Header.Set("Expect", "100-continue") // so that the answer is there to be read
			if status, _, _ := answerOf(t, c, r); status != http.StatusRequestEntityTooLarge {
				t.Errorf("too large a body: %d", status)
			}
		})
	}
}

// TestClientCertificates: who shows a certificate is who it says, by every protocol of
// TLS; who shows none is nobody.
func TestClientCertificates(t *testing.T) {
	g := startGuarded(t)
	for _, way := range g.ways() {
		if listenerFor(way) == "web" {
			continue
		}
		t.Run(way, func(t *testing.T) {
			c := g.client(t, way)
			status, header, _ := answerOf(t, c, newRequest(t, http.MethodGet, c.base+"/certificate", nil))
			if status != http.StatusUnauthorized || header.Get("WWW-Authenticate") != "ClientCertificate" {
				t.Errorf("without one: %d, %v", status, header)
			}
			c = g.client(t, way)
			show(c, g.shown)
			status, _, echo := answerOf(t, c, newRequest(t, http.MethodGet, c.base+"/certificate", nil))
			if status != http.StatusOK || echo.Header.Get("X-Consumer") != "shop.test" {
				t.Errorf("%d, %v", status, echo.Header)
			}
		})
	}
}

// TestKeyFilesChange replaces files of keys and users while the gateway runs. What is
// garbage is told, and what was there before stays.
func TestKeyFilesChange(t *testing.T) {
	g := startGuarded(t)
	c := g.client(t, "h1")
	status := func(path, key, password string) int {
		r := newRequest(t, http.MethodGet, c.base+path, nil)
		r.Header.Set("X-API-Key", key)
		r.SetBasicAuth("ann", password)
		status, _, _ := answerOf(t, c, r)
		return status
	}
	g.write(t, "keys.yaml", "- {key: '"+digestOf("key-two")+"', consumer: shop}\n")
	gatewaytest.WaitFor(t, "the new key is taken", func() bool { return status("/key", "key-two", "") == http.StatusOK })
	if got := status("/key", "key-one", ""); got != http.StatusUnauthorized {
		t.Errorf("the old key: %d", got)
	}
	g.write(t, "users", "ann:"+hashOf(t, "new", bcrypt.MinCost)+"\n")
	gatewaytest.WaitFor(t, "the new password is taken", func() bool { return status("/basic", "", "new") == http.StatusOK })
	if got := status("/basic", "", "opensesame"); got != http.StatusUnauthorized {
		t.Errorf("the old password: %d", got)
	}
	g.write(t, "users", "\x00garbage\n")
	g.write(t, "keys.yaml", "- {key: garbage\n")
	gatewaytest.WaitFor(t, "both are told", func() bool {
		log := g.ProcessLog()
		return strings.Contains(log, "a line must be name:hash") && strings.Contains(log, "keys.yaml:1:")
	})
	if status("/basic", "", "new") != http.StatusOK || status("/key", "key-two", "") != http.StatusOK {
		t.Error("what was there before is gone")
	}
	g.write(t, "users", "ann:"+hashOf(t, "newer", bcrypt.MinCost)+"\n")
	g.write(t, "keys.yaml", "[{\"key\": \""+digestOf("key-three")+"\", \"consumer\": \"shop\"}]")
	gatewaytest.WaitFor(t, "both are mended", func() bool {
		return status("/basic", "", "newer") == http.StatusOK && status("/key", "key-three", "") == http.StatusOK
	})
}

// TestGuesses floods the gateway with passwords that are dear to check: each is told
// 401, or 503 where there are too many, while other requests are served.
func TestGuesses(t *testing.T) {
	once(t)
	g := startGuarded(t)
	ctx, stop := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for i := range 10 {
		c := g.client(t, "h1")
		clients.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				r := newRequest(t, http.MethodGet, c.base+"/dear", nil)
				r.SetBasicAuth([]string{"ann", "nobody"}[n%2], fmt.Sprint("guess ", i, n))
				if status, _, _ := answerOf(t, c, r); status != http.StatusUnauthorized && status != http.StatusServiceUnavailable {
					t.Errorf("a guess: %d", status)
				}
			}
		})
	}
	c := g.client(t, "h1")
	for range 20 {
		if status, _, _ := answerOf(t, c, newRequest(t, http.MethodGet, c.base+"/open", nil)); status != http.StatusOK {
			t.Errorf("an open route: %d", status)
		}
	}
	r := newRequest(t, http.MethodGet, c.base+"/dear", nil)
	r.SetBasicAuth("ann", "opensesame")
	if status, _, _ := answerOf(t, c, r); status != http.StatusOK && status != http.StatusServiceUnavailable {
		t.Errorf("the right password: %d", status)
	}
	stop()
	clients.Wait()
	if status, _, _ := answerOf(t, c, r.Clone(t.Context())); status != http.StatusOK {
		t.Errorf("the right password, after it: %d", status)
	}
}

// show has a client show certificates.
func show(c *siteClient, certificates []tls.Certificate) {
	switch transport := c.Transport.(type) {
	case *http.Transport:
		transport.TLSClientConfig.Certificates = certificates
	case *http3.Transport:
		transport.TLSClientConfig.Certificates = certificates
	}
}
