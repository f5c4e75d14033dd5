package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"sluice/internal/canonical"
	"sluice/internal/message"
)

// The fuzzers compare with net/http: what wire accepts, net/http accepts with
// the same meaning. There are two exceptions. An empty line before a request
// line is skipped here (RFC 9112 2.2); and net/http looks at the escapes of a
// path at once, which here the canonical form of paths does.

// cutsOf are places to cut data at, the same for the same seed; all of them
// where data is short.
func cutsOf(data string, seed uint64) (cuts []int) {
	if len(data) < 64 || seed%16 == 0 && len(data) < 512 {
		for i := range len(data) {
			cuts = append(cuts, i)
		}
		return cuts
	}
	random := rand.New(rand.NewPCG(seed, 1))
	for range random.IntN(6) {
		cuts = append(cuts, random.IntN(len(data)))
	}
	slices.Sort(cuts)
	return cuts
}

// headerOf is a field list as net/http has it. What net/http adds or takes out
// is left out of both.
func headerOf(fields message.Fields, without ...string) http.Header {
	header := http.Header{}
	for _, field := range fields {
		header.Add(field.Name, field.Value)
	}
	return sameHeader(header, without...)
}

func sameHeader(header http.Header, without ...string) http.Header {
	header = header.Clone()
	for _, name := range append(without, "Content-Length", "Transfer-Encoding", "Trailer") {
		header.Del(name)
	}
	if slices.Equal(header["Cache-Control"], []string{"no-cache"}) && header.Get("Pragma") == "no-cache" {
		header.Del("Cache-Control") // net/http adds it
	}
	return header
}

func equalHeaders(a, b http.Header) bool {
	return maps.EqualFunc(a, b, slices.Equal)
}

// oracle reads from data as net/http does, and knows how much of it was taken.
type oracle struct {
	data   *bytes.Reader
	reader *bufio.Reader
}

func newOracle(data string) oracle {
	source := bytes.NewReader([]byte(data))
	return oracle{source, bufio.NewReaderSize(source, 1<<16)}
}

func (o oracle) left() int { return o.data.Len() + o.reader.Buffered() }

// compareBody compares the body that stands in data behind a head of n bytes
// with what net/http reads.
func compareBody(t *testing.T, data string, n int, f Framing, body io.Reader, trailer func() http.Header, o oracle) {
	t.Helper()
	want, wantErr := io.ReadAll(body)
	rest := data[n:]
	switch f.Body {
	case NoBody, Sized:
		size := int(min(f.Length, int64(len(rest))))
		whole := int64(size) == f.Length
		if string(want) != rest[:size] || whole != (wantErr == nil) {
			t.Fatalf("%q: body %q, whole %v; net/http %q, %v", data, rest[:size], whole, want, wantErr)
		}
		if whole && o.left() != len(rest)-size {
			t.Fatalf("%q: %d bytes follow, for net/http %d", data, len(rest)-size, o.left())
		}
	case UntilClose:
		if string(want) != rest || wantErr != nil {
			t.Fatalf("%q: body %q; net/http %q, %v", data, rest, want, wantErr)
		}
	case ChunkedBody:
		got := decode(t, rest, Limits{})
		if got.err != nil {
			return // stricter
		}
		if string(want) != got.payload || got.done != (wantErr == nil) {
			t.Fatalf("%q: body %q, done %v; net/http %q, %v", data, got.payload, got.done, want, wantErr)
		}
		if !got.done {
			return
		}
		if o.left() != len(rest)-got.n {
			t.Fatalf("%q: %d bytes follow, for net/http %d", data, len(rest)-got.n, o.left())
		}
		theirs := http.Header{}
		for name, values := range trailer() {
			if values != nil && !ForbiddenTrailer(message.Field{Name: name, ID: message.Lookup(name)}) {
				theirs[name] = values
			}
		}
		if ours := headerOf(got.trailer); !equalHeaders(ours, theirs) {
			t.Fatalf("%q: trailer %q; net/http %q", data, ours, theirs)
		}
	}
}

func FuzzRequest(f *testing.F) {
	for c := range everyRequest {
		f.Add(c.raw, uint64(len(c.raw)), uint16(0))
	}
	f.Add(browser, uint64(3), uint16(300))
	f.Add(post("Transfer-Encoding: chunked\r\nTrailer: A\r\n")+"3\r\nabc\r\n0\r\nA: 1\r\n\r\nGET ", uint64(0), uint16(0))
	f.Fuzz(func(t *testing.T, data string, seed uint64, limit uint16) {
		limits := Limits{HeaderBytes: int(limit), Headers: int(seed % 32), URIBytes: int(seed / 32 % 128)}
		r, n, framing, err := feedRequest(t, data, limits)
		text := describeRequest(&r, framing)
		r2, n2, framing2, err2 := feedRequest(t, data, limits, cutsOf(data, seed)...)
		if n != n2 || !errors.Is(err2, err) || n > 0 && text != describeRequest(&r2, framing2) {
			t.Fatalf("%q, whole: %d, %v, %s; cut: %d, %v, %s", data, n, err, text, n2, err2, describeRequest(&r2, framing2))
		}
		if n > 0 {
			compareRequest(t, data, n, &r, framing)
		}
	})
}

func compareRequest(t *testing.T, data string, n int, r *message.Request, f Framing) {
	t.Helper()
	skipped := 0
	if strings.HasPrefix(data, "\r\n") {
		skipped = 2
	}
	o := newOracle(data[skipped:])
	want, err := http.ReadRequest(o.reader)
	if err != nil {
		if _, violation := canonical.Path(r.Path, canonical.Options{EncodedSlash: canonical.Keep}); violation == nil {
			t.Fatalf("%q: accepted as %s; net/http: %v", data, describeRequest(r, f), err)
		}
		return
	}
	if r.Method != want.Method || r.Target != want.RequestURI || r.Host != want.Host || string(r.Protocol) != want.Proto || f.Close != want.Close {
		t.Fatalf("%q: %s, close %v; net/http: %s %s %s %s, close %v", data, describeRequest(r, f), f.Close, want.Method, want.RequestURI, want.Host, want.Proto, want.Close)
	}
	if length := r.Length; length != want.ContentLength {
		t.Fatalf("%q: length %d; net/http %d", data, length, want.ContentLength)
	}
	plain, err := url.PathUnescape(r.Path)
	if absent := r.Path == "/" || r.Path == "*"; err != nil || r.Method != "CONNECT" && plain != want.URL.Path && (want.URL.Path != "" || !absent) {
		t.Fatalf("%q: path %q; net/http %q", data, r.Path, want.URL.Path)
	}
	if query := strings.TrimPrefix(r.Query, "?"); query != want.URL.RawQuery {
		t.Fatalf("%q: query %q; net/http %q", data, r.Query, want.URL.RawQuery)
	}
	if ours, theirs := headerOf(r.Fields), sameHeader(want.Header); !equalHeaders(ours, theirs) {
		t.Fatalf("%q: fields %q; net/http %q", data, ours, theirs)
	}
	compareBody(t, data, n, f, want.Body, func() http.Header { return want.Trailer }, o)
}

// methods that matter to the framing of a response.
var responseMethods = [...]string{"GET", "HEAD", "CONNECT"}

func FuzzResponse(f *testing.F) {
	for c := range everyResponse {
		f.Add(c.raw, uint8(slices.Index(responseMethods[:], c.method)), uint64(len(c.raw)), uint16(0))
	}
	f.Add(answer+strings.Repeat("a", 256), uint8(0), uint64(1), uint16(0))
	f.Add("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n3;a=b\r\nabc\r\n0\r\nA: 1\r\n\r\n", uint8(0), uint64(0), uint16(0))
	f.Fuzz(func(t *testing.T, data string, which uint8, seed uint64, limit uint16) {
		method := responseMethods[int(which)%len(responseMethods)]
		limits := Limits{HeaderBytes: int(limit), Headers: int(seed % 32)}
		r, n, framing, err := feedResponse(t, data, method, limits)
		text := describeResponse(&r, framing)
		r2, n2, framing2, err2 := feedResponse(t, data, method, limits, cutsOf(data, seed)...)
		if n != n2 || !errors.Is(err2, err) || n > 0 && text != describeResponse(&r2, framing2) {
			t.Fatalf("%q, whole: %d, %v, %s; cut: %d, %v, %s", data, n, err, text, n2, err2, describeResponse(&r2, framing2))
		}
		if n > 0 {
			compareResponse(t, data, method, n, &r, framing)
		}
	})
}

func compareResponse(t *testing.T, data, method string, n int, r *message.Response, f Framing) {
	t.Helper()
	o := newOracle(data)
	want, err := http.ReadResponse(o.reader, &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%q: accepted as %s; net/http: %v", data, describeResponse(r, f), err)
	}
	defer want.Body.Close()
	var without []string
	if want.Close {
		without = []string{"Connection"} // net/http takes it out
	}
	if ours, theirs := headerOf(r.Fields, without...), sameHeader(want.Header, without...); r.Status != want.StatusCode || !equalHeaders(ours, theirs) {
		t.Fatalf("%q: %d, fields %q; net/http %d, %q", data, r.Status, ours, want.StatusCode, theirs)
	}
	if f.Upgrade && method == "CONNECT" {
		return // net/http leaves to its Transport what follows
	}
	// A length where none may be makes wire close, and net/http ignore it.
	if f.Close != want.Close && !(f.Close && (r.Status < 200 || r.Status == 204)) {
		t.Fatalf("%q: %s; net/http: close %v", data, describeResponse(r, f), want.Close)
	}
	if method == "HEAD" && f.Length != 0 || method != "HEAD" && f.Body != NoBody && f.Length != want.ContentLength {
		t.Fatalf("%q: %s; net/http: length %d", data, describeResponse(r, f), want.ContentLength)
	}
	compareBody(t, data, n, f, want.Body, func() http.Header { return want.Trailer }, o)
}

func FuzzChunked(f *testing.F) {
	for _, c := range chunkedCases {
		f.Add(c.raw, uint64(len(c.raw)), uint16(0))
	}
	f.Fuzz(func(t *testing.T, data string, seed uint64, limit uint16) {
		if len(data) > 3000 {
			return // net/http has bounds of its own
		}
		limits := Limits{HeaderBytes: int(limit), Headers: int(seed % 8)}
		whole, cut := decode(t, data, limits), decode(t, data, limits, cutsOf(data, seed)...)
		if whole.text() != cut.text() {
			t.Fatalf("%q, whole: %s; cut: %s", data, whole.text(), cut.text())
		}
		head := post("Transfer-Encoding: chunked\r\n")
		o := newOracle(head + data)
		want, err := http.ReadRequest(o.reader)
		if err != nil {
			t.Fatal(err)
		}
		compareBody(t, head+data, len(head), Framing{Body: ChunkedBody, Length: message.Unknown}, want.Body, func() http.Header { return want.Trailer }, o)
	})
}

// FuzzRoundTrip writes messages and reads them back.
func FuzzRoundTrip(f *testing.F) {
	f.Add("GET", "/", "", "x", "A: 1", "body", int64(0), 200, uint64(0))
	f.Add("POST", "/a%2f", "?b=c", "y:80", "A: 1\nContent-Length: 7\nconnection: close\nB:\nHost: z", "0123456789", int64(10), 404, uint64(1))
	f.Add("OPTIONS", "*", "", "", "Transfer-Encoding: chunked\nTrailer: X", "0123456789", int64(-1), 304, uint64(2))
	f.Add("PUT", "//a", "?", "[::1]", "Connection: Upgrade\nUpgrade: a\nX: \x00", "", int64(3), 101, uint64(3))
	f.Add("HEAD", "/ü", "?#", "a b", "X Y: a", "abc", int64(99), 204, uint64(4))
	f.Fuzz(func(t *testing.T, method, path, query, host, text, body string, length int64, status int, seed uint64) {
		framing := Framing{Body: Body(seed % 4), Length: length, Close: seed&4 != 0}
		switch framing.Body {
		case NoBody:
			framing.Length = 0
		case ChunkedBody, UntilClose:
			framing.Length = message.Unknown
		case Sized:
			if length == 0 { // reads back as none
				framing.Body = NoBody
			}
		}
		fields := fieldsOf(text)
		roundTripRequest(t, &message.Request{Method: method, Path: path, Query: query, Host: host, Fields: fields, Length: framing.Length}, framing, seed)
		framing.Close = framing.Close || framing.Body == UntilClose // as it is written
		roundTripResponse(t, &message.Response{Status: status, Fields: fields, Length: length}, framing, seed)
		roundTripBody(t, body, fields, seed)
	})
}

// fieldsOf makes fields of lines; values are trimmed, as those of a message are.
func fieldsOf(text string) (fields message.Fields) {
	for line := range strings.SplitSeq(text, "\n") {
		name, value, _ := strings.Cut(line, ":")
		fields.Add(name, strings.Trim(value, " \t"))
	}
	return fields
}

// written are the fields that are expected back.
func written(fields message.Fields, f Framing, request bool) string {
	fields = fields.Clone()
	fields.DeleteFunc(func(field message.Field) bool {
		return field.ID == message.ContentLength || field.ID == message.TransferEncoding || request && field.ID == message.Host || f.Close && field.ID == message.Connection
	})
	if f.Close {
		fields.Add("Connection", "close")
	}
	return lines(fields)
}

func roundTripRequest(t *testing.T, r *message.Request, f Framing, seed uint64) {
	t.Helper()
	data, err := AppendRequestHead([]byte("before"), r, f)
	if err != nil {
		if string(data) != "before" {
			t.Fatalf("%+v: %v, and %q", r, err, data)
		}
		return
	}
	raw := string(data[len("before"):])
	back, n, framing, err := feedRequest(t, raw, Limits{}, cutsOf(raw, seed)...)
	if r.Host == "" && errors.Is(err, ErrHost) || fieldsThatRefuse(r.Fields) && errors.Is(err, ErrTrailerName) {
		return
	}
	if err != nil || n != len(raw) {
		t.Fatalf("%q: read back %d, %v", raw, n, err)
	}
	target := r.Path + r.Query
	if back.Method != r.Method || back.Target != target || back.Path != r.Path || back.Query != r.Query || back.Host != r.Host || lines(back.Fields) != written(r.Fields, f, true) {
		t.Fatalf("%q: read back as %s", raw, describeRequest(&back, framing))
	}
	if framing.Body != f.Body || framing.Length != f.Length || f.Close && !framing.Close {
		t.Fatalf("%q: %s reads back as %s", raw, f, framing)
	}
}

func fieldsThatRefuse(fields message.Fields) bool {
	return slices.ContainsFunc(fields, func(field message.Field) bool {
		return field.ID == message.Trailer && checkAnnounced(field.Value) != nil
	})
}

func roundTripResponse(t *testing.T, r *message.Response, f Framing, seed uint64) {
	t.Helper()
	method := "GET"
	if f.Body == NoBody && r.Length != 0 {
		method = "HEAD" // else the length would announce a body
	}
	data, err := AppendResponseHead([]byte("before"), r, f)
	if err != nil {
		if string(data) != "before" {
			t.Fatalf("%+v: %v, and %q", r, err, data)
		}
		return
	}
	raw := string(data[len("before"):])
	back, n, framing, err := feedResponse(t, raw, method, Limits{}, cutsOf(raw, seed)...)
	if fieldsThatRefuse(r.Fields) && errors.Is(err, ErrTrailerName) {
		return
	}
	if err != nil || n != len(raw) {
		t.Fatalf("%q: read back %d, %v", raw, n, err)
	}
	if back.Status != r.Status || lines(back.Fields) != written(r.Fields, f, false) || framing.Body != f.Body || framing.Length != f.Length || f.Close && !framing.Close {
		t.Fatalf("%q: %s reads back as %s", raw, f, describeResponse(&back, framing))
	}
	if method == "HEAD" && r.Length >= 0 && r.Status >= 200 && r.Status != 204 && back.Length != r.Length {
		t.Fatalf("%q: length %d reads back as %d", raw, r.Length, back.Length)
	}
}

func roundTripBody(t *testing.T, body string, trailer message.Fields, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 2))
	var data []byte
	for rest := body; rest != ""; {
		size := 1 + random.IntN(len(rest))
		data = AppendChunk(data, []byte(rest[:size]))
		rest = rest[size:]
	}
	whole, err := AppendLastChunk(data, trailer)
	if err != nil {
		if len(whole) != len(data) {
			t.Fatalf("%v, and %q", err, whole)
		}
		return
	}
	want := trailer.Clone()
	want.DeleteFunc(ForbiddenTrailer)
	got := decode(t, string(whole)+"behind", Limits{}, cutsOf(string(whole), seed)...)
	if got.err != nil || !got.done || got.payload != body || got.n != len(whole) || lines(got.trailer) != lines(want) {
		t.Fatalf("%q: read back as %s", whole, got.text())
	}
}

// decoded is what came out of a chunked body.
type decoded struct {
	payload string
	trailer message.Fields
	n       int // bytes that it took
	done    bool
	err     error
}

func (d decoded) text() string {
	if d.err != nil {
		return "error " + d.err.Error()
	}
	return fmt.Sprintf("%q [%s] done %v, %d bytes", d.payload, lines(d.trailer), d.done, d.n)
}

// decode gives a decoder the data as it comes: cut at the given places.
func decode(t testing.TB, data string, limits Limits, cuts ...int) (d decoded) {
	t.Helper()
	c := NewChunked(limits, 0)
	from := 0
	for _, cut := range append(cuts, len(data)) {
		if cut < from {
			continue
		}
		part := []byte(data[from:cut])
		from = cut
		for len(part) > 0 && !c.Done() {
			n, payload, err := c.Next(part)
			if err != nil {
				d.err = err
				if _, _, again := c.Next([]byte("0")); !errors.Is(again, err) {
					t.Errorf("%q: %v, and then %v", data, err, again)
				}
				return d
			}
			if n == 0 {
				t.Fatalf("%q: nothing is taken of %q", data, part)
			}
			d.n += n
			d.payload += string(payload)
			part = part[n:]
		}
	}
	d.done, d.trailer = c.Done(), c.Trailer()
	return d
}
