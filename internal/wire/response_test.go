package wire

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/internal/message"
)

// responseCase is the bytes of a response to a method, and what they mean, as
// with requestCase.
type responseCase struct {
	name, method, raw string
	err               *Error
	want              string
}

func ok(lines string) string { return "HTTP/1.1 200 OK\r\n" + lines + "\r\n" }

// status is a response with a status.
func status(code, lines string) string { return "HTTP/1.1 " + code + "\r\n" + lines + "\r\n" }

func describeResponse(r *message.Response, f Framing) string {
	return fmt.Sprintf("%d [%s] %s, %d", r.Status, lines(r.Fields), f, r.Length)
}

var responseCases = []responseCase{
	{"length", "GET", ok("A: 1\r\nContent-Length: 2\r\nb: 2\r\n") + "ok", nil, "200 [A: 1|b: 2] sized 2, 2"},
	{"length 0", "GET", ok("Content-Length: 0\r\n"), nil, "200 [] none, 0"},
	{"equal lengths", "GET", ok("Content-Length: 2\r\nContent-Length: 2\r\n"), nil, "200 [] sized 2, 2"},
	{"chunked", "GET", ok("Transfer-Encoding: chunked\r\n"), nil, "200 [] chunked, -1"},
	{"until close", "GET", ok(""), nil, "200 [] until close close, -1"},
	{"until close whatever Connection says", "GET", ok("Connection: keep-alive\r\n"), nil, "200 [Connection: keep-alive] until close close, -1"},
	{"close", "GET", ok("Content-Length: 2\r\nConnection: a,close\r\n"), nil, "200 [Connection: a,close] sized 2 close, 2"},
	{"HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n", nil, "200 [] sized 2 close, 2"},
	{"HTTP/1.0 keep-alive", "GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n", nil, "200 [Connection: keep-alive] sized 2 keep-alive, 2"},
	{"HTTP/1.0 until close", "GET", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n", nil, "200 [Connection: keep-alive] until close close, -1"},
	{"Host stays", "GET", ok("Host: x y\r\nHost: z\r\nContent-Length: 0\r\n"), nil, "200 [Host: x y|Host: z] none, 0"},
	{"Expect means nothing", "GET", ok("Expect: 100-continue\r\nContent-Length: 1\r\n"), nil, "200 [Expect: 100-continue] sized 1, 1"},
	{"an Upgrade that is offered", "GET", status("426 Upgrade Required", "Upgrade: a\r\nConnection: upgrade\r\nContent-Length: 0\r\n"), nil, "426 [Upgrade: a|Connection: upgrade] none, 0"},

	{"no reason", "GET", status("200 ", "Content-Length: 0\r\n"), nil, "200 [] none, 0"},
	{"no space behind the status", "GET", status("200", "Content-Length: 0\r\n"), nil, "200 [] none, 0"},
	{"odd reason", "GET", status("200 \t !\xff ", "Content-Length: 0\r\n"), nil, "200 [] none, 0"},
	{"status 599", "GET", status("599 Odd", "Content-Length: 0\r\n"), nil, "599 [] none, 0"},

	{"100", "POST", status("100 Continue", ""), nil, "100 [] none, -1"},
	{"103", "GET", status("103 Early Hints", "Link: </a>\r\n"), nil, "103 [Link: </a>] none, -1"},
	{"103 with a length of 0", "GET", status("103 Early Hints", "Content-Length: 0\r\n"), nil, "103 [] none, -1"},
	{"103 with a length", "GET", status("103 Early Hints", "Content-Length: 5\r\n"), nil, "103 [] none close, -1"},
	{"101", "GET", status("101 Switching Protocols", "Connection: upgrade\r\nUpgrade: a\r\n"), nil, "101 [Connection: upgrade|Upgrade: a] none upgrade, -1"},
	{"101 with a length", "GET", status("101 Switching Protocols", "Content-Length: 5\r\n"), nil, "101 [] none upgrade, -1"},
	{"204", "GET", status("204 No Content", ""), nil, "204 [] none, -1"},
	{"204 with a length of 0", "GET", status("204 No Content", "Content-Length: 0\r\n"), nil, "204 [] none, -1"},
	{"204 with a length", "GET", status("204 No Content", "Content-Length: 5\r\n"), nil, "204 [] none close, -1"},
	{"204 chunked", "GET", status("204 No Content", "Transfer-Encoding: chunked\r\n"), nil, "204 [] none close, -1"},
	{"205", "GET", status("205 Reset Content", "Content-Length: 0\r\n"), nil, "205 [] none, 0"},
	{"304", "GET", status("304 Not Modified", "ETag: x\r\n"), nil, "304 [ETag: x] none, -1"},
	{"304 with a length", "GET", status("304 Not Modified", "Content-Length: 7\r\n"), nil, "304 [] none, 7"},
	{"304 chunked", "GET", status("304 Not Modified", "Transfer-Encoding: chunked\r\n"), nil, "304 [] none, -1"},
	{"HEAD", "HEAD", ok(""), nil, "200 [] none, -1"},
	{"HEAD with a length", "HEAD", ok("Content-Length: 7\r\n"), nil, "200 [] none, 7"},
	{"HEAD with a length of 0", "HEAD", ok("Content-Length: 0\r\n"), nil, "200 [] none, 0"},
	{"HEAD chunked", "HEAD", ok("Transfer-Encoding: chunked\r\n"), nil, "200 [] none, -1"},
	{"HEAD, 204 with a length", "HEAD", status("204 No Content", "Content-Length: 7\r\n"), nil, "204 [] none close, -1"},
	{"head is not HEAD", "head", ok("Content-Length: 7\r\n"), nil, "200 [] sized 7, 7"},
	{"CONNECT", "CONNECT", ok(""), nil, "200 [] none upgrade, -1"},
	{"CONNECT with a length", "CONNECT", ok("Content-Length: 7\r\n"), nil, "200 [] none upgrade, -1"},
	{"CONNECT refused", "CONNECT", status("403 Forbidden", "Content-Length: 7\r\n"), nil, "403 [] sized 7, 7"},

	{"not HTTP", "GET", "hello\r\n\r\n", ErrStatusLine, ""},
	{"an empty line before", "GET", "\r\n" + ok(""), ErrStatusLine, ""},
	{"lower case", "GET", "http/1.1 200 OK\r\n\r\n", ErrStatusLine, ""},
	{"a banner of SSH", "GET", "SSH-2.0-OpenSSH_9.2\r\n", ErrStatusLine, ""},
	{"ICY", "GET", "ICY 200 OK\r\n\r\n", ErrStatusLine, ""},
	{"version alone", "GET", "HTTP/1.1\r\n\r\n", ErrStatusLine, ""},
	{"tab behind the version", "GET", "HTTP/1.1\t200 OK\r\n\r\n", ErrStatusLine, ""},
	{"HTTP/2", "GET", "HTTP/2 200\r\n\r\n", ErrStatusLine, ""},
	{"HTTP/2.0", "GET", "HTTP/2.0 200 OK\r\n\r\n", ErrUnsupportedVersion, ""},
	{"HTTP/1.2", "GET", "HTTP/1.2 200 OK\r\n\r\n", ErrUnsupportedVersion, ""},
	{"HTTP/1.x", "GET", "HTTP/1.x 200 OK\r\n\r\n", ErrVersion, ""},
	{"two spaces", "GET", "HTTP/1.1  200 OK\r\n\r\n", ErrStatus, ""},
	{"status of two digits", "GET", status("20 OK", ""), ErrStatus, ""},
	{"status of four digits", "GET", status("2000 OK", ""), ErrStatus, ""},
	{"status with a letter", "GET", status("2x0 OK", ""), ErrStatus, ""},
	{"status with a sign", "GET", status("+20 OK", ""), ErrStatus, ""},
	{"status 099", "GET", status("099 OK", ""), ErrStatus, ""},
	{"status 600", "GET", status("600 OK", ""), ErrStatus, ""},
	{"no status", "GET", "HTTP/1.1 \r\n\r\n", ErrStatus, ""},
	{"tab behind the status", "GET", status("200\tOK", ""), ErrStatus, ""},
	{"NUL in the reason", "GET", status("200 O\x00K", ""), ErrReason, ""},
	{"CR in the reason", "GET", status("200 O\rK", ""), ErrReason, ""},
	{"bare LF", "GET", "HTTP/1.1 200 OK\n\n", ErrBareLF, ""},
	{"bare LF in a field", "GET", ok("A: 1\nB: 2\r\n"), ErrBareLF, ""},
	{"bare CR in a field", "GET", ok("A: 1\rB: 2\r\n"), ErrBareCR, ""},
	{"folded", "GET", ok("A: 1\r\n b\r\n"), ErrFold, ""},
	{"space before the colon", "GET", ok("Content-Length : 1\r\n"), ErrNameSpace, ""},
	{"no colon", "GET", ok("abc\r\n"), ErrNoColon, ""},
	{"no name", "GET", ok(": a\r\n"), ErrFieldName, ""},
	{"NUL in a value", "GET", ok("X: a\x00\r\nContent-Length: 0\r\n"), ErrFieldValue, ""},
	{"length and coding", "GET", ok("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), ErrLengthAndCoding, ""},
	{"length and coding for HEAD", "HEAD", ok("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), ErrLengthAndCoding, ""},
	{"two lengths", "GET", ok("Content-Length: 1\r\nContent-Length: 2\r\n"), ErrLengths, ""},
	{"list of lengths", "GET", ok("Content-Length: 2, 2\r\n"), ErrLength, ""},
	{"negative length", "GET", ok("Content-Length: -1\r\n"), ErrLength, ""},
	{"bad length on 204", "GET", status("204 No Content", "Content-Length: x\r\n"), ErrLength, ""},
	{"bad length for HEAD", "HEAD", ok("Content-Length: x\r\n"), ErrLength, ""},
	{"coding in HTTP/1.0", "GET", "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", ErrCodingIn10, ""},
	{"coding in 1xx", "GET", status("103 Early Hints", "Transfer-Encoding: chunked\r\n"), ErrCodingIn1xx, ""},
	{"gzip", "GET", ok("Transfer-Encoding: gzip\r\n"), ErrUnknownCoding, ""},
	{"gzip, chunked", "GET", ok("Transfer-Encoding: gzip, chunked\r\n"), ErrUnknownCoding, ""},
	{"identity", "GET", ok("Transfer-Encoding: identity\r\n"), ErrUnknownCoding, ""},
	{"chunked, identity", "GET", ok("Transfer-Encoding: chunked, identity\r\n"), ErrChunkedNotLast, ""},
	{"empty coding", "GET", ok("Transfer-Encoding: \r\n"), ErrCoding, ""},
	{"announced framing", "GET", ok("Transfer-Encoding: chunked\r\nTrailer: transfer-encoding\r\n"), ErrTrailerName, ""},
	{"status line before line ends", "GET", status("600 X", "A: 1\n"), ErrStatus, ""},
	{"line ends before fields", "GET", ok("A : 1\r\nB: 1\n"), ErrBareLF, ""},
}

var limitedResponses = []struct {
	limits Limits
	responseCase
}{
	{Limits{HeaderBytes: 38, URIBytes: 1}, responseCase{"head fits", "GET", ok("Content-Length: 0\r\n") + "behind", nil, "200 [] none, 0"}},
	{Limits{HeaderBytes: 37}, responseCase{"head one too large", "GET", ok("Content-Length: 0\r\n"), ErrHeaderTooLarge, ""}},
	{Limits{HeaderBytes: 10}, responseCase{"status line too large", "GET", ok(""), ErrHeaderTooLarge, ""}},
	{Limits{HeaderBytes: 3}, responseCase{"not HTTP before too large", "GET", "hello", ErrStatusLine, ""}},
	{Limits{HeaderBytes: 40}, responseCase{"head too large, no end", "GET", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 40), ErrHeaderTooLarge, ""}},
	{Limits{Headers: 1}, responseCase{"fields fit", "GET", ok("Content-Length: 0\r\n"), nil, "200 [] none, 0"}},
	{Limits{Headers: 1}, responseCase{"one field too many", "GET", ok("Content-Length: 0\r\nA: 1\r\n"), ErrTooManyFields, ""}},
}

func everyResponse(yield func(responseCase, Limits) bool) {
	for _, c := range responseCases {
		if !yield(c, Limits{}) {
			return
		}
	}
	for _, c := range limitedResponses {
		if !yield(c.responseCase, c.limits) {
			return
		}
	}
}

// feedResponse is feedRequest for responses.
func feedResponse(t testing.TB, data, method string, limits Limits, cuts ...int) (r message.Response, n int, f Framing, err error) {
	t.Helper()
	var scan Scan
	for _, cut := range append(cuts, len(data)) {
		r = message.Response{}
		n, f, err = ResponseHead(&r, []byte(data[:cut]), &scan, method, limits)
		if n != 0 || err != nil {
			break
		}
	}
	if err != nil && n != 0 {
		t.Errorf("%q: an error, and %d bytes", data, n)
	}
	return r, n, f, err
}

func checkResponse(t *testing.T, c responseCase, limits Limits, cuts ...int) {
	t.Helper()
	r, n, f, err := feedResponse(t, c.raw, c.method, limits, cuts...)
	if c.err != nil {
		if !errors.Is(err, c.err) {
			t.Errorf("%s, cut at %v: n %d, error %v, want %v", c.name, cuts, n, err, c.err)
		}
		return
	}
	if err != nil || n != headEnd(c.raw) || describeResponse(&r, f) != c.want {
		t.Errorf("%s, cut at %v: n %d, error %v\n got %s\nwant %s", c.name, cuts, n, err, describeResponse(&r, f), c.want)
	}
}

func TestResponseHead(t *testing.T) {
	names := map[string]bool{}
	for c, limits := range everyResponse {
		if names[c.name] {
			t.Errorf("two cases are named %s", c.name)
		}
		names[c.name] = true
		checkResponse(t, c, limits)
	}
}

func TestResponseHeadAtEverySplit(t *testing.T) {
	for c, limits := range everyResponse {
		var every []int
		for cut := range len(c.raw) {
			every = append(every, cut)
			checkResponse(t, c, limits, cut)
		}
		checkResponse(t, c, limits, every...)
	}
}

func TestResponseHeadWaits(t *testing.T) {
	for c, limits := range everyResponse {
		if c.err != nil {
			continue
		}
		for cut := range headEnd(c.raw) {
			if _, n, _, err := feedResponse(t, c.raw[:cut], c.method, limits); n != 0 || err != nil {
				t.Errorf("%s, its first %d bytes: n %d, error %v", c.name, cut, n, err)
			}
		}
	}
}

func TestResponseFaultsShowEarly(t *testing.T) {
	for raw, want := range map[string]error{
		"S": ErrStatusLine, "HTTPS": ErrStatusLine, "\r": ErrStatusLine, "HTTP/2.0 200\r\n": ErrUnsupportedVersion,
		"HTTP/1.1 20 OK\r\n": ErrStatus, "HTTP/1.1 200 OK\n": ErrBareLF, "HTTP/1.1 200 OK\r\nA: 1\n": ErrBareLF,
	} {
		var cuts []int
		for cut := range len(raw) {
			cuts = append(cuts, cut)
		}
		for _, cuts := range [][]int{nil, cuts} {
			if _, _, _, err := feedResponse(t, raw, "GET", Limits{}, cuts...); !errors.Is(err, want) {
				t.Errorf("%q: %v, want %v", raw, err, want)
			}
		}
	}
}

func TestResponseHeadAllocatesOneString(t *testing.T) {
	data := []byte(answer)
	var array [32]message.Field
	r := new(message.Response)
	if n := testing.AllocsPerRun(100, func() {
		*r = message.Response{Fields: array[:0]}
		if n, _, err := ResponseHead(r, data, new(Scan), "GET", Limits{HeaderBytes: 64 << 10, Headers: 100}); n != len(data) || err != nil {
			t.Fatal(n, err)
		}
	}); n != 1 {
		t.Errorf("%v allocations", n)
	}
	if &r.Fields[0] != &array[0] {
		t.Error("the fields are elsewhere")
	}
}

// What comes before the final response is read head by head.
func TestInformationalResponses(t *testing.T) {
	data := []byte(status("103 Early Hints", "Link: </a>\r\n") + status("100 Continue", "") + ok("Content-Length: 2\r\n") + "ok")
	var statuses []int
	for len(data) > 2 {
		var r message.Response
		n, _, err := ResponseHead(&r, data, new(Scan), "POST", Limits{})
		if n == 0 || err != nil {
			t.Fatal(n, err)
		}
		statuses, data = append(statuses, r.Status), data[n:]
	}
	if fmt.Sprint(statuses) != "[103 100 200]" || string(data) != "ok" {
		t.Errorf("%v, then %q", statuses, data)
	}
}
