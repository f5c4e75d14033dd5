package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"sluice/internal/certtest"
)

// TestConfigurationsInDocuments validates every configuration in the documents. What is
// a part of one is made whole first.
func TestConfigurationsInDocuments(t *testing.T) {
	once(t)
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("REDIS_PASSWORD", "x")
	t.Setenv("SHOP_SECRET", strings.Repeat("x", 32))
	blocks := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatchIndex(text, -1) {
			blocks++
			line := 1 + strings.Count(string(text[:found[2]]), "\n")
			t.Run(fmt.Sprintf("%s:%d", filepath.Base(page), line), func(t *testing.T) {
				file := filepath.Join(documentFiles(t), "sluice.yaml")
				if err := os.WriteFile(file, wholeDocument(t, string(text[found[2]:found[3]])), 0o600); err != nil {
					t.Fatal(err)
				}
				runSluice(t, 0, nil, "validate", "-c", file)
			})
		}
	}
	if blocks < 20 {
		t.Errorf("the documents have only %d configurations", blocks)
	}
}

// documentFiles is a directory with the files that the configurations name.
func documentFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range []string{"certs", "secrets"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"site", "other", "clients"} {
		certtest.SelfSigned(t, name+".test").Write(filepath.Join(dir, "certs"), name)
	}
	secret := strings.Repeat("x", 64)
	for name, content := range map[string]string{
		"secrets/client": secret, "secrets/session": secret,
		"keys.yaml": "[]\n", "users": "bob:" + documentHash + "\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// documentToken is middleware that asks for a token.
const documentToken = `{jwt: {issuers: [{issuer: "https://login.example.com", audiences: [api], jwks_url: "https://login.example.com/jwks"}]}}`

// documentHash is bcrypt's of a password.
const documentHash = "$2y$04$abcdefghijklmnopqrstuuOYLO4bqrCjJKG2D6A1XJ9oqO2pjnzcS"

// wholeDocument makes a configuration of a part of one.
func wholeDocument(t *testing.T, part string) []byte {
	t.Helper()
	keys := 0
	part = regexp.MustCompile("sha256:…").ReplaceAllStringFunc(part, func(string) string {
		keys++
		return fmt.Sprintf("sha256:%064x", keys)
	})
	part = strings.NewReplacer("$2y$12$…", documentHash, "0a1b…", strings.Repeat("0a", 32), "{jwt: {…}}", documentToken).Replace(part)
	var node any
	if err := yaml.Unmarshal([]byte(part), &node); err != nil {
		t.Fatal(err)
	}
	whole, ok := node.(map[string]any)
	if !ok { // a file of keys
		whole = map[string]any{"middleware": map[string]any{"keys": map[string]any{"api_key": map[string]any{"keys": node}}}}
	}
	has := func(keys ...string) bool {
		return slices.ContainsFunc(keys, func(key string) bool { _, ok := whole[key]; return ok })
	}
	const up = "http://127.0.0.1:1"
	switch {
	case has("listeners", "stores", "middleware", "upstreams", "routes"):
	case has("retry", "split"):
		maps.Copy(whole, map[string]any{"match": map[string]any{"path": "/"}})
		if !has("split") {
			whole["upstream"] = up
		}
		whole = map[string]any{"routes": []any{whole}}
	case has("health_check", "outlier_detection", "circuit_breaker", "dns"):
		if !has("dns") {
			whole["endpoints"] = []any{up}
		}
		whole = map[string]any{"upstreams": map[string]any{"up": whole}}
	case has("per-client"):
		whole = map[string]any{"middleware": whole, "stores": map[string]any{"main": map[string]any{"redis": map[string]any{"address": "127.0.0.1:6379"}}}}
	default:
		whole = map[string]any{"routes": []any{map[string]any{"match": map[string]any{"path": "/"}, "upstream": up, "middleware": []any{whole}}}}
	}
	completeDocument(whole, up)
	text, err := yaml.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// completeDocument defines what a configuration names, and uses what it defines.
func completeDocument(whole map[string]any, up string) {
	section := func(name string) map[string]any {
		known, _ := whole[name].(map[string]any)
		if known == nil {
			known = map[string]any{}
			whole[name] = known
		}
		return known
	}
	if listeners := section("listeners"); len(listeners) == 0 {
		listeners["web"] = map[string]any{"address": ":8080"}
	}
	var token any
	if err := yaml.Unmarshal([]byte(documentToken), &token); err != nil {
		panic("BUG: middleware that is no YAML: " + err.Error())
	}
	routes, _ := whole["routes"].([]any)
	if len(routes) == 0 {
		for name, kind := range maps.Clone(section("middleware")) {
			chain := []any{name}
			if m, _ := kind.(map[string]any); m["rbac"] != nil { // it needs somebody before it who knows the client
				section("middleware")["signed-in"] = token
				chain = []any{"signed-in", name}
			}
			routes = append(routes, map[string]any{"match": map[string]any{"path_prefix": "/" + name}, "upstream": up, "middleware": chain})
		}
		for name := range section("upstreams") {
			routes = append(routes, map[string]any{"match": map[string]any{"path": "/" + name}, "upstream": name})
		}
		routes = append(routes, map[string]any{"match": map[string]any{"path": "/"}, "upstream": up})
		whole["routes"] = routes
	}
	text, err := yaml.Marshal(routes)
	if err != nil {
		panic("BUG: a document that cannot be written: " + err.Error())
	}
	upstreams := section("upstreams")
	for _, name := range regexp.MustCompile(`(?m)upstream: ([a-z0-9-]+)$`).FindAllStringSubmatch(string(text), -1) {
		if upstreams[name[1]] == nil {
			upstreams[name[1]] = map[string]any{"endpoints": []any{up}}
		}
	}
}
