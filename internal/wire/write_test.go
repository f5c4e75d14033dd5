package wire

import (
	"errors"
	"strings"
	"testing"

	"sluice/internal/message"
)

func TestAppendRequestHead(t *testing.T) {
	some := message.Fields{}
	for _, line := range []string{"b: 1", "HOST: y", "A:", "content-length: 9", "Transfer-Encoding: x", "Connection: upgrade", "b: 2"} {
		name, value, _ := strings.Cut(line, ":")
		some.Add(name, trim(value))
	}
	for _, c := range []struct {
		name string
		r    message.Request
		f    Framing
		want string
	}{
		{"plain", message.Request{Method: "GET", Path: "/", Host: "x"}, Framing{}, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"query", message.Request{Method: "GET", Path: "/a", Query: "?b", Host: "x:80"}, Framing{}, "GET /a?b HTTP/1.1\r\nHost: x:80\r\n\r\n"},
		{"empty query", message.Request{Method: "GET", Path: "/a", Query: "?", Host: "x"}, Framing{}, "GET /a? HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"two slashes", message.Request{Method: "GET", Path: "//a", Host: "x"}, Framing{}, "GET //a HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"asterisk", message.Request{Method: "OPTIONS", Path: "*", Host: "x"}, Framing{}, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"},
		{"empty Host", message.Request{Method: "GET", Path: "/"}, Framing{}, "GET / HTTP/1.1\r\nHost: \r\n\r\n"},
		{"POST without a body", message.Request{Method: "POST", Path: "/", Host: "x"}, Framing{}, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"},
		{"PUT and PATCH alike", message.Request{Method: "PATCH", Path: "/", Host: "x"}, Framing{}, "PATCH / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n"},
		{"length", message.Request{Method: "GET", Path: "/", Host: "x"}, Framing{Body: Sized, Length: 5}, "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n"},
		{"chunked", message.Request{Method: "POST", Path: "/", Host: "x"}, Framing{Body: ChunkedBody, Length: -1}, "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"fields", message.Request{Method: "GET", Path: "/", Host: "x", Fields: some}, Framing{}, "GET / HTTP/1.1\r\nHost: x\r\nb: 1\r\nA: \r\nConnection: upgrade\r\nb: 2\r\n\r\n"},
		{"close", message.Request{Method: "GET", Path: "/", Host: "x", Fields: some}, Framing{Close: true}, "GET / HTTP/1.1\r\nHost: x\r\nb: 1\r\nA: \r\nb: 2\r\nConnection: close\r\n\r\n"},
	} {
		got, err := AppendRequestHead([]byte("before "), &c.r, c.f)
		if err != nil || string(got) != "before "+c.want {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

func TestAppendRequestHeadRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(r *message.Request, f *Framing)
		want error
	}{
		{"no method", func(r *message.Request, _ *Framing) { r.Method = "" }, ErrMethod},
		{"line end in the method", func(r *message.Request, _ *Framing) { r.Method = "GET /x HTTP/1.1\r\nA" }, ErrMethod},
		{"CONNECT", func(r *message.Request, _ *Framing) { r.Method, r.Path = "CONNECT", "y:80" }, ErrPath},
		{"no path", func(r *message.Request, _ *Framing) { r.Path = "" }, ErrPath},
		{"no slash", func(r *message.Request, _ *Framing) { r.Path = "a" }, ErrPath},
		{"space in the path", func(r *message.Request, _ *Framing) { r.Path = "/a b" }, ErrPath},
		{"line end in the path", func(r *message.Request, _ *Framing) { r.Path = "/\r\nA: 1" }, ErrPath},
		{"fragment in the path", func(r *message.Request, _ *Framing) { r.Path = "/a#b" }, ErrPath},
		{"query in the path", func(r *message.Request, _ *Framing) { r.Path = "/a?b" }, ErrPath},
		{"asterisk for GET", func(r *message.Request, _ *Framing) { r.Path = "*" }, ErrPath},
		{"asterisk with a query", func(r *message.Request, _ *Framing) { r.Method, r.Path, r.Query = "OPTIONS", "*", "?a" }, ErrPath},
		{"query without its mark", func(r *message.Request, _ *Framing) { r.Query = "a" }, ErrPath},
		{"space in the query", func(r *message.Request, _ *Framing) { r.Query = "?a b" }, ErrPath},
		{"fragment in the query", func(r *message.Request, _ *Framing) { r.Query = "?a#b" }, ErrPath},
		{"line end in Host", func(r *message.Request, _ *Framing) { r.Host = "x\r\nA: 1" }, ErrHost},
		{"path in Host", func(r *message.Request, _ *Framing) { r.Host = "x/y" }, ErrHost},
		{"no name", func(r *message.Request, _ *Framing) { r.Fields.Add("", "1") }, ErrFieldName},
		{"colon in a name", func(r *message.Request, _ *Framing) { r.Fields.Add("A: 1\r\nB", "1") }, ErrFieldName},
		{"line end in a value", func(r *message.Request, _ *Framing) { r.Fields.Add("A", "1\r\nB: 2") }, ErrFieldValue},
		{"LF in a value", func(r *message.Request, _ *Framing) { r.Fields.Add("A", "1\n") }, ErrFieldValue},
		{"NUL in a value", func(r *message.Request, _ *Framing) { r.Fields.Add("A", "\x00") }, ErrFieldValue},
		{"negative length", func(_ *message.Request, f *Framing) { f.Body, f.Length = Sized, -1 }, ErrLength},
		{"until close", func(_ *message.Request, f *Framing) { f.Body = UntilClose }, ErrBody},
	} {
		r, f := message.Request{Method: "GET", Path: "/", Host: "x"}, Framing{}
		c.edit(&r, &f)
		got, err := AppendRequestHead([]byte("before"), &r, f)
		if !errors.Is(err, c.want) || string(got) != "before" {
			t.Errorf("%s: %q, %v, want %v", c.name, got, err, c.want)
		}
	}
}

func TestAppendResponseHead(t *testing.T) {
	some := message.Fields{}
	some.Add("Host", "y")
	some.Add("content-length", "9")
	some.Add("connection", "upgrade")
	some.Add("Transfer-Encoding", "x")
	for _, c := range []struct {
		name string
		r    message.Response
		f    Framing
		want string
	}{
		{"length", message.Response{Status: 200, Length: 5}, Framing{Body: Sized, Length: 5}, "200 OK\r\nContent-Length: 5\r\n\r\n"},
		{"chunked", message.Response{Status: 200, Length: -1}, Framing{Body: ChunkedBody}, "200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"},
		{"until close", message.Response{Status: 200, Length: -1}, Framing{Body: UntilClose}, "200 OK\r\nConnection: close\r\n\r\n"},
		{"empty", message.Response{Status: 404}, Framing{}, "404 Not Found\r\nContent-Length: 0\r\n\r\n"},
		{"HEAD", message.Response{Status: 200, Length: 7}, Framing{}, "200 OK\r\nContent-Length: 7\r\n\r\n"},
		{"HEAD of unknown length", message.Response{Status: 200, Length: -1}, Framing{}, "200 OK\r\n\r\n"},
		{"304", message.Response{Status: 304, Length: 7}, Framing{}, "304 Not Modified\r\nContent-Length: 7\r\n\r\n"},
		{"204", message.Response{Status: 204, Length: 0}, Framing{}, "204 No Content\r\n\r\n"},
		{"103", message.Response{Status: 103, Length: 0}, Framing{}, "103 Early Hints\r\n\r\n"},
		{"no reason", message.Response{Status: 599}, Framing{}, "599 \r\nContent-Length: 0\r\n\r\n"},
		{"fields", message.Response{Status: 200, Fields: some}, Framing{}, "200 OK\r\nHost: y\r\nconnection: upgrade\r\nContent-Length: 0\r\n\r\n"},
		{"close", message.Response{Status: 200, Fields: some}, Framing{Close: true, KeepAlive: true}, "200 OK\r\nHost: y\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"},
		{"keep-alive", message.Response{Status: 200, Fields: some}, Framing{KeepAlive: true}, "200 OK\r\nHost: y\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n"},
	} {
		got, err := AppendResponseHead([]byte("before "), &c.r, c.f)
		if err != nil || string(got) != "before HTTP/1.1 "+c.want {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	for _, c := range []struct {
		name string
		r    message.Response
		f    Framing
		want error
	}{
		{"status 99", message.Response{Status: 99}, Framing{}, ErrStatus},
		{"status 600", message.Response{Status: 600}, Framing{}, ErrStatus},
		{"body of a 204", message.Response{Status: 204}, Framing{Body: Sized, Length: 1}, ErrBody},
		{"body of a 304", message.Response{Status: 304}, Framing{Body: ChunkedBody}, ErrBody},
		{"body of a 1xx", message.Response{Status: 101}, Framing{Body: UntilClose}, ErrBody},
		{"negative length", message.Response{Status: 200}, Framing{Body: Sized, Length: -1}, ErrLength},
		{"bad name", message.Response{Status: 200, Fields: message.Fields{{Name: "A B"}}}, Framing{}, ErrFieldName},
		{"bad value", message.Response{Status: 200, Fields: message.Fields{{Name: "A", Value: "\r\n"}}}, Framing{}, ErrFieldValue},
	} {
		got, err := AppendResponseHead([]byte("before"), &c.r, c.f)
		if !errors.Is(err, c.want) || string(got) != "before" {
			t.Errorf("%s: %q, %v, want %v", c.name, got, err, c.want)
		}
	}
}

func TestAppendChunks(t *testing.T) {
	if got := AppendChunk([]byte("a"), nil); string(got) != "a" {
		t.Errorf("an empty chunk is %q", got)
	}
	got := AppendChunk(nil, []byte("0123456789abcdef"))
	got = AppendChunkHeader(got, 1<<40)
	if string(got) != "10\r\n0123456789abcdef\r\n10000000000\r\n" {
		t.Errorf("%q", got)
	}
	got, err := AppendLastChunk([]byte("a"), message.Fields{{Name: "X", Value: "1"}, {Name: "Content-Length", Value: "1", ID: message.ContentLength}, {Name: "if-x", Value: "2"}})
	if string(got) != "a0\r\nX: 1\r\n\r\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	got, err = AppendLastChunk([]byte("a"), message.Fields{{Name: "X", Value: "1"}, {Name: "Y", Value: "\r\n"}})
	if string(got) != "a" || !errors.Is(err, ErrFieldValue) {
		t.Errorf("%q, %v", got, err)
	}
	for _, size := range []int64{0, -1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a chunk of size %d", size)
				}
			}()
			AppendChunkHeader(nil, size)
		}()
	}
}

func TestWritingAllocatesNothing(t *testing.T) {
	var request message.Request
	var response message.Response
	_, sent, err := RequestHead(&request, []byte(browser), new(Scan), Limits{})
	_, received, err2 := ResponseHead(&response, []byte(answer), new(Scan), "GET", Limits{})
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	buffer, payload := make([]byte, 0, 4096), []byte("hello")
	trailer := message.Fields{{Name: "X", Value: "1"}}
	if n := testing.AllocsPerRun(100, func() {
		b, err := AppendRequestHead(buffer, &request, sent)
		if err != nil {
			t.Fatal(err)
		}
		if b, err = AppendResponseHead(b, &response, received); err != nil {
			t.Fatal(err)
		}
		b = AppendChunk(b, payload)
		if _, err = AppendLastChunk(b, trailer); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Every rule says something of its own.
func TestErrors(t *testing.T) {
	seen := map[string]bool{}
	for _, err := range []*Error{
		ErrMethod, ErrURITooLong, ErrNoVersion, ErrRequestLine, ErrVersion, ErrUnsupportedVersion, ErrTarget, ErrTargetForm, ErrAuthority, ErrStatusLine, ErrStatus, ErrReason,
		ErrBareLF, ErrBareCR, ErrHeaderTooLarge, ErrTooManyFields, ErrFold, ErrNoColon, ErrNameSpace, ErrFieldName, ErrFieldValue, ErrNoHost, ErrTwoHosts, ErrHost,
		ErrLength, ErrLengths, ErrLengthAndCoding, ErrCoding, ErrChunkedNotLast, ErrUnknownCoding, ErrCodingIn10, ErrCodingIn1xx, ErrTrailerName,
		ErrChunkSize, ErrChunkExtension, ErrChunkEnd, ErrPath, ErrBody,
	} {
		if seen[err.Error()] || err.Error() == "" {
			t.Errorf("%q twice", err)
		}
		seen[err.Error()] = true
		want := Malformed
		switch err {
		case ErrURITooLong:
			want = URITooLong
		case ErrHeaderTooLarge, ErrTooManyFields:
			want = HeaderTooLarge
		case ErrUnsupportedVersion:
			want = BadVersion
		case ErrUnknownCoding:
			want = NotImplemented
		}
		if err.Kind != want {
			t.Errorf("%q has kind %d", err, err.Kind)
		}
	}
}
