package login

import (
	"strings"
	"testing"

	"sluice/internal/config"
)

// TestWarnings: secrets that are written down and an issuer that is asked in clear are
// told where they stand, and serve.
func TestWarnings(t *testing.T) {
	const letters = "0123456789abcdef0123456789abcdef"
	for options, want := range map[string]string{
		"issuer: http://issuer.test/,\n client_secret: \"${KEY}\"":                                   "2:10 the issuer is asked in clear",
		"issuer: http://127.0.0.1:1/,\n client_secret: \"${KEY}\"":                                   "",
		"issuer: https://issuer.test/,\n client_secret: " + letters:                                  "3:17 client_secret is written down",
		"issuer: https://issuer.test/, session: {\n secret: " + letters + "}":                        "3:10 secret is written down",
		"issuer: https://issuer.test/, session: {\n secret: [\"${KEY}\", " + letters + "]}":          "3:21 secret[1] is written down",
		"issuer: https://issuer.test/,\n client_secret: \"${KEY}\", session: {secret: [\"${KEY}\"]}": "",
	} {
		kind := Kind()
		half := config.Kind{Name: kind.Name, Options: kind.Options, Validate: kind.Validate, Role: kind.Role, Warn: kind.Warn}
		result := config.Resolve([]config.Document{{Name: "it.yaml", Data: []byte("routes: [{match: {path: /}, respond: {status: 200}, middleware: [oidc: {client_id: a,\n " + options + "}]}]\nlisteners: {web: {address: ':0'}}\n")}},
			[]config.Kind{half}, config.Environment{LookupEnv: func(string) (string, bool) { return letters, true }})
		got := ""
		for _, p := range result.Problems {
			got += strings.TrimPrefix(p.Position.String(), "it.yaml:") + " " + p.Message
		}
		if result.Gateway == nil || want == "" && got != "" || !strings.HasPrefix(got, want) {
			t.Errorf("%s: told %q, want %q", options, got, want)
		}
	}
}
