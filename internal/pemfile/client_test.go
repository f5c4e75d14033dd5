package pemfile

import (
	"bytes"
	"crypto/elliptic"
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
)

// TestClient makes of texts what is spoken: what they leave out is the system's.
func TestClient(t *testing.T) {
	key := ecKey(t, elliptic.P256())
	der := made(t, key)
	cert := string(block("CERTIFICATE", der))
	pool, fault := Authorities([]byte(cert))
	if fault != nil {
		t.Fatal(fault)
	}

	full := (&Client{CA: cert, Cert: cert, Key: string(block("PRIVATE KEY", pkcs8(t, key))), ServerName: "other.test"}).Config()
	if !full.RootCAs.Equal(pool.CertPool) || len(full.Certificates) != 1 || !bytes.Equal(full.Certificates[0].Certificate[0], der) || full.ServerName != "other.test" {
		t.Errorf("texts make %+v", full)
	}
	for _, c := range []*Client{nil, {}} {
		if config := c.Config(); config.RootCAs != nil || config.Certificates != nil || config.ServerName != "" || config.MinVersion != tls.VersionTLS12 {
			t.Errorf("%+v makes %+v", c, config)
		}
	}
}

// TestClientUnchecked: texts that nobody has checked are the program's fault.
func TestClientUnchecked(t *testing.T) {
	for want, c := range map[string]*Client{
		"BUG: authorities that were not checked: the file has no certificate":  {CA: "x"},
		"BUG: a certificate that was not checked: the file has no certificate": {Cert: "x", Key: "x"},
	} {
		func() {
			defer func() {
				if told := fmt.Sprint(recover()); !strings.HasPrefix(told, want) {
					t.Errorf("%+v: %s, want %s", c, told, want)
				}
			}()
			c.Config()
		}()
	}
}
