package e2e

import (
	"crypto/tls"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/certtest"
	"sluice/internal/gatewaytest"
)

func exampleTLS(t *testing.T, gw *exampleGateway) {
	t.Helper()
	dir := t.TempDir()
	own := certtest.SelfSigned(t, "localhost")
	cert, key := own.Write(dir, "site")
	t.Setenv("CERT", cert)
	t.Setenv("KEY", key)
	t.Setenv("WEBSECURE_ADDRESS", "127.0.0.1:0")
	t.Setenv("ACME_STORAGE", filepath.Join(dir, "acme"))
	runSluice(t, 0, nil, "validate", "-c", gw.file)
	runSluice(t, 0, nil, "validate", "-c", filepath.Join(filepath.Dir(gw.file), "acme.yaml"))
	gw.start(t)
	if r := gw.ask(t, ask{target: "/page?a=1", host: "localhost:8080"}); r.StatusCode != 308 || r.Header.Get("Location") != "https://localhost:8443/page?a=1" {
		t.Errorf("in clear: %d to %q", r.StatusCode, r.Header.Get("Location"))
	}
	if gatewaytest.Engine() == gatewaytest.Standard { // it speaks no TLS
		return
	}
	for _, protocols := range [][]string{{"h2"}, {"http/1.1"}} {
		config := &tls.Config{RootCAs: own.Pool(), ServerName: "localhost", NextProtos: protocols}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: protocols[0] == "h2", DisableKeepAlives: true}}
		response, err := client.Get("https://" + gw.Addr("websecure").String() + "/")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || string(body) != "hello over TLS\n" || !strings.Contains(response.Header.Get("Alt-Svc"), "h3=") {
			t.Errorf("%s: %q, %v, Alt-Svc %q", response.Proto, body, err, response.Header.Get("Alt-Svc"))
		}
		if response.TLS.Version != tls.VersionTLS13 || response.TLS.NegotiatedProtocol != protocols[0] {
			t.Errorf("TLS %x, %q", response.TLS.Version, response.TLS.NegotiatedProtocol)
		}
	}
}
