//go:build unix

package netloop

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// openssl is the program, which scripts/test-setup installs.
func openssl(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("openssl")
	if err != nil {
		t.Fatal("openssl is not installed: see scripts/test-setup")
	}
	return path
}

// program is one that a test talks to.
type program struct {
	t      testing.TB
	input  io.WriteCloser
	output *bufio.Reader
}

func run(t testing.TB, name string, arguments ...string) *program {
	t.Helper()
	command := exec.Command(name, arguments...)
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command.Stderr = command.Stdout // one stream
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = command.Process.Kill() // if it has not ended
		_ = command.Wait()
	})
	return &program{t, input, bufio.NewReader(output)}
}

// until reads to a line that has a text, and returns it.
func (p *program) until(text string) string {
	p.t.Helper()
	var all strings.Builder
	for {
		line, err := p.output.ReadString('\n')
		if all.WriteString(line); strings.Contains(line, text) {
			return line
		}
		if err != nil {
			p.t.Errorf("no %q in\n%s", text, all.String())
			panic(err)
		}
	}
}

// TestTLSOpenSSLClient has OpenSSL's client ask for new keys, and say goodbye.
func TestTLSOpenSSLClient(t *testing.T) {
	name := openssl(t)
	server, _ := configs(t)
	for _, k := range drivers() {
		t.Run(k.name, func(t *testing.T) {
			b := newBed(t, k)
			ended := make(chan error, 1)
			listening := listen(t, "tcp")
			acceptor, err := b.Listen(listening, func(c Conn) (bool, time.Time) {
				own := ServeTLS(c, nil, server)
				if err := own.Handshake(time.Now().Add(time.Minute)); err != nil {
					ended <- err
					return false, time.Time{}
				}
				_, err := io.Copy(struct{ io.Writer }{own}, struct{ io.Reader }{own})
				ended <- err
				_ = own.Close()
				return false, time.Time{}
			}, ListenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = acceptor.Close() }()
			client := run(t, name, "s_client", "-connect", listening.Addr().String(), "-servername", "server")
			for i, order := range []string{"", "K", "k", "K", "K"} {
				if order != "" {
					_, _ = io.WriteString(client.input, order+"\n")
					client.until("KEYUPDATE")
				}
				text := "line " + string(rune('0'+i))
				_, _ = io.WriteString(client.input, text+"\n")
				client.until(text)
			}
			_, _ = io.WriteString(client.input, "Q\n")
			if err := <-ended; err != nil {
				t.Errorf("the connection ended with %v", err)
			}
		})
	}
}

// TestTLSOpenSSLServer has our client meet OpenSSL's server, which answers line
// by line what it gets.
func TestTLSOpenSSLServer(t *testing.T) {
	name := openssl(t)
	server, client := configs(t)
	directory := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(server.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: server.Certificates[0].Certificate[0]},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: key},
	}
	for file, block := range files {
		if err := os.WriteFile(filepath.Join(directory, file), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	versions(t, func(t *testing.T, version uint16) {
		t.Helper()
		each(t, func(b *bed) {
			t := b.t
			peer := run(t, name, "s_server", "-accept", "127.0.0.1:0", "-naccept", "2", "-rev",
				"-cert", filepath.Join(directory, "cert.pem"), "-key", filepath.Join(directory, "key.pem"))
			_, address, _ := strings.Cut(strings.TrimSpace(peer.until("ACCEPT")), " ")
			client := of(client, version)
			client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			b.task(t, func(x Executor) {
				for round := range 2 {
					c, err := x.Dial(context.Background(), "tcp", address, time.Now().Add(time.Minute))
					if err != nil {
						t.Errorf("dial: %v", err)
						return
					}
					own := DialTLS(c, client)
					if err := own.Handshake(time.Now().Add(time.Minute)); err != nil {
						t.Errorf("handshake: %v", err)
						return
					}
					if got := own.ConnectionState().DidResume; got != (round == 1) {
						t.Errorf("round %d: resumed %v", round, got)
					}
					got := make([]byte, len("olleh\n"))
					for range 2 {
						_, _ = own.Write([]byte("hello\n"))
						if _, err := io.ReadFull(own, got); err != nil || string(got) != "olleh\n" {
							t.Errorf("read %q, %v", got, err)
						}
						if own.Stale() || own.Pending() {
							t.Error("something more is there")
						}
						atRest(t, own)
					}
					_ = own.Close()
				}
			})
		})
	})
}
