package pipeline_test

import (
	"errors"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/internal/canonical"
	"sluice/internal/message"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// exchange is one that came in at a listener which trusts 10.0.0.0/8 and
// fd00::/8, from a peer, with "Name: value" lines.
func exchange(t *testing.T, peer string, lines ...string) *pipeline.Exchange {
	t.Helper()
	request := &message.Request{Protocol: message.HTTP11, Method: "GET", Scheme: "http", Target: "/a?q", Host: "a.example", Path: "/a", Query: "?q"}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		request.Fields.Add(name, value)
	}
	listener := &model.Listener{
		Name:           "web",
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")},
		Paths:          model.Paths{MergeSlashes: true, EncodedSlash: "keep"},
	}
	var address netip.AddrPort
	if peer != "" {
		address = netip.AddrPortFrom(netip.MustParseAddr(peer), 1234)
	}
	return pipeline.NewExchange(t.Context(), request, listener, address, time.Time{})
}

// fieldsOf are the lines that are left, without the request id.
func fieldsOf(x *pipeline.Exchange) string {
	var lines []string
	for _, f := range x.Request.Fields {
		if f.ID != message.XRequestID {
			lines = append(lines, f.Name+": "+f.Value)
		}
	}
	return strings.Join(lines, "|")
}

func admit(t *testing.T, x *pipeline.Exchange) {
	t.Helper()
	if err := pipeline.Admit(x, func(violation error) { t.Errorf("reported: %v", violation) }); err != nil {
		t.Fatal(err)
	}
}

const (
	untrusted = "192.0.2.1"
	trusted   = "10.0.0.1"
)

func TestAdmitForwardedFields(t *testing.T) {
	for _, c := range []struct {
		name, peer string
		lines      []string
		want       string
	}{
		{"an untrusted peer says nothing", untrusted, []string{
			"X-Forwarded-For: 1.1.1.1", "x-forwarded-proto: https", "X-FORWARDED-HOST: b", "X-Forwarded-Prefix: /x", "X-Forwarded-Client-Cert: x",
			"Forwarded: for=1.1.1.1", "X-Real-IP: 1.1.1.1", "X-Other: 1", "Via: 1.1 a", "X-Forwarded: 1", "X-Forwarded-: 1",
		}, "X-Other: 1|Via: 1.1 a|X-Forwarded: 1|X-Forwarded-: 1"},
		{"look-alikes of an untrusted peer", untrusted, []string{
			"X_Forwarded_For: 1", "X-Forwarded_For: 1", "x_real_ip: 1", "X_Request-ID: 1", "X-Forwarded_Anything: 1", "X_Other: 1", "Via_: 1", "Content_Length: 1", "transfer_encoding: chunked", "Content_Type: a/b",
		}, "X_Other: 1|Via_: 1|Content_Type: a/b"},
		{"a trusted peer is believed", trusted, []string{
			"X-Forwarded-For: 1.1.1.1", "X-Forwarded-Proto: https", "X-Forwarded-Host: b:80", "X-Forwarded-Prefix: /x", "Forwarded: for=1.1.1.1", "X-Real-IP: 1.1.1.1",
		}, "X-Forwarded-For: 1.1.1.1|X-Forwarded-Proto: https|X-Forwarded-Host: b:80|X-Forwarded-Prefix: /x|Forwarded: for=1.1.1.1|X-Real-IP: 1.1.1.1"},
		{"look-alikes of a trusted peer", trusted, []string{"X_Forwarded_For: 1", "X-Real_IP: 1", "X_REQUEST_ID: 1", "A_B: 1", "Content_Length: 1"}, "A_B: 1"},
		{"the first scheme and host alone", trusted, []string{"X-Forwarded-Proto: https", "x-forwarded-host: a", "X-Forwarded-Proto: http", "X-Forwarded-Host: b"}, "X-Forwarded-Proto: https|x-forwarded-host: a"},
		{"Forwarded alone", trusted, []string{`Forwarded: for=1.1.1.1;proto=HTTPS;host="b.example:80"`}, `Forwarded: for=1.1.1.1;proto=HTTPS;host="b.example:80"|X-Forwarded-For: 1.1.1.1|X-Forwarded-Proto: https|X-Forwarded-Host: b.example:80`},
		{"Forwarded of several", trusted, []string{"Forwarded: for=6.6.6.6;proto=http;host=evil, for=1.1.1.1;proto=https", `forwarded: for="[fd00::2]:80";host=in;proto=http`}, `Forwarded: for=6.6.6.6;proto=http;host=evil, for=1.1.1.1;proto=https|forwarded: for="[fd00::2]:80";host=in;proto=http|X-Forwarded-For: 6.6.6.6, 1.1.1.1, fd00::2|X-Forwarded-Proto: https|X-Forwarded-Host: in`},
		{"Forwarded of one that hides", trusted, []string{"Forwarded: for=1.1.1.1;proto=http, for=_hidden;proto=https, for=10.2.2.2"}, "Forwarded: for=1.1.1.1;proto=http, for=_hidden;proto=https, for=10.2.2.2|X-Forwarded-For: 10.2.2.2|X-Forwarded-Proto: https"},
		{"Forwarded that tells nothing valid", trusted, []string{`Forwarded: for=unknown;proto=ftp;host="a b"`}, `Forwarded: for=unknown;proto=ftp;host="a b"`},
		{"an empty Forwarded", trusted, []string{"Forwarded: "}, "Forwarded: "},
		{"X-Forwarded wins over Forwarded", trusted, []string{"X-Forwarded-For: 2.2.2.2", "X-Forwarded-Proto: http", "X-Forwarded-Host: c", "Forwarded: for=1.1.1.1;proto=https;host=b"}, "X-Forwarded-For: 2.2.2.2|X-Forwarded-Proto: http|X-Forwarded-Host: c|Forwarded: for=1.1.1.1;proto=https;host=b"},
		{"a scheme that is none", trusted, []string{"X-Forwarded-Proto: ftp", "X-Forwarded-Proto: HTTPS", "X-Forwarded-Proto: https, http", "X-Forwarded-Proto: "}, "X-Forwarded-Proto: HTTPS"},
		{"a host that is none", trusted, []string{"X-Forwarded-Host: a b", "X-Forwarded-Host: a, b", "X-Forwarded-Host: user@a", "X-Forwarded-Host: ", "X-Forwarded-Host: [::1]:80"}, "X-Forwarded-Host: [::1]:80"},
		{"a Unix socket is not trusted", "", []string{"X-Forwarded-For: 1.1.1.1", "X-A: 1"}, "X-A: 1"},
	} {
		x := exchange(t, c.peer, c.lines...)
		admit(t, x)
		if got := fieldsOf(x); got != c.want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, got, c.want)
		}
		if x.PeerTrusted != (c.peer == trusted) {
			t.Errorf("%s: trusted is %v", c.name, x.PeerTrusted)
		}
	}
}

func TestAdmitClientAddress(t *testing.T) {
	for _, c := range []struct {
		peer  string
		lines []string
		want  string
	}{
		{untrusted, []string{"X-Forwarded-For: 1.1.1.1", "Forwarded: for=1.1.1.1", "X-Real-IP: 1.1.1.1"}, untrusted},
		{trusted, nil, trusted},
		{"::ffff:192.0.2.1", nil, "192.0.2.1"},
		{"::ffff:10.0.0.1", []string{"X-Forwarded-For: 1.1.1.1"}, "1.1.1.1"},
		{"fe80::1%lo", nil, "fe80::1"},
		{"fd00::1", []string{"X-Forwarded-For: 2001:db8::1"}, "2001:db8::1"},

		// The right-most untrusted one.
		{trusted, []string{"X-Forwarded-For: 1.1.1.1"}, "1.1.1.1"},
		{trusted, []string{"X-Forwarded-For: 1.1.1.1, 2.2.2.2"}, "2.2.2.2"},
		{trusted, []string{"X-Forwarded-For: 1.1.1.1, 2.2.2.2,\t10.1.1.1 , 10.2.2.2"}, "2.2.2.2"},
		{trusted, []string{"X-Forwarded-For: 1.1.1.1", "x-forwarded-for: 2.2.2.2, 10.1.1.1"}, "2.2.2.2"},
		{trusted, []string{"X-Forwarded-For: 10.3.3.3, 10.2.2.2"}, "10.3.3.3"},

		// The walk ends at what is no address.
		{trusted, []string{"X-Forwarded-For: 1.1.1.1, unknown, 10.2.2.2"}, "10.2.2.2"},
		{trusted, []string{"X-Forwarded-For: 1.1.1.1, unknown"}, trusted},
		{trusted, []string{"X-Forwarded-For: 1.1.1.1,"}, trusted},
		{trusted, []string{"X-Forwarded-For: "}, trusted},
		{trusted, []string{"X-Forwarded-For: 1.1.1.1, , 10.2.2.2"}, "10.2.2.2"},
		{trusted, []string{"X-Forwarded-For: [1.1.1.1"}, trusted},
		{trusted, []string{"X-Forwarded-For: 1.1.1.1]"}, trusted},
		{trusted, []string{"X-Forwarded-For: [2001:db8::1"}, trusted},
		{trusted, []string{"X-Forwarded-For: []"}, trusted},
		{trusted, []string{"X-Forwarded-For: ["}, trusted},
		{trusted, []string{"X-Forwarded-For: 1.1.1.1:99999"}, trusted},
		{trusted, []string{"X-Forwarded-For: 1.1.1"}, trusted},
		{trusted, []string{`X-Forwarded-For: "1.1.1.1"`}, trusted},

		// Ports, brackets, zones, IPv4 in IPv6.
		{trusted, []string{"X-Forwarded-For: 1.1.1.1:443"}, "1.1.1.1"},
		{trusted, []string{"X-Forwarded-For: [2001:db8::1]"}, "2001:db8::1"},
		{trusted, []string{"X-Forwarded-For: [2001:db8::1]:443"}, "2001:db8::1"},
		{trusted, []string{"X-Forwarded-For: fe80::1%eth0"}, "fe80::1"},
		{trusted, []string{"X-Forwarded-For: [fe80::1%eth0]:443"}, "fe80::1"},
		{trusted, []string{"X-Forwarded-For: 1.1.1.1, ::ffff:10.9.9.9"}, "1.1.1.1"},
		{trusted, []string{"X-Forwarded-For: ::ffff:1.1.1.1"}, "1.1.1.1"},

		// Forwarded (RFC 7239) alike, and behind X-Forwarded-For.
		{trusted, []string{"Forwarded: for=1.1.1.1"}, "1.1.1.1"},
		{trusted, []string{"Forwarded: for=1.1.1.1;proto=https, FOR=2.2.2.2;by=10.0.0.9 , for=10.1.1.1"}, "2.2.2.2"},
		{trusted, []string{`Forwarded: for="[2001:db8::1]:4711"`}, "2001:db8::1"},
		{trusted, []string{`Forwarded: proto=https; For="1.1.1.1:80"`}, "1.1.1.1"},
		{trusted, []string{`Forwarded: for=2.2.2.2, for=1.1.1.1;host="a, for=9.9.9.9; b\", for=8.8.8.8"`}, "1.1.1.1"},
		{trusted, []string{`Forwarded: for="1.1.\1.1"`}, "1.1.1.1"},
		{trusted, []string{"Forwarded: for=1.1.1.1", "Forwarded: for=10.1.1.1"}, "1.1.1.1"},
		{trusted, []string{"Forwarded: for=1.1.1.1, for=_hidden, for=10.1.1.1"}, "10.1.1.1"},
		{trusted, []string{"Forwarded: for=1.1.1.1, proto=https"}, trusted},
		{trusted, []string{"Forwarded: for=unknown"}, trusted},
		{trusted, []string{`Forwarded: for="1.1.1.1`}, trusted},
		{trusted, []string{"Forwarded: for=1.1.1.1", "X-Forwarded-For: 2.2.2.2"}, "2.2.2.2"},
		{trusted, []string{"Forwarded: for=1.1.1.1", "X-Forwarded-For: unknown"}, trusted},
		{trusted, []string{"X-Real-IP: 1.1.1.1"}, trusted},
	} {
		x := exchange(t, c.peer, c.lines...)
		admit(t, x)
		if got := x.ClientIP.String(); got != c.want {
			t.Errorf("%s %q: %s, want %s", c.peer, c.lines, got, c.want)
		}
	}
	x := exchange(t, "")
	admit(t, x)
	if x.ClientIP.IsValid() {
		t.Errorf("a Unix socket has the address %s", x.ClientIP)
	}
}

func TestAdmitRequestID(t *testing.T) {
	made := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	long := strings.Repeat("x", 128)
	for _, c := range []struct{ peer, sent, want string }{
		{trusted, "id-1", "id-1"},
		{trusted, long, long},
		{trusted, "~!\"'<>", "~!\"'<>"},
		{trusted, long + "x", ""},
		{trusted, "", ""},
		{trusted, "a b", ""},
		{trusted, "a\tb", ""},
		{trusted, "ü", ""},
		{trusted, "a\x7f", ""},
		{untrusted, "id-1", ""},
	} {
		x := exchange(t, c.peer, "x-request-id: "+c.sent, "X-Request-ID: another")
		admit(t, x)
		if c.want != "" && x.ID != c.want || c.want == "" && !made.MatchString(x.ID) {
			t.Errorf("%s %q: %q", c.peer, c.sent, x.ID)
		}
		var sent []string
		for value := range x.Request.Fields.Values("X-Request-ID") {
			sent = append(sent, value)
		}
		if len(sent) != 1 || sent[0] != x.ID {
			t.Errorf("%s %q: sends %q for %q", c.peer, c.sent, sent, x.ID)
		}
	}
	x := exchange(t, untrusted)
	x.Identify()
	id := x.ID
	x.Identify()
	if other := exchange(t, untrusted); id != x.ID || !made.MatchString(id) {
		t.Errorf("%q became %q", id, x.ID)
	} else if other.Identify(); other.ID == id {
		t.Error("two exchanges have one id")
	}
}

func TestAdmitTraceID(t *testing.T) {
	const id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for traceparent, want := range map[string]string{
		"":                                                     "",
		"00-" + id + "-" + parent + "-01":                      id,
		"00-" + id + "-" + parent + "-00":                      id,
		"cc-" + id + "-" + parent + "-01":                      id,
		"cc-" + id + "-" + parent + "-01-more":                 id,
		"cc-" + id + "-" + parent + "-01more":                  "",
		"00-" + id + "-" + parent + "-01-more":                 "",
		"ff-" + id + "-" + parent + "-01":                      "",
		"00-" + id + "-" + parent + "-0":                       "",
		"00-" + id + "-" + parent + "_01":                      "",
		"00_" + id + "-" + parent + "-01":                      "",
		"00-" + id + "_" + parent + "-01":                      "",
		"0g-" + id + "-" + parent + "-01":                      "",
		"00-" + strings.ToUpper(id) + "-" + parent + "-01":     "",
		"00-" + strings.Repeat("0", 32) + "-" + parent + "-01": "",
		"00-" + id + "-" + strings.Repeat("0", 16) + "-01":     "",
	} {
		x := exchange(t, untrusted, "traceparent: "+traceparent)
		admit(t, x)
		if x.TraceID != want {
			t.Errorf("%q: %q", traceparent, x.TraceID)
		}
		if got := x.Request.Fields.Get(message.Traceparent); got != traceparent {
			t.Errorf("%q goes on as %q", traceparent, got)
		}
	}
}

func TestAdmitRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(x *pipeline.Exchange)
		word pipeline.Word // empty: it passes
	}{
		{"CONNECT", func(x *pipeline.Exchange) {
			x.Request.Method, x.Request.Target, x.Request.Path = "CONNECT", "a:443", ""
		}, pipeline.MethodNotAllowed},
		{"a target that is just short enough", func(x *pipeline.Exchange) { x.Listener.Limits.URIBytes = 4 }, ""},
		{"a long target", func(x *pipeline.Exchange) { x.Listener.Limits.URIBytes = 3 }, pipeline.URITooLong},
		{"as many fields as may be", func(x *pipeline.Exchange) { x.Listener.Limits.Headers = 2 }, ""},
		{"a large body", func(x *pipeline.Exchange) { x.Listener.Limits.Body, x.Request.Length = 5, 6 }, pipeline.BodyTooLarge},
		{"a field too many", func(x *pipeline.Exchange) { x.Listener.Limits.Headers = 1 }, pipeline.HeaderTooLarge},
		{"dropped fields count", func(x *pipeline.Exchange) {
			x.Listener.Limits.Headers = 2
			x.Request.Fields.Add("X-Forwarded-For", "1.1.1.1")
		}, pipeline.HeaderTooLarge},
		// GET /a?q HTTP/1.1, Host: a.example, X-A: 1, X-B: 22 and an empty line.
		{"a header that is just small enough", func(x *pipeline.Exchange) { x.Listener.Limits.HeaderBytes = 19 + 17 + 8 + 9 + 2 }, ""},
		{"a large header", func(x *pipeline.Exchange) { x.Listener.Limits.HeaderBytes = 19 + 17 + 8 + 9 + 2 - 1 }, pipeline.HeaderTooLarge},
		{"no Host", func(x *pipeline.Exchange) { x.Request.Host = "" }, pipeline.BadRequest},
		{"no Host, HTTP/1.0", func(x *pipeline.Exchange) { x.Request.Host, x.Request.Protocol = "", message.HTTP10 }, ""},
		{"a bad Host", func(x *pipeline.Exchange) { x.Request.Host = "a b" }, pipeline.BadRequest},
		{"a bad Host, HTTP/1.0", func(x *pipeline.Exchange) { x.Request.Host, x.Request.Protocol = "user@a", message.HTTP10 }, pipeline.BadRequest},
		{"OPTIONS *", func(x *pipeline.Exchange) { x.Request.Method, x.Request.Target, x.Request.Path = "OPTIONS", "*", "*" }, ""},
		{"GET *", func(x *pipeline.Exchange) { x.Request.Target, x.Request.Path = "*", "*" }, pipeline.BadPath},
		{"a fragment", func(x *pipeline.Exchange) { x.Request.Target = "/a#b" }, pipeline.BadRequest},
		{"an absolute target", func(x *pipeline.Exchange) { x.Request.Target = "http://a.example/a?q" }, ""},
		{"one of https", func(x *pipeline.Exchange) { x.Request.Target = "HTTPS://a.example:443" }, ""},
		{"one with a query alone", func(x *pipeline.Exchange) { x.Request.Target = "http://a.example?http://b/" }, ""},
		{"no authority", func(x *pipeline.Exchange) { x.Request.Target = "http:///a" }, pipeline.BadRequest},
		{"none with a query", func(x *pipeline.Exchange) { x.Request.Target = "http://?q" }, pipeline.BadRequest},
		{"user information", func(x *pipeline.Exchange) { x.Request.Target = "http://u:p@a.example/a" }, pipeline.BadRequest},
		{"a bad port", func(x *pipeline.Exchange) { x.Request.Target = "http://a.example:x/a" }, pipeline.BadRequest},
		{"another scheme", func(x *pipeline.Exchange) { x.Request.Target = "ftp://a.example/a" }, pipeline.BadRequest},
		{"no hierarchy", func(x *pipeline.Exchange) { x.Request.Target = "http:a" }, pipeline.BadRequest},
		{"no form at all", func(x *pipeline.Exchange) { x.Request.Target = "a/b" }, pipeline.BadRequest},
		{"a bad path", func(x *pipeline.Exchange) { x.Request.Path = "/a/..%2Fb" }, pipeline.BadPath},
		{"an encoded slash, refused", func(x *pipeline.Exchange) { x.Request.Path, x.Listener.Paths.EncodedSlash = "/a%2Fb", "refuse" }, pipeline.BadPath},
	} {
		x := exchange(t, untrusted, "X-A: 1", "X-B: 22")
		c.edit(x)
		err := pipeline.Admit(x, func(violation error) { t.Errorf("%s: reported %v", c.name, violation) })
		if c.word == "" {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		e := &pipeline.Error{}
		if !errors.As(err, &e) || e.Word != c.word || !e.Close || e.Fault != pipeline.Client {
			t.Errorf("%s: %+v", c.name, err)
		}
		if x.ID == "" {
			t.Errorf("%s: no request id", c.name)
		}
	}
	x := exchange(t, untrusted)
	x.Request.Method = "CONNECT"
	e := pipeline.AsError(pipeline.Admit(x, nil))
	if e.Status != 405 || !strings.Contains(e.Fields.Get(message.Allow), "GET") || strings.Contains(e.Fields.Get(message.Allow), "CONNECT") {
		t.Errorf("CONNECT: %+v", e)
	}
	x = exchange(t, untrusted)
	x.Request.Path = "/a\\b"
	if e := pipeline.AsError(pipeline.Admit(x, nil)); e.Detail != "The path has a backslash." || !errors.Is(e, canonical.ErrBackslash) {
		t.Errorf("%+v", e)
	}
}

func TestAdmitPath(t *testing.T) {
	for _, c := range []struct {
		paths     model.Paths
		raw, want string
		reported  error
	}{
		{model.Paths{MergeSlashes: true, EncodedSlash: "keep"}, "//a/%2e/b%2fc/", "/a/b%2Fc/", nil},
		{model.Paths{MergeSlashes: false, EncodedSlash: "keep"}, "//a/%2e/b%2fc/", "//a/b%2Fc/", nil},
		{model.Paths{MergeSlashes: true, EncodedSlash: "decode"}, "/a%2fb", "/a/b", nil},
		{model.Paths{MergeSlashes: true, EncodedSlash: "keep", Report: true}, "/a/..%2Fb", "/a/..%2Fb", canonical.ErrHiddenDots},
		{model.Paths{MergeSlashes: true, EncodedSlash: "keep", Report: true}, "/../b", "/b", canonical.ErrAboveRoot},
		{model.Paths{MergeSlashes: true, EncodedSlash: "refuse", Report: true}, "/a%2fb", "/a%2Fb", canonical.ErrEncodedSlash},
		{model.Paths{MergeSlashes: true, EncodedSlash: "keep", Report: true}, "/a/%7e", "/a/~", nil},
	} {
		x := exchange(t, untrusted)
		x.Listener.Paths, x.Request.Path = c.paths, c.raw
		var reported error
		if err := pipeline.Admit(x, func(violation error) { reported = violation }); err != nil {
			t.Errorf("%+v %s: %v", c.paths, c.raw, err)
		}
		if x.Request.Path != c.want || !errors.Is(reported, c.reported) {
			t.Errorf("%+v %s: %s, reported %v", c.paths, c.raw, x.Request.Path, reported)
		}
	}
	x := exchange(t, untrusted)
	x.Request.Method, x.Request.Path = "OPTIONS", "*"
	admit(t, x)
	if x.Request.Path != "*" {
		t.Errorf("OPTIONS * became %s", x.Request.Path)
	}
}
