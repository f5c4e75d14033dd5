package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptrace"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/gatewaytest"
)

const (
	// newCertificate is how long it may take until handshakes show a certificate
	// that has replaced another.
	newCertificate = 2 * time.Second
	// slowMachine is how long a request takes at least on a machine that is too
	// busy to say anything of time.
	slowMachine = 500 * time.Millisecond
	// certificateRounds are replacements, one after another.
	certificateRounds = 4
)

// steady is a client that asks all the time, one request after another on one
// connection, or each on a new one.
type steady struct {
	*siteClient
	anew     bool
	answered atomic.Int64
	dialed   atomic.Int64 // connections
	longest  atomic.Int64 // nanoseconds that an answer took, since it was last set
	failed   atomic.Bool  // it has told an error, and asks no more
}

// run asks until the context ends. No request may fail.
func (s *steady) run(t *testing.T, ctx context.Context, path string) { //nolint:revive // the test comes first
	t.Helper()
	traced := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			s.dialed.Add(1)
		}
	}})
	defer func() { s.failed.Store(ctx.Err() == nil) }()
	for ctx.Err() == nil {
		request, err := http.NewRequestWithContext(traced, http.MethodGet, s.base+path, nil)
		if err != nil {
			t.Error(err)
			return
		}
		began := time.Now()
		response, err := s.Do(request)
		if err != nil {
			t.Errorf("after %d answers: %v", s.answered.Load(), err)
			return
		}
		sha, size, err := sumOf(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("after %d answers: status %d, %d bytes with %s, %v", s.answered.Load(), response.StatusCode, size, sha, err)
			return
		}
		s.answered.Add(1)
		s.longest.Store(max(s.longest.Load(), int64(time.Since(began))))
		if s.anew {
			s.CloseIdleConnections()
		}
		select {
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond): // the machine has others to serve
		}
	}
}

// shown is the certificate that a new handshake shows.
func shown(t *testing.T, address string, roots *x509.CertPool) []byte {
	t.Helper()
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: siteHost, MinVersion: tls.VersionTLS12}}
	ctx, cancel := context.WithTimeout(t.Context(), gatewaytest.Patience)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Raw
}

// TestCertificatesReplaced replaces the files of a certificate under load: new
// handshakes get the new one in time, no request fails, and connections live on.
func TestCertificatesReplaced(t *testing.T) {
	gw := startSite(t, peerEndpoint(t))
	type pair struct{ cert, key string }
	pairs := make([]pair, certificateRounds)
	for i := range pairs {
		pairs[i].cert, pairs[i].key = selfSigned(t, siteHost)
		trust(t, gw.roots, pairs[i].cert)
	}
	address := gw.Addr("websecure").String()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	clients := map[string]*steady{}
	for name, way := range map[string]string{"h1": "h1 over TLS", "h1 anew": "h1 over TLS", "h2": "h2", "h2 anew": "h2", "h3": "h3", "h3 anew": "h3"} {
		client := &steady{siteClient: gw.client(t, way), anew: len(name) > 2}
		clients[name] = client
		path := oneAfterAnother(len(clients), "/hello", "/stream")
		running.Go(func() { client.run(t, ctx, path) })
	}
	for round, next := range pairs {
		before := map[string]int64{}
		for name, client := range clients {
			client.longest.Store(0)
			before[name] = client.answered.Load()
		}
		replaceFile(t, gw.cert, next.cert) // for a moment they do not belong together
		replaceFile(t, gw.key, next.key)
		began := time.Now()
		want := leaf(t, next.cert)
		gatewaytest.WaitFor(t, "the new certificate is shown", func() bool { return slices.Equal(shown(t, address, gw.roots), want) })
		took := time.Since(began)
		gatewaytest.WaitFor(t, "every client goes on", func() bool {
			for name, client := range clients {
				if client.failed.Load() {
					t.Fatal("it does not")
				}
				if client.answered.Load() < before[name]+5 {
					return false
				}
			}
			return true
		})
		longest := time.Duration(0)
		for _, client := range clients {
			longest = max(longest, time.Duration(client.longest.Load()))
		}
		t.Logf("round %d: the new certificate is there after %v; the longest answer took %v", round+1, took, longest)
		if took > newCertificate && longest < slowMachine {
			t.Errorf("the new certificate is there after %v", took)
		}
	}
	stop()
	running.Wait()
	for name, client := range clients {
		want := int64(1)
		if client.anew {
			want = client.answered.Load()
		}
		if dialed := client.dialed.Load(); dialed != want {
			t.Errorf("%s: %d connections were made, want %d", name, dialed, want)
		}
	}
}

// leaf is the certificate in a file.
func leaf(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	return block.Bytes
}

// replaceFile puts a copy of a file in another's place.
func replaceFile(t *testing.T, file, with string) {
	t.Helper()
	text, err := os.ReadFile(with)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}
