package external_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"

	"sluice/internal/message"
	"sluice/internal/pipeline"
)

// counting is a service that lets "good" pass, and counts how often it is asked.
func counting(t testing.TB, count *atomic.Int32, more func(h http.Header)) (url string) {
	t.Helper()
	return decider(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-User", fmt.Sprint("u", count.Add(1)))
		if more != nil {
			more(w.Header())
		}
		if r.Header.Get("Authorization") != "good" {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte("no" + strings.Repeat("!", len(w.Header().Get("X-Long")))))
		}
	})
}

// TestCacheOfAllThatIsTold remembers a decision for requests that are alike in all that
// the service is told, and for no others.
func TestCacheOfAllThatIsTold(t *testing.T) {
	var count atomic.Int32
	m, _ := newBed(t).build(`{http: {url: "` + counting(t, &count, nil) + `", request_headers: [X-Tenant], response_headers: [X-User]}, cache: {ttl: 1h}}`)
	ask := func(want string, line string, fields ...string) {
		t.Helper()
		x := asked(t.Context(), line, fields...)
		x.ID = fmt.Sprint(time.Now().UnixNano()) // it is no part of it
		reached, err := serve(m, x)
		switch {
		case err != nil:
			t.Error(err)
		case want == "403":
			if reached != nil || x.Response.Status != 403 || body(t, x) != "no" {
				t.Errorf("%s %q: %+v", line, fields, x.Response)
			}
		case reached == nil || all(reached.fields, "X-User") != want:
			t.Errorf("%s %q: %+v, want %s", line, fields, reached, want)
		}
	}
	ask("u1", "GET /", "Authorization: good")
	ask("u1", "GET /", "authorization: good", "X-Other: 1", "X-User: root")
	ask("403", "GET /", "Authorization: bad")
	ask("403", "GET /", "Authorization: bad")
	ask("403", "GET /")
	ask("403", "GET /", "Authorization: ")
	ask("u5", "POST /", "Authorization: good")
	ask("u6", "GET /x", "Authorization: good")
	ask("u7", "GET /?x", "Authorization: good")
	ask("u8", "GET /", "Authorization: good", "Cookie: a=1")
	ask("u9", "GET /", "Authorization: good", "X-Tenant: 1")
	ask("u10", "GET /", "Authorization: good", "X-Tenant: 1", "X-Tenant: ")
	ask("u11", "GET /", "Authorization: good", "Authorization: good")
	ask("u12", "GET /", "Authorization: good", "X-Forwarded-For: 192.0.2.1")
	ask("u1", "GET /", "Authorization: good")
	if n := count.Load(); n != 12 {
		t.Errorf("asked %d times", n)
	}
}

// TestCacheByKey remembers by what is named.
func TestCacheByKey(t *testing.T) {
	for _, test := range []struct {
		key         string
		same, other []string // requests: a line, then fields
	}{
		{"header:Authorization", []string{"POST /x?y", "Authorization: good", "Cookie: a=1"}, []string{"GET /", "Authorization: good", "Authorization: good"}},
		{"method", []string{"GET /x", "Authorization: good"}, []string{"HEAD /", "Authorization: good"}},
		{"path", []string{"POST /?x", "Authorization: good"}, []string{"GET /x", "Authorization: good"}},
		{"query", []string{"GET /x", "Authorization: good"}, []string{"GET /?x", "Authorization: good"}},
		{"cookie:sid", []string{"GET /", "Authorization: good", "Cookie: x=1"}, []string{"GET /", "Authorization: good", "Cookie: sid="}},
		{"header:X-A, header:X-B", []string{"GET /", "Authorization: good"}, []string{"GET /", "Authorization: good", "X-B: "}},
	} {
		var count atomic.Int32
		m, _ := newBed(t).build(`{http: {url: "` + counting(t, &count, nil) + `"}, cache: {ttl: 1h, key: [` + test.key + `]}}`)
		for i, request := range [][]string{{"GET /", "Authorization: good"}, test.same, test.other} {
			if reached, err := serve(m, asked(t.Context(), request[0], request[1:]...)); err != nil || reached == nil {
				t.Fatal(err)
			}
			if want := int32(1 + i/2); count.Load() != want {
				t.Errorf("%s: after %q asked %d times", test.key, request, count.Load())
			}
		}
	}
	for key, change := range map[string]func(x *pipeline.Exchange){
		"consumer":  func(x *pipeline.Exchange) { x.Consumer = "ann" },
		"client_ip": func(x *pipeline.Exchange) { x.ClientIP = x.ClientIP.Next() },
		"host":      func(x *pipeline.Exchange) { x.Request.Host = "other.test" },
		"route":     func(x *pipeline.Exchange) { other := *x.Route; other.ID = "other"; x.Route = &other },
	} {
		var count atomic.Int32
		m, _ := newBed(t).build(`{http: {url: "` + counting(t, &count, nil) + `"}, cache: {ttl: 1h, key: [` + key + `]}}`)
		for i := range 4 {
			x := asked(t.Context(), "GET /", "Authorization: good")
			if i >= 2 {
				change(x)
			}
			if reached, err := serve(m, x); err != nil || reached == nil {
				t.Fatal(err)
			}
			if want := int32(1 + i/2); count.Load() != want {
				t.Errorf("%s: after %d asked %d times", key, i, count.Load())
			}
		}
	}
}

// TestKeysThatLookAlike are those of which only the borders differ.
func TestKeysThatLookAlike(t *testing.T) {
	var count atomic.Int32
	m, _ := newBed(t).build(`{http: {url: "` + counting(t, &count, nil) + `"}, cache: {ttl: 1h, key: [header:X-A, header:X-B]}}`)
	for i, fields := range [][]string{{"X-A: ab", "X-B: c"}, {"X-A: a", "X-B: bc"}, {"X-A: a", "X-A: b"}, {"X-A: a", "X-B: b"}, {"X-A: a,b"}, {"X-A: a\x00b"}} {
		if reached, err := serve(m, asked(t.Context(), "GET /", append(fields, "Authorization: good")...)); err != nil || reached == nil {
			t.Fatal(err)
		}
		if want := int32(i + 1); count.Load() != want {
			t.Errorf("%q is taken for another", fields)
		}
	}
}

// TestWhatIsNotRemembered is what is meant for one client, or is forbidden to be.
func TestWhatIsNotRemembered(t *testing.T) {
	for name, more := range map[string]func(h http.Header){
		"no-store":            func(h http.Header) { h.Set("Cache-Control", "private, No-Store") },
		"no-cache":            func(h http.Header) { h.Set("Cache-Control", `no-cache="x"`) },
		"a cookie":            func(h http.Header) { h.Set("Set-Cookie", "a=1") },
		"a long body of a no": func(h http.Header) { h.Set("X-Long", strings.Repeat("x", 9<<10)) },
		"a long field":        func(h http.Header) { h.Set("X-Field", strings.Repeat("x", 9<<10)) },
	} {
		for _, authorization := range []string{"good", "bad"} {
			if name == "a long body of a no" && authorization == "good" {
				continue
			}
			var count atomic.Int32
			m, _ := newBed(t).build(`{http: {url: "` + counting(t, &count, more) + `", client_headers: [Set-Cookie], response_headers: [X-Field]}, cache: {ttl: 1h}}`)
			for range 2 {
				if _, err := serve(m, asked(t.Context(), "GET /", "Authorization: "+authorization)); err != nil {
					t.Fatal(err)
				}
			}
			if count.Load() != 2 {
				t.Errorf("%s, %s: asked %d times", name, authorization, count.Load())
			}
		}
	}
	// What the service says of time is no such word: ttl counts.
	var timed atomic.Int32
	m, _ := newBed(t).build(`{http: {url: "` + counting(t, &timed, func(h http.Header) { h.Set("Cache-Control", "private, max-age=0") }) + `"}, cache: {ttl: 1h}}`)
	for range 2 {
		if _, err := serve(m, asked(t.Context(), "GET /")); err != nil {
			t.Fatal(err)
		}
	}
	if timed.Load() != 1 {
		t.Errorf("with max-age asked %d times", timed.Load())
	}
	// Nor is that the service itself fails, whatever the client is told of it.
	var failed atomic.Int32
	broken := decider(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500 + int(failed.Add(1))) })
	kept, _ := newBed(t).build(`{http: {url: "` + broken + `"}, cache: {ttl: 1h}}`)
	for want := 501; want < 504; want++ {
		x := asked(t.Context(), "GET /")
		if reached, err := serve(kept, x); err != nil || reached != nil || x.Response.Status != want {
			t.Errorf("%v, %+v", err, x.Response)
		}
	}
	// Nor is a failure.
	var fails atomic.Bool
	fails.Store(true)
	url := decider(t, func(http.ResponseWriter, *http.Request) {
		if fails.Load() {
			panic(http.ErrAbortHandler)
		}
	})
	m, _ = newBed(t).build(`{http: {url: "` + url + `"}, cache: {ttl: 1h}}`)
	if _, err := serve(m, asked(t.Context(), "GET /")); word(err) != pipeline.AuthUnavailable {
		t.Error(err)
	}
	fails.Store(false)
	if reached, err := serve(m, asked(t.Context(), "GET /")); err != nil || reached == nil {
		t.Error(err)
	}
}

// TestCacheOfCalls remembers by its key; an answer that tells the client something is
// its alone.
func TestCacheOfCalls(t *testing.T) {
	var count atomic.Int32
	address, _ := authorizer(t, "tcp", "127.0.0.1:0", func(_ context.Context, r *authv3.CheckRequest) (*authv3.CheckResponse, error) {
		count.Add(1)
		said := &authv3.OkHttpResponse{Headers: []*corev3.HeaderValueOption{header("x-user", "ann")}}
		switch r.GetAttributes().GetRequest().GetHttp().GetHeaders()["authorization"] {
		case "told":
			said.ResponseHeadersToAdd = []*corev3.HeaderValueOption{header("x-a", "1")}
		case "bad":
			return &authv3.CheckResponse{Status: code(codes.PermissionDenied)}, nil
		case "broken":
			return no(&authv3.DeniedHttpResponse{Status: &typev3.HttpStatus{Code: 503}}), nil
		case "cookie":
			return no(&authv3.DeniedHttpResponse{Headers: []*corev3.HeaderValueOption{header("set-cookie", "a=1")}}), nil
		}
		return ok(said), nil
	})
	m, _ := newBed(t).build(`{grpc: {address: "` + address + `"}, consumer_header: X-User, cache: {ttl: 1h, key: [header:Authorization]}}`)
	for authorization, want := range map[string]int32{"good": 1, "bad": 1, "told": 3, "cookie": 3, "broken": 3} {
		count.Store(0)
		for range 3 {
			x := asked(t.Context(), "GET /", "Authorization: "+authorization)
			reached, err := serve(m, x)
			if passes := authorization == "good" || authorization == "told"; err != nil || (reached != nil) != passes || passes && x.Consumer != "ann" {
				t.Errorf("%s: %v, %+v", authorization, err, reached)
			}
		}
		if count.Load() != want {
			t.Errorf("%s: asked %d times", authorization, count.Load())
		}
	}
}

// TestCacheByEveryCookie: services differ in which of several cookies of a name they take.
func TestCacheByEveryCookie(t *testing.T) {
	var count atomic.Int32
	m, _ := newBed(t).build(`{http: {url: "` + counting(t, &count, nil) + `"}, cache: {ttl: 1h, key: [cookie:sid]}}`)
	for i, cookies := range []string{"sid=1", "sid=1; sid=2", "sid=2; sid=1"} {
		for range 2 {
			if reached, err := serve(m, asked(t.Context(), "GET /", "Authorization: good", "Cookie: "+cookies)); err != nil || reached == nil {
				t.Fatal(err)
			}
		}
		if count.Load() != int32(i+1) {
			t.Errorf("after %s asked %d times", cookies, count.Load())
		}
	}
}

// TestCacheEnds asks again when the time of a decision is over.
func TestCacheEnds(t *testing.T) {
	var count atomic.Int32
	m, _ := newBed(t).build(`{http: {url: "` + counting(t, &count, nil) + `"}, cache: {ttl: 1ms}}`)
	for deadline := time.Now().Add(time.Minute); count.Load() < 3; {
		if reached, err := serve(m, asked(t.Context(), "GET /", "Authorization: good")); err != nil || reached == nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("asked %d times in a minute", count.Load())
		}
	}
}

// TestCacheIsBounded remembers as many as it may.
func TestCacheIsBounded(t *testing.T) {
	var count atomic.Int32
	m, _ := newBed(t).build(`{http: {url: "` + counting(t, &count, nil) + `"}, cache: {ttl: 1h, max_entries: 2}}`)
	ask := func(path string) {
		t.Helper()
		if reached, err := serve(m, asked(t.Context(), "GET /"+path, "Authorization: good")); err != nil || reached == nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"a", "b", "c", "d"} {
		ask(path)
	}
	before := count.Load()
	for _, path := range []string{"a", "b", "c", "d"} {
		ask(path)
	}
	if again := count.Load() - before; again < 2 {
		t.Errorf("%d of 4 were asked about again, and 2 may be remembered", again)
	}
}

// TestCacheOverReloads goes on where nothing changed, and begins anew where the
// settings did.
func TestCacheOverReloads(t *testing.T) {
	var count atomic.Int32
	url := counting(t, &count, nil)
	b := newBed(t)
	for i, test := range []struct {
		ttl  string
		want int32
	}{{"1h", 1}, {"1h", 1}, {"2h", 2}} {
		m, _ := b.build(`{http: {url: "` + url + `"}, cache: {ttl: ` + test.ttl + `}}`)
		if reached, err := serve(m, asked(t.Context(), "GET /", "Authorization: good")); err != nil || reached == nil || count.Load() != test.want {
			t.Errorf("%d: %v, asked %d times", i, err, count.Load())
		}
	}
}

// BenchmarkExternal is what asking costs, and what remembering saves.
func BenchmarkExternal(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-User", "ann") }))
	b.Cleanup(server.Close)
	address := answers(b, &authv3.CheckResponse{Status: code(codes.OK)})
	for name, options := range map[string]string{
		"http":       `{http: {url: "` + server.URL + `", response_headers: [X-User]}}`,
		"http, kept": `{http: {url: "` + server.URL + `", response_headers: [X-User]}, cache: {ttl: 1h}}`,
		"grpc":       `{grpc: {address: "` + address + `"}}`,
		"grpc, kept": `{grpc: {address: "` + address + `"}, cache: {ttl: 1h, key: [header:Authorization]}}`,
	} {
		b.Run(strings.ReplaceAll(name, ", ", "-"), func(b *testing.B) {
			m, _ := newBed(b).build(options)
			h := m(pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
				x.Response = &message.Response{Status: 200}
				return nil
			}))
			x := asked(b.Context(), "GET /", "Authorization: Bearer x", "User-Agent: benchmark", "Accept: */*")
			b.ReportAllocs()
			for b.Loop() {
				if err := h.Serve(x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
