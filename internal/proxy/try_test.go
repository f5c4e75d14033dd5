package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"sluice/internal/model"
)

// trying bounds each try; nothing but its end is repeated.
func trying(d time.Duration) func(r *model.Retry) {
	return func(r *model.Retry) { r.PerTry, r.On = d, model.RetryOn{} }
}

// TestTryThatHangs is ended, over real connections, whatever part of the request the
// endpoint has taken, and its connection with it.
func TestTryThatHangs(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		want    string
	}{
		"GET":                 {requestOf("GET", ""), ""},
		"PUT":                 {requestOf("PUT", "hello"), "hello"},
		"PUT, chunked":        {"PUT" + asking + "Transfer-Encoding: chunked\r\n\r\n" + chunks("hello", ""), "hello"},
		"PUT, held back":      {requestOf("PUT", "hello", "Expect: 100-continue"), "hello"},
		"PUT, large":          {requestOf("PUT", strings.Repeat("x", 64<<10)), strings.Repeat("x", 64<<10)},
		"PUT, the body later": {"PUT" + asking + "Content-Length: 5\r\n\r\n", "hello"},
	} {
		onEach(t, func(t *testing.T, way string) {
			t.Helper()
			t.Run(name, func(t *testing.T) {
				ended := make(chan bool, 10)
				hanging := scripted(t, func(p *peer) {
					p.until("never")
					ended <- true
				})
				second := scripted(t, func(p *peer) {
					head := p.head()
					if strings.Contains(head, "chunked") {
						p.say(say("200 OK", unchunked(p)))
						return
					}
					if strings.Contains(head, "Expect") {
						p.say("HTTP/1.1 100 Continue\r\n\r\n")
					}
					p.say(say("200 OK", p.body(head)))
				})
				f := serve(t, way, retrying(trying(100*time.Millisecond)), to("up", hanging, second))
				client := f.client()
				client.say(c.request)
				if strings.HasSuffix(name, "later") {
					client.say("hello")
				}
				head := client.head()
				for strings.HasPrefix(head, "HTTP/1.1 100 ") {
					head = client.head()
				}
				body := client.body(head)
				f.check(head, body, 200, c.want)
				within(t, "the end of the first attempt", ended)
				if x := f.over(); x.Attempts != 2 {
					t.Errorf("%d attempts", x.Attempts)
				}
			})
		})
	}
}

// TestTryThatCannotConnect was never seen by the endpoint: any method may be
// repeated.
func TestTryThatCannotConnect(t *testing.T) {
	onEach(t, func(t *testing.T, way string) {
		t.Helper()
		if way == "standard" {
			t.Skip("net/http's transport does not tell")
		}
		hanging := to("up", silent(t), echoing(t))
		hanging.upstream.Pool = model.Pool{MaxConnections: 1, MaxPending: 10}
		f := serve(t, way, retrying(trying(100*time.Millisecond)), hanging)
		// Its only connection is taken, for as long as this is open.
		busy := f.client()
		busy.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n")
		g := f.groups[0]
		for g.Status(time.Now()).Endpoints[0].Active == 0 {
			pauseFor(t)
		}
		f.wants(requestOf("POST", "other"), 200, "other") // whose turn it is
		within(t, "the end of that", f.ended)
		f.wants(requestOf("POST", "hello"), 200, "hello")
		if x := within(t, "the end of that", f.ended); x.Attempts != 2 {
			t.Errorf("%d attempts", x.Attempts)
		}
		busy.Close()
		f.over()
	})
}

// pauseFor waits for a moment between two looks at a condition.
func pauseFor(t *testing.T) {
	t.Helper()
	timer := time.NewTimer(time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
	}
}

// overHTTP2 is an endpoint that speaks HTTP/2 in clear.
func overHTTP2(t *testing.T, handle http.HandlerFunc) model.Endpoint {
	t.Helper()
	server := httptest.NewUnstartedServer(handle)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	return model.Endpoint{URL: "http://" + address, Scheme: "http", Address: address, Host: address, Weight: 1}
}

// TestTimeOverHTTP2 is counted from the end of a request that comes late.
func TestTimeOverHTTP2(t *testing.T) {
	hanging := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	answering := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "5")
		_, _ = io.Copy(w, r.Body)
	}
	for name, c := range map[string]struct {
		edit  func(route *model.Route)
		first string // of the body
		want  string
	}{
		"of a try":                   {func(r *model.Route) { trying(100 * time.Millisecond)(r.Retry) }, "hello", "hello"},
		"of a try, the body later":   {func(r *model.Route) { trying(100 * time.Millisecond)(r.Retry) }, "he", "hello"},
		"of the route":               {func(r *model.Route) { r.Timeouts.Response = 100 * time.Millisecond }, "hello", "upstream_timeout"},
		"of the route, later a body": {func(r *model.Route) { r.Timeouts.Response = 100 * time.Millisecond }, "he", "upstream_timeout"},
	} {
		onEach(t, func(t *testing.T, way string) {
			t.Helper()
			t.Run(name, func(t *testing.T) {
				came := make(chan bool, 10)
				target := to("up", overHTTP2(t, func(w http.ResponseWriter, r *http.Request) { came <- true; hanging(w, r) }), overHTTP2(t, answering))
				target.upstream.Protocol = model.UpstreamH2C
				route := retrying()
				c.edit(route)
				f := serve(t, way, route, target)
				client := f.client()
				client.say("PUT" + asking + "Content-Length: 5\r\n\r\n" + c.first)
				within(t, "the first attempt", came)
				client.say("hello"[len(c.first):])
				_, body := f.answer(client)
				if told(body) != c.want {
					t.Errorf("got %s", body)
				}
				f.over()
			})
		})
	}
}
