package proxy_test

import (
	"strings"
	"sync"
	"testing"

	"sluice/internal/model"
)

// TestWhatIsRepeated has a first endpoint that fails and a second one that does not,
// for each reason that a route can name: where it does the client notices nothing,
// and else it gets what the first one came to.
func TestWhatIsRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		first func(t *testing.T) model.Endpoint
		named model.RetryOn
		other model.RetryOn // that do not name it
		word  string        // of the error then, or the endpoint's own body
	}{
		"nobody listens":                       {gone, model.RetryOn{ConnectFailure: true}, model.RetryOn{Reset: true, Timeout: true, Status: []int{500}}, "upstream_connect"},
		"nobody listens, as refused":           {gone, model.RetryOn{Refused: true}, model.RetryOn{}, "upstream_connect"},
		"nobody listens, as status":            {gone, model.RetryOn{Status: []int{502}}, model.RetryOn{Status: []int{500, 501, 503, 504}}, "upstream_connect"},
		"it breaks the connection":             {resetting, model.RetryOn{Reset: true}, model.RetryOn{ConnectFailure: true, Refused: true, Timeout: true}, "upstream_reset"},
		"it closes without an answer":          {thatSays(""), model.RetryOn{Reset: true}, model.RetryOn{ConnectFailure: true}, "upstream_reset"},
		"it closes within the head":            {thatSays("HTTP/1.1 200 OK\r\nA"), model.RetryOn{Reset: true}, model.RetryOn{Refused: true}, "upstream_reset"},
		"it speaks no HTTP":                    {thatSays("hello\r\n\r\n"), model.RetryOn{Status: []int{502}}, model.RetryOn{Reset: true, ConnectFailure: true, Timeout: true}, "upstream_protocol"},
		"its status":                           {thatSays(say("503 No", "sorry")), model.RetryOn{Status: []int{500, 503}}, model.RetryOn{Reset: true, Status: []int{500, 504}}, "sorry"},
		"its status, without a body":           {thatSays(say("503 No", "")), model.RetryOn{Status: []int{503}}, model.RetryOn{}, ""},
		"its status, with a body that goes on": {unending, model.RetryOn{Status: []int{503}}, model.RetryOn{}, "-"},
	} {
		onEach(t, func(t *testing.T, way string) {
			t.Helper()
			t.Run(name, func(t *testing.T) {
				f := serve(t, way, retrying(on(c.named)), to("up", c.first(t), echoing(t)))
				head := f.wants(requestOf("PUT", "hello"), 200, "hello")
				if got := valueOf(head, "X-Sluice-Attempts"); got != "2" {
					t.Errorf("%s attempts", got)
				}
				if x := f.over(); x.Attempts != 2 || f.repeated.Load() != 1 || x.Endpoint != f.groups[0].Endpoints[1].URL {
					t.Errorf("%d attempts, %d told, the last at %s", x.Attempts, f.repeated.Load(), x.Endpoint)
				}
				if c.word == "-" {
					return
				}
				f = serve(t, way, retrying(on(c.other)), to("up", c.first(t), echoing(t)))
				head, body := f.ask(requestOf("PUT", "hello"))
				if told(body) != c.word || valueOf(head, "X-Sluice-Attempts") != "1" {
					t.Errorf("not named: %s%s", head, body)
				}
				f.over()
			})
		})
	}
}

// unending is an endpoint whose answer has no end.
func unending(t *testing.T) model.Endpoint {
	t.Helper()
	return scripted(t, func(p *peer) {
		p.body(p.head())
		p.say("HTTP/1.1 503 No\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nsorry\r\n")
		p.until("never") // the gateway closes
	})
}

// TestMethodsThatMayBeRepeated repeats others where the endpoint cannot have seen
// the request, or the client says that it may be seen twice.
func TestMethodsThatMayBeRepeated(t *testing.T) {
	for name, c := range map[string]struct {
		first    func(t *testing.T) model.Endpoint
		request  string
		repeated bool
	}{
		"GET, seen":              {resetting, requestOf("GET", ""), true},
		"HEAD, seen":             {resetting, requestOf("HEAD", ""), true},
		"DELETE, seen":           {resetting, requestOf("DELETE", "this"), true},
		"POST, seen":             {resetting, requestOf("POST", "hello"), false},
		"POST, its status":       {thatSays(say("503 No", "")), requestOf("POST", "hello"), false},
		"POST, not seen":         {gone, requestOf("POST", "hello"), true},
		"POST without a body":    {gone, requestOf("POST", ""), true},
		"PATCH, not seen":        {gone, requestOf("PATCH", "hello"), true},
		"POST with a key":        {resetting, requestOf("POST", "hello", "Idempotency-Key: 7"), true},
		"POST, an empty key":     {resetting, requestOf("POST", "hello", "Idempotency-Key:"), false},
		"POST with a key, large": {resetting, requestOf("POST", strings.Repeat("x", 64<<10), "Idempotency-Key: 7"), true},
	} {
		onEach(t, func(t *testing.T, way string) {
			t.Helper()
			t.Run(name, func(t *testing.T) {
				f := serve(t, way, retrying(), to("up", c.first(t), echoing(t)))
				c2 := f.client()
				c2.say(c.request)
				status, want := c2.head(), " 200 OK\r\n"
				if x := f.over(); c.repeated != (x.Attempts == 2) || c.repeated != strings.Contains(status, want) {
					t.Errorf("%d attempts, and %s", x.Attempts, status)
				}
			})
		})
	}
}

// TestAttemptsAreLimited, each at an endpoint that was not tried while there is one.
func TestAttemptsAreLimited(t *testing.T) {
	onEach(t, func(t *testing.T, way string) {
		t.Helper()
		var seen sync.Map
		endpoints := make([]model.Endpoint, 4)
		for i := range endpoints {
			endpoints[i] = scripted(t, func(p *peer) {
				for p.head() != "" {
					n, _ := seen.LoadOrStore(i, new(int))
					*n.(*int)++ //nolint:forcetypeassert // it is what was stored
					p.say(say("503 No", "sorry"))
				}
			})
		}
		f := serve(t, way, retrying(upTo(6)), to("up", endpoints...))
		head := f.wants(requestOf("GET", ""), 503, "sorry")
		if got := valueOf(head, "X-Sluice-Attempts"); got != "6" {
			t.Errorf("%s attempts", got)
		}
		if x := f.over(); x.Attempts != 6 || x.UpstreamTime <= 0 {
			t.Errorf("%d attempts in %v", x.Attempts, x.UpstreamTime)
		}
		total := 0
		for i := range endpoints {
			n, _ := seen.Load(i)
			if n == nil {
				t.Errorf("endpoint %d was not tried", i)
				continue
			}
			total += *n.(*int) //nolint:forcetypeassert // as above
		}
		if total != 6 {
			t.Errorf("%d requests in all", total)
		}
	})
}

// TestErrorTellsAttempts where the client asks for them, in an answer of its own.
func TestErrorTellsAttempts(t *testing.T) {
	onEach(t, func(t *testing.T, way string) {
		t.Helper()
		f := serve(t, way, retrying(upTo(3)), to("up", gone(t)))
		head, body := f.ask(requestOf("GET", ""))
		if told(body) != "upstream_connect" || valueOf(head, "X-Sluice-Attempts") != "3" {
			t.Errorf("got %s%s", head, body)
		}
		f.over()
		if head, _ = f.ask("GET / HTTP/1.1\r\nHost: a\r\n\r\n"); valueOf(head, "X-Sluice-Attempts") != "" {
			t.Errorf("nobody asked: %s", head)
		}
		f.over()
	})
}

// TestInformationBeforeARepetition reaches the client, from both endpoints.
func TestInformationBeforeARepetition(t *testing.T) {
	hint := func(link string) string { return "HTTP/1.1 103 Early Hints\r\nLink: <" + link + ">\r\n\r\n" }
	onEach(t, func(t *testing.T, way string) {
		t.Helper()
		f := serve(t, way, retrying(), to("up", saying(t, hint("/a")), saying(t, hint("/b")+say("200 OK", "ok"))))
		c := f.client()
		c.say(requestOf("GET", ""))
		first, second := c.head(), c.head()
		if valueOf(first, "Link") != "</a>" || valueOf(second, "Link") != "</b>" {
			t.Errorf("got %s%s", first, second)
		}
		head, body := f.answer(c)
		f.check(head, body, 200, "ok")
		if x := f.over(); x.Attempts != 2 {
			t.Errorf("%d attempts", x.Attempts)
		}
	})
}

// TestUpgradeIsRepeatedUntilItIsMade, and never after that.
func TestUpgradeIsRepeatedUntilItIsMade(t *testing.T) {
	onEach(t, func(t *testing.T, way string) {
		t.Helper()
		came := make(chan string, 10)
		f := serve(t, way, retrying(), to("up", saying(t, say("503 No", "")), scripted(t, func(p *peer) {
			came <- p.head()
			p.say(switching + "hi")
			p.until("bye")
			if tcp, ok := p.Conn.(interface{ SetLinger(int) error }); ok {
				_ = tcp.SetLinger(0)
			}
		})))
		c := f.client()
		c.say(requestOf("GET", "", "Connection: Upgrade", "Upgrade: websocket"))
		if head := c.head(); !strings.HasPrefix(head, "HTTP/1.1 101 ") || c.until("hi") != "hi" {
			t.Fatalf("got %s", head)
		}
		c.say("bye")
		c.until("never") // it ends
		if x := f.over(); x.Attempts != 2 || len(came) != 1 {
			t.Errorf("%d attempts, %d at the endpoint", x.Attempts, len(came))
		}
	})
}
