package external_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// service decides by Envoy's protocol.
type service struct {
	authv3.UnimplementedAuthorizationServer

	check func(ctx context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error)
}

func (s *service) Check(ctx context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	return s.check(ctx, r)
}

// authorizer starts a service at an address, or on a port of its own.
func authorizer(t testing.TB, network, at string, check func(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error), options ...grpc.ServerOption) (address string, stop func()) {
	t.Helper()
	listener, err := net.Listen(network, at)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(options...)
	authv3.RegisterAuthorizationServer(server, &service{check: check})
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = server.Serve(listener)
	}()
	stop = func() {
		server.Stop()
		<-over
	}
	t.Cleanup(stop)
	return listener.Addr().String(), stop
}

// answers is a service that always says the same.
func answers(t testing.TB, answer *authv3.CheckResponse) (address string) {
	t.Helper()
	address, _ = authorizer(t, "tcp", "127.0.0.1:0", func(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error) { return answer, nil })
	return address
}

func code(c codes.Code) *status.Status { return &status.Status{Code: int32(c)} }

func header(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{Header: &corev3.HeaderValue{Key: name, Value: value}}
}

func headerBy(action corev3.HeaderValueOption_HeaderAppendAction, name, value string) *corev3.HeaderValueOption {
	h := header(name, value)
	h.AppendAction = action
	return h
}

func appended(name, value string) *corev3.HeaderValueOption {
	h := header(name, value)
	h.Append = wrapperspb.Bool(true) //nolint:staticcheck // SA1019: services still say it
	return h
}

func ok(said *authv3.OkHttpResponse) *authv3.CheckResponse {
	return &authv3.CheckResponse{Status: code(codes.OK), HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: said}}
}

func no(said *authv3.DeniedHttpResponse) *authv3.CheckResponse {
	return &authv3.CheckResponse{Status: code(codes.PermissionDenied), HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: said}}
}

// TestQuestionByGRPC tells the service what Envoy would.
func TestQuestionByGRPC(t *testing.T) {
	var got atomic.Pointer[authv3.CheckRequest]
	address, _ := authorizer(t, "tcp", "127.0.0.1:0", func(_ context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		got.Store(r)
		return &authv3.CheckResponse{Status: code(codes.OK)}, nil
	})
	m, _ := newBed(t).build(`{grpc: {address: "` + address + `", context_extensions: {tenant: t1, route: users}}}`)
	x := asked(t.Context(), "POST /users/1?x=%20y", "Authorization: Bearer x", "X-A: 1", "x-a: 2", "Cookie: a=1", "cookie: b=2", "X-Bad: \xff\xfe", "X-Forwarded-For: 192.0.2.1",
		"Connection: close", "Transfer-Encoding: chunked", "Proxy-Authorization: Basic x", ":path: /public", "X-Real-IP: 6.6.6.6")
	x.Request.Body, x.Request.Length = message.Text("hello"), 5
	x.ClientIP = netip.MustParseAddr("192.0.2.1")
	x.ClientCertificate = &message.ClientCertificate{URIs: []string{"spiffe://x/y"}, DNS: []string{"x.test"}, Subject: "CN=x"}
	start := time.Now()
	if reached, err := serve(m, x); err != nil || reached == nil {
		t.Fatal(err)
	}
	a := got.Load().GetAttributes()
	h := a.GetRequest().GetHttp()
	for what, pair := range map[string][2]string{
		"id": {h.GetId(), "id-1"}, "method": {h.GetMethod(), "POST"}, "path": {h.GetPath(), "/users/1?x=%20y"}, "host": {h.GetHost(), "api.example.com"},
		"scheme": {h.GetScheme(), "https"}, "protocol": {h.GetProtocol(), "HTTP/1.1"}, "query": {h.GetQuery(), ""}, "body": {h.GetBody(), ""}, "size": {fmt.Sprint(h.GetSize()), "5"},
		"source":      {a.GetSource().GetAddress().GetSocketAddress().GetAddress(), "192.0.2.1"},
		"principal":   {a.GetSource().GetPrincipal(), "spiffe://x/y"},
		"destination": {fmt.Sprint(a.GetDestination().GetAddress().GetSocketAddress().GetAddress(), a.GetDestination().GetAddress().GetSocketAddress().GetPortValue()), "10.9.9.9443"},
		"extensions":  {fmt.Sprint(a.GetContextExtensions()), "map[route:users tenant:t1]"},
		"headers": {fmt.Sprint(h.GetHeaders()), "map[:authority:api.example.com :method:POST :path:/users/1?x=%20y :scheme:https authorization:Bearer x cookie:a=1; b=2 x-a:1,2 x-bad:! " +
			"x-forwarded-for:192.0.2.1, 10.1.2.3 x-forwarded-host:api.example.com x-forwarded-proto:https x-real-ip:192.0.2.1 x-request-id:id-1]"},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: %s, want %s", what, pair[0], pair[1])
		}
	}
	if at := a.GetRequest().GetTime().AsTime(); at.Before(start.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("time: %v", at)
	}
	for what, c := range map[string]*message.ClientCertificate{"": nil, "x.test": {DNS: []string{"x.test"}, Subject: "CN=x"}, "CN=x": {Subject: "CN=x"}} {
		x := asked(t.Context(), "GET /")
		x.ClientCertificate, x.Local = c, nil
		if _, err := serve(m, x); err != nil || got.Load().GetAttributes().GetSource().GetPrincipal() != what || got.Load().GetAttributes().GetDestination() != nil {
			t.Errorf("%q: %v, %v", what, err, got.Load())
		}
	}
	x = asked(t.Context(), "GET /")
	x.Request.Body, x.Request.Length, x.Peer, x.ClientIP = message.Text("x"), message.Unknown, netip.AddrPort{}, netip.Addr{}
	if _, err := serve(m, x); err != nil || got.Load().GetAttributes().GetRequest().GetHttp().GetSize() != -1 || got.Load().GetAttributes().GetSource().GetAddress() != nil {
		t.Errorf("%v, %v", err, got.Load())
	}
}

// TestAllowedByGRPC obeys what an allowing answer says of fields and parameters.
func TestAllowedByGRPC(t *testing.T) {
	address := answers(t, ok(&authv3.OkHttpResponse{
		Headers: []*corev3.HeaderValueOption{
			header("x-user", "ann"), header("x-set", "new"), appended("x-more", "2"), header("x-groups", "a,b"),
			headerBy(corev3.HeaderValueOption_ADD_IF_ABSENT, "x-there", "2"), headerBy(corev3.HeaderValueOption_ADD_IF_ABSENT, "x-new", "1"),
			headerBy(corev3.HeaderValueOption_OVERWRITE_IF_EXISTS, "x-old", "2"), headerBy(corev3.HeaderValueOption_OVERWRITE_IF_EXISTS, "x-none", "1"),
			headerBy(corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD, "x-any", "1"),
			{Header: &corev3.HeaderValue{Key: "x-raw", RawValue: []byte("r\xff")}},
		},
		HeadersToRemove:         []string{"x-gone"},
		ResponseHeadersToAdd:    []*corev3.HeaderValueOption{header("set-cookie", "a=1"), header("set-cookie", "b=2"), headerBy(corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD, "x-answer", "own")},
		QueryParametersToSet:    []*corev3.QueryParameter{{Key: "user", Value: "a n&n"}},
		QueryParametersToRemove: []string{"token"},
	}))
	m, _ := newBed(t).build(`{grpc: {address: "` + address + `", drop_headers: [X-Dropped]}, consumer_header: X-User, groups_header: X-Groups}`)
	x := asked(t.Context(), "GET /?token=s&a=%20&user=root&%74oken=2&us%65r=x", "X-User: root", "X_User: root", "X-Set: old", "X-set: older", "x_set: oldest", "X-More: 1", "X-There: 1",
		"X-Old: 1", "X-Gone: 1", "x_gone: 2", "X-Dropped: 1", "X-Kept: 1")
	reached, err := serve(m, x, "X-Answer: upstream", "Set-Cookie: c=3")
	if err != nil || reached == nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"X-User": "ann", "X_User": "none", "X-Set": "new", "x_set": "none", "X-More": "1|2", "X-There": "1", "X-New": "1", "X-Old": "2", "X-None": "none", "X-Any": "1",
		"X-Raw": "r\xff", "X-Gone": "none", "x_gone": "none", "X-Dropped": "none", "X-Kept": "1",
	} {
		if got := all(reached.fields, name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	if reached.query != "?a=%20&user=a+n%26n" {
		t.Errorf("query %s", reached.query)
	}
	if all(x.Response.Fields, "Set-Cookie") != "c=3|a=1|b=2" || all(x.Response.Fields, "X-Answer") != "own" {
		t.Errorf("the client is told %v", x.Response.Fields)
	}
	if x.Consumer != "ann" || fmt.Sprint(x.Principal.Groups) != "[a b]" {
		t.Errorf("authenticated as %+v", x.Principal)
	}
}

func TestQueryThatEnds(t *testing.T) {
	address := answers(t, ok(&authv3.OkHttpResponse{QueryParametersToRemove: []string{"token"}}))
	m, _ := newBed(t).build(`{grpc: {address: "` + address + `"}}`)
	for query, want := range map[string]string{"?token=1": "", "": "", "?a;b=%zz&token": "?a;b=%zz", "?": ""} {
		x := asked(t.Context(), "GET /")
		x.Request.Query = query
		if reached, err := serve(m, x); err != nil || reached.query != want {
			t.Errorf("%s became %v, %v", query, reached, err)
		}
	}
}

// TestRefusedByGRPC gives the client what the service answers.
func TestRefusedByGRPC(t *testing.T) {
	for name, test := range map[string]struct {
		answer *authv3.CheckResponse
		status int
		body   string
		fields string
	}{
		"a code alone": {&authv3.CheckResponse{Status: code(codes.PermissionDenied)}, 403, "", ""},
		"another code": {&authv3.CheckResponse{Status: code(codes.Unauthenticated)}, 403, "", ""},
		"a code below": {&authv3.CheckResponse{Status: &status.Status{Code: -1}}, 403, "", ""},
		"nothing else": {no(nil), 403, "", ""},
		"all of it": {no(&authv3.DeniedHttpResponse{
			Status: &typev3.HttpStatus{Code: typev3.StatusCode_Unauthorized}, Body: "who are you",
			Headers: []*corev3.HeaderValueOption{header("www-authenticate", "Bearer"), header("set-cookie", "a=1"), header("set-cookie", "b=2"), header("content-length", "5"), header("x-request-id", "x"), header("bad name", "x"), header("x-bad", "a\r\nb: c")},
		}), 401, "who are you", "www-authenticate: Bearer, set-cookie: a=1, set-cookie: b=2"},
		"a redirect":  {no(&authv3.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: typev3.StatusCode_Found}, Headers: []*corev3.HeaderValueOption{header("location", "https://login.test")}}), 302, "", "location: https://login.test"},
		"no status":   {no(&authv3.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: 999}}), 403, "", ""},
		"101":         {no(&authv3.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: 101}}), 403, "", ""},
		"a long body": {no(&authv3.DeniedHttpResponse{Body: strings.Repeat("x", 65<<10)}), 403, "", ""},
		"no content":  {no(&authv3.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: 204}, Body: "x"}), 204, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := newBed(t).build(`{grpc: {address: "` + answers(t, test.answer) + `"}, on_failure: allow}`)
			x := asked(t.Context(), "GET /")
			reached, err := serve(m, x)
			if err != nil || reached != nil || x.Response.Status != test.status || body(t, x) != test.body {
				t.Fatalf("%v, reached: %v, %+v", err, reached, x.Response)
			}
			var fields []string
			for _, f := range x.Response.Fields {
				fields = append(fields, f.Name+": "+f.Value)
			}
			if got := strings.Join(fields, ", "); got != test.fields {
				t.Errorf("fields %s", got)
			}
			x = asked(t.Context(), "POST /s/m", "Content-Type: application/grpc-web")
			if reached, err = serve(m, x); reached != nil || word(err) != pipeline.Forbidden && word(err) != pipeline.Unauthenticated {
				t.Errorf("a call: %v, reached: %v", err, reached)
			}
		})
	}
}

// TestSenselessAnswers are failures, not decisions.
func TestSenselessAnswers(t *testing.T) {
	for name, answer := range map[string]*authv3.CheckResponse{
		"empty":             {},
		"yes and no":        {Status: code(codes.OK), HttpResponse: no(nil).GetHttpResponse()},
		"no and yes":        {Status: code(codes.PermissionDenied), HttpResponse: ok(nil).GetHttpResponse()},
		"no code, and no":   {HttpResponse: no(nil).GetHttpResponse()},
		"its own failure":   {Status: code(codes.OK), HttpResponse: &authv3.CheckResponse_ErrorResponse{ErrorResponse: &authv3.DeniedHttpResponse{}}},
		"a pseudo-field":    ok(&authv3.OkHttpResponse{Headers: []*corev3.HeaderValueOption{header(":path", "/admin")}}),
		"Host":              ok(&authv3.OkHttpResponse{Headers: []*corev3.HeaderValueOption{header("host", "x")}}),
		"framing":           ok(&authv3.OkHttpResponse{Headers: []*corev3.HeaderValueOption{header("content-length", "5")}}),
		"a second line":     ok(&authv3.OkHttpResponse{Headers: []*corev3.HeaderValueOption{header("x-a", "1\r\nX-B: 2")}}),
		"removes framing":   ok(&authv3.OkHttpResponse{HeadersToRemove: []string{"transfer-encoding"}}),
		"a response's":      ok(&authv3.OkHttpResponse{ResponseHeadersToAdd: []*corev3.HeaderValueOption{header("connection", "close")}}),
		"no header":         ok(&authv3.OkHttpResponse{Headers: []*corev3.HeaderValueOption{{}}}),
		"more than is read": ok(&authv3.OkHttpResponse{Headers: []*corev3.HeaderValueOption{header("x-a", strings.Repeat("x", 200<<10))}}),
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := newBed(t).build(`{grpc: {address: "` + answers(t, answer) + `"}}`)
			if reached, err := serve(m, asked(t.Context(), "GET /")); word(err) != pipeline.AuthUnavailable || reached != nil {
				t.Errorf("%v, reached: %v", err, reached)
			}
		})
	}
}

// TestAllowedWithoutACode is what older services say.
func TestAllowedWithoutACode(t *testing.T) {
	m, _ := newBed(t).build(`{grpc: {address: "` + answers(t, &authv3.CheckResponse{HttpResponse: ok(nil).GetHttpResponse()}) + `"}}`)
	if reached, err := serve(m, asked(t.Context(), "GET /")); err != nil || reached == nil {
		t.Error(err)
	}
}

// TestGRPCThatFails denies, or, if asked, lets pass.
func TestGRPCThatFails(t *testing.T) {
	slow, _ := authorizer(t, "tcp", "127.0.0.1:0", func(ctx context.Context, _ *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	failing, _ := authorizer(t, "tcp", "127.0.0.1:0", func(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		return nil, grpcstatus.Error(codes.PermissionDenied, "not like this")
	})
	another := grpc.NewServer()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = another.Serve(listener)
	}()
	t.Cleanup(func() {
		another.Stop()
		<-over
	})
	for name, address := range map[string]string{
		"gone": "127.0.0.1:1", "slow": slow, "an error": failing, "another service": listener.Addr().String(),
		"not HTTP/2": strings.TrimPrefix(raw(t, "HTTP/1.1 200 OK\r\n\r\n"), "http://"), "no such host": "no.such.host.invalid:80", "no socket": "unix:/no/such/socket",
	} {
		t.Run(name, func(t *testing.T) {
			for failure, want := range map[string]pipeline.Word{"deny": pipeline.AuthUnavailable, "allow": ""} {
				b := newBed(t)
				timeout := "10s"
				if name == "slow" {
					timeout = "50ms"
				}
				m, _ := b.build(`{grpc: {address: "` + address + `", drop_headers: [X-User]}, timeout: ` + timeout + `, on_failure: ` + failure + `}`)
				reached, err := serve(m, asked(t.Context(), "GET /", "X_User: root"))
				if word(err) != want || (reached != nil) != (failure == "allow") || reached != nil && len(reached.fields) > 0 {
					t.Errorf("%s: %v, reached: %v", failure, err, reached)
				}
				if text := b.log.String(); !strings.Contains(text, "an authorization service cannot be asked") || !strings.Contains(text, "requests_pass="+fmt.Sprint(failure == "allow")) {
					t.Errorf("%s: %s", failure, text)
				}
			}
		})
	}
}

// TestClientThatLeavesACall ends the request.
func TestClientThatLeavesACall(t *testing.T) {
	asking, ended := make(chan struct{}), make(chan struct{})
	address, _ := authorizer(t, "tcp", "127.0.0.1:0", func(ctx context.Context, _ *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		close(asking)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	m, _ := newBed(t).build(`{grpc: {address: "` + address + `"}, timeout: 1m}`)
	ctx, leave := context.WithCancelCause(t.Context())
	result := make(chan error)
	go func() {
		_, err := serve(m, asked(ctx, "GET /"))
		result <- err
	}()
	<-asking
	leave(pipeline.ErrClientGone)
	if err := <-result; word(err) != pipeline.ClientClosed {
		t.Error(err)
	}
	<-ended
}

// TestDeadlineOfTheExchange holds if it is earlier than the time-out.
func TestDeadlineOfTheExchange(t *testing.T) {
	address, _ := authorizer(t, "tcp", "127.0.0.1:0", func(ctx context.Context, _ *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	m, _ := newBed(t).build(`{grpc: {address: "` + address + `"}, timeout: 1m}`)
	x := asked(t.Context(), "GET /")
	x.Until = time.Now().Add(50 * time.Millisecond)
	if reached, err := serve(m, x); word(err) != pipeline.AuthUnavailable || reached != nil {
		t.Error(err)
	}
}

// TestServiceThatComesBack is asked again soon after.
func TestServiceThatComesBack(t *testing.T) {
	say := func(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		return &authv3.CheckResponse{Status: code(codes.OK)}, nil
	}
	socket := filepath.Join(t.TempDir(), "s")
	_, stop := authorizer(t, "unix", socket, say)
	m, _ := newBed(t).build(`{grpc: {address: "unix:` + socket + `"}}`)
	if reached, err := serve(m, asked(t.Context(), "GET /")); err != nil || reached == nil {
		t.Fatal(err)
	}
	stop()
	if reached, err := serve(m, asked(t.Context(), "GET /")); word(err) != pipeline.AuthUnavailable || reached != nil {
		t.Fatal(err)
	}
	authorizer(t, "unix", socket, say)
	for deadline := time.Now().Add(30 * time.Second); ; {
		if _, err := serve(m, asked(t.Context(), "GET /")); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("it is not asked again")
		}
	}
}

// TestReloadOfCalls lets a request that is under way end when its configuration is
// released.
func TestReloadOfCalls(t *testing.T) {
	asking, answer := make(chan struct{}), make(chan struct{})
	address, _ := authorizer(t, "tcp", "127.0.0.1:0", func(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		close(asking)
		<-answer
		return &authv3.CheckResponse{Status: code(codes.OK)}, nil
	})
	m, release := newBed(t).build(`{grpc: {address: "` + address + `"}, timeout: 1m}`)
	result := make(chan error)
	go func() {
		_, err := serve(m, asked(context.Background(), "GET /"))
		result <- err
	}()
	<-asking
	release()
	close(answer)
	if err := <-result; err != nil {
		t.Error(err)
	}
}

// TestNeverUsed begins nothing: TestMain looks for what is left of it.
func TestNeverUsed(t *testing.T) {
	newBed(t).build(`{grpc: {address: "127.0.0.1:1"}}`)
}

func TestGRPCOverTLS(t *testing.T) {
	keys := newAuthority(t)
	address, _ := authorizer(t, "tcp", "127.0.0.1:0", func(context.Context, *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		return &authv3.CheckResponse{Status: code(codes.OK)}, nil
	}, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{keys.pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: keys.pool, MinVersion: tls.VersionTLS12})))
	for options, want := range map[string]pipeline.Word{
		`{ca: ` + keys.ca + `, cert: ` + keys.cert + `, key: ` + keys.key + `}`:                          "",
		`{ca: ` + keys.ca + `, cert: ` + keys.cert + `, key: ` + keys.key + `, server_name: auth.test}`:  "",
		`{ca: ` + keys.ca + `, cert: ` + keys.cert + `, key: ` + keys.key + `, server_name: other.test}`: pipeline.AuthUnavailable,
		`{ca: ` + keys.ca + `}`: pipeline.AuthUnavailable,
		`{}`:                    pipeline.AuthUnavailable,
	} {
		m, _ := newBed(t).build(`{grpc: {address: "` + address + `", tls: ` + options + `}, timeout: 10s}`)
		if reached, err := serve(m, asked(t.Context(), "GET /")); word(err) != want || (reached != nil) != (want == "") {
			t.Errorf("%s: %v", options, err)
		}
	}
	m, _ := newBed(t).build(`{grpc: {address: "` + address + `"}, timeout: 10s}`)
	if reached, err := serve(m, asked(t.Context(), "GET /")); word(err) != pipeline.AuthUnavailable || reached != nil {
		t.Errorf("in clear: %v", err)
	}
}
