package transport

import (
	"io"
	"strings"
	"testing"

	"sluice/internal/message"
	"sluice/internal/pipeline"
	"sluice/internal/waittest"
)

// recorded sends a request and returns its head as the endpoint saw it.
func recorded(t *bed, request *message.Request) string {
	t.Helper()
	heads := make(chan string, 1)
	endpoint := scripted(t, func(p *peer) {
		if head := p.head(); head != "" {
			heads <- head
			p.say(ok)
		}
	})
	ask(t, open(t, endpoint, setup{}), request)
	return waittest.Receive(t, "a request", heads)
}

func TestTargetGoesOutByteForByte(t *testing.T) {
	each(t, func(t *bed) {
		for _, target := range []string{
			"/", "/a/b", "/a%2Fb", "/a%2fb%zz", "/a?", "/a?x=%zz&y=%2F;z", "/a?x=1?y=2", "/?//http://x", "//", "//evil.test/x", "//evil.test/x?y", "///", "//é", "//a%zz", "/a:b@c", "/é|^`{}\"<>", "*",
			"//" + strings.Repeat("x", 70<<10), "/" + strings.Repeat("x", 70<<10),
		} {
			request := get(target)
			if path, query, ok := strings.Cut(target, "?"); ok {
				request.Path, request.Query = path, "?"+query
			}
			if target == "*" {
				request.Method = "OPTIONS"
			}
			line, _, _ := strings.Cut(recorded(t, request), "\r\n")
			if want := request.Method + " " + target + " HTTP/1.1"; line != want {
				t.Errorf("target %.60q went out as %.60q", want, line)
			}
		}
	})
}

func TestTwoSlashesOnAReusedConnection(t *testing.T) {
	each(t, func(t *bed) {
		var lines []string
		done := make(chan struct{})
		endpoint := scripted(t, func(p *peer) {
			defer close(done)
			for head := p.head(); head != ""; head = p.head() {
				line, _, _ := strings.Cut(head, "\r\n")
				lines = append(lines, line)
				p.say(ok)
			}
		})
		transport := open(t, endpoint, setup{})
		for _, path := range []string{"/a", "//b", "/c", "//d"} {
			ask(t, transport, get(path))
		}
		transport.Release()
		waittest.Receive(t, "the end of the connection", done)
		if got, want := strings.Join(lines, ","), "GET /a HTTP/1.1,GET //b HTTP/1.1,GET /c HTTP/1.1,GET //d HTTP/1.1"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

func TestHead(t *testing.T) {
	each(t, func(t *bed) {
		t.Setenv("http_proxy", "http://127.0.0.1:1")
		t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
		request := get("/")
		for _, field := range [][2]string{{"x-lower", "1"}, {"X-Same", "a"}, {"x-same", "b"}, {"X-SAME", "c"}, {"Content-Length", "7"}, {"Transfer-Encoding", "chunked"}, {"Host", "evil.test"}} {
			request.Fields.Add(field[0], field[1])
		}
		want := "GET / HTTP/1.1\r\nHost: shop.test\r\nX-Same: a\r\nX-Same: b\r\nX-Same: c\r\nx-lower: 1\r\n\r\n"
		if t.engine != nil {
			want = "GET / HTTP/1.1\r\nHost: shop.test\r\nx-lower: 1\r\nX-Same: a\r\nx-same: b\r\nX-SAME: c\r\n\r\n"
		}
		if got := recorded(t, request); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestUserAgentPasses(t *testing.T) {
	each(t, func(t *bed) {
		for _, name := range []string{"User-Agent", "user-agent"} {
			request := get("/")
			request.Fields.Add(name, "curl")
			if got := recorded(t, request); strings.Count(strings.ToLower(got), "user-agent") != 1 || !strings.Contains(got, name+": curl\r\n") {
				t.Errorf("%s: got %q", name, got)
			}
		}
	})
}

func TestSeveralUserAgentsPass(t *testing.T) {
	each(t, func(t *bed) {
		request := get("/")
		request.Fields.Add("User-Agent", "one")
		request.Fields.Add("User-Agent", "two")
		if got := strings.ToLower(recorded(t, request)); !strings.HasSuffix(got, "\r\nuser-agent: one\r\nuser-agent: two\r\n\r\n") {
			t.Errorf("got %q", got)
		}
	})
}

func TestFraming(t *testing.T) {
	each(t, func(t *bed) {
		for name, test := range map[string]struct {
			method string
			body   io.Reader
			length int64
			want   string // of the head
			sent   string
		}{
			"known":                {"POST", strings.NewReader("hello"), 5, "Content-Length: 5\r\n", "hello"},
			"known with GET":       {"GET", strings.NewReader("hello"), 5, "Content-Length: 5\r\n", "hello"},
			"unknown":              {"POST", strings.NewReader("hello"), message.Unknown, "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"},
			"unknown with GET":     {"GET", strings.NewReader("hello"), message.Unknown, "Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n\r\n"},
			"unknown and empty":    {"DELETE", strings.NewReader(""), message.Unknown, "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"},
			"none":                 {"GET", nil, 0, "", ""},
			"none with POST":       {"POST", nil, 0, "Content-Length: 0\r\n", ""},
			"empty with PUT":       {"PUT", strings.NewReader(""), 0, "Content-Length: 0\r\n", ""},
			"more than it says":    {"POST", strings.NewReader("hello world"), 5, "Content-Length: 5\r\n", "hello"},
			"none of unknown size": {"GET", nil, message.Unknown, "", ""},
		} {
			t.Run(name, func(t *bed) {
				heads := make(chan string, 1)
				endpoint := scripted(t, func(p *peer) {
					head := p.head()
					if head == "" {
						return
					}
					heads <- head
					got := make([]byte, len(test.sent))
					if _, err := io.ReadFull(p, got); err != nil || string(got) != test.sent {
						t.Errorf("the body was %q (%v), want %q", got, err, test.sent)
					}
					p.say(ok)
					if rest, _ := io.ReadAll(p); len(rest) > 0 {
						t.Errorf("after the request came %q", rest)
					}
				})
				request := get("/")
				request.Method, request.Length = test.method, test.length
				if test.body != nil {
					request.Body = io.NopCloser(test.body)
				}
				transport := open(t, endpoint, setup{})
				ask(t, transport, request)
				transport.Release()
				head := waittest.Receive(t, "a head", heads)
				if !strings.Contains(head, test.want) || test.want == "" && (strings.Contains(head, "Content-Length") || strings.Contains(head, "Transfer-Encoding")) {
					t.Errorf("got the head %q, want %q in it", head, test.want)
				}
			})
		}
	})
}

func TestRequestTrailer(t *testing.T) {
	each(t, func(t *bed) {
		got := make(chan string, 1)
		endpoint := scripted(t, func(p *peer) {
			if head := p.head(); head != "" {
				got <- head + p.until("\r\n\r\n")
				p.say(ok)
			}
		})
		request := post(strings.NewReader("x"), message.Unknown)
		request.Fields.Add("Trailer", "X-Absent, X-Sum")
		request.Trailer = func() message.Fields {
			var fields message.Fields
			fields.Add("X-Sum", "1")
			fields.Add("X-Undeclared", "2")
			fields.Add("X-Sum", "3")
			fields.Add("Content-Length", "4")
			return fields
		}
		ask(t, open(t, endpoint, setup{}), request)
		text := waittest.Receive(t, "a request", got)
		announced, trailer := "Trailer: X-Absent, X-Sum\r\n", "1\r\nx\r\n0\r\nX-Sum: 1\r\nX-Undeclared: 2\r\nX-Sum: 3\r\n\r\n"
		if t.engine == nil {
			announced, trailer = "Trailer: X-Absent,X-Sum\r\n", "1\r\nx\r\n0\r\nX-Sum: 1\r\nX-Sum: 3\r\nX-Undeclared: 2\r\n\r\n"
		}
		if !strings.Contains(text, announced) || !strings.HasSuffix(text, trailer) {
			t.Errorf("got %q", text)
		}
	})
}

func TestUnsendableRequests(t *testing.T) {
	each(t, func(t *bed) {
		endpoint := scripted(t, func(p *peer) {
			if head := p.head(); head != "" {
				t.Errorf("it was sent: %q", head)
			}
		})
		transport := open(t, endpoint, setup{})
		for name, change := range map[string]func(r *message.Request){
			"a method of two words": func(r *message.Request) { r.Method = "GET /x" },
			"no method":             func(r *message.Request) { r.Method = "" },
			"a space in the path":   func(r *message.Request) { r.Path = "/a b" },
			"a line in the query":   func(r *message.Request) { r.Query = "?a\r\nX: y" },
			"no path":               func(r *message.Request) { r.Path = "" },
			"a line in a value":     func(r *message.Request) { r.Fields.Add("X", "a\r\nY: b") },
			"a colon in a name":     func(r *message.Request) { r.Fields.Add("X: y", "a") },
			"a line in the host":    func(r *message.Request) { r.Host = "a\r\nX: y" },
		} {
			t.Run(name, func(t *bed) {
				body := &closeNoted{Reader: strings.NewReader("x")}
				request := post(nil, 1)
				request.Body = body
				change(request)
				wantError(t, fails(t.Context(), t, transport, request), pipeline.BadRequest)
				if !body.closed.Load() {
					t.Error("the body was not closed")
				}
			})
		}
	})
}
