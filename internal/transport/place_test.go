package transport

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/waittest"
)

// Whatever becomes of an attempt, it gives its place back: more of them than
// there are places pass, one by one and all at once.
func TestPlacesComeBack(t *testing.T) {
	each(t, func(t *bed) {
		serving := func(t testing.TB, handler http.HandlerFunc) model.Endpoint {
			t.Helper()
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			address := server.Listener.Addr().String()
			return model.Endpoint{URL: server.URL, Address: address, Host: address, Weight: 1}
		}
		plain := func(t testing.TB) model.Endpoint {
			t.Helper()
			return serving(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				switch r.URL.Path {
				case "/none":
					w.WriteHeader(http.StatusNoContent)
				case "/same":
					w.WriteHeader(http.StatusNotModified)
				case "/chunks":
					_, _ = io.WriteString(w, "ok")
					w.(http.Flusher).Flush()
				default:
					_, _ = io.WriteString(w, "ok")
				}
			})
		}
		raw := func(text string, after func(p *peer)) func(testing.TB) model.Endpoint {
			return func(t testing.TB) model.Endpoint {
				t.Helper()
				return scripted(t, func(p *peer) {
					for p.head() != "" {
						p.say(text)
						if after != nil {
							after(p)
							return
						}
					}
				})
			}
		}
		hang := func(p *peer) { _, _ = p.Peek(1) }
		leave := func(*peer) {}
		for name, test := range map[string]struct {
			endpoint func(testing.TB) model.Endpoint
			request  func() *message.Request
			use      func(*message.Response, context.CancelCauseFunc) // nil: read it to its end
			fails    bool
			left     bool // by the client, before the head
		}{
			"a body":                     {endpoint: plain},
			"chunks":                     {endpoint: plain, request: func() *message.Request { return get("/chunks") }},
			"HEAD":                       {endpoint: plain, request: func() *message.Request { r := get("/"); r.Method = "HEAD"; return r }},
			"204":                        {endpoint: plain, request: func() *message.Request { return get("/none") }},
			"304":                        {endpoint: plain, request: func() *message.Request { return get("/same") }},
			"POST":                       {endpoint: plain, request: func() *message.Request { return post(strings.NewReader("x"), message.Unknown) }},
			"raw: a body":                {endpoint: raw(ok, nil)},
			"raw: none":                  {endpoint: raw("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", nil)},
			"raw: 204 with chunks":       {endpoint: raw("HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", nil)},
			"raw: until the end":         {endpoint: raw("HTTP/1.1 200 OK\r\n\r\nok", leave)},
			"raw: closed after it":       {endpoint: raw(ok, leave)},
			"raw: Connection: close":     {endpoint: raw(strings.Replace(ok, "\r\n", "\r\nConnection: close\r\n", 1), leave)},
			"raw: HTTP/1.0":              {endpoint: raw("HTTP/1.0 200 OK\r\n\r\nok", leave)},
			"raw: no HTTP":               {endpoint: raw("SSH-2.0-x\r\n\r\n", hang), fails: true},
			"raw: a bad field":           {endpoint: raw("HTTP/1.1 200 OK\r\nA b: c\r\n\r\n", hang), fails: true},
			"raw: a bad status":          {endpoint: raw("HTTP/1.1 700 X\r\nContent-Length: 0\r\n\r\n", hang), fails: true},
			"raw: no answer":             {endpoint: raw("", leave), fails: true},
			"raw: 101 unasked":           {endpoint: raw("HTTP/1.1 101 X\r\n\r\n", hang), fails: true},
			"the response dropped":       {endpoint: raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", hang), use: func(r *message.Response, _ context.CancelCauseFunc) { _ = r.Close() }},
			"the client gone in a body":  {endpoint: raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", hang), use: func(r *message.Response, cancel context.CancelCauseFunc) { cancel(errOver); _, _ = io.ReadAll(r.Body) }},
			"the client gone before":     {endpoint: raw("", hang), fails: true, left: true},
			"a body that is too short":   {endpoint: raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", leave), use: func(r *message.Response, _ context.CancelCauseFunc) { _, _ = io.ReadAll(r.Body) }},
			"a tunnel":                   {endpoint: raw(switching, hang), request: asksUpgrade, use: func(r *message.Response, _ context.CancelCauseFunc) { _ = r.Close() }},
			"a tunnel whose client left": {endpoint: raw(switching, hang), request: asksUpgrade, use: func(r *message.Response, cancel context.CancelCauseFunc) { cancel(errOver); _ = r.Close() }},
			"a body that cannot be read": {endpoint: plain, request: func() *message.Request { return post(&broken{}, 5) }, fails: true},
			"nobody there":               {endpoint: refusing, fails: true},
		} {
			t.Run(name, func(t *bed) {
				for _, places := range []int{1, 2, 3} {
					transport := open(t, test.endpoint(t), setup{pool: model.Pool{MaxConnections: places, MaxPending: 100}})
					one := func() {
						ctx, cancel := context.WithCancelCause(t.Context())
						defer cancel(nil)
						if test.left {
							time.AfterFunc(5*time.Millisecond, func() { cancel(errOver) })
						}
						request := get("/")
						if test.request != nil {
							request = test.request()
						}
						response, err := trip(ctx, transport, request, nil)
						switch {
						case (err != nil) != test.fails:
							t.Errorf("got %v", err)
						case err != nil:
						case test.use != nil:
							test.use(response, cancel)
							_ = response.Close()
						case response.Body != nil:
							if _, err := io.ReadAll(response.Body); err != nil {
								t.Error(err)
							}
							_ = response.Close()
						}
					}
					for range places + 2 {
						waittest.Receive(t, "an attempt alone", inTurn(one))
					}
					var together []<-chan struct{}
					for range 3 * places {
						together = append(together, inTurn(one))
					}
					for _, done := range together {
						waittest.Receive(t, "an attempt among others", done)
					}
					waittest.Until(t, "all places come back", func() bool { return transport.places() == 0 })
				}
			})
		}
	})
}

func inTurn(do func()) <-chan struct{} {
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	return done
}

func asksUpgrade() *message.Request {
	r := get("/")
	r.Fields.Add("Connection", "Upgrade")
	r.Fields.Add("Upgrade", "echo")
	return r
}

type broken struct{}

func (*broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// refusing is an endpoint that takes no connections.
func refusing(t testing.TB) model.Endpoint {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return model.Endpoint{URL: "http://x", Address: listener.Addr().String(), Host: "x"}
}
