package external_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// decider starts a service that decides by HTTP.
func decider(t testing.TB, decide http.HandlerFunc) (url string) {
	t.Helper()
	server := httptest.NewServer(decide)
	t.Cleanup(server.Close)
	return server.URL
}

// raw starts a service that answers each connection with bytes, and closes it.
func raw(t testing.TB, answer string) (url string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var over sync.WaitGroup
	over.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			buffer := make([]byte, 4096)
			_, _ = conn.Read(buffer)
			_, _ = conn.Write([]byte(answer))
			_ = conn.Close()
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		over.Wait()
	})
	return "http://" + listener.Addr().String()
}

// TestQuestionByHTTP tells the service the truth about the request.
func TestQuestionByHTTP(t *testing.T) {
	var got atomic.Pointer[http.Request]
	url := decider(t, func(_ http.ResponseWriter, r *http.Request) { got.Store(r) })
	m, _ := newBed(t).build(`{http: {url: "` + url + `/check?a=b", request_headers: [X-Tenant, User-Agent]}}`)
	x := asked(t.Context(), "POST /users/1?x=%20y", "Authorization: one", "authorization: two", "Cookie: a=1", "X-Tenant: t1", "User-Agent: curl",
		"X-Secret: no", "X-Forwarded-For: 192.0.2.1, 192.0.2.2", "X-Forwarded-Method: GET", "X-Forwarded-Uri: /public", "Connection: close", "Content-Type: text/plain")
	x.Request.Body, x.Request.Length = message.Text("hello"), 5
	if reached, err := serve(m, x); err != nil || reached == nil {
		t.Fatal(err)
	}
	r := got.Load()
	for name, want := range map[string]string{
		"X-Forwarded-Method": "POST", "X-Forwarded-Uri": "/users/1?x=%20y", "X-Forwarded-Host": "api.example.com", "X-Forwarded-Proto": "https",
		"X-Forwarded-For": "192.0.2.1, 192.0.2.2, 10.1.2.3", "X-Real-Ip": "10.1.2.3", "X-Request-Id": "id-1", "Authorization": "one|two", "Cookie": "a=1",
		"X-Tenant": "t1", "User-Agent": "curl", "X-Secret": "", "Content-Type": "", "Connection": "", "Content-Length": "", "Transfer-Encoding": "",
	} {
		if value := strings.Join(r.Header.Values(name), "|"); value != want {
			t.Errorf("%s: %q, want %q", name, value, want)
		}
	}
	if r.Method != "GET" || r.URL.String() != "/check?a=b" || r.Host != strings.TrimPrefix(url, "http://") {
		t.Errorf("%s %s of %s", r.Method, r.URL, r.Host)
	}
	if x.Request.Body == nil || body(t, &pipeline.Exchange{Response: &message.Response{Body: x.Request.Body}}) != "hello" {
		t.Error("the body did not pass")
	}
}

// TestAllowedByHTTP hands on what the service says, and nothing that the client says in
// its place.
func TestAllowedByHTTP(t *testing.T) {
	for _, test := range []struct {
		name    string
		status  int
		answer  map[string]string
		client  []string
		want    map[string]string // fields that reach the upstream
		who     string
		session string // what the client is told
	}{
		{"forged and told", 200, map[string]string{"X-User": "ann"}, []string{"X-User: root", "x-user: root2", "X_User: root3", "x_uSER: root4"}, map[string]string{"X-User": "ann", "X_User": "none"}, "ann", "none"},
		{"forged and not told", 200, nil, []string{"X-User: root", "X_User: root", "X-Groups: admin", "X-Role: admin"}, map[string]string{"X-User": "none", "X_User": "none", "X-Groups": "none", "X-Role": "none"}, "", "none"},
		{"another 2xx", 204, map[string]string{"X-User": "ann", "X-Groups": "a, b,,c"}, nil, map[string]string{"X-User": "ann", "X-Groups": "none"}, "ann [a b c]", "none"},
		{"fields that were not asked for", 202, map[string]string{"X-Other": "1", "Set-Cookie": "s=1"}, []string{"X-Other: 2"}, map[string]string{"X-Other": "2", "Set-Cookie": "none"}, "", "s=1"},
		{"groups alone", 200, map[string]string{"X-Groups": "admin"}, nil, nil, " [admin]", "none"},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := decider(t, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range test.answer {
					w.Header().Set(name, value)
				}
				w.WriteHeader(test.status)
			})
			m, _ := newBed(t).build(`{http: {url: "` + url + `", response_headers: [X-User, X-Role], client_headers: [Set-Cookie]}, consumer_header: X-User, groups_header: X-Groups}`)
			x := asked(t.Context(), "GET /", append(test.client, "X-Kept: yes")...)
			x.Request.Trailer = func() message.Fields {
				return message.Fields{{Name: "X_User", Value: "root"}, {Name: "X-Sum", Value: "1"}}
			}
			reached, err := serve(m, x, "X-Answer: 1")
			if err != nil || reached == nil {
				t.Fatal(err)
			}
			for name, want := range test.want {
				if got := all(reached.fields, name); got != want {
					t.Errorf("%s reaches the upstream as %s", name, got)
				}
			}
			if all(reached.fields, "X-Kept") != "yes" || all(x.Response.Fields, "X-Answer") != "1" || all(x.Response.Fields, "Set-Cookie") != test.session {
				t.Errorf("%v, %v", reached.fields, x.Response.Fields)
			}
			if behind := x.Request.Trailer(); len(behind) != 1 || behind[0].Name != "X-Sum" {
				t.Errorf("the trailer has %v", behind)
			}
			who := ""
			if x.Principal != nil {
				who = strings.TrimSuffix(fmt.Sprint(x.Principal.Name, " ", x.Principal.Groups), " []")
			}
			if who != test.who || x.Principal != nil && x.Consumer != x.Principal.Name {
				t.Errorf("authenticated as %q", who)
			}
		})
	}
}

// TestNamesThatAreNone: who has no name that could be logged has none.
func TestNamesThatAreNone(t *testing.T) {
	for _, header := range []string{"X-User", "X-Groups"} {
		var count atomic.Int32
		url := counting(t, &count, func(h http.Header) { h.Set(header, strings.Repeat("a", pipeline.LongestName+1)) })
		m, _ := newBed(t).build(`{http: {url: "` + url + `"}, consumer_header: X-User, groups_header: X-Groups}`)
		x := asked(t.Context(), "GET /", "Authorization: good")
		if reached, err := serve(m, x); word(err) != pipeline.AuthUnavailable || reached != nil || x.Principal != nil {
			t.Errorf("%s: %v, reached: %v", header, err, reached)
		}
	}
}

// TestNamesThatAreSeveral: where the service names two, an upstream might take the other;
// and bytes that are no text stay out of the log.
func TestNamesThatAreSeveral(t *testing.T) {
	for _, names := range [][]string{{"ann", "root"}, {"\xff"}} {
		url := decider(t, func(w http.ResponseWriter, _ *http.Request) { w.Header()["X-User"] = names })
		m, _ := newBed(t).build(`{http: {url: "` + url + `", response_headers: [X-User]}, consumer_header: X-User, on_failure: deny}`)
		x := asked(t.Context(), "GET /")
		if reached, err := serve(m, x); word(err) != pipeline.AuthUnavailable || reached != nil || x.Consumer != "" {
			t.Errorf("%q: %v, reached: %v", names, err, reached)
		}
	}
}

// TestCallWithoutTime: a client that gives no time for a decision is not let through
// because there is none.
func TestCallWithoutTime(t *testing.T) {
	var count atomic.Int32
	m, _ := newBed(t).build(`{http: {url: "` + counting(t, &count, nil) + `"}, on_failure: allow}`)
	x := asked(t.Context(), "POST /", "Authorization: bad")
	x.Until = time.Now().Add(-time.Millisecond)
	if reached, err := serve(m, x); word(err) != pipeline.AuthUnavailable || reached != nil {
		t.Errorf("%v, reached: %v", err, reached)
	}
}

// TestClientFieldsOnErrors are told although the destination failed.
func TestClientFieldsOnErrors(t *testing.T) {
	url := decider(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Set-Cookie", "s=1") })
	m, _ := newBed(t).build(`{http: {url: "` + url + `", client_headers: [Set-Cookie]}}`)
	err := m(pipeline.HandlerFunc(func(*pipeline.Exchange) error { return pipeline.NewError(pipeline.UpstreamConnect, nil) })).Serve(asked(t.Context(), "GET /"))
	if e := pipeline.AsError(err); e.Word != pipeline.UpstreamConnect || e.Fields.Get(message.SetCookie) != "s=1" {
		t.Errorf("%v with %v", err, e.Fields)
	}
}

// TestRefusedByHTTP gives the client what the service answers.
func TestRefusedByHTTP(t *testing.T) {
	for _, test := range []struct {
		name   string
		decide http.HandlerFunc
		status int
		body   string
		fields map[string]string
	}{
		{"401", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Www-Authenticate", "Basic realm=x")
			w.Header().Set("X-Request-Id", "other")
			w.Header().Set("Alt-Svc", "h3")
			http.Error(w, "who are you", http.StatusUnauthorized)
		}, 401, "who are you\n", map[string]string{"WWW-Authenticate": "Basic realm=x", "Content-Type": "text/plain; charset=utf-8", "X-Request-ID": "none", "Alt-Svc": "none", "Content-Length": "none"}},
		{"403", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(403) }, 403, "", nil},
		{"a redirect to a login", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Add("Set-Cookie", "a=1")
			w.Header().Add("Set-Cookie", "b=2")
			http.Redirect(w, r, "https://login.test/?rd=x", http.StatusFound)
		}, 302, "<a href=\"https://login.test/?rd=x\">Found</a>.\n\n", map[string]string{"Location": "https://login.test/?rd=x", "Set-Cookie": "a=1|b=2"}},
		{"500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, 500, "", nil},
		{"304", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304) }, 304, "", nil},
		{"hop-by-hop", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "X-Hop")
			w.Header().Set("X-Hop", "1")
			w.Header().Set("Keep-Alive", "5")
			w.WriteHeader(403)
		}, 403, "", map[string]string{"X-Hop": "none", "Connection": "none", "Keep-Alive": "none"}},
		{"compressed", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(403)
			_, _ = w.Write([]byte("not really"))
		}, 403, "not really", map[string]string{"Content-Encoding": "gzip"}},
		{"a body that is too long", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			w.WriteHeader(401)
			_, _ = w.Write(make([]byte, 65<<10))
		}, 401, "", map[string]string{"Content-Encoding": "none"}},
		{"a body that breaks off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(403)
			_, _ = w.Write([]byte("half"))
		}, 403, "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			url := decider(t, test.decide)
			for _, failure := range []string{"deny", "allow"} { // a refusal is no failure
				m, _ := newBed(t).build(`{http: {url: "` + url + `"}, on_failure: ` + failure + `}`)
				x := asked(t.Context(), "GET /")
				reached, err := serve(m, x)
				if err != nil || reached != nil || x.Response.Status != test.status {
					t.Fatalf("%v, reached: %v, %+v", err, reached, x.Response)
				}
				noted := map[int]pipeline.Word{401: pipeline.Unauthenticated, 403: pipeline.Forbidden, 500: pipeline.AuthUnavailable}[test.status]
				if noted == "" && x.Err != nil || noted != "" && (x.Err == nil || x.Err.Word != noted) {
					t.Errorf("the log has the error %v", x.Err)
				}
				if got := body(t, x); got != test.body {
					t.Errorf("body %q", got)
				}
				for name, want := range test.fields {
					if got := all(x.Response.Fields, name); got != want {
						t.Errorf("%s: %s", name, got)
					}
				}
			}
		})
	}
}

// TestRefusedCall tells a call of gRPC by the word.
func TestRefusedCall(t *testing.T) {
	for status, want := range map[int]pipeline.Word{401: pipeline.Unauthenticated, 403: pipeline.Forbidden, 302: pipeline.Forbidden, 500: pipeline.AuthUnavailable} {
		url := decider(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Www-Authenticate", "Bearer")
			w.WriteHeader(status)
		})
		m, _ := newBed(t).build(`{http: {url: "` + url + `"}}`)
		x := asked(t.Context(), "POST /pkg.Service/Method", "Content-Type: application/grpc")
		reached, err := serve(m, x)
		if word(err) != want || reached != nil || x.Response != nil {
			t.Errorf("%d: %v, reached: %v", status, err, reached)
		}
		if e := pipeline.AsError(err); e.Fields.Get(message.WWWAuthenticate) != "Bearer" {
			t.Errorf("%d: %v", status, e.Fields)
		}
	}
}

// TestServiceThatFails denies, or, if asked, lets pass without what it would have said.
func TestServiceThatFails(t *testing.T) {
	gone := "http://127.0.0.1:1"
	slow := make(chan struct{})
	for name, url := range map[string]string{
		"gone":        gone,
		"slow":        decider(t, func(_ http.ResponseWriter, r *http.Request) { <-slow }),
		"silent":      raw(t, ""),
		"garbage":     raw(t, "\x16\x03\x01 hello\r\n\r\n"),
		"half":        raw(t, "HTTP/1.1 200 OK\r\nX-User: ann\r\n"),
		"101":         raw(t, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"),
		"a huge head": raw(t, "HTTP/1.1 200 OK\r\nX-User: "+strings.Repeat("a", 100<<10)+"\r\n\r\n"),
		"600":         raw(t, "HTTP/1.1 600 What\r\nContent-Length: 0\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			timeout := "10s"
			if name == "slow" {
				timeout = "50ms"
			}
			m, _ := b.build(`{http: {url: "` + url + `/check?key=s3cret"}, timeout: ` + timeout + `}`)
			x := asked(t.Context(), "GET /", "Authorization: Bearer t0ken")
			reached, err := serve(m, x)
			e := pipeline.AsError(err)
			if word(err) != pipeline.AuthUnavailable || e.Status != 503 || reached != nil || x.Response != nil {
				t.Errorf("%v, reached: %v", err, reached)
			}
			if _, again := serve(m, asked(t.Context(), "GET /")); word(again) != pipeline.AuthUnavailable { // it is not logged again so soon
				t.Error(again)
			}
			if text := b.log.String() + err.Error(); strings.Contains(text, "s3cret") || strings.Contains(text, "t0ken") || strings.Count(text, "an authorization service cannot be asked") != 1 {
				t.Error(text)
			}
			m, _ = b.build(`{http: {url: "` + url + `", response_headers: [X-User]}, timeout: ` + timeout + `, on_failure: allow, consumer_header: X-Name}`)
			x = asked(t.Context(), "GET /", "X-User: root", "X-Name: root", "X_Name: root")
			reached, err = serve(m, x)
			if err != nil || reached == nil || len(reached.fields) != 0 || x.Principal != nil {
				t.Errorf("%v, reached: %v", err, reached)
			}
		})
	}
	close(slow)
}

// TestClientThatLeaves ends the request.
func TestClientThatLeaves(t *testing.T) {
	asking, ended := make(chan struct{}), make(chan struct{})
	url := decider(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asking)
		<-r.Context().Done()
		close(ended)
	})
	b := newBed(t)
	m, _ := b.build(`{http: {url: "` + url + `"}, timeout: 1m, on_failure: allow}`)
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
	if text := b.log.String(); text != "" {
		t.Error(text)
	}
}

// TestForwardedByOthers: what a proxy in front has told of the host and the scheme is told
// on, as it is to upstreams.
func TestForwardedByOthers(t *testing.T) {
	url := decider(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Forwarded-Host") != "shop.example.com" || r.Header.Get("X-Forwarded-Proto") != "http" {
			w.WriteHeader(http.StatusForbidden)
		}
	})
	m, _ := newBed(t).build(`{http: {url: "` + url + `"}}`)
	x := asked(t.Context(), "GET /", "X-Forwarded-Host: shop.example.com", "X-Forwarded-Proto: http")
	if reached, err := serve(m, x); err != nil || reached == nil {
		t.Errorf("%v, %+v", err, x.Response)
	}
}

// TestReload keeps the connection to a service, whatever else changes, and closes it
// with the last one who asks.
func TestReload(t *testing.T) {
	var connections atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	closed := make(chan struct{}, 8)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			connections.Add(1)
		case http.StateClosed:
			closed <- struct{}{}
		default:
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	b := newBed(t)
	options := `{http: {url: "` + server.URL + `"}}`
	before, releaseBefore := b.build(options)
	for range 3 {
		if reached, err := serve(before, asked(t.Context(), "GET /")); err != nil || reached == nil {
			t.Fatal(err)
		}
	}
	after, releaseAfter := b.build(`{http: {url: "` + server.URL + `", request_headers: [X-A], response_headers: [X-B]}, on_failure: allow}`)
	releaseBefore()
	if reached, err := serve(after, asked(t.Context(), "GET /")); err != nil || reached == nil {
		t.Fatal(err)
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	releaseAfter()
	<-closed
	// An exchange of the old configuration may come late; its connection does not stay.
	if reached, err := serve(after, asked(t.Context(), "GET /")); err != nil || reached == nil {
		t.Fatal(err)
	}
	<-closed
}
