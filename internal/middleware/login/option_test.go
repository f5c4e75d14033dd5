package login

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestProblems(t *testing.T) {
	const base = "issuer: https://id.example.com, client_id: a, client_secret: 0123456789abcdef"
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for options, want := range map[string]string{
		"{}":                                                  "oidc needs the key client_id",
		"{client_id: a}":                                      "oidc needs the key issuer",
		"{issuer: x, client_id: a}":                           "issuer must be an http or https URL without a query",
		"{issuer: 'https://a/?b', client_id: a}":              "issuer must be an http or https URL without a query",
		"{issuer: 'https://a/#b', client_id: a}":              "issuer must be an http or https URL without a query",
		"{issuer: 'ftp://a/', client_id: a}":                  "issuer must be an http or https URL without a query",
		"{issuer: 'https://u:p@a/', client_id: a}":            "issuer must not have a user or a password",
		"{issuer: 'http://a', client_id: a, ca: FILE}":        "ca is for an issuer of https",
		"{" + base + ", ca: FILE}":                            "ca: ",
		"{issuer: https://a, client_id: ''}":                  "client_id is empty",
		"{issuer: https://a, client_id: a}":                   "without client_secret, session needs a secret",
		"{" + base + ", scopes: ['a b']}":                     `the scope "a b" is not valid`,
		"{" + base + ", scopes: ['']}":                        `the scope "" is not valid`,
		"{" + base + ", redirect_path: ''}":                   "redirect_path must be a path such as /oauth2/callback",
		"{" + base + ", redirect_path: 'https://a/b'}":        "redirect_path must be a path such as /oauth2/callback",
		"{" + base + ", redirect_path: '/a?b'}":               "redirect_path must be a path such as /oauth2/callback",
		"{" + base + ", redirect_path: '/a//b'}":              "redirect_path is not as the paths of requests are: it would never match (write /a/b)",
		"{" + base + ", logout_path: '/a/../b'}":              "logout_path is not as the paths of requests are: it would never match (write /b)",
		"{" + base + ", logout_path: /oauth2/callback}":       "logout_path is the same as redirect_path",
		"{" + base + ", post_logout_path: logout}":            "post_logout_path must be a path such as",
		"{" + base + ", logout_path: /}":                      "post_logout_path is where people log in or out",
		"{" + base + ", session: {cookie: 'a b'}}":            "session.cookie must be a name of at most 64 letters",
		"{" + base + ", session: {cookie: sluice.1}}":         "session.cookie must be a name of at most 64 letters",
		"{" + base + ", session: {cookie: a.login.b}}":        "session.cookie must be a name of at most 64 letters",
		"{" + base + ", session: {cookie: ''}}":               "session.cookie must be a name of at most 64 letters",
		"{" + base + ", session: {cookie: __Host-a}}":         "session.cookie must not begin with __",
		"{" + base + ", session: {ttl: 0s}}":                  "session.ttl must be from 1s to",
		"{" + base + ", session: {ttl: 100000h}}":             "session.ttl must be from 1s to",
		"{" + base + ", session: {secret: short}}":            "session.secret has fewer than 32 bytes",
		"{" + base + ", session: {secret: [a, b]}}":           "session.secret has fewer than 32 bytes",
		"{" + base + ", session: {store: other}}":             "other",
		"{" + base + ", session: {store: memory}}":            "memory",
		"{" + base + ", leeway: 2h}":                          "leeway must be at most 1h",
		"{" + base + ", consumer_claim: ''}":                  "consumer_claim is empty",
		"{" + base + ", claims_to_headers: {Host: sub}}":      "the field Host belongs to the connection",
		"{" + base + ", claims_to_headers: {a_b: x, A-B: y}}": "is here twice",
		"{" + base + ", colour: red}":                         "colour",
	} {
		_, problems := resolve(t, "", strings.ReplaceAll(options, "FILE", file))
		if len(problems) == 0 || !strings.Contains(strings.Join(problems, "\n"), want) {
			t.Errorf("%s: %q, want %q", options, problems, want)
		}
	}
	for _, options := range []string{
		"{" + base + "}", "{" + base + ", session: {store: main}}", "{" + base + ", session: {store: cookie}}", "{" + base + ", session: {cookie: A-z_09}}", "{" + base + ", scopes: []}",
		"{" + base + ", redirect_path: /cb, logout_path: /out, post_logout_path: /bye}", "{" + base + ", session: {secret: " + strings.Repeat("a", 32) + "}}",
	} {
		if _, problems := resolve(t, "", options); problems != nil {
			t.Errorf("%s: %q", options, problems)
		}
	}
}
