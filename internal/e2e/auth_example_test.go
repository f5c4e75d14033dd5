package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

// TestSignedExample runs the example of docs/auth.md, which signs a request by openssl.
func TestSignedExample(t *testing.T) {
	text, err := os.ReadFile("../../docs/auth.md")
	if err != nil {
		t.Fatal(err)
	}
	script := ""
	for block := range strings.SplitSeq(string(text), "```sh\n") {
		if block, _, _ = strings.Cut(block, "```"); strings.Contains(block, "-H \"Signature-Input") {
			script = block
		}
	}
	const where = "http://127.0.0.1:8080/orders?dry-run=1"
	if !strings.Contains(script, where) {
		t.Fatalf("the example is %q", script)
	}
	g := gatewaytest.Start(t, `
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
upstreams: {up: {endpoints: ["`+gatewaytest.NewEcho(t, "a")+`"]}}
routes: [{match: {path: /orders}, upstream: up, middleware: [{hmac_auth: {keys: [{id: shop, secret: a-secret-that-nobody-knows}], nonce: {}}}]}]
`)
	for body, want := range map[string]string{`{"hello": "world"}`: `"method":"POST"`, `{"hello": "wor"}`: `"error":"unauthenticated"`} {
		run := strings.Replace(script, where, g.URL("web")+"/orders?dry-run=1", 1)
		run = strings.Replace(run, `-d "$body"`, "-d '"+body+"'", 1)
		command := exec.CommandContext(t.Context(), "sh", "-euc", run)
		command.Stderr = os.Stderr
		output, err := command.Output()
		if err != nil || !strings.Contains(string(output), want) {
			t.Errorf("with the body %s: %s, %v", body, output, err)
		}
	}
}
