package transport

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/internal/certtest"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/netloop"
	"sluice/internal/pipeline"
	"sluice/internal/sockettest"
	"sluice/internal/waittest"
)

// chaoticHandler is chaotic, for net/http's server.
func chaoticHandler(t testing.TB) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		if rand.IntN(8) == 0 {
			panic(http.ErrAbortHandler)
		}
		sum := crc32.NewIEEE()
		if rand.IntN(6) > 0 {
			if _, err := io.Copy(sum, r.Body); err != nil {
				return
			}
			if want := r.Header.Get("Sum"); want != "" && want != strconv.Itoa(int(sum.Sum32())) {
				t.Errorf("a body came otherwise than it was sent: %v", r.Header)
			}
		}
		body := noise(rand.IntN(100 << 10))
		w.Header().Set("Sum", strconv.Itoa(int(crc32.ChecksumIEEE([]byte(body)))))
		if rand.IntN(2) == 0 {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		for rest := body; rest != ""; {
			n := min(len(rest), 1+rand.IntN(20<<10))
			_, _ = io.WriteString(w, rest[:n])
			if rest = rest[n:]; rand.IntN(30) == 0 {
				panic(http.ErrAbortHandler)
			}
			_ = http.NewResponseController(w).Flush()
		}
		if rand.IntN(40) == 0 {
			w.Header().Set("Connection", "close") // GOAWAY
		}
	}
}

// Bodies go both ways over connections that are shared, while both sides give up
// at random; none has a byte of another.
func TestChaosOverSharedConnections(t *testing.T) {
	each(t, func(t *bed) {
		endpoint, trust := secured(t, chaoticHandler(t))
		for _, protocol := range []string{model.UpstreamH2, model.UpstreamAuto} {
			var c counts
			upstream := &model.Upstream{Protocol: protocol, TLS: trust, Pool: model.Pool{MaxStreams: 5, MaxConnections: 3, MaxPending: 100}}
			transport := reach(t, upstream, endpoint, c.observer())
			var wait sync.WaitGroup
			for i := range 16 {
				wait.Go(func() {
					random := rand.New(rand.NewPCG(2, uint64(i)))
					for range 40 {
						disturbed(t, transport, random)
					}
				})
			}
			wait.Wait()
			release(transport)
			waittest.Until(t, "all connections are closed", func() bool { return c.closed.Load() == c.opened.Load() })
		}
	})
}

// A panic of what an attempt calls goes on where it can, and leaves nothing.
func TestPanicsOverHTTP2(t *testing.T) {
	endpoint := served(t, nil, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			w.WriteHeader(http.StatusEarlyHints)
			_, _ = io.Copy(io.Discard, r.Body)
		}
		_, _ = io.WriteString(w, "ok")
	}))
	for name, c := range map[string]struct {
		body   func() io.Reader
		says   int
		inform bool
	}{
		"in a body that is there":                {func() io.Reader { return readerFunc(func([]byte) (int, error) { panic("a body") }) }, 5, false},
		"in an informer":                         {func() io.Reader { return strings.NewReader("hello") }, 5, true},
		"in an informer, while the body is sent": {func() io.Reader { return readerFunc(func(p []byte) (int, error) { return copy(p, "x"), nil }) }, 0, true},
	} {
		each(t, func(t *bed) {
			pool, ok := acquired(t, &model.Upstream{Protocol: model.UpstreamH2C}, endpoint, Observer{}).(*sharing)
			if !ok {
				t.Fatal("it is another transport")
			}
			ctx, run := t.Context(), func(f func()) { f() }
			body := &readyNoted{closeNoted: closeNoted{Reader: c.body()}, says: c.says}
			request := get("/")
			request.Method, request.Body, request.Length = "POST", body, 5
			if c.says == 0 {
				request.Length = message.Unknown
			}
			if t.own != nil {
				own := new(netloop.Context)
				own.Init(t.own)
				ctx, run = context.Context(own), func(f func()) { do(t.own, f) }
				request.Body = &taskBody{executor: t.own, source: body}
			}
			try := &pipeline.Attempt{Request: request}
			if c.inform {
				try.Informer = informer(func(int, message.Fields) { panic("an informer") })
			}
			var panicked atomic.Bool
			run(func() {
				defer func() { panicked.Store(recover() != nil) }()
				_ = pool.RoundTrip(ctx, try)
			})
			if !panicked.Load() {
				t.Errorf("%s: the panic was swallowed", name)
			}
			waittest.Until(t, name+": the body is closed", body.closed.Load)
			waittest.Until(t, name+": the stream is free", func() bool {
				pool.mu.Lock()
				defer pool.mu.Unlock()
				return len(pool.sessions) == 0 || pool.sessions[0].streams == 0
			})
			run(func() {
				next := &pipeline.Attempt{Request: get("/")}
				if err := pool.RoundTrip(ctx, next); err != nil {
					t.Errorf("%s: then got %v", name, err)
					return
				}
				if text, err := io.ReadAll(next.Response.Body); string(text) != "ok" || err != nil {
					t.Errorf("%s: then got %q and %v", name, text, err)
				}
			})
		})
	}
}

// Real servers: nginx over TLS by both protocols, nghttpd in clear.
func TestRealServers(t *testing.T) {
	a := certtest.Authority(t, "authority")
	cert, key := a.Issue("127.0.0.1").Write(t.TempDir(), "own")
	dir, port, clear2 := t.TempDir(), sockettest.FreePort(t, "127.0.0.1"), sockettest.FreePort(t, "127.0.0.1")
	page := noise(300 << 10)
	write(t, filepath.Join(dir, "page"), []byte(page))
	nginx := "master_process off; daemon off; error_log stderr; pid nginx.pid;\nevents {}\nhttp { access_log off; client_body_temp_path body; client_max_body_size 10m;\n" +
		"proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;\n" +
		fmt.Sprintf("server { listen 127.0.0.1:%s ssl http2; ssl_certificate %s; ssl_certificate_key %s;\n", port, cert, key) +
		fmt.Sprintf("root %s; location = /post { return 200 \"$request_method $content_length $server_protocol\"; } } }\n", dir)
	config := write(t, filepath.Join(dir, "nginx.conf"), []byte(nginx))
	run(t, "nginx", "-p", dir, "-c", config)
	listens(t, port)
	_, err := exec.LookPath("nghttpd")
	if err == nil {
		run(t, "nghttpd", "--no-tls", "-d", dir, clear2)
		listens(t, clear2)
	}
	each(t, func(t *bed) {
		for _, protocol := range []string{model.UpstreamHTTP1, model.UpstreamH2, model.UpstreamAuto, model.UpstreamH2C} {
			target := at("https", port)
			if protocol == model.UpstreamH2C {
				if err != nil {
					continue // run skips where nginx is not there; this one is extra
				}
				target = at("http", clear2)
			}
			var c counts
			transport := reach(t, &model.Upstream{Protocol: protocol, TLS: &model.ClientTLS{CA: a.CertFile()}}, target, c.observer())
			for range 3 {
				if response, body := ask(t, transport, get("/page")); body != page || response.Status != 200 {
					t.Errorf("%s: %d bytes, status %d", protocol, len(body), response.Status)
				}
			}
			head := get("/page")
			head.Method = "HEAD"
			if response, _ := ask(t, transport, head); response.Length != int64(len(page)) {
				t.Errorf("%s: HEAD tells %d", protocol, response.Length)
			}
			if response, _ := ask(t, transport, get("/none")); response.Status != 404 {
				t.Errorf("%s: status %d", protocol, response.Status)
			}
			if protocol == model.UpstreamHTTP1 || protocol == model.UpstreamH2 {
				want := map[string]string{model.UpstreamHTTP1: "POST 5 HTTP/1.1", model.UpstreamH2: "POST 5 HTTP/2.0"}[protocol]
				request := post(strings.NewReader("hello"), 5)
				request.Path = "/post"
				if _, body := ask(t, transport, request); body != want {
					t.Errorf("%s: got %q", protocol, body)
				}
				if c.opened.Load() != 1 {
					t.Errorf("%s: %s", protocol, &c)
				}
			}
		}
	})
}
