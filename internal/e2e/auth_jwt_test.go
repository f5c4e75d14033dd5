package e2e

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"sluice/internal/gatewaytest"
)

// signedIn is a gateway whose routes want tokens.
type signedIn struct {
	*gatewaytest.Gateway
	issuer   *tokenIssuer
	roots    *x509.CertPool
	document string // of the configuration; it ends with the routes
}

func startSignedIn(t *testing.T) *signedIn {
	t.Helper()
	s := &signedIn{issuer: newTokenIssuer(t), roots: x509.NewCertPool()}
	listeners := `web: {address: "127.0.0.1:0"}`
	if gatewaytest.Engine() != gatewaytest.Standard { // it speaks HTTP/1.1 alone
		cert, key := selfSigned(t, siteHost)
		trust(t, s.roots, cert)
		listeners += fmt.Sprintf(`, websecure: {address: "127.0.0.1:0", protocols: [h1, h2, h3], tls: {certificates: [{cert: %q, key: %q}]}}`, cert, key)
	}
	s.document = fmt.Sprintf(`
listeners: {%s}
admin: {address: "127.0.0.1:0"}
upstreams: {up: {endpoints: [%q]}, sockets: {endpoints: [%q]}}
middleware:
  who: {jwt: %s}
routes:
  - {match: {path_prefix: /who}, upstream: up, middleware: [who]}
  - {match: {path: /perhaps}, upstream: up, middleware: [{jwt: %s}]}
  - {match: {path: /tenants}, upstream: up, middleware: [who, {rate_limit: {rate: 2/h, key: "jwt:org.tenant"}}]}
  - {match: {path: /plans}, upstream: up, middleware: [who, {rate_limit: {rate: 1/h, key: consumer, tiers: {gold: {rate: 3/h}}}}]}
  - {match: {path: /socket}, upstream: sockets, middleware: [{jwt: %s}]}
`, listeners, gatewaytest.NewEcho(t, "a"), gatewaytest.NewHTTP(t, http.HandlerFunc(talkBack)),
		s.issuer.options(", claims_to_headers: {X-User: sub, X-Tenant: org.tenant}, tier_claim: plan"),
		s.issuer.options(", optional: true, claims_to_headers: {X-User: sub}"),
		s.issuer.options(", from: [{query: access_token}, {cookie: session}]"))
	s.Gateway = gatewaytest.Start(t, s.document)
	return s
}

// talkBack answers each message with itself.
func talkBack(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // the client tells what it got
	}
	defer conn.CloseNow()
	for {
		kind, text, err := conn.Read(r.Context())
		if err != nil || conn.Write(r.Context(), kind, text) != nil {
			return
		}
	}
}

// ways are those to speak with the gateway.
func (s *signedIn) ways() []string { return (&guarded{}).ways() }

func (s *signedIn) client(t *testing.T, way string) *siteClient {
	t.Helper()
	return newSiteClient(t, way, s.Addr(listenerFor(way)).String(), s.roots)
}

// TestTokens shows tokens by every protocol: the endpoint and the log are told who it is by
// those that are good, and nothing by a client itself.
func TestTokens(t *testing.T) {
	s := startSignedIn(t)
	for n, way := range s.ways() {
		t.Run(way, func(t *testing.T) {
			c := s.client(t, way)
			user := fmt.Sprint("user ", n)
			good := s.issuer.bearer(t, "rsa", map[string]any{"sub": user, "org": map[string]any{"tenant": "one"}})
			for range 2 { // the second time it is remembered
				r := asking(t, c, "POST", "/who/x", "hello", "Authorization: "+good, "X-User: root", "X_tenant: root")
				status, header, echo := answerOf(t, c, r)
				if status != http.StatusOK || echo.Body != "hello" || !sameList(echo.Header["X-User"], user) || !sameList(echo.Header["X-Tenant"], "one") || echo.Header["X_tenant"] != nil {
					t.Errorf("%d, %v", status, echo.Header)
				}
				if line := s.LogLine(header.Get("X-Request-Id")); line["consumer"] != user || line["status"] != 200.0 {
					t.Errorf("logged as %v", line)
				}
			}
			for field, challenge := range map[string]string{
				"X-None: 1":                `Bearer realm="gateway"`,
				"Authorization: Basic eA=": `Bearer realm="gateway"`,
				"Authorization: " + good[:len(good)-8] + "AAAAAAAA":                                 `Bearer realm="gateway", error="invalid_token"`,
				"Authorization: Bearer x.y.z":                                                       `Bearer realm="gateway", error="invalid_token"`,
				"Authorization: " + s.issuer.bearer(t, "rsa", map[string]any{"exp": 1_700_000_000}): `Bearer realm="gateway", error="invalid_token"`,
			} {
				status, header, _ := answerOf(t, c, asking(t, c, "GET", "/who/x", "", field, "X-User: root"))
				if status != http.StatusUnauthorized || header.Get("WWW-Authenticate") != challenge {
					t.Errorf("%.40s: %d, %s", field, status, header.Get("WWW-Authenticate"))
				}
				if line := s.LogLine(header.Get("X-Request-Id")); line["error"] != "unauthenticated" || line["consumer"] != "" && line["consumer"] != nil {
					t.Errorf("%.40s: logged as %v", field, line)
				}
			}
			if status, _, echo := answerOf(t, c, asking(t, c, "GET", "/perhaps", "", "X-User: root")); status != http.StatusOK || echo.Header["X-User"] != nil {
				t.Errorf("optional: %d, %v", status, echo.Header)
			}
		})
	}
	if n := s.issuer.fetches.Load(); n != 1 {
		t.Errorf("%d fetches of the keys", n)
	}
	if log := s.ProcessLog(); strings.Contains(log, "eyJ") {
		t.Error("a token is in the log")
	}
}

// TestTokensAndLimits has a limit count by a claim, and by the consumer with its tier.
func TestTokensAndLimits(t *testing.T) {
	s := startSignedIn(t)
	c := s.client(t, "h1")
	passed := func(path, user, tenant, plan string) (n int) {
		t.Helper()
		token := s.issuer.bearer(t, "rsa", map[string]any{"sub": user, "org": map[string]any{"tenant": tenant}, "plan": plan})
		for range 6 {
			switch status, header, _ := answerOf(t, c, asking(t, c, "GET", path, "", "Authorization: "+token)); {
			case status == http.StatusOK:
				n++
			case status != http.StatusTooManyRequests || header.Get("Retry-After") == "":
				t.Errorf("%s: %d, %v", path, status, header)
			}
		}
		return n
	}
	for _, test := range []struct {
		path, user, tenant, plan string
		want                     int
	}{
		{"/tenants", "ann", "one", "", 2},
		{"/tenants", "bob", "one", "", 0}, // whoever it is
		{"/tenants", "ann", "two", "", 2},
		{"/plans", "ann", "one", "", 1},
		{"/plans", "bob", "one", "gold", 3},
		{"/plans", "cid", "one", "gold", 3},
		{"/plans", "dan", "one", "no such plan", 1},
	} {
		if got := passed(test.path, test.user, test.tenant, test.plan); got != test.want {
			t.Errorf("%+v: %d passed", test, got)
		}
	}
	for range 10 { // what has no good token takes nothing from anybody
		if status, _, _ := answerOf(t, c, asking(t, c, "GET", "/plans", "", "Authorization: Bearer x.y.z")); status != http.StatusUnauthorized {
			t.Errorf("a bad token: %d", status)
		}
	}
}

// TestTokensOfSockets: browsers can set no field for a WebSocket, so its token is in the
// query or in a cookie.
func TestTokensOfSockets(t *testing.T) {
	s := startSignedIn(t)
	token := strings.TrimPrefix(s.issuer.bearer(t, "rsa", map[string]any{"sub": "socket"}), "Bearer ")
	dial := func(query, cookie string) (*websocket.Conn, int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), gatewaytest.Patience)
		t.Cleanup(cancel)
		options := &websocket.DialOptions{HTTPClient: s.client(t, "h1").Client, HTTPHeader: http.Header{}}
		options.HTTPClient.Timeout = 0 // the library wants none
		if cookie != "" {
			options.HTTPHeader.Set("Cookie", "a=b; session="+cookie)
		}
		conn, response, err := websocket.Dial(ctx, s.URL("web")+"/socket"+query, options) //nolint:bodyclose // the library keeps it
		if response == nil {
			t.Fatal(err)
		}
		return conn, response.StatusCode
	}
	for _, where := range [][2]string{{"?x=y&access_token=" + token, ""}, {"", token}} {
		conn, status := dial(where[0], where[1])
		if status != http.StatusSwitchingProtocols {
			t.Fatalf("%.20q: %d", where, status)
		}
		if err := conn.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if _, text, err := conn.Read(t.Context()); err != nil || string(text) != "hello" {
			t.Errorf("%.20q: %q, %v", where, text, err)
		}
		_ = conn.CloseNow() // it was of use
	}
	if line := s.LogLineWith("consumer", "socket"); line["status"] != 101.0 || strings.Contains(fmt.Sprint(line), token) {
		t.Errorf("logged as %v", line)
	}
	for _, where := range [][2]string{{"", ""}, {"?access_token=x.y.z", ""}, {"", token[:len(token)-8] + "AAAAAAAA"}, {"?access_token=" + token, token}} {
		if _, status := dial(where[0], where[1]); status != http.StatusUnauthorized {
			t.Errorf("%.20q: %d", where, status)
		}
	}
}

// TestTokensOfCalls: a call of gRPC without a good token is UNAUTHENTICATED, and one while
// nobody can tell UNAVAILABLE.
func TestTokensOfCalls(t *testing.T) {
	endpoint := startCalls(t, "one")
	i := newTokenIssuer(t)
	g := startCallGateway(t, fmt.Sprintf("upstreams: {calls: {protocol: h2c, endpoints: [%q]}}\nroutes: [{match: {path_prefix: /test.Calls}, upstream: calls, middleware: [{jwt: %s}]}]\n", endpoint.url, i.options("")))
	for _, way := range ways {
		client := g.caller(t, way)
		for authorization, want := range map[string]codes.Code{
			"":             codes.Unauthenticated,
			"Bearer x.y.z": codes.Unauthenticated,
			i.bearer(t, "rsa", map[string]any{"aud": "others"}): codes.Unauthenticated,
			i.bearer(t, "rsa", map[string]any{"sub": way}):      codes.OK,
		} {
			ctx := t.Context()
			if authorization != "" {
				ctx = metadata.AppendToOutgoingContext(ctx, "authorization", authorization)
			}
			taken := endpoint.taken.Load()
			a := client.call(t, ctx, "/test.Calls/Echo", "hello")
			if a.code() != want || (endpoint.taken.Load() > taken) != (want == codes.OK) {
				t.Errorf("%s, %.20s: %v, and the endpoint was called %d times", way, authorization, a.err, endpoint.taken.Load()-taken)
			}
		}
		if line := g.LogLineWith("consumer", way); line["path"] != "/test.Calls/Echo" {
			t.Errorf("logged as %v", line)
		}
	}
	i.serve(t) // it is down, and may have a key that nobody knows
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", i.bearer(t, "one", nil))
	if a := g.caller(t, "web").call(t, ctx, "/test.Calls/Echo", "hello"); a.code() != codes.Unavailable {
		t.Errorf("while the issuer is down: %v", a.err)
	}
}
