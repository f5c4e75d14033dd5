package e2e

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// hs256 signs claims, which are JSON, with a secret.
func hs256(claims, secret string) string {
	text := func(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
	signed := text([]byte(`{"alg":"HS256"}`)) + "." + text([]byte(claims))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(signed))
	return signed + "." + text(mac.Sum(nil))
}

func exampleAuth(t *testing.T, gw *exampleGateway) {
	t.Helper()
	page, err := os.ReadFile("../../examples/auth/README.md")
	if err != nil {
		t.Fatal(err)
	}
	const secret, key = "only-for-trying-it-out-and-nothing-else", "partner-key-for-trying"
	for _, text := range []string{secret, key} {
		if !strings.Contains(string(page), text) {
			t.Errorf("the page does not say %s", text)
		}
	}
	gw.start(t, "SHOP_URL")
	bearer := func(more string) map[string]string {
		claims := fmt.Sprintf(`{"iss":"https://login.example.com","aud":"shop","sub":"ann","groups":[],"exp":%d%s}`, time.Now().Add(time.Hour).Unix(), more)
		return map[string]string{"Authorization": "Bearer " + hs256(claims, secret)}
	}
	for _, c := range []struct {
		target string
		header map[string]string
		status int
	}{
		{"/shop/", nil, 401},
		{"/shop/", bearer(""), 200},
		{"/shop/admin/", bearer(""), 403},
		{"/shop/admin/", bearer(`,"roles":["admin"]`), 200},
		{"/shop/orders/ann", bearer(""), 200},
		{"/shop/orders/bob", bearer(""), 403},
		{"/shop/orders/bob", map[string]string{"Authorization": "Bearer " + hs256(fmt.Sprintf(`{"iss":"https://login.example.com","aud":"shop","sub":"eve","groups":["clerk"],"exp":%d}`, time.Now().Add(time.Hour).Unix()), secret)}, 200},
		{"/partners/", nil, 401},
		{"/partners/", map[string]string{"X-API-Key": "another"}, 401},
		{"/partners/", bearer(""), 401},
		{"/health", nil, 204},
	} {
		if r := gw.ask(t, ask{target: c.target, header: c.header}); r.StatusCode != c.status {
			t.Errorf("%s with %v: %d, want %d: %s", c.target, c.header, r.StatusCode, c.status, r.body)
		}
	}
	if echo := gw.went(t, ask{target: "/shop/", header: bearer("")}, "SHOP_URL", "/shop/"); echo.Header.Get("X-User-Id") != "ann" {
		t.Errorf("the service sees %v", echo.Header)
	}
	if r := gw.ask(t, ask{target: "/partners/", header: map[string]string{"X-API-Key": key}}); r.StatusCode != 200 || r.Header.Get("X-RateLimit-Limit") != "600" || strings.Contains(r.body, key) {
		t.Errorf("a partner gets %d, %v: %s", r.StatusCode, r.Header, r.body)
	}
	r := gw.ask(t, ask{method: "OPTIONS", target: "/shop/", header: map[string]string{"Origin": "https://shop.example.com", "Access-Control-Request-Method": "POST"}})
	if r.StatusCode != 204 || r.Header.Get("Access-Control-Allow-Origin") != "https://shop.example.com" {
		t.Errorf("a preflight gets %d, %v", r.StatusCode, r.Header)
	}
}
