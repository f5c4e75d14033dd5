package auth

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/config"
	"sluice/internal/pipeline"
)

// TestWarnings: a secret that is written down and keys that come in clear are told where
// they stand, and serve.
func TestWarnings(t *testing.T) {
	dir := t.TempDir()
	key := rsaJWK("k1", tokenKeys().rsa)
	for name, keys := range map[string]string{
		"all.json":  setOf(key),
		"some.json": setOf(key, `{"kty":"RSA","use":"enc"}`, strings.Replace(key, "{", `{"d":"AQAB",`, 1)),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(keys), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		kind          pipeline.Kind
		options, want string
	}{
		{JWT(), "{issuers: [{issuer: a,\n jwks_url: 'http://issuer.test/keys'}]}", "3:12: warning: the keys of the issuer come in clear"},
		{JWT(), "{issuers: [{issuer: a,\n jwks_url: 'http://10.0.0.1/keys'}]}", "3:12: warning: the keys of the issuer come in clear"},
		{JWT(), "{issuers: [{issuer: a,\n jwks_url: 'https://issuer.test/keys'}]}", ""},
		{JWT(), "{issuers: [{issuer: a,\n jwks_url: 'http://LocalHost:80/keys'}]}", ""},
		{JWT(), "{issuers: [{issuer: a,\n jwks_url: 'http://127.0.0.2/keys'}]}", ""},
		{JWT(), "{issuers: [{issuer: a,\n jwks_url: 'http://[::1]:80/keys'}]}", ""},
		{JWT(), "{issuers: [{issuer: a,\n secret: " + jwtSecret + "}]}", "3:10: warning: secret is written down"},
		{JWT(), "{issuers: [{issuer: a,\n secret: \"${KEY}\"}]}", ""},
		{JWT(), "{issuers: [{issuer: a,\n jwks_file: all.json}]}", ""},
		{JWT(), "{issuers: [{issuer: a,\n jwks_file: some.json}]}", "3:13: warning: jwks_file has keys that are left out: keys[1] is not for signatures, by its use; keys[2] has its private part in it"},
		{HMAC(), "{keys: [{id: a,\n secret: " + jwtSecret + "}]}", "3:10: warning: secret is written down"},
		{HMAC(), "{keys: [{id: a,\n secret: \"${KEY}\"}]}", ""},
		{HMAC(), "{keys: [{id: a, secret: \"${KEY}\"}],\n components: ['@method']}", "3:14: warning: signatures need not cover the path, the query: whoever"},
		{HMAC(), "{keys: [{id: a, secret: \"${KEY}\"}],\n components: ['@path']}", "3:14: warning: signatures need not cover the method, the query: whoever"},
		{HMAC(), "{keys: [{id: a, secret: \"${KEY}\"}],\n components: ['@method', '@request-target']}", ""},
		{HMAC(), "{keys: [{id: a, secret: \"${KEY}\"}],\n components: ['@method', '@target-uri']}", ""},
	} {
		kind := test.kind
		half := config.Kind{Name: kind.Name, Options: kind.Options, Validate: kind.Validate, Role: kind.Role, Warn: kind.Warn}
		result := config.Resolve([]config.Document{{Name: "it.yaml", Dir: dir, Data: []byte("listeners: {web: {address: ':0'}}\nroutes: [{match: {path: /}, respond: {status: 200}, middleware: [{" + kind.Name + ": " + test.options + "}]}]\n")}},
			[]config.Kind{half}, config.Environment{LookupEnv: func(string) (string, bool) { return jwtSecret, true }})
		var told []string
		for _, p := range result.Problems {
			told = append(told, p.Error())
		}
		if got := strings.Join(told, "|"); result.Gateway == nil || test.want == "" && got != "" || !strings.HasPrefix(got, strings.TrimSuffix("it.yaml:"+test.want, "it.yaml:")) || strings.Contains(got, jwtSecret) {
			t.Errorf("%s: told %s, want %s", test.options, got, test.want)
		}
	}
}
