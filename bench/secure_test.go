//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

func TestCertificate(t *testing.T) {
	c, err := makeCertificate(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(c.file, c.key)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{host, "127.0.0.1"} {
		if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: c.roots, DNSName: name}); err != nil {
			t.Error(err)
		}
	}
	if _, err := makeCertificate("/nonexistent"); err == nil {
		t.Error("written where nothing can be")
	}
}

// TestHandshakes holds the client of the load to what each kind of connection is
// for: a full handshake, or a resumed session.
func TestHandshakes(t *testing.T) {
	c, err := makeCertificate(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.LoadX509KeyPair(c.file, c.key)
	if err != nil {
		t.Fatal(err)
	}
	program := compiledLoad(t)
	forgetful := func(config *tls.Config) {
		config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
			// A key for each connection: no ticket of another one is known.
			own := &tls.Config{Certificates: config.Certificates}
			var key [32]byte
			_, _ = rand.Read(key[:]) // never fails, by its documentation
			own.SetSessionTicketKeys([][32]byte{key})
			return own, nil
		}
	}
	full := load{connections: 2, path: "/", length: 256, tls: true, fresh: true}
	resumed, kept := full, full
	resumed.resumed = true
	kept.fresh = false
	for _, test := range []struct {
		name      string
		load      load
		configure func(config *tls.Config)
		body      int
		want      string
	}{
		{"full", full, nil, 256, ""},
		{"resumed", resumed, nil, 256, ""},
		{"kept", kept, nil, 256, ""},
		{"no tickets", resumed, func(config *tls.Config) { config.SessionTicketsDisabled = true }, 256, "sessions only 0 were resumed"},
		{"tickets that nobody knows", resumed, forgetful, 256, "a session was not resumed"},
		{"an old version", full, func(config *tls.Config) { config.MaxVersion = tls.VersionTLS12 }, 256, "handshake"},
		{"another length", kept, nil, 255, "an answer of another length"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, strings.Repeat("a", test.body))
			}))
			server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
			if test.configure != nil {
				test.configure(server.TLS)
			}
			server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
			server.StartTLS()
			defer server.Close()
			o, err := client{program: program}.put(t.Context(), server.Listener.Addr().String(), test.load, 0, 0, 200*time.Millisecond, nil, nil)
			holds(t, "under load", err, test.want)
			if err == nil && (o.Resumed > 0) != test.load.resumed {
				t.Errorf("%d of %d sessions were resumed", o.Resumed, o.Requests)
			}
		})
	}
	holds(t, "in clear", put(t.Context(), program, scripted(t, func(int) string { return "" }), full), "handshake")
	holds(t, "closed", put(t.Context(), program, closing(t), full), "handshake")
}

func put(ctx context.Context, program, address string, l load) error {
	_, err := client{program: program}.put(ctx, address, l, 0, 0, 100*time.Millisecond, nil, nil)
	return err
}

// closing accepts connections, and closes each when the client has said something.
func closing(t *testing.T) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			c.Close()
		}
	}()
	return listener.Addr().String()
}

func TestProcessorTime(t *testing.T) {
	before, err := usageOf([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	for after := before; after.total <= before.total || after.user+after.system <= before.user+before.system; {
		if after, err = usageOf([]int{os.Getpid()}); err != nil {
			t.Fatal(err)
		}
	}
	if none, err := usageOf(nil); err != nil || none != (usage{}) {
		t.Errorf("%+v, %v", none, err)
	}
	if _, err := usageOf([]int{1 << 28}); err == nil || !strings.Contains(err.Error(), "process 268435456") {
		t.Errorf("a process that is not there: %v", err)
	}
}
