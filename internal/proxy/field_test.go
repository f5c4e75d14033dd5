package proxy_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// sent forwards a request and returns the head that the endpoint saw.
func sent(t *testing.T, x *pipeline.Exchange) string {
	t.Helper()
	endpoint, heads := recording(t, okay)
	forward(t, &model.Route{}, nil, endpoint).pass(x)
	return within(t, "a request", heads)
}

func TestHopByHopFieldsOfRequests(t *testing.T) {
	request := get("/", "Connection: keep-alive, X-Hop", "connection: x-other,X-Request-ID", "X-Hop: 1", "X-OTHER: 2", "Keep-Alive: 5", "Proxy-Connection: keep-alive", "TE: gzip",
		"Transfer-Encoding: chunked", "Upgrade: websocket", "HTTP2-Settings: x", "Proxy-Authorization: Basic x", "Proxy-Authenticate: Basic", "X-Keep: 3", "Authorization: Basic y", "X-Request-ID: id-1")
	before := request.Fields.Clone()
	got := lines(sent(t, exchange(t.Context(), request)))
	want := []string{
		"Host: shop.test", "Authorization: Basic y", "Via: 1.1 " + pseudonym, "X-Forwarded-For: 192.0.2.7", "X-Forwarded-Host: shop.test", "X-Forwarded-Proto: http",
		"X-Keep: 3", "X-Real-IP: 192.0.2.7", "X-Request-ID: id-1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the endpoint saw (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, request.Fields); diff != "" {
		t.Errorf("the client's request was changed:\n%s", diff)
	}
}

func TestTE(t *testing.T) {
	for te, want := range map[string]string{"trailers": "trailers", "gzip;q=1, Trailers": "trailers", "gzip": "", "": ""} {
		request := get("/", "Connection: TE")
		if te != "" {
			request.Fields.Add("TE", te)
		}
		head := sent(t, exchange(t.Context(), request))
		connection := ""
		if want != "" {
			connection = "TE"
		}
		if valueOf(head, "TE") != want || valueOf(head, "Connection") != connection {
			t.Errorf("TE %q: went out as %q with Connection %q", te, valueOf(head, "TE"), valueOf(head, "Connection"))
		}
	}
}

func TestUpgradeOfRequests(t *testing.T) {
	for name, test := range map[string]struct {
		protocol         message.Protocol
		fields           []string
		upgrade, connect string
	}{
		"asked":               {message.HTTP11, []string{"Connection: keep-alive, Upgrade", "Upgrade: websocket"}, "websocket", "Upgrade"},
		"in lower case":       {message.HTTP11, []string{"connection: upgrade", "upgrade: WebSocket"}, "WebSocket", "Upgrade"},
		"not in Connection":   {message.HTTP11, []string{"Upgrade: websocket"}, "", ""},
		"only in Connection":  {message.HTTP11, []string{"Connection: Upgrade"}, "", ""},
		"h2c":                 {message.HTTP11, []string{"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: x"}, "", ""},
		"h2c among others":    {message.HTTP11, []string{"Connection: Upgrade", "Upgrade: H2C, websocket", "Upgrade: echo"}, "websocket, echo", "Upgrade"},
		"in HTTP/1.0":         {message.HTTP10, []string{"Connection: Upgrade", "Upgrade: websocket"}, "", ""},
		"together with TE":    {message.HTTP11, []string{"Connection: Upgrade, TE", "Upgrade: websocket", "TE: trailers"}, "websocket", "Upgrade, TE"},
		"named as field, too": {message.HTTP11, []string{"Connection: Upgrade, Sec-X", "Upgrade: websocket", "Sec-X: 1"}, "websocket", "Upgrade"},
	} {
		request := get("/", test.fields...)
		request.Protocol = test.protocol
		head := sent(t, exchange(t.Context(), request))
		if valueOf(head, "Upgrade") != test.upgrade || valueOf(head, "Connection") != test.connect || valueOf(head, "HTTP2-Settings")+valueOf(head, "Sec-X") != "" {
			t.Errorf("%s: went out as\n%s", name, head)
		}
	}
}

func TestForwardedFields(t *testing.T) {
	for name, test := range map[string]struct {
		peer   string
		client string
		fields []string
		scheme string
		want   map[string]string
	}{
		"a client itself":     {"192.0.2.7:1", "192.0.2.7", nil, "http", map[string]string{"X-Forwarded-For": "192.0.2.7", "X-Real-IP": "192.0.2.7", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "shop.test"}},
		"through a proxy":     {"10.0.0.1:1", "198.51.100.9", []string{"X-Forwarded-For: 203.0.113.1", "x-forwarded-for: 198.51.100.9", "X-Forwarded-Proto: https", "X-Forwarded-Host: outside.test"}, "http", map[string]string{"X-Forwarded-For": "203.0.113.1, 198.51.100.9, 10.0.0.1", "X-Real-IP": "198.51.100.9", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "outside.test"}},
		"an empty list":       {"10.0.0.1:1", "10.0.0.1", []string{"X-Forwarded-For: "}, "https", map[string]string{"X-Forwarded-For": "10.0.0.1", "X-Forwarded-Proto": "https"}},
		"IPv6":                {"[fe80::1%eth0]:1", "fe80::1", nil, "http", map[string]string{"X-Forwarded-For": "fe80::1", "X-Real-IP": "fe80::1"}},
		"IPv4 in IPv6":        {"[::ffff:192.0.2.7]:1", "192.0.2.7", nil, "http", map[string]string{"X-Forwarded-For": "192.0.2.7"}},
		"over a Unix socket":  {"", "", nil, "http", map[string]string{"X-Forwarded-For": "", "X-Real-IP": ""}},
		"X-Real-IP of others": {"10.0.0.1:1", "10.0.0.1", []string{"X-Real-IP: 6.6.6.6"}, "http", map[string]string{"X-Real-IP": "10.0.0.1"}},
	} {
		request := get("/", test.fields...)
		request.Scheme = test.scheme
		var peer netip.AddrPort
		if test.peer != "" {
			peer = netip.MustParseAddrPort(test.peer)
		}
		x := pipeline.NewExchange(t.Context(), request, &model.Listener{}, peer, time.Now())
		if test.client != "" {
			x.ClientIP = netip.MustParseAddr(test.client)
		}
		head := sent(t, x)
		for field, want := range test.want {
			if got := valueOf(head, field); got != want {
				t.Errorf("%s: %s is %q, want %q", name, field, got, want)
			}
		}
	}
}

func TestViaAndLoops(t *testing.T) {
	head := sent(t, exchange(t.Context(), get("/", "Via: 1.0 one (a comment), 1.1 two", "via: 2 three")))
	if got, want := valueOf(head, "Via"), "1.0 one (a comment), 1.1 two, 2 three, 1.1 "+pseudonym; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	old := get("/")
	old.Protocol = message.HTTP10
	if got := valueOf(sent(t, exchange(t.Context(), old)), "Via"); got != "1.0 "+pseudonym {
		t.Errorf("of HTTP/1.0: %q", got)
	}

	endpoint, heads := recording(t, okay)
	g := forward(t, &model.Route{}, nil, endpoint)
	passes := func(n int) *pipeline.Exchange {
		return exchange(t.Context(), get("/", "Via: "+strings.Repeat("1.1 other, 1.1 "+pseudonym+", ", n)+"1.1 last", "Via: 1.1 "+pseudonym+"x"))
	}
	g.pass(passes(10))
	within(t, "a request", heads)
	g.fail(passes(11), pipeline.LoopDetected, 508)
	if len(heads) > 0 {
		t.Error("a loop was passed on")
	}
}

func TestFieldsOfResponses(t *testing.T) {
	for _, with := range []string{"keep-alive", "close"} {
		testFieldsOfResponses(t, with)
	}
}

func testFieldsOfResponses(t *testing.T, with string) {
	t.Helper()
	endpoint, _ := recording(t, "HTTP/1.1 200 OK\r\nConnection: X-Hop, "+with+"\r\nX-Hop: 1\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nProxy-Authenticate: Basic\r\nProxy-Authentication-Info: x\r\n"+
		"Upgrade: h2c, websocket\r\nTE: x\r\nVia: 1.1 app\r\nSet-Cookie: b=1\r\nSet-Cookie: a=2\r\nWWW-Authenticate: Basic\r\nX-Backend-Version: own\r\nContent-Length: 2\r\n\r\nok")
	want := "Set-Cookie: b=1\nSet-Cookie: a=2\nVia: 1.1 app, 1.1 " + pseudonym + "\nWww-Authenticate: Basic\nX-Backend-Version: "
	for version, told := range map[string]string{"": "own", "v2": "v2"} {
		endpoint.Version = version
		x := exchange(t.Context(), get("/"))
		g := forward(t, &model.Route{}, nil, endpoint)
		if body := g.pass(x); body != "ok" {
			t.Errorf("got %q", body)
		}
		if diff := cmp.Diff(want+told, fieldText(x.Response.Fields)); diff != "" {
			t.Errorf("the client gets (-want +got):\n%s", diff)
		}
		if x.Upstream != "up" || x.Endpoint != endpoint.URL || x.Version != version || x.Attempts != 1 || x.UpstreamTime <= 0 {
			t.Errorf("the exchange notes %q %q %q, %d attempts, %v", x.Upstream, x.Endpoint, x.Version, x.Attempts, x.UpstreamTime)
		}
		g.quiet(0)
	}
}

func TestTrailersThatMayNotPass(t *testing.T) {
	trailers := make(chan string, 1)
	endpoint := scripted(t, func(p *peer) {
		if head := p.head(); head != "" {
			p.until("0\r\n")
			trailers <- valueOf(head, "Trailer") + "|" + p.until("\r\n\r\n")
			p.say("HTTP/1.1 200 OK\r\nTrailer: X-Request-ID, X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nX-Sum: 3\r\nVia: 1.1 evil\r\nSet-Cookie: a=b\r\nX-Request-ID: evil\r\n\r\n")
		}
	})
	request := post(strings.NewReader("x"), message.Unknown)
	for _, field := range []string{"Trailer: Cookie, X-Sum, X-Real-IP", "X-User: set", "X-Sum-Of: 1"} {
		name, value, _ := strings.Cut(field, ": ")
		request.Fields.Add(name, value)
	}
	request.Trailer = func() (fields message.Fields) {
		for _, name := range []string{"X-Forwarded-For", "X_Real_IP", "Cookie", "X-Request-ID", "Via", "X-User", "Content_Length"} {
			fields.Add(name, "evil")
		}
		fields.Add("X-Sum", "1")
		return fields
	}
	x := exchange(t.Context(), request)
	g := forward(t, &model.Route{}, nil, endpoint)
	if body := g.pass(x); body != "ok" {
		t.Errorf("got %q", body)
	}
	if got, want := within(t, "trailers", trailers), "X-Sum|X-Sum: 1\r\n\r\n"; got != want {
		t.Errorf("the endpoint got %q, want %q", got, want)
	}
	if got, announced := fieldText(x.Response.Trailer()), x.Response.Fields.Get(message.Trailer); got != "X-Sum: 3" || announced != "X-Sum" {
		t.Errorf("the client gets %q, announced as %q", got, announced)
	}
}

func TestExpect(t *testing.T) {
	for _, test := range []struct {
		protocol message.Protocol
		want     string
	}{{message.HTTP10, ""}, {message.HTTP11, "100-continue"}} {
		request := get("/", "Expect: 100-continue")
		request.Protocol = test.protocol
		if got := valueOf(sent(t, exchange(t.Context(), request)), "Expect"); got != test.want {
			t.Errorf("of %s: %q", test.protocol, got)
		}
	}
}

func TestUpgradeRequiredTellsWhatTo(t *testing.T) {
	endpoint, _ := recording(t, "HTTP/1.1 426 Upgrade Required\r\nConnection: upgrade\r\nUpgrade: h2c, websocket\r\nContent-Length: 0\r\n\r\n")
	x := exchange(t.Context(), get("/"))
	forward(t, &model.Route{}, nil, endpoint).pass(x)
	if up, connection := x.Response.Fields.Get(message.Upgrade), x.Response.Fields.Get(message.Connection); up != "websocket" || connection != "Upgrade" {
		t.Errorf("Upgrade %q, Connection %q", up, connection)
	}
}

func TestResponsesWithoutContent(t *testing.T) {
	for name, test := range map[string]struct {
		method, text string
		status       int
		length       int64
	}{
		"HEAD": {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", 200, 7},
		"304":  {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n", 304, 7},
		"204":  {"DELETE", "HTTP/1.1 204 No Content\r\n\r\n", 204, message.Unknown},
	} {
		endpoint, _ := recording(t, test.text)
		request := get("/")
		request.Method = test.method
		x := exchange(t.Context(), request)
		g := forward(t, &model.Route{}, nil, endpoint)
		g.pass(x)
		if x.Response.Status != test.status || x.Response.Body != nil || x.Response.Length != test.length {
			t.Errorf("%s: got %+v", name, x.Response)
		}
		g.quiet(0)
	}
}
