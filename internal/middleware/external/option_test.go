package external_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/internal/model"
)

func TestProblems(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bad.pem"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "latin"), []byte("caf\xe9"), 0o600); err != nil {
		t.Fatal(err)
	}
	for options, want := range map[string]string{
		`{http: {url: "https://auth.test/check"}}`:                                       "",
		`{http: {url: "http://localhost:9000/check"}}`:                                   "",
		`{http: {url: "http://auth.test/check"}}`:                                        "it.yaml:3:102: warning: the service is asked in clear: whoever is in between reads what clients prove themselves by, and can let anybody pass (use https)",
		`{grpc: {address: "auth.test:9000"}, timeout: 250ms, on_failure: allow}`:         "it.yaml:3:106: warning: the service is asked in clear: whoever is in between reads what clients prove themselves by, and can let anybody pass (write tls: {})",
		`{grpc: {address: "auth.test:9000", tls: {}}}`:                                   "",
		`{grpc: {address: "[::1]:9000"}}`:                                                "",
		`{grpc: {address: "unix:/run/auth"}, cache: {ttl: 1m, key: [method, header:A]}}`: "",
		`{}`: "it.yaml:3:89: external_auth does not say whom to ask (write http: {url: …} or grpc: {address: HOST:PORT})",
		`{http: {url: "http://a.test"}, grpc: {address: "a.test:1"}}`: "external_auth has both http and grpc",
		`{http: {}}`:                                               "http needs the key url",
		`{grpc: {}}`:                                               "grpc needs the key address",
		`{http: {url: auth.test}}`:                                 "http.url must be a URL such as http://auth.internal:8080/check",
		`{http: {url: "ftp://a"}}`:                                 "http.url must be a URL",
		`{http: {url: "http://"}}`:                                 "http.url must be a URL",
		`{http: {url: "http://a b"}}`:                              "http.url must be a URL",
		`{http: {url: "http://u:p@a.test"}}`:                       "http.url has a user in it, which would take the place of the client's own",
		`{http: {url: "http://a.test/#x"}}`:                        "http.url has a fragment",
		`{http: {url: "http://a.test", tls: {}}}`:                  "http.tls is for https",
		`{http: {url: "http://a.test", request_headers: ["A B"]}}`: `http.request_headers[0] must be the name of a header field, not "A B"`,
		`{http: {url: "http://a.test", request_headers: [x-forwarded-uri]}}`:        "x-forwarded-uri is set by the gateway, and told anyway",
		`{http: {url: "http://a.test", request_headers: [X-Request-ID]}}`:           "X-Request-ID is set by the gateway, and told anyway",
		`{http: {url: "http://a.test", request_headers: [Connection]}}`:             "Connection belongs to the connection",
		`{http: {url: "http://a.test", response_headers: [Host]}}`:                  "Host belongs to the connection",
		`{http: {url: "http://a.test", response_headers: [Content-Length]}}`:        "Content-Length belongs to the connection",
		`{http: {url: "http://a.test", request_headers: ["*"]}}`:                    "http.request_headers[0] is *, which is no name and stands for none (name each field)",
		`{http: {url: "http://a.test", response_headers: ["*"]}}`:                   "http.response_headers[0] is *",
		`{http: {url: "http://a.test", response_headers: [X-Forwarded-For]}}`:       "X-Forwarded-For is set by the gateway, and by no service (use a name of its own)",
		`{http: {url: "https://a.test", response_headers: [X-Forwarded-User]}}`:     "",
		`{http: {url: "http://a.test", response_headers: [x_real_ip]}}`:             "x_real_ip is set by the gateway",
		`{http: {url: "http://a.test", response_headers: [Transfer_Encoding]}}`:     "Transfer-Encoding belongs to the connection",
		`{http: {url: "http://a.test"}, consumer_header: X-Request-ID}`:             "X-Request-ID is set by the gateway",
		`{http: {url: "http://a.test"}, groups_header: Forwarded}`:                  "Forwarded is set by the gateway",
		`{grpc: {address: "a.test:1", drop_headers: [Via]}}`:                        "Via is set by the gateway",
		`{http: {url: "http://a.test"}, timeout: 24h}`:                              "timeout must be at most 1m, not 24h (requests wait for it: write a time such as 1s)",
		`{http: {url: "https://a.test"}, timeout: 1m}`:                              "",
		`{http: {url: "http://a.test", client_headers: [Transfer-Encoding]}}`:       "Transfer-Encoding belongs to the connection",
		`{grpc: {address: "http://a.test:1"}}`:                                      "grpc.address must be host:port or unix:PATH",
		`{grpc: {address: "a.test:1", context_extensions: {a: "${file:latin}"}}}`:   "context_extensions are UTF-8",
		`{grpc: {address: a.test}}`:                                                 "grpc.address must be host:port or unix:PATH",
		`{grpc: {address: ":9000"}}`:                                                "grpc.address must be host:port or unix:PATH",
		`{grpc: {address: "a.test:0"}}`:                                             "grpc.address must be host:port or unix:PATH",
		`{grpc: {address: "a.test:99999"}}`:                                         "grpc.address must be host:port or unix:PATH",
		`{grpc: {address: "a.test:http"}}`:                                          "grpc.address must be host:port or unix:PATH",
		`{grpc: {address: "unix:run/auth"}}`:                                        "the path of the socket in grpc.address must be absolute",
		`{grpc: {address: "a.test:1", drop_headers: [""]}}`:                         "grpc.drop_headers[0] must be the name of a header field",
		`{grpc: {address: "a.test:1", tls: {ca: none.pem}}}`:                        "ca cannot be read",
		`{grpc: {address: "a.test:1", tls: {ca: bad.pem}}}`:                         "ca: ",
		`{grpc: {address: "a.test:1", tls: {cert: bad.pem}}}`:                       "cert and key belong together",
		`{grpc: {address: "a.test:1", tls: {cert: bad.pem, key: bad.pem}}}`:         "cert: ",
		`{http: {url: "http://a.test"}, timeout: 0}`:                                "with timeout 0 nothing could be asked",
		`{http: {url: "http://a.test"}, on_failure: maybe}`:                         "on_failure must be deny or allow",
		`{http: {url: "http://a.test"}, consumer_header: "A B"}`:                    `consumer_header must be the name of a header field, not "A B"`,
		`{http: {url: "http://a.test"}, groups_header: Host}`:                       "Host belongs to the connection",
		`{http: {url: "http://a.test"}, cache: {}}`:                                 "cache needs the key ttl",
		`{http: {url: "http://a.test"}, cache: {ttl: 0}}`:                           "with ttl 0 nothing would be remembered",
		`{http: {url: "http://a.test"}, cache: {ttl: 1s, max_entries: 0}}`:          "cache.max_entries must be at least 1, not 0",
		`{http: {url: "http://a.test"}, cache: {ttl: 1s, key: []}}`:                 "cache.key is an empty list, so that one decision would stand for all",
		`{http: {url: "http://a.test"}, cache: {ttl: 1s, key: [user]}}`:             "cache.key[0] must be method, host, path, query, body, client_ip, route, consumer, header:NAME or cookie:NAME",
		`{http: {url: "http://a.test"}, cache: {ttl: 1s, key: ["header:"]}}`:        "cache.key[0] must be method",
		`{http: {url: "http://a.test"}, cache: {ttl: 1s, key: ["path:x"]}}`:         "cache.key[0] must be method",
		`{http: {url: "https://a.test"}, body: {}, cache: {ttl: 1s}}`:               "",
		`{http: {url: "https://a.test"}, body: {}, cache: {ttl: 1s, key: [path]}}`:  "warning: the service is told bodies, and one decision counts for all of them (add body to the key)",
		`{http: {url: "http://a.test"}, cache: {ttl: 1s, key: [body]}}`:             "cache.key[0] is body, which the service is not told (write body: {} beside cache, or remove it)",
		`{http: {url: "http://a.test"}, body: {max: 0}}`:                            "with body.max 0 nothing would be told",
		`{http: {url: "http://a.test"}, body: {raw: true}}`:                         "body.raw is for grpc",
		`{grpc: {address: "unix:/a"}, body: {max: 1MiB, raw: true, partial: true}}`: "",
		`{grpc: {address: "a.test:1"}, cache: {ttl: 1s}}`:                           "with grpc the cache needs a key",
	} {
		_, problems := resolved(dir, options)
		got := strings.Join(problems, "|")
		if want == "" && got != "" || want != "" && !strings.Contains(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", options, got, want)
		}
	}
}

// TestRole: it refuses, and tells who the client is only where its answers do; decisions
// that are remembered by the consumer need one.
func TestRole(t *testing.T) {
	for options, want := range map[string]model.Role{
		`{http: {url: "https://a.test"}}`:                                                                model.Refusing,
		`{http: {url: "https://a.test"}, consumer_header: X-User}`:                                       model.Authenticating,
		`{grpc: {address: "unix:/a"}, groups_header: X-Groups}`:                                          model.Authenticating,
		`{grpc: {address: "unix:/a"}, cache: {ttl: 1s, key: [path, consumer]}}`:                          model.Refusing | model.Telling,
		`{grpc: {address: "unix:/a"}, consumer_header: X-User, cache: {ttl: 1s, key: [path, consumer]}}`: model.Authenticating | model.Telling,
	} {
		gateway, problems := resolved(t.TempDir(), options)
		if gateway == nil || gateway.Routes[0].Chain[0].Role != want {
			t.Errorf("%s: %v", options, problems)
		}
	}
}

// TestCacheByNobody: with the consumer in the key and nobody who tells it, one decision
// would stand for all, which is warned of.
func TestCacheByNobody(t *testing.T) {
	_, problems := resolved(t.TempDir(), `{grpc: {address: "unix:/a"}, cache: {ttl: 1s, key: [path, consumer]}}`)
	if len(problems) != 1 || !strings.Contains(problems[0], "warning: external_auth goes by who the client is, and nothing before it tells: all are nobody") {
		t.Errorf("got %q", problems)
	}
}
