package e2e

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"sluice/internal/gatewaytest"
)

// secretsOf are the secrets of a document, each under what it is, and the document.
func secretsOf(t *testing.T) (secrets map[string]string, document string) {
	t.Helper()
	secrets = map[string]string{
		"the secret of jwt":           "what-claims-are-signed-with-as-hs256-wants",
		"the secret of hmac_auth":     "what-requests-are-signed-with",
		"the hash of a password":      hashOf(t, "opensesame", bcrypt.MinCost),
		"the digest of a key":         digestOf("key-one"),
		"the secret of oidc":          "what-the-gateway-says-to-the-issuer",
		"the secret of its sessions":  "what-sessions-are-encrypted-with-here",
		"the key of clients":          "key-one",
		"the password of clients":     "opensesame",
		"the password in base64":      "YW5uOm9wZW5zZXNhbWU=",
		"the start of clients' token": "eyJhbGciOiJIUzI1NiJ9",
	}
	document = `
listeners: {web: {address: "127.0.0.1:0"}}
admin: {address: "127.0.0.1:0"}
middleware:
  token:
    jwt: {issuers: [{issuer: joe, secret: ` + secrets["the secret of jwt"] + `}]}
  signed:
    hmac_auth:
      keys: [{id: shop, secret: ` + secrets["the secret of hmac_auth"] + `}]
  person:
    basic_auth: {users: [{name: ann, hash: ` + secrets["the hash of a password"] + `}]}
  key:
    api_key:
      keys:
        - {key: ` + secrets["the digest of a key"] + `, consumer: shop}
  login:
    oidc:
      issuer: http://127.0.0.1:1/
      client_id: gateway
      client_secret: ` + secrets["the secret of oidc"] + `
      redirect_path: /callback
      session: {secret: ` + secrets["the secret of its sessions"] + `}
routes:
  - {id: token, match: {path: /token}, respond: {status: 200}, middleware: [token]}
  - {id: signed, match: {path: /signed}, respond: {status: 200}, middleware: [signed]}
  - {id: person, match: {path: /person}, respond: {status: 200}, middleware: [person]}
  - {id: key, match: {path: /key}, respond: {status: 200}, middleware: [key]}
  - {id: login, match: {path_prefix: /login}, respond: {status: 200}, middleware: [login]}
`
	return secrets, document
}

// TestSecretsAreNotTold: whatever the gateway tells of itself, to whomever, has neither a
// secret of its documents nor one of its clients.
func TestSecretsAreNotTold(t *testing.T) {
	once(t)
	secrets, document := secretsOf(t)
	g := gatewaytest.Start(t, document)
	client := newSiteClient(t, "h1", g.Addr("web").String(), nil)
	var told strings.Builder
	for _, path := range []string{"/token", "/signed", "/person", "/key", "/login/x"} {
		for _, field := range []string{
			"Authorization: Bearer " + secrets["the start of clients' token"] + ".e30.c2lnbmF0dXJl",
			"Authorization: Basic " + secrets["the password in base64"], "X-API-Key: key-one", "Accept: text/html",
		} {
			response, err := client.Do(asking(t, client, "GET", path+"?secret", "", field))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			told.Write(text)
			_ = response.Header.Write(&told) // a builder takes all
		}
	}
	ask := func(path string) {
		t.Helper()
		response, err := http.Get(g.AdminURL() + path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d, %v", path, response.StatusCode, err)
		}
		told.Write(text)
	}
	if n := strings.Count(g.ProcessLog(), "is written down"); n != 4 {
		t.Errorf("%d secrets that are written down are warned of", n)
	}
	pages := []string{
		"/_gateway/config", "/_gateway/problems", "/_gateway/routes", "/_gateway/explain?method=GET&url=/token", "/_gateway/explain?method=GET&url=/key",
		"/_gateway/listeners", "/_gateway/upstreams", "/_gateway/limits", "/_gateway/config/history", "/metrics", "/",
	}
	for _, page := range pages {
		ask(page)
	}
	if !strings.Contains(told.String(), "jwt") || strings.Count(told.String(), "REDACTED") < 6 {
		t.Error("the documents are not told at all")
	}
	refused := 0
	refuse := func(document string) {
		t.Helper()
		g.Write(document)
		refused++
		gatewaytest.WaitFor(t, "the document is refused", func() bool { return g.Metric("gateway_config_reloads_total", "result", "failure") >= float64(refused) })
		ask("/_gateway/problems")
	}
	for secret := range maps.Values(secrets) {
		if strings.Contains(document, secret) {
			refuse(document + "nonsense: " + secret + "\n")
			refuse(strings.Replace(document, secret, secret+", nonsense: 1", 1))
			refuse(strings.Replace(document, secret, secret+": [", 1)) // no YAML any more
		}
	}
	refuse(strings.Replace(document, secrets["the digest of a key"], "key-one", 1)) // a key in place of its digest
	refuse(strings.Replace(document, "consumer: shop", "consumer: shop, nonsense: 1", 1))
	for _, page := range pages {
		ask(page)
	}
	for _, text := range g.LogLines() {
		for _, value := range text {
			if value, ok := value.(string); ok {
				told.WriteString(value + "\n")
			}
		}
	}
	told.WriteString(g.ProcessLog())
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if before, after, found := strings.Cut(told.String(), secrets[name]); found {
			t.Errorf("%s is told: %.60s", name, before[max(0, len(before)-60):]+"…"+after[:min(40, len(after))])
		}
	}
}
