package snapshot_test

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/certtest"
	"sluice/internal/snapshot"
)

// pair is the directory of a certificate, own.pem, and its key, own.key.
func pair(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	certtest.SelfSigned(t, "files.test").Write(dir, "own")
	return dir
}

// A directory that validates a name may come to any listener with TLS, whichever
// listener orders certificates for the name.
func TestNamesAreValidatedOnEveryListener(t *testing.T) {
	e := newEngine(t)
	built := e.builder.Build(compile(t, fmt.Sprintf(`
listeners:
  one: {address: ":0", tls: {acme: {domains: [one.test]}}}
  two: {address: "127.0.0.1:0", tls: {acme: {domains: [two.test]}}}
  files: {address: "unix:/files", tls: {certificates: [{cert: %[1]s/own.pem, key: %[1]s/own.key}]}}
  plain: {address: "unix:/plain"}
admin: {address: "127.0.0.1:0"}
routes: [{match: {path: /}, respond: {status: 204}}]
`, pair(t))), snapshot.Revision{Number: 1})
	defer built.Release()
	for i, m := range built.Gateway.Listeners {
		if m.TLS == nil {
			continue
		}
		for _, name := range []string{"one.test", "two.test"} {
			// It is looked up, and not known, because nothing has begun.
			_, err := built.Secure[i].Validation(&tls.ClientHelloInfo{ServerName: name})
			if err == nil || !strings.Contains(e.log.String(), "asked for a challenge\" domain="+name) {
				t.Errorf("%s, %s: %v\n%s", m.Name, name, err, e.log.String())
			}
		}
		e.log.Reset()
		if orders := m.TLS.ACME != nil; orders != (built.Secure[i].Source != nil) {
			t.Errorf("%s: whether it has certificates that are ordered is wrong", m.Name)
		}
	}
}

// Without ACME nobody validates.
func TestNoNamesAreValidatedWithoutACME(t *testing.T) {
	e := newEngine(t)
	built := e.builder.Build(compile(t, fmt.Sprintf(`
listeners: {files: {address: ":0", tls: {certificates: [{cert: %[1]s/own.pem, key: %[1]s/own.key}]}}}
admin: {address: "127.0.0.1:0"}
routes: [{match: {path: /}, respond: {status: 204}}]
`, pair(t))), snapshot.Revision{Number: 1})
	defer built.Release()
	if built.Secure[0].Validation != nil {
		t.Error("names are validated")
	}
}
