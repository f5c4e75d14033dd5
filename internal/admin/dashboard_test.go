package admin_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice/internal/gatewaytest"
)

func TestDashboard(t *testing.T) {
	config := fmt.Sprintf(`
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0", token: %s}
middleware: {"<b>tag</b>": {headers: {response: {set: {X-A: "1"}}}}, "<b>few</b>": {rate_limit: {rate: 5/m, burst: 7}}}
global: ["<b>few</b>", {concurrency_limit: {max: 3}}]
upstreams:
  "<i>users</i>": {endpoints: [{url: "http://127.0.0.1:1", version: v1}]}
routes:
  - {id: "<script>alert(1)</script>", match: {path: /a, headers: {X-A: "<img src=x onerror=alert(2)>"}}, upstream: "<i>users</i>", middleware: ["<b>tag</b>"]}
  - {id: plain, listeners: [web], match: {path_prefix: /b}, respond: {status: 204}}
`, secret)
	gw := gatewaytest.Start(t, config)
	response, body := get(t, gw, "/")
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("status %d, %s", response.StatusCode, response.Header.Get("Content-Type"))
	}
	policy := response.Header.Get("Content-Security-Policy")
	for _, directive := range []string{"default-src 'none'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, directive) || strings.Contains(policy, "script-src") {
			t.Errorf("the policy is %q", policy)
		}
	}
	for _, text := range []string{
		"ready</span>", "revision 1 from file", "&lt;script&gt;alert(1)&lt;/script&gt;", "&lt;i&gt;users&lt;/i&gt;", "&lt;b&gt;tag&lt;/b&gt;", "/b/…", "respond status 204", gw.Addr("web").String(),
		"X-A=&lt;img src=x onerror=alert(2)&gt;",
		"<td>&lt;b&gt;few&lt;/b&gt;</td><td>rate_limit</td><td>5/m, burst 7, token_bucket</td>", "<td>3 at once</td>", "<td>memory</td>",
	} {
		if !strings.Contains(body, text) {
			t.Errorf("the dashboard does not show %s", text)
		}
	}
	gw.Write(config + "\"<script>alert(3)</script>\": 1\n")
	gatewaytest.WaitFor(t, "the problem shows", func() bool {
		_, body = get(t, gw, "/")
		return strings.Contains(body, "are refused")
	})
	for _, text := range []string{"&lt;script&gt;alert(3)&lt;/script&gt;", "The documents as last read are refused; revision 1 serves on.", "sluice.yaml:11:1:"} {
		if !strings.Contains(body, text) {
			t.Errorf("the dashboard does not show %s:\n%s", text, body)
		}
	}
	for _, text := range []string{"<script", "<img", "<b>", "<i>", "onerror=\"", "javascript:", secret} {
		if strings.Contains(strings.ToLower(body), text) {
			t.Errorf("the dashboard has %s", text)
		}
	}
	if response, body := get(t, gw, "/index.html"); response.StatusCode != 404 || !strings.Contains(body, "not_found") {
		t.Errorf("/index.html: %d %s", response.StatusCode, body)
	}
}
