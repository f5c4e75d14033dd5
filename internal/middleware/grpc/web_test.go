package grpc_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"sluice/internal/config"
	"sluice/internal/message"
	"sluice/internal/middleware/grpc"
	"sluice/internal/model"
	"sluice/internal/pipeline"
)

// resolve returns the middleware as a document has it, or the problems.
func resolve(written string) (pipeline.Middleware, []string) {
	kind := grpc.Web()
	result := config.Resolve([]config.Document{{Name: "it.yaml", Data: []byte(`
listeners: {web: {address: ":0"}}
routes: [{match: {path: /}, respond: {status: 200}, middleware: [` + written + `]}]
`)}}, []config.Kind{{Name: kind.Name, Options: kind.Options, Validate: kind.Validate}}, config.Environment{})
	var problems []string
	for _, p := range result.Problems {
		problems = append(problems, p.Error())
	}
	if result.Gateway == nil {
		return nil, problems
	}
	return kind.Build(&pipeline.Site{}, result.Gateway.Routes[0].Chain[0].Settings), problems
}

func TestWritten(t *testing.T) {
	for _, written := range []string{"{grpc_web: {}}", "grpc_web: "} {
		if _, problems := resolve(written); problems != nil {
			t.Errorf("%s: %v", written, problems)
		}
	}
	if _, problems := resolve("{grpc_web: {text: true}}"); len(problems) != 1 || !strings.Contains(problems[0], "text") {
		t.Errorf("an option that is none: %v", problems)
	}
}

// The messages of the tests, as they stand in a body.
const (
	first  = "\x00\x00\x00\x00\x05hello"
	second = "\x01\x00\x00\x00\x02\xff\xfe"
)

// ended is the last frame of a good answer.
var ended = frame("grpc-status:0\r\nx-trailer:yes\r\n")

func frame(fields string) string { return "\x80\x00\x00\x00" + string(rune(len(fields))) + fields }

func text(plain string) string { return base64.StdEncoding.EncodeToString([]byte(plain)) }

// closer is a body that tells whether it was closed.
type closer struct {
	io.Reader
	closed bool
}

func (c *closer) Close() error { c.closed = true; return nil }

func fields(lines ...string) (f message.Fields) {
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		f.Add(name, value)
	}
	return f
}

func lines(fields message.Fields) string {
	var out strings.Builder
	for _, f := range fields {
		fmt.Fprintf(&out, "%s: %s\n", f.Name, f.Value)
	}
	return out.String()
}

func exchange(contentType, accept, body string, reader func(io.Reader) io.Reader) *pipeline.Exchange {
	r := &message.Request{Protocol: message.HTTP11, Method: "POST", Host: "calls.test", Path: "/p.S/M", Fields: fields("content-type: "+contentType, "X-Mine: 1")}
	if accept != "" {
		r.Fields.Add("Accept", accept)
	}
	if body != "" {
		r.Body, r.Length = &closer{Reader: reader(strings.NewReader(body))}, int64(len(body))
	}
	return pipeline.NewExchange(context.Background(), r, &model.Listener{}, netip.AddrPort{}, time.Now())
}

// endpoint is what the middleware stands before. It keeps what it was asked.
type endpoint struct {
	kind    string
	head    message.Fields
	body    io.Reader // nil: none
	trailer message.Fields
	err     error

	asked message.Request
	got   string
	read  error
	of    *closer
}

func (e *endpoint) Serve(x *pipeline.Exchange) error {
	e.asked = *x.Request
	if x.Request.Body != nil {
		body, err := io.ReadAll(x.Request.Body)
		e.got, e.read = string(body), err
		_ = x.Request.Body.Close()
	}
	if e.err != nil {
		return e.err
	}
	r := &message.Response{Status: 200, Fields: append(fields("Content-Type: "+e.kind), e.head...)}
	if e.body != nil {
		e.of = &closer{Reader: e.body}
		r.Body, r.Length = e.of, message.Unknown
	}
	if e.trailer != nil {
		r.Fields.Add("Trailer", "grpc-status")
		r.Trailer = func() message.Fields { return e.trailer }
	}
	x.Response = r
	return nil
}

var readers = map[string]func(io.Reader) io.Reader{
	"at once":      func(r io.Reader) io.Reader { return r },
	"byte by byte": iotest.OneByteReader,
	"with its end": iotest.DataErrReader,
	"in halves":    iotest.HalfReader,
}

// TestCalls passes a call of two messages, and an answer of two, in each form.
func TestCalls(t *testing.T) {
	middleware, problems := resolve("{grpc_web: {}}")
	if problems != nil {
		t.Fatal(problems)
	}
	for _, c := range []struct{ asked, accept, sent, toEndpoint, fromEndpoint, answered, body string }{
		{"application/grpc-web+proto", "", first + second, "application/grpc+proto", "application/grpc+proto", "application/grpc-web+proto", first + second + ended},
		{"application/grpc-web", "*/*", first + second, "application/grpc", "application/grpc", "application/grpc-web", first + second + ended},
		{"application/grpc-web-text", "application/grpc-web-text", text(first + second), "application/grpc", "application/grpc", "application/grpc-web-text", text(first) + text(second) + text(ended)},
		{"application/grpc-web-text+proto", "", text(first) + text(second), "application/grpc+proto", "application/grpc+proto", "application/grpc-web-text+proto", text(first) + text(second) + text(ended)},
		{"application/grpc-web-text", "application/grpc-web+proto", text(first + second), "application/grpc", "application/grpc", "application/grpc-web", first + second + ended},
		{"application/grpc-web+proto", "application/grpc-web-text", first + second, "application/grpc+proto", "application/grpc", "application/grpc-web-text", text(first) + text(second) + text(ended)},
	} {
		for how, reader := range readers {
			e := &endpoint{kind: c.fromEndpoint, head: fields("X-Head: h"), body: reader(strings.NewReader(first + second)), trailer: fields("Grpc-Status: 0", "x-trailer: yes")}
			x := exchange(c.asked, c.accept, c.sent, reader)
			client := x.Request
			before := lines(client.Fields)
			if err := middleware(e).Serve(x); err != nil {
				t.Fatal(err)
			}
			name := c.asked + " for " + c.accept + " " + how
			if e.got != first+second || e.read != nil || lines(e.asked.Fields) != "content-type: "+c.toEndpoint+"\nX-Mine: 1\nTE: trailers\n" {
				t.Errorf("%s: the endpoint got %q, %v\n%s", name, e.got, e.read, lines(e.asked.Fields))
			}
			if want := strings.HasPrefix(c.asked, "application/grpc-web-text"); want != (e.asked.Length == message.Unknown) {
				t.Errorf("%s: the endpoint got a body of %d", name, e.asked.Length)
			}
			if x.Request != client || lines(client.Fields) != before {
				t.Errorf("%s: the client's request has become\n%s", name, lines(x.Request.Fields))
			}
			body, err := io.ReadAll(x.Response.Body)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			got, want := string(body), c.body
			if strings.Contains(c.answered, "text") { // where it is padded is another test's
				got, want = plain(t, got), plain(t, want)
			}
			if got != want {
				t.Errorf("%s: %q", name, got)
			}
			if r := x.Response; r.Status != 200 || r.Trailer != nil || r.Length != message.Unknown || lines(r.Fields) != "Content-Type: "+c.answered+"\nX-Head: h\n" {
				t.Errorf("%s: %+v\n%s", name, r, lines(r.Fields))
			}
			if err := x.Response.Close(); err != nil || !e.of.closed {
				t.Errorf("%s: closing gave %v", name, err)
			}
			if n, err := x.Response.Body.Read(make([]byte, 1)); n != 0 || err == nil || err == io.EOF {
				t.Errorf("%s: after Close: %d, %v", name, n, err)
			}
		}
	}
}

// plain decodes text that may be padded at any group.
func plain(t *testing.T, text string) string {
	t.Helper()
	var out strings.Builder
	for ; text != ""; text = text[4:] {
		if len(text) < 4 {
			t.Fatalf("%q is left", text)
		}
		data, err := base64.StdEncoding.DecodeString(text[:4])
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		out.Write(data)
	}
	return out.String()
}

// TestMessagesAreNotHeldBack lets each message out when it has come, in text, too.
func TestMessagesAreNotHeldBack(t *testing.T) {
	middleware, _ := resolve("{grpc_web: {}}")
	for kind, coded := range map[string]func(string) string{
		"application/grpc-web": func(s string) string { return s }, "application/grpc-web-text": text,
	} {
		reading, writing := io.Pipe()
		e := &endpoint{kind: "application/grpc", body: reading, trailer: fields("grpc-status: 0", "x-trailer: yes")}
		x := exchange(kind, "", "", nil)
		if err := middleware(e).Serve(x); err != nil {
			t.Fatal(err)
		}
		for _, piece := range []string{first, second, first} {
			go writing.Write([]byte(piece))
			got := make([]byte, len(coded(piece)))
			if _, err := io.ReadFull(x.Response.Body, got); err != nil || string(got) != coded(piece) {
				t.Errorf("%s: %q, %v", kind, got, err)
			}
		}
		go writing.Close()
		rest, err := io.ReadAll(x.Response.Body)
		if err != nil || string(rest) != coded(ended) {
			t.Errorf("%s: %q, %v", kind, rest, err)
		}
	}
}

func answer(t *testing.T, e *endpoint, x *pipeline.Exchange) (string, error) {
	t.Helper()
	middleware, _ := resolve("{grpc_web: {}}")
	if err := middleware(e).Serve(x); err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(x.Response.Body)
	return string(body), err
}

// TestOnlyTrailers has answers whose head is all there is, and others that lack
// what they should have.
func TestOnlyTrailers(t *testing.T) {
	for name, c := range map[string]struct {
		e          endpoint
		body, head string
	}{
		"only trailers": {endpoint{head: fields("grpc-status: 12", "grpc-message: no%20such", "x-a: 1", "grpc-status-details-bin: AA")},
			frame("grpc-status:12\r\ngrpc-message:no%20such\r\ngrpc-status-details-bin:AA\r\n"), "Content-Type: application/grpc-web\nx-a: 1\n"},
		"with an empty body": {endpoint{head: fields("grpc-status: 5"), body: strings.NewReader("")},
			frame("grpc-status:5\r\n"), "Content-Type: application/grpc-web\n"},
		"no status": {endpoint{body: strings.NewReader(first)},
			first + frame("grpc-status:13\r\ngrpc-message:The upstream ended the response without a status.\r\n"), "Content-Type: application/grpc-web\n"},
		"a trailer without one": {endpoint{body: strings.NewReader(first), trailer: fields("x-a: 1")},
			first + frame("x-a:1\r\ngrpc-status:13\r\ngrpc-message:The upstream ended the response without a status.\r\n"), "Content-Type: application/grpc-web\n"},
		"only a hint": {endpoint{head: fields("grpc-retry-pushback-ms: 1"), body: strings.NewReader("")},
			frame("grpc-status:13\r\ngrpc-message:The upstream ended the response without a status.\r\n"), "Content-Type: application/grpc-web\ngrpc-retry-pushback-ms: 1\n"},
	} {
		c.e.kind = "application/grpc"
		x := exchange("application/grpc-web", "", first, readers["at once"])
		body, err := answer(t, &c.e, x)
		if err != nil || body != c.body {
			t.Errorf("%s: %q, want %q (%v)", name, body, c.body, err)
		}
		if got := lines(x.Response.Fields); got != c.head {
			t.Errorf("%s:\n%s", name, got)
		}
	}
}

// TestBrokenAnswers breaks off between messages, which the last frame tells, and
// in one.
func TestBrokenAnswers(t *testing.T) {
	cut := pipeline.NewError(pipeline.UpstreamReset, io.EOF)
	broken := func(text string) io.Reader { return io.MultiReader(strings.NewReader(text), iotest.ErrReader(cut)) }
	told := frame("grpc-status:14\r\ngrpc-message:upstream_reset: The upstream closed the connection before it answered.\r\n")
	for kind, coded := range map[string]func(string) string{
		"application/grpc-web": func(s string) string { return s }, "application/grpc-web-text": text,
	} {
		x := exchange(kind, "", first, readers["at once"])
		if strings.HasSuffix(kind, "text") {
			x.Request.Body = io.NopCloser(strings.NewReader(text(first)))
		}
		body, err := answer(t, &endpoint{kind: "application/grpc", body: broken(first)}, x)
		if err != nil || body != coded(first)+coded(told) || x.Err != cut {
			t.Errorf("%s: %q, %v; the log has %v", kind, body, err, x.Err)
		}
		x = exchange(kind, "", "", nil)
		body, err = answer(t, &endpoint{kind: "application/grpc", body: broken(first[:7])}, x)
		if !errors.Is(err, cut) || body != coded(first[:7]) || x.Err != nil {
			t.Errorf("%s, in a message: %q, %v; the log has %v", kind, body, err, x.Err)
		}
	}
}

// TestOthersPass has what is no call of the web forms, and answers that are none.
func TestOthersPass(t *testing.T) {
	middleware, _ := resolve("{grpc_web: {}}")
	for _, kind := range []string{"application/grpc", "application/json", "application/grpc-webs"} {
		x := exchange(kind, "", first, readers["at once"])
		request := x.Request
		e := &endpoint{kind: "application/grpc", body: strings.NewReader(first), trailer: fields("grpc-status: 0")}
		if err := middleware(e).Serve(x); err != nil {
			t.Fatal(err)
		}
		if lines(e.asked.Fields) != lines(request.Fields) || x.Response.Body != io.ReadCloser(e.of) || x.Response.Trailer == nil {
			t.Errorf("%s was changed", kind)
		}
	}
	x := exchange("application/grpc-web", "", first, readers["at once"])
	e := &endpoint{kind: "text/html", body: strings.NewReader("<p>")}
	if body, err := answer(t, e, x); err != nil || body != "<p>" || x.Response.Fields.Get(message.ContentType) != "text/html" {
		t.Errorf("%q, %v\n%s", body, err, lines(x.Response.Fields))
	}
	x = exchange("application/grpc-web", "", first, readers["at once"])
	x.Request.Method = "OPTIONS"
	if body, err := answer(t, e, x); err != nil || body != "" || lines(e.asked.Fields) != lines(x.Request.Fields) {
		t.Errorf("OPTIONS: %q, %v", body, err)
	}
}

// TestErrorsAreTheClients leaves an error to whoever tells it, with the client's
// own request.
func TestErrorsAreTheClients(t *testing.T) {
	middleware, _ := resolve("{grpc_web: {}}")
	x := exchange("application/grpc-web-text", "", text(first), readers["at once"])
	client := x.Request
	err := middleware(&endpoint{err: pipeline.NewError(pipeline.NoEndpoint, nil)}).Serve(x)
	if e := pipeline.AsError(err); e == nil || e.Word != pipeline.NoEndpoint || x.Request != client {
		t.Fatalf("%v", err)
	}
	pipeline.Fail(x, err)
	body, readErr := io.ReadAll(x.Response.Body)
	if readErr != nil || !strings.HasPrefix(plain(t, string(body)), "\x80\x00\x00\x00") || !strings.Contains(plain(t, string(body)), "grpc-status:14\r\n") {
		t.Errorf("%q, %v", body, readErr)
	}
}

// TestBadText is refused, and what came before it is not lost.
func TestBadText(t *testing.T) {
	for _, sent := range []string{text(first) + "A", text(first) + "AB==C", text(first) + "****", text(first) + "=AAA", text(first) + "A=A=", text(first) + "AAAA\r\nAAAA"} {
		for how, reader := range readers {
			e := &endpoint{kind: "application/grpc", body: strings.NewReader("")}
			if _, err := answer(t, e, exchange("application/grpc-web-text", "", sent, reader)); err != nil {
				t.Fatal(err)
			}
			if read := pipeline.AsError(e.read); read == nil || read.Word != pipeline.BadRequest || !strings.HasPrefix(e.got, first) {
				t.Errorf("%q %s: %q, %v", sent, how, e.got, e.read)
			}
		}
	}
	lost := errors.New("lost")
	e := &endpoint{kind: "application/grpc", body: strings.NewReader("")}
	x := exchange("application/grpc-web-text", "", "x", func(io.Reader) io.Reader {
		return io.MultiReader(strings.NewReader(text(first)), iotest.ErrReader(lost))
	})
	if _, err := answer(t, e, x); err != nil || !errors.Is(e.read, lost) || e.got != first {
		t.Errorf("a body that breaks: %q, %v", e.got, e.read)
	}
}

// TestLargeText passes more than is coded at once, to and fro.
func TestLargeText(t *testing.T) {
	large := "\x00\x00\x03\x0d\x40" + strings.Repeat("0123456789", 20_000)
	for how, reader := range readers {
		e := &endpoint{kind: "application/grpc", body: reader(strings.NewReader(large)), trailer: fields("grpc-status: 0", "x-trailer: yes")}
		body, err := answer(t, e, exchange("application/grpc-web-text", "", text(large), reader))
		if err != nil || e.read != nil || e.got != large {
			t.Fatalf("%s: %d bytes, %v, %v", how, len(e.got), e.read, err)
		}
		if got := plain(t, body); got != large+ended {
			t.Errorf("%s: %d bytes came back", how, len(got))
		}
	}
}

func TestBuffered(t *testing.T) {
	x := exchange("application/grpc-web", "", "", nil)
	middleware, _ := resolve("{grpc_web: {}}")
	next := pipeline.HandlerFunc(func(x *pipeline.Exchange) error {
		x.Response = &message.Response{Status: 200, Fields: fields("Content-Type: application/grpc"), Body: message.Text(first), Length: message.Unknown}
		return nil
	})
	if err := middleware(next).Serve(x); err != nil {
		t.Fatal(err)
	}
	if got := message.Buffered(x.Response.Body); got != len(first) {
		t.Errorf("%d bytes are there at first", got)
	}
	if _, err := io.ReadFull(x.Response.Body, make([]byte, len(first)+1)); err != nil {
		t.Fatal(err)
	}
	if got := message.Buffered(x.Response.Body); got != len(frame("grpc-status:13\r\ngrpc-message:The upstream ended the response without a status.\r\n"))-1 {
		t.Errorf("%d bytes of the frame are there", got)
	}
	if err := x.Response.Close(); err != nil || message.Buffered(x.Response.Body) != 0 {
		t.Errorf("after Close: %v", err)
	}
}
