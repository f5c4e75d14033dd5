package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/internal/app"
	"sluice/internal/gatewaytest"
)

// identity writes a certificate and its key into one file.
func identity(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"a.test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "site.pem")
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestHTTP3OnATakenPort refuses a reload that brings h3 to a listener that serves,
// while another program has its port in UDP, and takes it once that is free.
func TestHTTP3OnATakenPort(t *testing.T) {
	file := identity(t)
	secure := func(protocols, path string) string {
		web := fmt.Sprintf("web: {address: \"127.0.0.1:0\", protocols: %s, tls: {certificates: [{cert: %q, key: %q}]}}", protocols, file, file)
		return strings.Replace(routes(path), "web: {address: \"127.0.0.1:0\"}", web, 1)
	}
	debug := &log{}
	r := run(t, func(o *app.Options) {
		o.Log = slog.New(slog.NewTextHandler(debug, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.RetryEvery = time.Millisecond
	})
	r.say(secure("[h1, h2]", "/a"))
	<-r.Serving()
	first := r.Current()
	holder, err := net.ListenPacket("udp", r.Addr("web").String())
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	r.say(secure("[h1, h2, h3]", "/b"))
	gatewaytest.WaitFor(t, "it is tried several times", func() bool { return strings.Count(debug.String(), `msg="configuration refused again"`) >= 3 })
	if r.Current() != first {
		t.Error("it serves")
	}
	if p := r.Problems()[0]; !strings.HasPrefix(p.Error(), "it.yaml:1:28: cannot listen on 127.0.0.1:0 by UDP, for h3: address already in use") {
		t.Errorf("got %v", p)
	}
	holder.Close()
	gatewaytest.WaitFor(t, "it serves", func() bool { return r.revision() == 2 && len(r.Problems()) == 0 })
	taken, err := net.ListenPacket("udp", r.Addr("web").String())
	if err == nil {
		taken.Close()
		t.Error("nobody has the port")
	}
	r.say(secure("[h1, h2]", "/c"))
	gatewaytest.WaitFor(t, "the port is free again", func() bool {
		if r.revision() != 3 {
			return false
		}
		free, err := net.ListenPacket("udp", r.Addr("web").String())
		if err == nil {
			free.Close()
		}
		return err == nil
	})
}
