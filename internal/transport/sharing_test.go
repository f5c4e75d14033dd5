package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

func echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Proto", r.Proto)
	w.Header().Set("X-Length", strconv.FormatInt(r.ContentLength, 10))
	_ = http.NewResponseController(w).EnableFullDuplex() // of HTTP/1.1
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush()
	buffer := make([]byte, 8<<10)
	for {
		n, err := r.Body.Read(buffer)
		if n > 0 {
			_, _ = w.Write(buffer[:n])
			_ = http.NewResponseController(w).Flush()
		}
		if err != nil {
			break
		}
	}
	for name, values := range r.Trailer {
		w.Header()[http.TrailerPrefix+name] = values
	}
}

// both runs a test over h2c and h2.
func both(t *testing.T, handler http.Handler, test func(t *bed, upstream *model.Upstream, endpoint model.Endpoint)) {
	t.Helper()
	each(t, func(t *bed) {
		t.Run("h2c", func(t *bed) {
			test(t, &model.Upstream{Protocol: model.UpstreamH2C}, served(t, nil, handler))
		})
		t.Run("h2", func(t *bed) {
			endpoint, trust := secured(t, handler)
			test(t, &model.Upstream{Protocol: model.UpstreamH2, TLS: trust}, endpoint)
		})
	})
}

func TestHTTP2Messages(t *testing.T) {
	var mu sync.Mutex
	var got *http.Request
	handler := func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		got = r.Clone(context.Background())
		mu.Unlock()
		w.Header().Set("X-Answer", "yes")
		w.Header()["Set-Cookie"] = []string{"a=1", "b=2"}
		_, _ = io.WriteString(w, "hello")
	}
	both(t, http.HandlerFunc(handler), func(t *bed, upstream *model.Upstream, endpoint model.Endpoint) {
		transport := reach(t, upstream, endpoint, Observer{})
		for _, path := range []string{"/a/b", "//a//b", "/%2F%20x", "/"} {
			request := get(path)
			request.Query = "?x=%zz&y"
			for name, value := range map[string]string{"X-One": "1", "Cookie": "a=1; b=2", "TE": "trailers, gzip", "Connection": "TE", "User-Agent": "test"} {
				request.Fields.Add(name, value)
			}
			request.Fields.Add("x-one", "2")
			response, body := ask(t, transport, request)
			mu.Lock()
			seen := got
			mu.Unlock()
			if body != "hello" || response.Status != 200 || response.Protocol != message.HTTP2 || response.Length != 5 {
				t.Errorf("got %q, %+v", body, response)
			}
			if cookies := strings.Join(collect(response.Fields, "set-cookie"), " "); cookies != "a=1 b=2" {
				t.Errorf("cookies %q", cookies)
			}
			h := seen.Header
			if seen.Proto != "HTTP/2.0" || seen.Host != "shop.test" || seen.RequestURI != path+"?x=%zz&y" || strings.Join(h["X-One"], " ") != "1 2" ||
				h.Get("Cookie") != "a=1; b=2" || h.Get("Te") != "trailers" || h.Get("User-Agent") != "test" || h["Accept-Encoding"] != nil {
				t.Errorf("%s: the endpoint got %s %s %s %v", path, seen.Proto, seen.Host, seen.RequestURI, h)
			}
		}
		ask(t, transport, get("/"))
		if agent, ok := got.Header["User-Agent"]; ok {
			t.Errorf("the endpoint got User-Agent: %q", agent)
		}
	})
}

func collect(fields message.Fields, name string) (values []string) {
	for value := range fields.Values(name) {
		values = append(values, value)
	}
	return values
}

func TestHTTP2Bodies(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	both(t, http.HandlerFunc(echo), func(t *bed, upstream *model.Upstream, endpoint model.Endpoint) {
		var c counts
		transport := reach(t, upstream, endpoint, c.observer())
		for name, body := range map[string][]byte{"small": []byte("hello"), "pieces": big[:100<<10], "big": big} {
			for _, length := range []int64{int64(len(body)), message.Unknown} {
				request := post(bytes.NewReader(body), length)
				if length < 0 {
					request.Fields.Add("Trailer", "x-sum, Grpc-Status, None")
					request.Trailer = func() message.Fields {
						return message.Fields{{Name: "X-Sum", Value: "42"}, {Name: "Grpc-Status", Value: "0"}}
					}
				}
				response, got := ask(t, transport, request)
				if got != string(body) {
					t.Errorf("%s: got %d bytes", name, len(got))
				}
				if told, _ := response.Fields.Find("X-Length"); told != strconv.FormatInt(length, 10) {
					t.Errorf("%s: the endpoint was told of %s bytes, not %d", name, told, length)
				}
				if length < 0 && fieldText(response.Trailer()) != "Grpc-Status: 0\nX-Sum: 42" {
					t.Errorf("%s: trailer %q", name, fieldText(response.Trailer()))
				}
			}
		}
		ready := get("/")
		ready.Method, ready.Body, ready.Length = "POST", message.Text("there"), 5
		if _, got := ask(t, transport, ready); got != "there" {
			t.Errorf("got %q", got)
		}
		if got := c.String(); got != "opened 1, reused 6, closed 0" {
			t.Error(got)
		}
	})
}

// Both directions go on at once, as long as both want.
func TestHTTP2IsFullDuplex(t *testing.T) {
	both(t, http.HandlerFunc(echo), func(t *bed, upstream *model.Upstream, endpoint model.Endpoint) {
		transport := reach(t, upstream, endpoint, Observer{})
		read, write := io.Pipe()
		request := post(read, message.Unknown)
		request.Body = read
		response, err := trip(t.Context(), transport, request, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 100 {
			text := fmt.Sprintf("message %d", i)
			if _, err := io.WriteString(write, text); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(text))
			if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != text {
				t.Fatalf("got %q, %v", got, err)
			}
		}
		_ = write.Close()
		if rest := drain(t, response); rest != "" {
			t.Errorf("then %q", rest)
		}
	})
}

func TestHTTP2WithoutContent(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Path[1:])
		if status != 204 {
			w.Header().Set("Content-Length", "0")
			if r.Method == "HEAD" || status == 304 {
				w.Header().Set("Content-Length", "1234")
			}
		}
		w.WriteHeader(status)
	}
	both(t, http.HandlerFunc(handler), func(t *bed, upstream *model.Upstream, endpoint model.Endpoint) {
		var c counts
		transport := reach(t, upstream, endpoint, c.observer())
		for _, want := range []struct {
			method, path string
			length       int64
			body         bool
		}{
			{"GET", "/204", message.Unknown, false}, {"GET", "/304", 1234, false}, {"HEAD", "/200", 1234, false}, {"GET", "/200", 0, true}, {"GET", "/599", 0, true},
		} {
			request := get(want.path)
			request.Method = want.method
			response, body := ask(t, transport, request)
			if "/"+itoa(response.Status) != want.path || response.Length != want.length || (response.Body != nil) != want.body || body != "" {
				t.Errorf("%s %s: %+v", want.method, want.path, response)
			}
			if response.Fields.Has(message.ContentLength) {
				t.Errorf("%s %s: %s", want.method, want.path, fieldText(response.Fields))
			}
		}
		if got := c.String(); got != "opened 1, reused 4, closed 0" {
			t.Error(got)
		}
	})
}

func TestHTTP2Informational(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</a>")
		for range 3 {
			w.WriteHeader(http.StatusEarlyHints)
		}
		_, _ = io.Copy(w, r.Body)
	}
	both(t, http.HandlerFunc(handler), func(t *bed, upstream *model.Upstream, endpoint model.Endpoint) {
		transport := reach(t, upstream, endpoint, Observer{})
		var hints []string
		for _, length := range []int64{4, message.Unknown} {
			hints = nil
			response, err := trip(t.Context(), transport, post(strings.NewReader("body"), length), func(status int, fields message.Fields) {
				hints = append(hints, itoa(status)+fieldText(fields))
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(hints, " "); got != "103Link: </a> 103Link: </a> 103Link: </a>" {
				t.Errorf("informed of %q", got)
			}
			if body := drain(t, response); body != "body" {
				t.Errorf("got %q", body)
			}
		}
		if response, body := ask(t, transport, post(strings.NewReader("body"), 4)); body != "body" || response.Status != 200 {
			t.Errorf("got %q", body)
		}
	})
}

// The client's body is not asked for where the endpoint does not want it.
func TestHTTP2ExpectContinue(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = io.Copy(w, r.Body)
	}
	both(t, http.HandlerFunc(handler), func(t *bed, upstream *model.Upstream, endpoint model.Endpoint) {
		transport := reach(t, upstream, endpoint, Observer{})
		for path, want := range map[string]string{"/yes": "body", "/no": ""} {
			asked := new(atomic.Int64)
			request := get(path)
			request.Method, request.Length = "POST", 4
			request.Body = io.NopCloser(counted{strings.NewReader("body"), asked})
			request.Fields.Add("Expect", "100-continue")
			if _, body := ask(t, transport, request); body != want || (asked.Load() > 0) != (want != "") {
				t.Errorf("%s: got %q, %d reads", path, body, asked.Load())
			}
		}
	})
}

type counted struct {
	io.Reader
	reads *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	c.reads.Add(1)
	return c.Reader.Read(p)
}

// held is a handler that answers when it is told to, and counts what it holds.
type held struct {
	now, most, all atomic.Int64
	answer         chan struct{}
}

func newHeld() *held { return &held{answer: make(chan struct{})} }

func (h *held) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := h.now.Add(1)
	h.all.Add(1)
	most := h.most.Load()
	for n > most && !h.most.CompareAndSwap(most, n) {
		most = h.most.Load()
	}
	select {
	case <-h.answer:
	case <-r.Context().Done():
	}
	h.now.Add(-1)
	_, _ = io.WriteString(w, "ok")
}

func TestConnectionsAreShared(t *testing.T) {
	each(t, func(t *bed) {
		for _, c := range []struct {
			pool     model.Pool
			attempts int
			opened   int64
		}{
			{model.Pool{}, 80, 1},
			{model.Pool{MaxStreams: 10}, 80, 8},
			{model.Pool{MaxStreams: 10, MaxConnections: 3, MaxPending: 100}, 80, 3},
		} {
			h := newHeld()
			var n counts
			transport := reach(t, &model.Upstream{Protocol: model.UpstreamH2C, Pool: c.pool}, served(t, nil, h), n.observer())
			var all []<-chan error
			for range c.attempts {
				all = append(all, inBackground(t.Context(), transport, "/"))
			}
			atOnce := int64(c.attempts)
			if c.pool.MaxConnections > 0 {
				atOnce = int64(c.pool.MaxConnections * c.pool.MaxStreams)
			}
			waittest.Until(t, "as many as may be are under way", func() bool { return h.now.Load() == atOnce })
			close(h.answer)
			for _, done := range all {
				answered(t, done)
			}
			if n.opened.Load() != c.opened || h.most.Load() > atOnce {
				t.Errorf("%+v: %s, %d at once", c.pool, &n, h.most.Load())
			}
		}
	})
}

// What the endpoint allows is kept, too, without an error.
func TestEndpointsLimitStreams(t *testing.T) {
	each(t, func(t *bed) {
		for _, pool := range []model.Pool{{}, {MaxConnections: 1, MaxPending: 1000}} {
			h := newHeld()
			close(h.answer)
			endpoint := served(t, nil, h, func(s *http.Server) { s.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: 3} })
			transport := reach(t, &model.Upstream{Protocol: model.UpstreamH2C, Pool: pool}, endpoint, Observer{})
			var all []<-chan error
			for range 30 {
				all = append(all, inBackground(t.Context(), transport, "/"))
			}
			for _, done := range all {
				answered(t, done)
			}
		}
	})
}

func TestTooManyWaitForStreams(t *testing.T) {
	each(t, func(t *bed) {
		h := newHeld()
		pool := model.Pool{MaxStreams: 2, MaxConnections: 1, MaxPending: 2}
		raw := acquired(t, &model.Upstream{Protocol: model.UpstreamH2C, Pool: pool}, served(t, nil, h), Observer{})
		transport := by(t.own, raw)
		var all []<-chan error
		for range 2 {
			all = append(all, inBackground(t.Context(), transport, "/"))
		}
		waittest.Until(t, "both are under way", func() bool { return h.now.Load() == 2 })
		ctx, cancel := context.WithCancelCause(t.Context())
		left := inBackground(ctx, transport, "/")
		cancel(errOver)
		if err := waittest.Receive(t, "the end", left); !errors.Is(err, errOver) {
			t.Errorf("got %v", err)
		}
		w := watch(transport, model.RouteTimeouts{Response: 30 * time.Millisecond})
		w.watch.Sent(time.Now())
		wantError(t, fails(t.Context(), t, w, get("/")), pipeline.UpstreamTimeout)
		for range 2 {
			all = append(all, inBackground(t.Context(), transport, "/"))
		}
		waittest.Until(t, "both wait", func() bool {
			shared, ok := raw.(*sharing)
			if !ok {
				t.Fatalf("it is a %T", raw)
			}
			shared.mu.Lock()
			defer shared.mu.Unlock()
			return len(shared.waiting) == 2
		})
		_, err := trip(t.Context(), transport, get("/"), nil)
		if e := pipeline.AsError(err); e.Word != pipeline.Overloaded || !e.Unsent {
			t.Errorf("got %v", err)
		}
		close(h.answer)
		for _, done := range all {
			answered(t, done)
		}
	})
}
